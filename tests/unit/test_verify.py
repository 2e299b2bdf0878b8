"""``gpudiag verify`` on machines made of files, against bundles of a real clean-up that failed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpudiag.bundle.format import Start
from gpudiag.collect.libnvml import Listed
from gpudiag.collect.machine import Machine
from gpudiag.collect.present import ALIVE, GONE, LEAVING, RECYCLED, UNKNOWN, presence
from gpudiag.evidence import Unreadable
from gpudiag.verification import words
from gpudiag.verification.judge import BACK, HELD, RELEASING, UNCLEAR, Result
from gpudiag.verify import verify
from tests.bundle_kit import pack_capture
from tests.unit.collect.stubs import MIB, Nvml, blocking, machine, no_driver

COLLECTED = Path(__file__).parents[1] / "fixtures/collected"
BOOT, NAMESPACE = "11111111-2222-3333-4444-555555555555", "pid:[4026531836]"
SURVIVORS = {429: 2453, 430: 2458, 431: 2459}
"""Start ticks of the plan's processes."""
EXITING = 0x4


class Gpu(Nvml):
    """One GPU with these bookings and what the driver keeps beside."""

    def __init__(self, booked: Mapping[int, float | None], used_mib: Callable[[], float]) -> None:
        super().__init__(used_mib)
        self._booked = booked

    def processes(self, handle: int, kind: str) -> list[Listed]:
        sizes = self._booked.items() if kind == "Compute" else ()
        return [Listed(pid, None if size is None else int(size * MIB)) for pid, size in sizes]


class Place:
    """A ``/proc`` with what is asked of it."""

    def __init__(self, root: Path, boot: str = BOOT, namespace: str = NAMESPACE) -> None:
        self.root = root
        (root / "sys/kernel/random").mkdir(parents=True)
        (root / "sys/kernel/random/boot_id").write_text(boot + "\n")
        (root / "self/ns").mkdir(parents=True)
        (root / "self/ns/pid").symlink_to(namespace)

    def add(self, pid: int, ticks: int, state: str = "S", flags: int = 0, threads: str = "") -> None:
        """A process; ``threads``: states of its further threads."""
        for name, its in [("", state), (f"task/{pid}", state)] + [(f"task/{pid}{n}", s) for n, s in enumerate(threads)]:
            folder = self.root / str(pid) / name
            folder.mkdir(parents=True, exist_ok=True)
            values = [its, "1", "1", "1", "0", "0", str(flags), *["0"] * 12, str(ticks), "4096", "0"]
            (folder / "stat").write_text(f"{pid} (VLLM::) Worker) {' '.join(values)}\n")

    def with_gpu(
        self, booked: Mapping[int, float | None] | None = None, used: float | Callable[[], float] | None = None
    ) -> Machine:
        booked = booked or {}
        beside = 4.0 + sum(size or 0.0 for size in booked.values())
        level = used if callable(used) else (lambda: beside if used is None else used)
        return machine(self.root, lambda: Gpu(booked, level))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "proc")


def bundle(tmp_path: Path, name: str = "survivors", boot: str | None = BOOT, namespace: str = NAMESPACE) -> Path:
    start = Start(tool_version="0", host="gpu-box", boot_id=boot, pid_namespace=namespace)
    return pack_capture(COLLECTED / name, tmp_path / "x.tgz", start)


def states(result: Result) -> dict[int, str]:
    return {item.target.pid: item.presence for item in result.targets}


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        ({}, ALIVE),
        ({"ticks": 51}, RECYCLED),
        ({"state": "Z"}, GONE),
        ({"state": "Z", "threads": "ZZ"}, GONE),
        ({"state": "Z", "threads": "ZS"}, LEAVING),
        ({"state": "D", "flags": EXITING}, LEAVING),
        ({"state": "D"}, ALIVE),
    ],
)
def test_presence(place: Place, process: dict[str, object], expected: str) -> None:
    place.add(7, **{"ticks": 50, **process})  # pyright: ignore[reportArgumentType]
    assert presence(7, 50, place.with_gpu()) == expected


def test_presence_without_evidence(place: Place) -> None:
    place.add(7, 50)
    assert presence(7, None, place.with_gpu()) == UNKNOWN
    assert presence(8, 50, place.with_gpu()) == GONE
    (place.root / "self/mounts").write_text("proc /proc proc rw,hidepid=invisible 0 0\n")
    assert presence(8, 50, place.with_gpu()._replace(root=False)) == UNKNOWN
    assert presence(8, 50, place.with_gpu()) == GONE  # root sees everybody


