"""What the line of a process shows."""

from __future__ import annotations

from gpudiag.report import axis, lifelines
from gpudiag.report.contract import Event, Fate, Host, LedgerEntry, LookRef, ProcessRef, Report
from gpudiag.report.view import View
from tests.unit.report import sample

LOOKS = (
    LookRef(id="L1", host="H1", time="2026-11-30T19:40:00Z"),
    LookRef(id="L2", host="H1", time="2026-11-30T19:40:10Z"),
)


def _lines(
    *processes: ProcessRef, events: tuple[Event, ...] = (), ledger: tuple[LedgerEntry, ...] = ()
) -> dict[int, lifelines.Lifeline]:
    base = sample.selfmatch()
    family = base.families[0].model_copy(update={"members": tuple(process.id for process in processes)})
    action = base.actions[0].model_copy(update={"time": "2026-11-30T19:40:05Z"})
    report: Report = base.model_copy(
        update={
            "hosts": (Host(id="H1", name="n", pid_namespace="host"),),
            "looks": LOOKS,
            "samples": (),
            "gpus": (base.gpus[0].model_copy(update={"ledger": ledger}),),
            "actions": (action,),
            "families": (family,),
            "processes": processes,
            "events": events,
        }
    )
    view = View(report)
    scale = axis.of_report(view)
    assert scale is not None
    return {line.pid: line for line in lifelines.build(view, scale)}


def _process(pid: int, seen: str, *, reached: str | None = None, **fields: object) -> ProcessRef:
    fate = () if reached is None else (Fate(step="A1.1", reached=reached, certainty="proven"),)
    return ProcessRef.model_validate(
        {
            "id": f"P{pid}",
            "host": "H1",
            "pid": pid,
            "name": "x",
            "state": "S",
            "last_seen": seen,
            "fate": fate,
            **fields,
        }
    )


def test_who_lives_on_reaches_the_edge() -> None:
    line = _lines(_process(5, "L2", reached="no", start_time="2026-11-30T19:00:00Z"))[5]
    assert (line.seen_x, line.end_x, line.ends) == (axis.WIDTH, axis.WIDTH, False)
    assert line.start_x == axis.WIDTH * axis.MARGIN
    assert [touch.hit for touch in line.touches] == [False]
    assert line.words == "missed by A1; alive at the end"


def test_an_end_between_two_looks_is_not_placed() -> None:
    line = _lines(_process(5, "L1", reached="yes"), _process(6, "L2"))[5]
    assert line.ends
    assert line.seen_x == axis.WIDTH * axis.MARGIN
    assert line.end_x == axis.WIDTH * (1 - axis.MARGIN)
    assert line.words == "hit by A1.1; gone at the end"


def test_a_traced_end_is_placed() -> None:
    exited = Event(kind="exit", process="P5", time="2026-11-30T19:40:05Z", text="exit")
    line = _lines(_process(5, "L1", reached="yes"), _process(6, "L2"), events=(exited,))[5]
    assert (line.seen_x, line.end_x) == (axis.WIDTH / 2, axis.WIDTH / 2)
    assert line.words == "hit by A1.1; exit traced"


def test_a_zombie_has_ended() -> None:
    line = _lines(_process(5, "L2", state="Z"))[5]
    assert line.ends
    assert line.words == "ended, a zombie"


def test_what_is_not_known_is_not_drawn() -> None:
    assert _lines(_process(5, "L9"), _process(6, "L2", reached="unknown"))[6].touches == ()
    assert 5 not in _lines(_process(5, "L9"), _process(6, "L2"))


def test_a_zombie_that_holds_memory_has_not_ended() -> None:
    line = _lines(_process(5, "L2", state="Z", holds_mib={sample.GPU: 3590}))[5]
    assert not line.ends
    assert line.words == "zombie, threads left"


def test_one_of_whom_only_its_memory_is_left_has_ended() -> None:
    dead = LedgerEntry(kind="dead_process", whose="family", process="P5", pid=5, mib=6662, held_by=("P6",))
    line = _lines(_process(5, "L2", state=None, reached="yes"), _process(6, "L2"), ledger=(dead,))[5]
    assert (line.seen_x, line.end_x) == (axis.WIDTH * axis.MARGIN, axis.WIDTH * (1 - axis.MARGIN))
    assert line.words == "hit by A1.1; ended, its memory is held open"


def test_who_is_only_listed_is_not_said_to_live() -> None:
    assert _lines(_process(5, "L2", state=None))[5].words == "listed at the end"
