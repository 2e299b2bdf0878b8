"""Looks that a flight recorder's ring gives: commands stand between them by their time, others behind them."""

from __future__ import annotations

from dataclasses import replace

from gpudiag.evidence.exhibit import LookName
from gpudiag.model import Citation, KillAction, Process
from gpudiag.timeline.order import Look, order_looks, slot_of
from gpudiag.timeline.views import view_of

from .rows import NOW, SECOND, at, process, table

CITED = Citation("I1", "kill-commands.json", 1, "pkill x")


def looks() -> tuple[Look, ...]:
    names = (
        LookName("I1:watch-1", "watch-1", "box", recalled=True),
        LookName("I1:watch-2", "watch-2", "box", recalled=True),
        LookName("I1:look-1", "look-1", "box"),
        LookName("I1:look-2", "look-2", "box"),
    )
    return order_looks(names, [at(name.id, 100 * number) for number, name in enumerate(names)])


def action(source: str, seconds: float | None) -> KillAction:
    time_ns = None if seconds is None else NOW + round(seconds * SECOND)
    return KillAction("box", "pkill x", None, "prompt", time_ns, None, 0, None, None, None, None, None, source, CITED)


def test_order_and_nature() -> None:
    assert [(look.name, look.recalled) for look in looks()] == [
        ("watch-1", True),
        ("watch-2", True),
        ("look-1", False),
        ("look-2", False),
    ]


def test_command_with_a_time_stands_where_it_was_given() -> None:
    for source in ("watch", "history", "stated"):
        assert [slot_of(action(source, seconds), looks()) for seconds in (-5, 50, 150)] == [-0.5, 0.5, 1.5]


def test_command_that_the_recorder_was_told_came_before_its_own_looks() -> None:
    assert slot_of(action("stated", None), looks()) == 1.5
    # Not behind the first of them, whatever its time says.
    assert slot_of(action("stated", 250), looks()) == 1.5
    assert slot_of(action("history", 250), looks()) == 2.5


def test_command_without_a_time_came_before_them_too() -> None:
    told_later = replace(action("stated", None), cited=replace(CITED, member="(the command line)"))
    assert slot_of(told_later, looks()) == 1.5


def test_without_a_ring_nothing_is_different() -> None:
    own = tuple(replace(look, position=look.position - 2) for look in looks()[2:])
    assert slot_of(action("stated", None), own) == slot_of(action("stated", 150), own) == -0.5


def test_whole_table_from_proc_shows_everybody() -> None:
    look = looks()[0]
    rows: list[Process] = [
        process(look.id, pid, text_from="proc", kernel_thread=kernel)
        for pid, kernel in ((1, False), (2, True), (9, False))
    ]
    seen = view_of(look, rows, [table(look.id)])
    assert (seen.own_namespace, seen.hidden, seen.limited) == (False, False, False)
    inside = view_of(look, [rows[0], rows[2]], [table(look.id)])
    assert (inside.own_namespace, inside.hidden) == (True, False)
