"""Who descends from whom, also in tables that no machine has printed."""

from __future__ import annotations

import time

from gpudiag.timeline.gpus import index_gpus
from gpudiag.timeline.kinship import MAX_GENERATIONS, Kinship
from gpudiag.timeline.lives import Census, Life, take_census
from gpudiag.timeline.order import order_looks
from tests.unit.timeline.rows import look_names, process, table


def _kinship(parents: dict[int, int]) -> Kinship:
    rows = [process("a", pid, ppid, pgid=None, cmdline="python3 x.py") for pid, ppid in parents.items()]
    looks = order_looks(look_names("a"), [row.at for row in rows])
    gpus = index_gpus((), (), ())
    census = take_census(looks, rows, (), (), [table("a")], gpus, None, set(), set(), {"a"})
    return Kinship(census, {})


def _of(census: Census, pid: int) -> Life:
    (life,) = census.named("box", pid)
    return life


def test_nobody_in_a_ring_has_a_parent_and_who_hangs_on_it_has() -> None:
    kinship = _kinship({10: 12, 11: 10, 12: 11, 20: 12, 21: 20})
    parents = {pid: kinship.parent(_of(kinship.census, pid)) for pid in (10, 11, 12, 20, 21)}
    assert [parents[pid] for pid in (10, 11, 12)] == [None, None, None]
    assert parents[20] is _of(kinship.census, 12)
    assert parents[21] is _of(kinship.census, 20)


def test_a_line_that_is_longer_than_any_machines_is_not_believed_to_its_end() -> None:
    count = 20 * MAX_GENERATIONS
    kinship = _kinship({100 + number: 99 + number for number in range(count)})
    known = [len(list(kinship.ancestors(life))) for life in kinship.census.lives]
    assert known[: MAX_GENERATIONS + 1] == list(range(MAX_GENERATIONS + 1))
    assert max(known) == MAX_GENERATIONS


def test_a_long_line_costs_no_more_than_its_length() -> None:
    def cost(count: int) -> float:
        parents = {100 + number: 99 + number for number in range(count)}
        start = time.process_time()
        kinship = _kinship(parents)
        for life in kinship.census.lives:
            kinship.root_by_descent(life)
        return time.process_time() - start

    cost(500)
    assert cost(8000) < 40 * max(cost(800), 0.01)  # ten times as many; the square of that would be a hundred
