"""Process events where no trace can be used: over netlink, or from rounds through /proc."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from typing import Any

import pytest

from gpudiag.collect import process_events
from gpudiag.collect.machine import Machine
from gpudiag.collect.netlink import Listener
from gpudiag.collect.source import Ended
from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Coverage, Damage, TraceEvent
from gpudiag.parse.process_events import rows
from gpudiag.parse.source import Segment, place_of


class Rows:
    """What a source writes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)

    def started(self, pid: int) -> None:
        raise AssertionError(pid)

    def found(self, what: str, pid: int) -> list[dict[str, Any]]:
        read = [json.loads(line) for line in self.lines]
        return [row for row in read if row.get("what") == what and row["pid"] == pid]


def recorded(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> tuple[Rows, int]:
    """The events around a command, and its PID."""
    out = Rows()
    ended = threading.Event()
    monkeypatch.setattr(process_events, "told_to_end", ended.wait)
    recorder = threading.Thread(target=process_events.produce, args=(Machine(), out))
    recorder.start()
    try:
        end = time.monotonic() + 5
        while not out.lines and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
        with subprocess.Popen(command) as child:
            child.wait()
        time.sleep(0.1)
    finally:
        ended.set()
        recorder.join()
    return out, child.pid


def test_over_netlink(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        Listener().close()
    except Ended as end:
        pytest.skip(f"no right to hear process events: {end.because}")
    out, pid = recorded(monkeypatch, ["bash", "-c", "sleep 0.4; kill -9 $$"])
    assert process_events.way_of("\n".join(out.lines).encode()) == "netlink"
    assert [row["comm"] for row in out.found("exec", pid)] == ["bash"]
    assert [row["status"] for row in out.found("exit", pid)] == [9]
    assert [row["pid"] for row in map(json.loads, out.lines) if row.get("child") == pid] == [os.getpid()]


def test_by_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise Ended("denied", "not allowed here")

    monkeypatch.setattr(process_events, "Listener", refused)
    out, pid = recorded(monkeypatch, ["sleep", "0.3"])
    head = json.loads(out.lines[0])
    assert (head["way"], head["because"]) == ("polling", "not allowed here")
    assert [row["comm"] for row in out.found("exec", pid)][-1:] == ["sleep"]
    assert [row["status"] for row in out.found("exit", pid)] == [None]


def test_before_it_has_begun_its_way_is_not_known() -> None:
    assert process_events.way_of(b"") is None
    assert process_events.way_of(b'{"way": "netl') is None


def parsed(*lines: str) -> list[object]:
    text = "\n".join(lines)
    exhibit = Exhibit("I1", "process-events.jsonl", "vm", None, None, None, None, None, 1, text)
    return list(rows(Segment(exhibit, place_of(exhibit), 0, tuple(text.split("\n")), None)))


NETLINK = '{"way": "netlink"}'


def test_events_are_read_as_they_were_written() -> None:
    read = parsed(
        NETLINK,
        '{"what": "fork", "boot": 1.5, "pid": 7, "child": 8, "comm": "bash"}',
        '{"what": "exec", "boot": 1.6, "pid": 8, "comm": "fuser"}',
        '{"what": "exec", "boot": 1.7, "pid": 9, "comm": null}',
        '{"what": "exit", "boot": 1.8, "pid": 8, "comm": "fuser", "status": 9}',
    )
    events = [row for row in read if isinstance(row, TraceEvent)]
    assert [(e.kind, e.clock_s, e.pid, e.target_pid, e.filename, e.status, e.origin) for e in events] == [
        ("fork", 1.5, 7, 8, None, None, "netlink"),
        ("exec", 1.6, 8, None, "fuser", None, "netlink"),
        ("exec", 1.7, 9, None, None, None, "netlink"),
        ("exit", 1.8, 8, None, None, 9, "netlink"),
    ]
    (coverage,) = [row for row in read if isinstance(row, Coverage)]
    assert (coverage.source, coverage.complete) == ("process events", True)


def test_polling_never_covers_all() -> None:
    (coverage,) = parsed('{"way": "polling", "because": "not allowed here", "every_s": 0.02}')
    assert isinstance(coverage, Coverage)
    assert coverage.complete is False
    assert "not allowed here" in (coverage.because or "")


@pytest.mark.parametrize(
    "line", ["{", "[" * 5000, '{"what": "exit"}', '{"what": "exit", "pid": "x", "boot": 1}', '{"what": 1, "pid": 2}']
)
def test_what_is_no_event_is_damage(line: str) -> None:
    assert [type(row) for row in parsed(NETLINK, line)] == [Damage, Coverage]


def test_without_its_head_nothing_is_an_event() -> None:
    assert [type(row) for row in parsed('{"what": "exit", "boot": 1.8, "pid": 8}')] == [Damage]
