"""What the line of a process shows."""

from __future__ import annotations

from gpudiag.report import axis, lifelines
from gpudiag.report.contract import Event, Fate, Host, LookRef, ProcessRef, Report
from gpudiag.report.view import View
from tests.unit.report import sample

LOOKS = (
    LookRef(id="L1", host="H1", time="2026-11-30T19:40:00Z"),
    LookRef(id="L2", host="H1", time="2026-11-30T19:40:10Z"),
)


def _lines(*processes: ProcessRef, events: tuple[Event, ...] = ()) -> dict[int, lifelines.Lifeline]:
    base = sample.selfmatch()
    family = base.families[0].model_copy(update={"members": tuple(process.id for process in processes)})
    action = base.actions[0].model_copy(update={"time": "2026-11-30T19:40:05Z"})
    report: Report = base.model_copy(
        update={
            "hosts": (Host(id="H1", name="n", pid_namespace="host"),),
            "looks": LOOKS,
            "samples": (),
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


def test_lines_are_bounded() -> None:
    assert len(_lines(*(_process(pid, "L2") for pid in range(100, 400)))) == lifelines.MAX_LINES
