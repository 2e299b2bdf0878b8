"""What a quick look begins before the words of its command line are read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpudiag.bundle.reader import read_contents
from gpudiag.collect import ahead, look
from gpudiag.collect.ahead import Begun, begin, forget
from gpudiag.collect.source import Source

ROOT = Path(__file__).parents[3]


@pytest.fixture
def sleepers(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the sources: one that takes long, and one whose tool is missing."""

    def sources(*_: object) -> list[Source]:
        return [
            Source("long", "long.txt", 30, produce=lambda out: time.sleep(30)),
            Source("none", "none.txt", 30, argv=("none",), absent="none is not installed"),
        ]

    monkeypatch.setattr(ahead, "first_sources", sources)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--kill", "pkill -9 python"],
        ["--quick", "--host", "node1"],
        ["--quick", "--host=node1"],
        ["--quick", "--history", "-"],
        ["--quick", "-h"],
        ["--quick", "--help"],
        ["--quick", "--print-collector"],
    ],
)
def test_nothing_is_begun_where_something_else_comes_first(sleepers: None, words: list[str]) -> None:
    assert begin(words) == {}


def test_forgotten_children_end(sleepers: None) -> None:
    begun = begin(["--quick", "-o", "x.tgz"])
    assert list(begun) == ["long.txt"]  # a tool that is missing is recorded in its turn
    forget(begun)
    assert _endings(begun) == [signal.SIGKILL]


def test_words_that_make_no_sense_end_what_was_begun(sleepers: None) -> None:
    from gpudiag.collect.main import main

    begun = begin(["--quick", "--nonsense"])
    with pytest.raises(SystemExit) as ended:
        main(["--quick", "--nonsense"], begun=begun)
    assert ended.value.code == 2
    assert _endings(begun) == [signal.SIGKILL]


def _endings(begun: Mapping[str, Begun]) -> list[int]:
    endings = [os.waitstatus_to_exitcode(os.waitpid(item.child.pid, 0)[1]) for item in begun.values()]
    for item in begun.values():
        os.close(item.child.pipe)
    return [-code for code in endings]


@pytest.mark.parametrize("module", ["gpudiag", "gpudiag.collect"])
def test_a_look_that_was_begun_is_whole(tmp_path: Path, module: str) -> None:
    path = tmp_path / "x.tgz"
    words = ["collect"] if module == "gpudiag" else []
    done = subprocess.run(
        [sys.executable, "-m", module, *words, "--quick", "-o", str(path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode in (0, 4), done.stderr  # 4: no GPU here
    contents = read_contents(path)
    assert not contents.flaws
    assert contents.start is not None
    outcomes = {outcome.member: outcome for _, outcome in contents.outcomes}
    processes = outcomes[f"look-1/{look.PROCESSES_MEMBER}"]
    assert processes.outcome in ("ok", "denied")  # denied: without root
    assert processes.started_ns is not None
    assert contents.start.clocks.wall_ns is not None
    assert processes.started_ns < contents.start.clocks.wall_ns
    assert {f"look-1/{look.NVML_MEMBER}", "look-1/ps-tree.txt", "look-1/fuser.txt"} <= outcomes.keys()
