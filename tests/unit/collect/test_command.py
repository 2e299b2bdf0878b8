"""The command of ``run``, from its start to its end."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpudiag.collect.command import Command, Line


def ended(command: Command) -> Command:
    end = time.monotonic() + 10
    while not command.poll() and time.monotonic() < end:
        time.sleep(0.005)
    return command


def group_exists(pgid: int) -> bool:
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_end_between_two_questions_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was alive when it was asked for, and is a zombie when it is asked whether it was stopped."""
    command = Command(Line.typed(["true"]))
    process = command._process  # pyright: ignore[reportPrivateUsage]
    stat = Path(f"/proc/{process.pid}/stat")
    end = time.monotonic() + 10
    while ") Z " not in stat.read_text() and time.monotonic() < end:
        time.sleep(0.005)
    with monkeypatch.context() as patched:
        patched.setattr(process, "poll", lambda: None)
        assert command.poll() is False
    assert command.poll() is True
    assert command.done().exit_code == 0


def test_what_it_is_recorded_as(capfd: pytest.CaptureFixture[str]) -> None:
    done = ended(Command(Line.typed(["echo out; echo err >&2; exit 3"]))).done()
    assert capfd.readouterr() == ("out\n", "err\n")
    record = done.record()
    assert (record["out"], record["err"], record["rc"], record["pid"]) == ("out\n", "err\n", 3, done.begun.pid)
    assert "output_cut" not in record


def test_more_than_is_kept_is_said_to_be_cut(capfd: pytest.CaptureFixture[str]) -> None:
    done = ended(Command(Line.typed(["head -c 2000000 /dev/zero | tr '\\0' x"]))).done()
    assert len(capfd.readouterr().out) == 2_000_000
    assert done.record()["output_cut"] is True
    assert len(done.out) == 1 << 20


def test_a_signal_reaches_all_that_it_has_started() -> None:
    command = Command(Line.typed(["sleep 60 & wait"]))
    time.sleep(0.2)
    command.send(15)
    assert ended(command).done().exit_code == -15
    end = time.monotonic() + 10  # an orphan's end waits for whoever reaps it
    while group_exists(command.begun.pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not group_exists(command.begun.pid)
