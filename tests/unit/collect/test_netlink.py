"""Process events over netlink, from the real kernel where it may be asked."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from gpudiag.collect import netlink
from gpudiag.collect.netlink import EXEC, EXIT, FORK, Event, Listener
from gpudiag.collect.source import Ended


@pytest.fixture
def listener() -> Iterator[Listener]:
    try:
        found = Listener()
    except Ended as end:
        pytest.skip(f"no right to hear process events: {end.because}")
    yield found
    found.close()


def heard(listener: Listener, enough: Callable[[list[Event]], bool]) -> list[Event]:
    """What comes until it is enough, for five seconds at most."""
    events: list[Event] = []
    end = time.monotonic() + 5
    while not enough(events) and time.monotonic() < end:
        events += listener.events(0.2)
    assert enough(events), events
    return events


def ended(pid: int) -> Callable[[list[Event]], bool]:
    return lambda events: any(event.what == EXIT and event.pid == pid for event in events)


def test_a_process_begins_becomes_a_program_and_ends(listener: Listener) -> None:
    before = time.monotonic_ns()
    with subprocess.Popen(["sleep", "60"]) as child:
        heard(listener, lambda events: any(e.what == EXEC and e.pid == child.pid for e in events))
        child.send_signal(signal.SIGKILL)
        child.wait()
    (end,) = [e for e in heard(listener, ended(child.pid)) if e.what == EXIT and e.pid == child.pid]
    assert end.status is not None
    assert os.WTERMSIG(end.status) == 9
    assert before < end.monotonic_ns < time.monotonic_ns()


def test_a_fork_names_the_parent_and_a_thread_is_no_process(listener: Listener) -> None:
    words = "import threading,time; t=threading.Thread(target=time.sleep,args=(0.05,)); t.start(); t.join()"
    with subprocess.Popen([sys.executable, "-c", words]) as child:
        child.wait()
    events = heard(listener, ended(child.pid))
    (born,) = [e for e in events if e.what == FORK and e.child == child.pid]
    assert (born.process, born.child_process) == (os.getpid(), child.pid)
    threads = [e for e in events if e.what == FORK and e.child_process == child.pid and e.child != child.pid]
    assert len(threads) == 1


def test_two_hear_the_same(listener: Listener) -> None:
    other = Listener()
    try:
        with subprocess.Popen(["true"]) as child:
            child.wait()
        heard(listener, ended(child.pid))
        heard(other, ended(child.pid))
    finally:
        other.close()


def test_what_is_lost_is_known(listener: Listener) -> None:
    def message(sequence: int) -> bytes:
        head = struct.pack("=IHHII", 76, 3, 0, 0, 0) + struct.pack("=IIIIHH", 1, 1, sequence, 0, 40, 0)
        return head + struct.pack("=IIQIIII", 2, 4096, 5, 7, 7, 0, 0) + bytes(8)

    assert listener._event(message(41)) == Event(EXEC, 5, 7, 7)  # pyright: ignore[reportPrivateUsage]
    assert listener.lost is None
    listener._event(message(42))  # pyright: ignore[reportPrivateUsage]
    assert listener.lost is None
    listener._event(message(44))  # pyright: ignore[reportPrivateUsage]
    assert listener.lost == "some process events were not told"


@pytest.mark.parametrize("data", [b"", bytes(40), b"\xff" * 76, bytes(76)])
def test_other_messages_are_nothing(listener: Listener, data: bytes) -> None:
    assert listener._event(data) is None  # pyright: ignore[reportPrivateUsage]


def test_in_a_namespace_it_is_said_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netlink, "_pid_namespace", lambda: "pid:[4026532000]")
    with pytest.raises(Ended, match="PID namespace of its own"):
        Listener()
