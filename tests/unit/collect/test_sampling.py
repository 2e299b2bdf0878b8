"""Device memory around a command that may kill the process that samples."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any

import pytest

from gpudiag.collect import sampling
from gpudiag.collect.source import Ended
from tests.unit.collect.stubs import Nvml, machine, no_driver


class Rows:
    """What is written; a sampler is killed so many times, each after a while."""

    def __init__(self, kills: int = 0, ends_s: float = 0.6) -> None:
        self.lines: list[str] = []
        self.pids: list[int] = []
        self._kills = kills
        self._end = time.monotonic() + ends_s
        self._kill_at = time.monotonic() + 0.1

    def line(self, text: str) -> None:
        self.lines.append(text)

    def started(self, pid: int) -> None:
        self.pids.append(pid)
        self._kill_at = time.monotonic() + 0.1

    def told_to_end(self, seconds: float) -> bool:
        """In place of the recorder."""
        time.sleep(seconds)
        now = time.monotonic()
        if len(self.pids) <= self._kills and now >= self._kill_at:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pids[-1], signal.SIGKILL)
        return now >= self._end

    def rows(self) -> list[dict[str, Any]]:
        return json.loads("".join(self.lines))


def sampled(out: Rows, nvml: Any, monkeypatch: pytest.MonkeyPatch) -> Ended | None:
    monkeypatch.setattr(sampling, "told_to_end", out.told_to_end)
    try:
        sampling.produce(machine(nvml=nvml), out, 20, 0.02)
    except Ended as end:
        return end
    return None


def test_a_row_for_a_change_and_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = time.monotonic()
    out = Rows()
    assert sampled(out, lambda: Nvml(lambda: 9000.0 if time.monotonic() - begun < 0.3 else 4.0), monkeypatch) is None
    used = [row["gpus"][0]["used_v2"] >> 20 for row in out.rows()]
    assert used[:2] == [9000, 4]
    assert len(used) <= 3
    assert len(out.pids) == 1


def test_a_sampler_that_is_killed_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Rows(kills=2, ends_s=1.5)
    end = sampled(out, Nvml, monkeypatch)
    assert end is not None
    assert (end.outcome, end.because) == ("ok", "the process that samples was killed, 2 times in all")
    assert len(set(out.pids)) == 3
    assert len(out.rows()) >= 1


def test_a_killer_in_a_loop_is_not_served_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_KILLED_CAP", 2)
    out = Rows(kills=99, ends_s=20)
    end = sampled(out, Nvml, monkeypatch)
    assert end is not None
    assert end.outcome == "truncated"
    assert len(out.pids) == 2


def test_without_a_driver_there_is_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Rows()
    end = sampled(out, no_driver, monkeypatch)
    assert end is not None
    assert end.because == "NVML: Driver Not Loaded"
    assert out.lines == []
