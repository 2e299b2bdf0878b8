"""Names and bystanders do not change the plan: titles give roles, never membership, and strangers are never named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpudiag.evidence import read_input
from gpudiag.evidence.exhibit import Input
from gpudiag.explain import explain_parsed
from gpudiag.model import Booking, Handle, Process
from gpudiag.parse import parse
from gpudiag.parse.parsed import Parsed
from gpudiag.report.contract import Report
from tests.golden.expectations import Incident, captures

STRANGER = 70_000
"""First PID of the strangers; above every PID of the captures."""
BIG_MIB = 4_000.0
STARTED_NS = 1_796_000_000_000_000_000
"""When the strangers started: some hours before every capture, the same in every look."""


def _read(path: Path) -> tuple[list[Input], Parsed]:
    inputs = [read_input(path, "I1")]
    return inputs, parse(inputs)


def _planned(report: Report) -> set[int]:
    return {entry.pid for entry in report.plan.kill}


def _id(incident: Incident) -> str:
    return incident.name


def _renamed(parsed: Parsed) -> Parsed:
    """Every process gets a name of its own, in every source."""

    def process(row: Process) -> Process:
        if row.pid == 1 or row.kernel_thread:
            return row
        line = None if row.cmdline is None else (f"job-{row.pid} --run" if row.cmdline else "")
        return replace(row, comm=None if row.comm is None else f"job-{row.pid}", cmdline=line)

    def booking(row: Booking) -> Booking:
        return row if row.name is None else replace(row, name=f"job-{row.pid}")

    return replace(
        parsed,
        processes=tuple(map(process, parsed.processes)),
        bookings=tuple(map(booking, parsed.bookings)),
    )


@pytest.mark.parametrize("incident", captures(), ids=_id)
def test_renaming_every_process_keeps_the_plan(incident: Incident) -> None:
    inputs, parsed = _read(incident.path)
    original = explain_parsed(inputs, parsed).report
    renamed = explain_parsed(inputs, _renamed(parsed)).report
    assert _planned(renamed) == _planned(original)
    assert renamed.outcome == original.outcome


def _stranger(row: Process, pid: int, ppid: int, user: str, name: str, line: str, group: int) -> Process:
    return replace(
        row,
        pid=pid,
        ppid=ppid,
        pgid=group,
        sid=group,
        user=user,
        uid=0 if user == "root" else 1001,
        comm=name[:15],
        comm_cut=False,
        cmdline=line,
        state="S",
        threads=4,
        start_ticks=None,
        started_local_s=None,
        elapsed_s=None if row.at.time_ns is None else (row.at.time_ns - STARTED_NS) // 1_000_000_000,
        kernel_thread=False,
        sig_pending=0,
        text_from="ps",
        ns_pids=(),
    )


def _looks(parsed: Parsed) -> dict[str, Process]:
    """A process row of each look to copy place and citation from."""
    return {row.at.look: row for row in parsed.processes if row.at.look is not None and row.at.time_ns is not None}


def _with_job(parsed: Parsed, user: str, title: str, line: str) -> Parsed:
    """A server with an engine and two workers that hold memory, alive in every look."""
    root, engine, first, second = range(STRANGER, STRANGER + 4)
    processes: list[Process] = []
    for row in _looks(parsed).values():
        processes += [
            _stranger(row, root, 1, user, "python3", line, root),
            _stranger(row, engine, root, user, f"{title}::EngineCore", f"{title}::EngineCore", root),
            _stranger(row, first, engine, user, f"{title}::Worker_TP0", f"{title}::Worker_TP0", root),
            _stranger(row, second, engine, user, f"{title}::Worker_TP1", f"{title}::Worker_TP1", root),
        ]
    bookings: list[Booking] = []
    handles: list[Handle] = []
    samples = list(parsed.samples)
    listed = {c.at.look: c.at for c in parsed.coverage if c.source == "compute processes" and c.outcome == "ok"}
    gpu = next((sample.gpu for sample in samples), None)
    for look, row in _looks(parsed).items():
        if look not in listed or gpu is None:
            continue
        for pid in (first, second):
            at = listed[look]
            bookings.append(Booking(at, gpu, pid, BIG_MIB, f"{title}::Worker", None, "compute", row.cited))
            handles.append(Handle(at, pid, "/dev/nvidia0", "fd", row.cited))
            handles.append(Handle(at, pid, "/dev/nvidia0", "map", row.cited))
    grown = tuple(replace(s, used_mib=s.used_mib + 2 * BIG_MIB) if s.used_mib is not None else s for s in samples)
    return replace(
        parsed,
        processes=(*parsed.processes, *processes),
        bookings=(*parsed.bookings, *bookings),
        handles=(*parsed.handles, *handles),
        samples=grown,
    )


def _another_user(parsed: Parsed) -> Parsed:
    return _with_job(parsed, "alice", "TRAIN", "python3 -m trainer --steps 9")


def _second_server(parsed: Parsed) -> Parsed:
    return _with_job(parsed, "root", "VLLM", "/usr/bin/python3 /usr/local/bin/vllm serve other-model")


def _monitor(parsed: Parsed) -> Parsed:
    rows = [
        _stranger(row, STRANGER + 9, 1, "root", "dcgm-exporter", "dcgm-exporter -f", STRANGER + 9)
        for row in _looks(parsed).values()
    ]
    handles = [Handle(row.at, row.pid, "/dev/nvidiactl", "fd", row.cited) for row in rows]
    return replace(parsed, processes=(*parsed.processes, *rows), handles=(*parsed.handles, *handles))


PATTERN_ALSO_FITS = {
    # `pkill -f VLLM::Worker` would have killed the second server's workers as well: it cannot be there afterwards.
    ("two-servers-one-pattern", "_second_server"),
}


CROWDS = [
    pytest.param(incident, add, id=f"{incident.name}-{add.__name__}")
    for incident in captures()
    for add in (_another_user, _second_server, _monitor)
    if (incident.name, add.__name__) not in PATTERN_ALSO_FITS
]


@pytest.mark.parametrize(("incident", "add"), CROWDS)
def test_a_stranger_changes_nothing(incident: Incident, add: Callable[[Parsed], Parsed]) -> None:
    inputs, parsed = _read(incident.path)
    original = explain_parsed(inputs, parsed).report
    crowded = explain_parsed(inputs, add(parsed)).report
    assert _planned(crowded) == _planned(original)
    fired = {finding.rule for finding in original.findings if finding.rule[3] in "123"}
    assert fired <= {finding.rule for finding in crowded.findings}
    assert not {entry.pid for entry in crowded.plan.kill if entry.pid >= STRANGER}
    if original.outcome not in ("nothing_held",):
        assert crowded.outcome == original.outcome
