"""Sources in children: what arrives, what is late, what dies."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudiag.bundle.format import Clocks, Start
from gpudiag.bundle.reader import read_contents
from gpudiag.bundle.writer import BundleWriter
from gpudiag.collect.child import heard
from gpudiag.collect.runner import Job, Runner
from gpudiag.collect.secrets import RowSecrets, Secrets
from gpudiag.collect.source import Ended, Out, Source, from_lines


def run(
    tmp_path: Path, *sources: Source, secrets: Callable[[], Secrets] | None = None
) -> tuple[list[Job], dict[str, str]]:
    """The jobs, and the texts of the bundle."""
    bundle = BundleWriter(tmp_path / "x.tgz", Start("0"))
    runner = Runner(bundle, secrets)
    jobs = [runner.start(source, "look-1") for source in sources]
    runner.run()
    path = bundle.finish(Clocks(), runner.pids)
    contents = read_contents(path)
    assert not contents.flaws
    assert contents.end is not None
    assert {pid for job in jobs for pid in job.pids} == set(contents.end.pids)
    return jobs, {member.name: member.data.decode() for member in contents.members}


def rows(*lines: str) -> Callable[[Out], None]:
    return from_lines(lambda: lines)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_rows_of_several_sources(tmp_path: Path) -> None:
    jobs, texts = run(tmp_path, Source("a", "a.txt", 5, rows("1", "2\n3")), Source("b", "b.txt", 5, rows("x")))
    assert texts == {"look-1/a.txt": "1\n2\n3\n", "look-1/b.txt": "x\n"}
    assert all(job.good for job in jobs)


def test_late_source_costs_its_deadline_and_keeps_its_rows(tmp_path: Path) -> None:
    def late(out: Out) -> None:
        out.line("first")
        threading.Event().wait()

    begun = time.monotonic()
    (job, other), texts = run(tmp_path, Source("late", "late.txt", 0.3, late), Source("b", "b.txt", 5, rows("x")))
    assert 0.3 <= time.monotonic() - begun < 1.5
    assert (job.outcome, job.because) == ("timed_out", "no end within 0.3 s")
    assert texts["look-1/late.txt"] == "first\n"
    assert other.outcome == "ok"
    assert job.pid is not None
    time.sleep(0.1)
    assert not alive(job.pid)


def test_child_that_cannot_be_killed_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A process in an uninterruptible sleep takes no SIGKILL; here none is sent.
    monkeypatch.setattr(Runner, "_kill", lambda self, job: None)
    begun = time.monotonic()
    (job,), _ = run(tmp_path, Source("stuck", "stuck.txt", 0.2, lambda out: time.sleep(3)))
    assert time.monotonic() - begun < 1
    assert job.outcome == "timed_out"
    assert job.pid is not None
    assert alive(job.pid)


def test_child_has_nothing_of_ours_open(tmp_path: Path) -> None:
    def look(out: Out) -> None:
        for link in list(Path("/proc/self/fd").iterdir()):
            if link.is_symlink():
                out.line(f"{link.name} {link.readlink()}")
        out.line(f"sid {os.getsid(0) == os.getpid()}")

    _, texts = run(tmp_path, Source("a", "a.txt", 5, look))
    *opened, session = texts["look-1/a.txt"].splitlines()
    targets = {line.split()[0]: line.split()[1].partition(":")[0] for line in opened if "/proc/" not in line}
    assert targets == {"0": "/dev/null", "1": "/dev/null", "2": "/dev/null", "3": "pipe"}
    assert session == "sid True"


def test_tool_has_only_its_pipe(tmp_path: Path) -> None:
    program = "import os,sys; print(sorted(os.listdir('/proc/self/fd'))[:-1], sys.stdin.read(), os.environ['LC_ALL'])"
    _, texts = run(tmp_path, Source("a", "a.txt", 5, argv=(sys.executable, "-c", program)))
    assert texts["look-1/a.txt"] == "['0', '1', '2']  C\n"


def test_tool_with_header_and_exit_code(tmp_path: Path) -> None:
    argv = (
        sys.executable,
        "-c",
        "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr); sys.exit(9)",
    )
    (job,), texts = run(tmp_path, Source("smi", "smi.txt", 5, argv=argv, command="nvidia-smi"))
    head, code, *body = texts["look-1/smi.txt"].splitlines()
    assert head.endswith("$ nvidia-smi")
    assert (code, body) == ("# rc=9", ["out", "err"])
    assert (job.outcome, job.exit_code, job.good) == ("ok", 9, False)


def test_tool_whose_child_keeps_the_pipe_ends_with_the_tool(tmp_path: Path) -> None:
    program = "import os,time\nprint('x', flush=True)\nif os.fork() == 0: time.sleep(3)"
    begun = time.monotonic()
    (job,), texts = run(tmp_path, Source("a", "a.txt", 10, argv=(sys.executable, "-c", program)))
    assert time.monotonic() - begun < 2
    assert (job.outcome, texts) == ("ok", {"look-1/a.txt": "x\n"})


def test_outcomes_that_a_source_tells(tmp_path: Path) -> None:
    def denied(out: Out) -> None:
        out.line("some")
        raise Ended("denied", "3 of 9")

    def broken(out: Out) -> None:
        raise KeyError("x")

    def gone(out: Out) -> None:
        os._exit(3)

    sources = [Source(name, f"{name}.txt", 5, work) for name, work in (("d", denied), ("b", broken), ("g", gone))]
    jobs, texts = run(tmp_path, *sources)
    assert [(job.outcome, job.because) for job in jobs] == [
        ("denied", "3 of 9"),
        ("truncated", "KeyError: 'x'"),
        ("truncated", "the reading process ended early, exit code 3"),
    ]
    assert texts == {"look-1/d.txt": "some\n"}


def test_absent_is_not_run(tmp_path: Path) -> None:
    (job,), texts = run(tmp_path, Source("smi", "smi.txt", 5, argv=("/none",), absent="not installed"))
    assert (job.outcome, job.because, job.pid, texts) == ("absent", "not installed", None, {})


def test_processes_that_a_source_starts_are_ours(tmp_path: Path) -> None:
    (job,), _ = run(tmp_path, Source("a", "a.txt", 5, lambda out: out.started(4242)))
    assert job.pids[1:] == [4242]


def test_endless_row_is_cut(tmp_path: Path) -> None:
    program = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    (job,), _ = run(tmp_path, Source("a", "a.txt", 20, argv=(sys.executable, "-c", program)))
    assert job.outcome == "truncated"


def test_secrets_are_taken_out_and_counted(tmp_path: Path) -> None:
    cmdline = "python\0serve.py\0--api-key\0hunter2hunter2\0--port\080\0"
    row = f',"77": {json.dumps({"cmdline": cmdline, "comm": "x"})}'
    sources = (
        Source("a", "a.txt", 5, rows("7 serve --api-key hunter2hunter2", "none")),
        Source("p", "p.json", 5, rows(row)),
    )
    jobs, texts = run(tmp_path, *sources, secrets=RowSecrets)
    assert texts["look-1/a.txt"] == "7 serve --api-key [redacted]\nnone\n"
    (found,) = json.loads("{" + texts["look-1/p.json"].lstrip(",") + "}").values()
    assert found == {"cmdline": cmdline.replace("hunter2hunter2", "[redacted]"), "comm": "x"}
    assert [(job.outcome, job.because) for job in jobs] == [("ok", "taken out: 1 × option value")] * 2


def test_undecodable_bytes_come_through(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path / "x.tgz", Start("0"))
    runner = Runner(bundle, RowSecrets)
    runner.start(
        Source("a", "a.txt", 5, argv=(sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'\\xff\\n')"))
    )
    runner.run()
    (member,) = read_contents(bundle.finish(Clocks())).members
    assert member.data == b"\xff\n"


def test_run_until_serves_and_waits(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path / "x.tgz", Start("0"))
    runner = Runner(bundle)
    job = runner.start(Source("a", "a.txt", 5, rows(json.dumps({"a": 1}))))
    begun = time.monotonic()
    runner.run(until=begun + 0.4)
    assert job.ended
    assert 0.4 <= time.monotonic() - begun < 0.8
    bundle.close()


def test_source_hears_what_it_is_told(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path / "x.tgz", Start("0"))
    runner = Runner(bundle)
    listener = Source("a", "a.txt", 5, lambda out: out.line(f"heard {heard(3)}"), listens=True)
    told = runner.start(listener, "told")
    ignored = runner.start(
        Source("b", "b.txt", 5, lambda out: out.line(f"heard {heard(0.1)}"), listens=True), "ignored"
    )
    gone = runner.start(Source("c", "c.txt", 5, rows("x"), listens=True), "gone")
    runner.run([gone, ignored])
    runner.tell(told, "this")
    runner.tell(gone, "too late")
    runner.run()
    texts = {member.name: member.data.decode() for member in read_contents(bundle.finish(Clocks())).members}
    assert texts == {"told/a.txt": "heard this\n", "ignored/b.txt": "heard None\n", "gone/c.txt": "x\n"}


def test_source_starts_others_when_it_ends(tmp_path: Path) -> None:
    def then(text: str) -> list[Source]:
        return [Source(name, f"{name}.txt", 5, rows(name * 2)) for name in text.split()]

    bundle = BundleWriter(tmp_path / "x.tgz", Start("0"))
    runner = Runner(bundle)
    runner.start(Source("first", "first.txt", 5, rows("a", "b"), then=then), "look-1")
    runner.run()
    texts = {member.name: member.data.decode() for member in read_contents(bundle.finish(Clocks())).members}
    assert texts == {"look-1/first.txt": "a\nb\n", "a.txt": "aa\n", "b.txt": "bb\n"}