def test_a_process_of_this_machine() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        assert presence(child.pid, int(fields[19]), Machine()) == ALIVE
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert presence(child.pid, int(fields[19]), Machine()) == GONE
    assert presence(child.pid, int(fields[19]), Machine()) == GONE


def test_all_gone_and_back(tmp_path: Path, place: Place) -> None:
    place.add(430, 9000)  # the PID went to somebody else
    result = verify(bundle(tmp_path), (), 0, place.with_gpu())
    assert result.state == BACK
    assert states(result) == {429: GONE, 430: RECYCLED, 431: GONE}
    text = words.render(result)
    assert text.startswith("The memory is back.\n")
    assert "430 VLLM::Worker_TP0: gone; the PID is another process's by now, so do not kill it" in text
    assert "GPU 0: 4 MiB in use, 9,412 of 9,412 MiB came back" in text


def test_a_process_of_the_plan_lives(tmp_path: Path, place: Place) -> None:
    place.add(431, SURVIVORS[431])
    result = verify(bundle(tmp_path), (), 0, place.with_gpu({431: 4706.0}))
    assert (result.state, states(result)[431], states(result)[430]) == (HELD, ALIVE, GONE)
    assert "431 VLLM::Worker_TP1: still there, the same process" in words.render(result)


def test_the_engine_above_the_workers_lives(tmp_path: Path, place: Place) -> None:
    """It holds nothing itself, and would start workers again: the plan names it, so it has to be gone."""
    place.add(429, SURVIVORS[429])
    assert verify(bundle(tmp_path), (), 0, place.with_gpu()).state == HELD


def test_memory_without_an_owner_stays(tmp_path: Path, place: Place) -> None:
    result = verify(bundle(tmp_path), (), 0, place.with_gpu(used=4720.0))
    assert (result.state, set(states(result).values())) == (HELD, {GONE})
    assert "4,707 of 9,412 MiB came back" in words.render(result)


def test_memory_on_a_dead_process_stays(tmp_path: Path, place: Place) -> None:
    assert verify(bundle(tmp_path), (), 0, place.with_gpu({430: 4706.0})).state == HELD


def test_a_process_on_its_way_out(tmp_path: Path, place: Place) -> None:
    place.add(430, SURVIVORS[430], state="Z", threads="D")
    path = bundle(tmp_path)
    result = verify(path, (), 0, place.with_gpu({430: 4706.0}, used=4720.0))
    assert (result.state, states(result)[430]) == (RELEASING, LEAVING)  # the figure stands still while it unpins
    unexplained = verify(path, (), 0, place.with_gpu({430: 4706.0}, used=9420.0))
    assert (unexplained.state, unexplained.gpus[0].state) == (HELD, HELD)  # 431 is gone, and its part is not back


def test_a_figure_that_falls(tmp_path: Path, place: Place) -> None:
    begun = time.monotonic()
    falling = place.with_gpu(used=lambda: 9000.0 - 200.0 * (time.monotonic() - begun))
    assert verify(bundle(tmp_path), (), 0, falling).state == RELEASING


def test_waiting_ends_when_the_memory_is_back(tmp_path: Path, place: Place) -> None:
    begun = time.monotonic()
    later = place.with_gpu(used=lambda: 9420.0 if time.monotonic() < begun + 2 else 4.0)
    path = bundle(tmp_path)
    assert verify(path, (), 0, later).state == HELD
    assert verify(path, (), 30, later).state == BACK
    assert time.monotonic() - begun < 10


def test_a_new_job_is_not_what_was_held(tmp_path: Path, place: Place) -> None:
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    place.add(9001, now + 365 * 24 * 3600 * 100)  # the bundle's clock is that of another machine
    result = verify(bundle(tmp_path), (), 0, place.with_gpu({9001: 8000.0}))
    assert result.state == BACK
    assert "taken since by 9001 (8,000 MiB)" in words.render(result)


def test_an_old_process_that_the_bundle_did_not_see_is_no_new_job(tmp_path: Path, place: Place) -> None:
    place.add(9001, 1)
    assert verify(bundle(tmp_path), (), 0, place.with_gpu({9001: 8000.0})).state == HELD


