"""Who leaves with whom: laws of an engine applied to a few processes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from gpudiag.timeline.coupling import Ending, Fate, Law, Member, fates
from gpudiag.timeline.lives import Key


@dataclass(frozen=True)
class Said:
    """A law with nothing but what a test says."""

    ended: str
    leave: tuple[str, ...] = ()
    stay: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    through: str | None = None
    orderly: bool = False
    within_s: float | None = None
    if_idle: bool = False
    if_init_adopts: bool = False
    if_log: re.Pattern[str] | None = None
    unless_head: re.Pattern[str] | None = None
    certainty: str = "inferred"
    because: str = "so it was measured"
    since: tuple[int, ...] | None = None

    def holds_for(self, version: tuple[int, ...] | None) -> bool | None:
        if self.since is None:
            return True
        return None if version is None else version >= self.since


def key(pid: int) -> Key:
    return ("box", pid, None, 0)


def member(pid: int, role: str | None, parent: int | None = None, job: str = "J", **fields: object) -> Member:
    above = key(parent) if parent is not None else None
    return Member(key(pid), above, job, "mine", role, **fields)  # type: ignore[arg-type]


SERVER = [member(1, "server"), member(2, "engine", 1), member(3, "worker", 2), member(4, "worker", 2)]
KILLED = Ending(frozenset({"KILL"}))
TERMED = Ending(frozenset({"TERM"}), None)


def told(
    laws: Sequence[Law],
    endings: Mapping[int, Ending],
    members: Sequence[Member] = SERVER,
    version: tuple[int, ...] | None = None,
) -> dict[int, Fate]:
    found = fates(members, {key(pid): end for pid, end in endings.items()}, lambda _: laws, lambda _: version)
    return {life[1]: fate for life, fate in found.items()}


def test_a_role_leaves_with_another() -> None:
    found = told([Said("engine", leave=("worker",), within_s=5)], {2: KILLED})
    assert {pid: (fate.leaves, fate.within_s, fate.cause) for pid, fate in found.items()} == {
        3: (True, 5, key(2)),
        4: (True, 5, key(2)),
    }


def test_consequences_have_consequences_and_their_times_add_up() -> None:
    laws = [Said("worker", leave=("engine",), within_s=5), Said("engine", leave=("rest",), within_s=2)]
    found = told(laws, {3: KILLED})
    assert {pid: fate.within_s for pid, fate in found.items()} == {1: 7, 2: 5, 4: 7}
    assert {fate.cause for fate in found.values()} == {key(3)}


def test_one_link_without_a_bound_has_none() -> None:
    laws = [Said("worker", leave=("engine",)), Said("engine", leave=("server",), within_s=2)]
    assert told(laws, {3: KILLED})[1].within_s is None


def test_a_chain_is_as_sure_as_its_weakest_link() -> None:
    laws = [Said("worker", leave=("engine",), certainty="possible"), Said("engine", leave=("server",))]
    assert {fate.certainty for fate in told(laws, {3: KILLED}).values()} == {"possible"}


def test_those_who_are_known_to_stay_start_nothing() -> None:
    laws = [Said("server", stay=("engine", "worker")), Said("engine", leave=("worker",))]
    assert {pid: fate.leaves for pid, fate in told(laws, {1: KILLED}).items()} == {2: False, 3: False, 4: False}


def test_who_has_been_killed_has_no_fate() -> None:
    assert set(told([Said("engine", leave=("worker",))], {2: KILLED, 3: KILLED})) == {4}


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (TERMED, {1, 2, 3, 4}),
        (KILLED, set()),
        (Ending(frozenset({"TERM", "KILL"})), set()),
        (Ending(), set()),
    ],
)
def test_a_law_about_a_signal_needs_that_signal_and_a_process_that_can_act_on_it(
    ending: Ending, expected: set[int]
) -> None:
    found = told([Said("server", by=("TERM",), leave=("rest", "self"))], {1: ending})
    assert set(found) == expected


def test_a_signal_that_may_be_handled_is_only_a_possible_end() -> None:
    assert told([Said("engine", leave=("worker",))], {2: TERMED})[3].certainty == "possible"
    assert told([Said("engine", leave=("worker",))], {2: Ending(frozenset({"TERM"}), False)}) == {}


def test_what_is_done_in_an_orderly_end_is_not_done_by_the_killed() -> None:
    laws = [Said("server", leave=("engine",)), Said("engine", orderly=True, leave=("child",))]
    assert set(told(laws, {1: KILLED})) == {2, 3, 4}
    assert told(laws, {2: KILLED}) == {}


def test_nothing_follows_if_the_one_that_sees_to_it_is_gone() -> None:
    laws = [Said("worker", through="engine", leave=("rest",))]
    assert set(told(laws, {3: KILLED})) == {1, 2, 4}
    assert told(laws, {3: KILLED, 2: KILLED}) == {}


def test_a_law_of_some_versions_is_possible_where_the_version_is_not_known() -> None:
    laws = [Said("engine", leave=("worker",), since=(0, 18))]
    assert told(laws, {2: KILLED}, version=(0, 32))[3].certainty == "inferred"
    unknown = told(laws, {2: KILLED})[3]
    assert unknown.certainty == "possible"
    assert "version is not known" in unknown.because
    assert told(laws, {2: KILLED}, version=(0, 9)) == {}


@pytest.mark.parametrize(("sleeps", "certainty"), [(True, "inferred"), (False, "possible"), (None, "possible")])
def test_a_busy_process_may_not_notice(sleeps: bool | None, certainty: str) -> None:
    members = [member(1, "server"), member(2, "worker", 1, sleeps=sleeps)]
    assert told([Said("server", leave=("worker",), if_idle=True)], {1: KILLED}, members)[2].certainty == certainty


@pytest.mark.parametrize(("direct", "certainty"), [(True, "inferred"), (False, "possible"), (None, "possible")])
def test_under_a_subreaper_nobody_can_be_sure(direct: bool | None, certainty: str) -> None:
    members = [member(1, "server", child_of_init=direct), member(2, "worker", 1)]
    found = told([Said("server", leave=("child",), if_init_adopts=True)], {1: KILLED}, members)
    assert found[2].certainty == certainty


def test_an_option_of_the_head_can_undo_a_law() -> None:
    law = Said("child", leave=("launcher",), unless_head=re.compile(r"--max-restarts=[1-9]"))
    for line, expected in (("torchrun t.py", {1}), ("torchrun --max-restarts=3 t.py", set()), (None, {1})):
        members = [member(1, "launcher", cmdline=line), member(2, None, 1), member(3, None, 1)]
        assert set(told([law], {2: KILLED}, members)) == expected


def test_children_of_other_jobs_are_reached_by_descent_only() -> None:
    members = [
        member(1, "server"),
        member(2, "worker", 1, "K"),
        member(3, "worker", 2, "K"),
        member(4, "worker", job="X"),
    ]
    assert set(told([Said("server", leave=("child",))], {1: KILLED}, members)) == {2}
    assert set(told([Said("server", leave=("descendant",))], {1: KILLED}, members)) == {2, 3}
    assert set(told([Said("server", leave=("worker",))], {1: KILLED}, members)) == {2, 3}
    assert told([Said("server", leave=("rest",))], {1: KILLED}, members) == {}


def test_a_pool_of_workers_is_around_the_one_that_ended() -> None:
    members = [member(1, "launcher"), member(5, "helper"), member(2, "worker", 1, "K"), member(3, "worker", 1, "L")]
    assert set(told([Said("worker", stay=("around",))], {2: KILLED}, members)) == {1, 3, 5}


def test_the_surer_of_two_sentences_counts_then_the_first() -> None:
    first, second = (
        Said("engine", leave=("worker",), because="first"),
        Said("engine", stay=("worker",), because="second"),
    )
    unsure = Said("engine", stay=("worker",), certainty="possible", because="unsure")
    assert told([first, second], {2: KILLED})[3].because == "first"
    assert told([unsure, first], {2: KILLED})[3].because == "first"


def test_a_ring_of_parents_ends() -> None:
    members = [member(1, "server", 2), member(2, "worker", 1)]
    assert set(
        told([Said("server", leave=("descendant",)), Said("worker", leave=("rest",))], {1: KILLED}, members)
    ) == {2}


def test_a_process_of_no_engine_starts_nothing() -> None:
    alone = Member(key(9), None, "9", None, None)
    assert told([Said("server", leave=("rest",))], {9: KILLED}, [alone, *SERVER]) == {}


def test_a_table_of_a_size_that_no_server_has_gets_no_answer() -> None:
    laws = [Said("worker", leave=("rest",))]

    def crowd(number: int) -> list[Member]:
        return [member(1, "server"), *(member(pid, "worker", 1) for pid in range(2, number + 1))]

    assert len(told(laws, {2: KILLED}, crowd(400))) == 399
    assert told(laws, {2: KILLED}, crowd(1001)) == {}, "a chain of consequences as long as the crowd"
    assert told(laws, dict.fromkeys(range(2, 2000), KILLED), crowd(3000)) == {}
