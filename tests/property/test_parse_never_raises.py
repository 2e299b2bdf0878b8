"""Whatever an input holds, reading and parsing it ends with rows or damage, never with an exception."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudiag.evidence import Exhibit, Input, LookName, Unreadable, read_input
from gpudiag.parse import Parsed, parse

FIXTURES = Path(__file__).parents[1] / "fixtures"
MEMBERS = sorted(
    path
    for name in ("zombie-leader", "traced-selfmatch", "selfmatch-orphans", "views")
    for path in (FIXTURES / "h200" / name).rglob("*")
    if path.is_file()
)
NAMES = [
    "out.txt",
    "nvml.json",
    "proc.json",
    "kill-commands.json",
    "trace.txt",
    "trace-clock.json",
    "a.log",
    "proc/7/stat",
]
COMMANDS = [
    None,
    "nvidia-smi",
    "nvidia-smi -q -x",
    "nvidia-smi pmon -c 1",
    "nvidia-smi --query-gpu=index,memory.used --format=csv,noheader",
    "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
    "ps -eo pid,lstart,comm,args --forest",
    "ps -ef | grep a",
    "fuser /dev/nvidia0",
    "pgrep -af x",
]
FRAGMENTS = [
    "| ", "+--", "|=", "\n", " ", ",", ", ", "GPU", "PID", "USER", "COMMAND", "/dev/nvidia0:", "699", "MiB", "[N/A]",
    "\0",
    "\x1b[1m", "# stderr", "# gpu pid type", "<?xml?>", "<nvidia_smi_log>", "==NVSMI LOG==", "{", "[", "]", "}", '"7":',
    "(a pid=7)", "F...m", "$ ", "kill 7", "# rc=0", "9" * 30, "Processes:", "a-7 [000] 1.5: ", "\\_ ",
]  # fmt: skip


def evidence(text: str, member: str, command: str | None) -> Input:
    """One exhibit."""
    exhibit = Exhibit("I1", member, "", "I1:x", command, None, None, None, 1, text)
    return Input("I1", "x", "directory", True, (exhibit,), (LookName("I1:x", "x", ""),), (), ())


def check_citations(found: Parsed, text: str) -> None:
    """Every citation stands inside the text."""
    lines = text.count("\n") + 1
    rows = (*found.samples, *found.bookings, *found.processes, *found.handles, *found.trace, *found.facts)
    for row in rows:
        assert row.cited.line is not None
        assert 1 <= row.cited.line <= lines
        assert len(row.cited.quote) <= 300


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join)),
    st.sampled_from(NAMES),
    st.sampled_from(COMMANDS),
)
def test_arbitrary_text(text: str, member: str, command: str | None) -> None:
    check_citations(parse([evidence(text, member, command)]), text)


@given(st.sampled_from(MEMBERS), st.data())
def test_a_capture_that_is_cut_and_scratched(path: Path, data: st.DataObject) -> None:
    text = path.read_text()
    start = data.draw(st.integers(0, min(len(text), 200)))
    end = data.draw(st.integers(start, len(text)))
    at = data.draw(st.integers(start, end))
    scratched = text[start:at] + data.draw(st.sampled_from(FRAGMENTS)) + text[at:end]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "after" / path.name
        copy.parent.mkdir()
        copy.write_text(scratched)
        check_citations(parse([read_input(Path(folder), "I1")]), scratched)


@given(
    st.lists(st.sampled_from([*FRAGMENTS, "\n$ ", "\nu@h:~# ", "\n> ", "nvidia-smi", "ps -ef", "ssh h '"]), max_size=60)
)
def test_arbitrary_sessions(parts: list[str]) -> None:
    text = "".join(parts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.txt"
        path.write_text(text)
        if not text.strip("\0 \t\r\n"):
            with pytest.raises(Unreadable, match=r"session\.txt"):
                read_input(path, "I1")
            return
        found = read_input(path, "I1")
    looks = [look.id for look in found.looks]
    assert len(set(looks)) == len(looks)
    assert all(action.after_look is None or action.after_look in looks for action in found.actions)
    check_citations(parse([found]), text)