def test_another_job_that_leaves_does_not_pay_for_this_one(tmp_path: Path, place: Place) -> None:
    """1008 is another user's; it ended, and as much as it had is still in use by nobody that is seen."""
    path = bundle(tmp_path, "seconduser")
    with_other = verify(path, (), 0, place.with_gpu({1008: 4706.0}))
    assert with_other.state == BACK
    freed = with_other.gpus[0].goal
    assert freed is not None
    assert 1008 in freed.others_mib
    gone = verify(path, (), 0, place.with_gpu(used=freed.used_mib - freed.others_mib[1008]))
    assert (gone.state, gone.gpus[0].came_back_mib) == (HELD, pytest.approx(0, abs=0.01))


def test_what_was_leaving_has_left(tmp_path: Path, place: Place) -> None:
    path = bundle(tmp_path, "teardown")
    assert verify(path, (), 0, place.with_gpu()).state == BACK
    assert verify(path, (), 0, place.with_gpu(used=20_000.0)).state == HELD


@pytest.mark.parametrize(
    ("boot", "namespace", "reason"),
    [
        ("99999999-2222-3333-4444-555555555555", NAMESPACE, "another machine, or this one was started anew"),
        (BOOT, "pid:[4026532999]", "another PID namespace"),
        (None, NAMESPACE, "does not say on which boot"),
    ],
)
def test_another_machine_is_refused(
    tmp_path: Path, place: Place, boot: str | None, namespace: str, reason: str
) -> None:
    result = verify(bundle(tmp_path, boot=boot, namespace=namespace), (), 0, place.with_gpu())
    assert result.state == UNCLEAR
    assert reason in (result.because or "")
    assert not result.targets


def test_a_driver_that_is_not_there(tmp_path: Path, place: Place) -> None:
    result = verify(bundle(tmp_path), (), 0, machine(place.root, no_driver))
    assert (result.state, result.because) == (UNCLEAR, "NVML: Driver Not Loaded")


def test_a_driver_that_hangs(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    monkeypatch.setattr("gpudiag.verify.FIRST_S", 0.3)
    begun = time.monotonic()
    assert verify(None, (), 0, machine(place.root, blocking)).state == UNCLEAR
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize(
    ("booked", "used", "expected"),
    [
        ({}, 4.0, BACK),
        ({}, 500.0, BACK),  # a desktop
        ({}, 5000.0, HELD),  # whose it is cannot be seen from in here
        ({31: 30.0}, 60.0, BACK),  # an MPS server without clients
        ({31: 500.0}, 520.0, HELD),  # a job that has just begun
        ({31: None}, 30.0, HELD),
    ],
)
def test_free_gpus(place: Place, booked: dict[int, float | None], used: float, expected: str) -> None:
    assert verify(None, (), 0, place.with_gpu(booked, used)).state == expected


def test_a_gpu_of_ones_own(place: Place) -> None:
    idle = place.with_gpu()
    assert verify(None, ("0",), 0, idle).state == BACK
    assert verify(None, ("GPU-5e1f0a00-0000-4000-8000-000000000001",), 0, idle).state == BACK
    assert verify(None, ("1",), 0, idle).state == UNCLEAR


def test_words_for_a_gpu_in_use(place: Place) -> None:
    text = words.render(verify(None, (), 0, place.with_gpu({31: 500.0, 32: None})))
    assert text == "A GPU is in use.\n  GPU 0: 504 MiB in use, used by 31 (500 MiB), 32\n"


def test_the_command_line(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = "from gpudiag.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, "verify", *arguments], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    assert run(str(tmp_path / "nothing.tgz"))[0] == 3
    assert run("--gpu", "0", "x.tgz")[0] == 2
    code, out, _ = run(str(bundle(tmp_path)))
    assert code == 11
    assert "another machine, or this one was started anew" in out


def test_what_is_no_bundle_is_told_as_what_it_is(tmp_path: Path) -> None:
    session = tmp_path / "session.txt"
    session.write_text("$ nvidia-smi --query-gpu=index,memory.used --format=csv\nindex, memory.used [MiB]\n0, 4 MiB\n")
    result = verify(session, (), 0)
    assert result.state == UNCLEAR
    assert (result.because or "").startswith("this is a transcript, which does not say on which boot")
    with pytest.raises(Unreadable, match=r"absent\.tgz does not exist; name a bundle that gpudiag collect wrote"):
        verify(tmp_path / "absent.tgz", (), 0)
