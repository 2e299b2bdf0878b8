"""``gpudiag watch`` as a person starts it, on this machine, with the rights that there are.

What kills by a pattern runs in a PID namespace of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpudiag.bundle.reader import read_contents
from gpudiag.collect.watching.ring import segments
from tests.unit.collect.driver import compiled

ROOT = Path(__file__).parents[2]
CALL = [sys.executable, "-m", "gpudiag", "watch"]
INITIAL = "pid:[4026531836]"
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
AT_HOME = os.geteuid() == 0 and os.readlink("/proc/self/ns/pid") == INITIAL  # noqa: PTH115

needs_connector = pytest.mark.skipif(not AT_HOME, reason="no right to hear the kernel's process events")
needs_namespace = pytest.mark.skipif(
    shutil.which("unshare") is None or os.geteuid() != 0, reason="no right to make a PID namespace"
)


class Watch:
    """A running recorder."""

    def __init__(self, folder: Path, *words: str, env: dict[str, str] | None = None) -> None:
        self.ring = folder / "ring"
        self.said = folder / "said.txt"
        with self.said.open("a", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [*CALL, "--directory", str(self.ring), *words],
                env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )

    def rows(self) -> list[dict[str, Any]]:
        """Whole lines of the ring."""
        if not self.ring.is_dir():
            return []
        lines = [line for path in segments(self.ring) for line in path.read_bytes().split(b"\n")[:-1]]
        return [json.loads(line) for line in lines]

    def until(self, met: Callable[[list[dict[str, Any]]], bool], seconds: float = 10.0) -> list[dict[str, Any]]:
        """Wait for something to be in the ring."""
        end = time.monotonic() + seconds
        while not met(self.rows()):
            assert time.monotonic() < end, self.rows()[-3:]
            assert self.process.poll() is None, self.said.read_text()
            time.sleep(0.05)
        return self.rows()

    def ready(self) -> None:
        """It has seen everybody."""
        begun = time.time()
        self.until(lambda rows: any(row["is"] == "tick" and row["t"] >= begun for row in rows))

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(10)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watch]]:
    running: list[Watch] = []

    def start(*words: str, env: dict[str, str] | None = None) -> Watch:
        running.append(Watch(tmp_path, *words, env=env))
        return running[-1]

    yield start
    for item in running:
        item.stop(signal.SIGKILL)


def collect(folder: Path, name: str, *words: str) -> Path:
    """A bundle with the ring, as seen now."""
    path = folder / name
    subprocess.run(
        [sys.executable, "-m", "gpudiag", "collect", "--quick", "-o", str(path), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return path


def explained(bundle: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "gpudiag", "explain", "--format", "json", str(bundle)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout)


def told(bundle: Path) -> dict[str, str]:
    return {member.name: member.data.decode("utf-8", "replace") for member in read_contents(bundle).members}


def test_it_records_who_begins_and_who_ends(watch: Callable[..., Watch]) -> None:
    recorder = watch()
    recorder.ready()
    sleeper = subprocess.Popen(["sleep", "98.7654"])
    born = recorder.until(lambda rows: any(row.get("pid") == sleeper.pid and "uid" in row for row in rows))
    row = next(row for row in reversed(born) if row.get("pid") == sleeper.pid and "cmdline" in row)
    assert row["cmdline"] == "sleep\x0098.7654"
    assert row["uid"] == os.geteuid()
    sleeper.kill()
    sleeper.wait()
    recorder.until(lambda rows: any(row["is"] == "gone" and row["pid"] == sleeper.pid for row in rows))
    assert recorder.stop() == 0
    assert recorder.rows()[-1]["is"] == "end"


def test_killed_it_has_lost_no_more_than_a_second(watch: Callable[..., Watch], tmp_path: Path) -> None:
    recorder = watch()
    recorder.ready()
    begun: list[tuple[int, float]] = []
    sleepers: list[subprocess.Popen[bytes]] = []
    end = time.monotonic() + 3.4
    while time.monotonic() < end:
        sleepers.append(subprocess.Popen(["sleep", "55"]))
        begun.append((sleepers[-1].pid, time.time()))
        time.sleep(0.1)
    killed = time.time()
    assert recorder.stop(signal.SIGKILL) == -signal.SIGKILL
    try:
        seen = {row["pid"] for row in recorder.rows() if row["is"] == "proc"}
        # A tenth for the pass itself on a busy machine.
        assert {pid for pid, moment in begun if moment < killed - 1.1} <= seen
        # Its children end with it.
        left = [row["pid"] for row in recorder.rows() if row["is"] == "own" and "what" in row]
        assert left
        assert wait_for(lambda: not any(Path(f"/proc/{pid}").exists() and runs(pid) for pid in left))
        # Another one goes on where it stopped, and reads what it left.
        again = watch()
        again.ready()
        assert [path.name[-7:] for path in segments(again.ring)] == ["1.jsonl", "2.jsonl"]
        assert again.stop() == 0
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(met: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not met() and time.monotonic() < end:
        time.sleep(0.05)
    return met()


def test_one_writer(watch: Callable[..., Watch]) -> None:
    first = watch()
    first.ready()
    second = subprocess.run(
        [*CALL, "--directory", str(first.ring)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert second.returncode == 5
    other = f"another gpudiag watch (PID {first.process.pid})"
    assert second.stderr == f"gpudiag: {other} records in {first.ring} already; one writer at a time\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_it_is_told_to(watch: Callable[..., Watch], number: int) -> None:
    recorder = watch()
    recorder.ready()
    assert recorder.stop(number) == 0
    assert "Traceback" not in recorder.said.read_text()


def test_bound_holds_while_much_happens(watch: Callable[..., Watch]) -> None:
    recorder = watch("--max-size", "1M", "--keep", "1m")
    recorder.ready()
    end = time.monotonic() + 4
    while time.monotonic() < end:
        for _ in range(20):
            subprocess.run(["true", "x" * 2000], check=True)
        assert sum(path.stat().st_size for path in recorder.ring.iterdir()) <= (1 << 20) + 16


@pytest.mark.skipif(
    Path("/dev/nvidiactl").exists(), reason="this machine has a GPU: what is tested here is its absence"
)
def test_without_a_driver_processes_are_recorded(watch: Callable[..., Watch]) -> None:
    recorder = watch()
    recorder.ready()
    recorder.until(lambda rows: sum(row["is"] == "no gpus" for row in rows) >= 2, 15)
    said = recorder.said.read_text()
    assert said.count("no GPU figures (NVML: libnvidia-ml.so.1 is not installed)") == 1


def test_driver_that_hangs_costs_the_figures_only(watch: Callable[..., Watch], tmp_path: Path) -> None:
    recorder = watch(env={**compiled(tmp_path), "NVML_STUB": "block"})
    recorder.ready()
    begun = len([row for row in recorder.rows() if row["is"] == "tick"])
    recorder.until(lambda rows: sum(row["is"] == "tick" for row in rows) >= begun + 2)
    assert recorder.stop() == 0


def test_driver_that_comes_back_is_asked_again(watch: Callable[..., Watch], tmp_path: Path) -> None:
    recorder = watch(env={**compiled(tmp_path), "NVML_STUB": ""})
    rows = recorder.until(lambda rows: any(row["is"] == "gpu" for row in rows))
    first = next(row for row in rows if row["is"] == "own" and row.get("what") == "GPUs")
    os.kill(first["pid"], signal.SIGKILL)  # as fuser -k /dev/nvidia* does
    rows = recorder.until(lambda rows: sum(row["is"] == "gpu" for row in rows) >= 2)
    assert [row["is"] for row in rows if "gpu" in row["is"]] == ["gpu", "no gpus", "gpu"]


def test_no_right_to_write_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [*CALL, "--directory", str(tmp_path / "file/ring")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"gpudiag: {tmp_path / 'file/ring'} cannot be used: Not a directory")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["--keep", "6"], ["--keep", "3s"], ["--max-size", "big"], ["--max-size", "10K"]])
def test_words_that_make_no_sense(words: list[str]) -> None:
    done = subprocess.run([*CALL, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "like" in done.stderr


@needs_connector
def test_command_of_a_few_milliseconds_is_seen_with_its_end(watch: Callable[..., Watch], tmp_path: Path) -> None:
    recorder = watch()
    recorder.ready()
    time.sleep(0.3)
    before = time.time()
    # Signal 0 ends nobody.
    done = subprocess.run(["pkill", "-0", "-f", "no such name 4711"], check=False)
    shell = subprocess.run(["bash", "-c", "pkill -0 -f 'no such name 4712'; kill -9 $$"], check=False)
    assert (done.returncode, shell.returncode) == (1, -9)
    recorder.until(lambda rows: any("4712" in row.get("cmdline", "") for row in rows) and rows[-1]["t"] > before + 1.5)
    history = tmp_path / "history"
    history.write_text("pkill -0 -f 'no such name 4711'\n")
    bundle = collect(tmp_path, "x.tgz", "--ring", str(recorder.ring))
    found = json.loads(told(bundle)["kill-commands.json"])
    (plain,) = (item for item in found if "4711" in json.dumps(item) and item["source"] == "watch")
    assert plain["argv"] == ["pkill", "-0", "-f", "no such name 4711"]
    assert plain["rc"] == 1
    (carried,) = (item for item in found if "4712" in json.dumps(item) and item["source"] == "watch")
    assert (carried["argv"][:2], carried["rc"]) == (["bash", "-c"], -9)


def test_ring_of_another_boot_is_not_taken_along(watch: Callable[..., Watch], tmp_path: Path) -> None:
    recorder = watch()
    recorder.ready()
    assert recorder.stop() == 0
    (segment,) = segments(recorder.ring)
    own = json.loads(segment.read_bytes().split(b"\n")[0])["boot_id"]
    segment.write_bytes(segment.read_bytes().replace(own.encode(), b"5e1f0a00-0000-4000-8000-0000000000b1"))
    contents = read_contents(collect(tmp_path, "x.tgz", "--ring", str(recorder.ring)))
    (outcome,) = (outcome for _, outcome in contents.outcomes if outcome.member == "watch.jsonl")
    assert (outcome.outcome, outcome.because) == (
        "absent",
        "the flight recorder's ring is of another boot or PID namespace",
    )


def played(folder: Path, pattern: str) -> dict[str, Any]:
    """Processes of a server are killed by a pattern while a recorder runs; the looks are taken afterwards."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("no right to make a PID namespace")
    environment = {
        **os.environ,
        **compiled(folder, "holders.c"),
        "NVML_GPUS": "2",
        "NVML_HOLDERS": str(folder / "holders"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = json.dumps(["pkill", "-9", "-f", pattern])
    done = subprocess.run(
        [*NAMESPACE, sys.executable, str(Path(__file__).with_name("watched.py")), str(folder), command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "folder": folder}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The server in front is killed."""
    return played(tmp_path_factory.mktemp("scene"), "vllm.entrypoints")


@needs_namespace
def test_what_was_there_before_the_kill_is_known_after_it(scene: dict[str, Any]) -> None:
    report = explained(scene["folder"] / "with.tgz")
    survivors = [scene["engine"], *scene["workers"]]
    assert [entry["pid"] for entry in report["plan"]["kill"]] == survivors
    (action,) = report["actions"]
    (step,) = action["steps"]
    assert (step["hit"], step["missed"]) == ([scene["server"]], survivors)
    primary = next(finding for finding in report["findings"] if finding["primary"])
    assert (primary["rule"], primary["certainty"], primary["pids"]) == ("GPD101", "proven", survivors)
    processes = {process["pid"]: process for process in report["processes"]}
    server = processes[scene["server"]]
    assert server["cmdline"].startswith("python -m vllm.entrypoints.openai.api_server")
    assert processes[scene["engine"]]["parent_alive"] is False
    (family,) = report["families"]
    assert family["root_pid"] == scene["server"]
    # The recorder was there, too, and is nobody's concern.
    assert scene["recorder"] not in processes


@needs_namespace
def test_times_of_deaths_and_memory_before_are_told(scene: dict[str, Any]) -> None:
    report = explained(scene["folder"] / "with.tgz")
    (end,) = (event for event in report["events"] if event["kind"] == "exit")
    assert f"({scene['server']}) ended" in end["text"]
    assert end["time_error_s"] <= 1.5
    first = min(sample["time"] for sample in report["samples"])
    assert first < report["looks"][-1]["time"]
    used = [sample["used_mib"] for sample in report["samples"]]
    assert min(used) == 4
    assert max(used) == 8504


@needs_namespace
def test_without_the_ring_it_knows_less_and_nothing_else(scene: dict[str, Any]) -> None:
    report, less = (explained(scene["folder"] / f"{name}.tgz") for name in ("with", "without"))
    plans = [[(entry["pid"], entry["start_ticks"]) for entry in item["plan"]["kill"]] for item in (report, less)]
    assert plans[0] == plans[1]
    assert less["outcome"] == report["outcome"] == "memory_held"
    order = ("proven", "inferred", "possible")
    strong = {finding["rule"]: finding["certainty"] for finding in report["findings"]}
    for finding in less["findings"]:
        assert finding["rule"] in strong
        assert order.index(finding["certainty"]) >= order.index(strong[finding["rule"]])
    assert less["actions"][0]["steps"][0]["hit"] == []
    assert "GPD101" not in {finding["rule"] for finding in less["findings"]}


@needs_namespace
def test_secrets_are_in_no_file_of_the_ring(scene: dict[str, Any]) -> None:
    ring = b"".join(path.read_bytes() for path in (scene["folder"] / "state/gpudiag").iterdir())
    assert b"vllm.entrypoints" in ring
    assert b"hunter2" not in ring


@needs_namespace
def test_workers_that_nobody_reaps_have_ended(tmp_path: Path) -> None:
    scene = played(tmp_path, "VLLM::Worker")
    report = explained(tmp_path / "with.tgz")
    (step,) = report["actions"][0]["steps"]
    assert step["hit"] == scene["workers"]
    assert report["outcome"] == "released"
    assert report["plan"]["kill"] == []
    ends = [event for event in report["events"] if event["kind"] == "exit"]
    assert len(ends) == len(scene["workers"])
    # A round a second, and what a busy machine adds to it.
    assert all(event["time_error_s"] <= 6 for event in ends)
