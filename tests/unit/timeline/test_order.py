"""The host's boot time from ages that ps cut to whole seconds."""

from __future__ import annotations

import pytest

from gpudiag.model import Process
from gpudiag.timeline.order import SECOND, TICKS_PER_SECOND, clock_of
from tests.unit.timeline.rows import NOW, process

BOOT_NS = NOW - 500 * SECOND


def _age(read_s: float, start_s: float, *, old_procps: bool) -> int:
    return int(read_s) - int(start_s) if old_procps else int(read_s - start_s)


def _rows(moments: list[float], *, old_procps: bool) -> list[Process]:
    """One process a look, started at several fractions of a second."""
    return [
        process(
            f"L{n}",
            100 + n,
            seconds=moment,
            start_ticks=round(start * TICKS_PER_SECOND),
            elapsed_s=_age(500 + moment, start, old_procps=old_procps),
        )
        for n, moment in enumerate(moments)
        for start in (41.96 - 0.31 * n,)
    ]


@pytest.mark.parametrize("old_procps", [True, False])
def test_many_ages_together_tell_the_boot_time_better_than_one(old_procps: bool) -> None:
    moments = [0.0, 7.3, 19.55, 40.8]
    alone = clock_of([], _rows(moments[:1], old_procps=old_procps))
    together = clock_of([], _rows(moments, old_procps=old_procps))
    assert alone is not None
    assert together is not None
    for clock in (alone, together):
        assert abs(clock.boot_wall_ns - BOOT_NS) <= clock.error_ns
    assert together.error_ns < alone.error_ns


def test_a_wall_clock_that_was_set_between_the_looks_leaves_a_second() -> None:
    jumped = [*_rows([0.0], old_procps=False), process("M", 101, seconds=300, start_ticks=4165, elapsed_s=40)]
    clock = clock_of([], jumped)
    assert clock is not None
    assert clock.error_ns == SECOND


def test_without_start_ticks_there_is_no_clock() -> None:
    assert clock_of([], [process("L", 7, elapsed_s=3)]) is None
