"""How long is waited after a clean-up, on stand-ins for the driver."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudiag.collect import settle as module
from gpudiag.collect.libnvml import Listed
from gpudiag.collect.machine import Machine
from gpudiag.collect.settle import Settled, settle, start_ticks
from tests.unit.collect.stubs import MIB, Nvml, blocking, machine, no_driver


class Gpu(Nvml):
    """A GPU whose processes leave when its memory is low."""

    def processes(self, handle: int, kind: str) -> list[Listed]:
        used = self._latest / MIB
        return [Listed(77, int(used * MIB))] if kind == "Compute" and used > 10 else []


def wait(
    host: Machine, deadline_s: float = 20, known: dict[int, int] | None = None, over: Callable[[], bool] = lambda: False
) -> Settled:
    pids: list[int] = []
    done = settle(host, known or {}, deadline_s, time.sleep, over, pids.append)
    assert len(pids) == 1
    return done


def level(*steps: tuple[float, float]) -> Callable[[], Gpu]:
    """MiB from an instant on, in seconds from now."""
    begun = time.monotonic()

    def used() -> float:
        return [mib for after, mib in steps if time.monotonic() - begun >= after][-1]

    return lambda: Gpu(used)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STILL_S", 0.8)
    monkeypatch.setattr(module, "FREE_S", 0.5)


def test_memory_that_comes_back() -> None:
    done = wait(machine(nvml=level((0, 9000), (0.6, 4))))
    assert done.how == "released"
    assert 0.5 <= done.seconds < 1.5


def test_memory_that_another_start_takes_again() -> None:
    """What looks after a server waits a moment before it starts it anew."""
    assert wait(machine(nvml=level((0, 9000), (0.3, 4), (0.6, 9000)))).how == "plateau"


def test_memory_that_stays() -> None:
    done = wait(machine(nvml=level((0, 9000))))
    assert done.how == "plateau"
    assert 0.7 <= done.seconds < 2


def test_each_fall_begins_the_wait_anew() -> None:
    done = wait(machine(nvml=level((0, 9000), (0.5, 6000), (1.0, 3000))))
    assert done.how == "plateau"
    assert done.seconds >= 1.7


def test_a_small_desktop_is_no_job() -> None:
    assert wait(machine(nvml=lambda: Nvml(lambda: 300.0))).how == "plateau"  # its list has two processes
    assert wait(machine(nvml=level((0, 4)))).how == "released"


def test_a_plateau_while_somebody_leaves_is_none(tmp_path: Path) -> None:
    """Host memory is unpinned for seconds before the first MiB of the device comes back."""
    values = ["Z", "1", "1", "1", *["0"] * 15, "50", "4096"]
    for name in ("77/stat", "77/task/78/stat"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"77 (worker) {' '.join(values if name == '77/stat' else ['D', *values[1:]])}\n")
    host = machine(tmp_path, level((0, 9000)))
    assert start_ticks([77, 99], host) == {77: 50}
    assert wait(host, 2, {77: 50}).how == "deadline"
    assert wait(host, 2, {77: 51}).how == "plateau"  # another process has this PID


def test_without_a_driver() -> None:
    done = wait(machine(nvml=no_driver))
    assert (done.how, done.because) == ("not watched", "NVML: Driver Not Loaded")


def test_a_driver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_S", 0.5)
    done = wait(machine(nvml=blocking), 0.3)
    assert done.how == "not watched"
    assert done.seconds < 2


def test_an_interrupt_ends_the_wait() -> None:
    end = time.monotonic() + 0.3
    done = wait(machine(nvml=level((0, 9000))), over=lambda: time.monotonic() > end)
    assert done.how == "interrupted"


def test_start_ticks_of_this_process() -> None:
    text = Path("/proc/self/stat").read_text(encoding="utf-8")
    assert start_ticks([os.getpid()], Machine()) == {os.getpid(): int(text.rsplit(")", 1)[1].split()[19])}
