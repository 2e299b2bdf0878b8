"""Logs: both ways of searching find the same lines, a file on disk tells what its text tells, and none raises."""

from __future__ import annotations

import tempfile
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpudiag.evidence import Exhibit, files, read_input
from gpudiag.model import KernelEvent, LogEvent, LogRole
from gpudiag.parse import kernel_log, log_scan, log_tags, parse, server_log

SIGNS = [*server_log.SIGNS, *kernel_log.SIGNS]
FRONTS = [
    "", "(Worker_TP0 pid=887) ", "(Worker_TP1 pid=888)", "(VllmWorker rank=0 pid=69)", "\x1b[1;36m(a pid=1)\x1b[0;0m ",
    "\r(b pid=2) ", "INFO 02-20 19:00:06 ", "2026-02-20T19:00:06Z ", "2026-02-20T19:00:06Z stderr F (c pid=3) ",
    "Feb 20 19:00:06 h vllm[7]: (d pid=4) ", "[  123.456789] ", '{"log":"(e pid=5) ', "vllm-1  | (f pid=6) ",
    "see (g pid=7) ",
    "W1130 21:10:04.012000 19 a] ", "[2026-02-20 19:00:06 TP0] ", "\ufeff", " ",
]  # fmt: skip
TEXTS = [
    *SIGNS, "", "7", "44]", "é", "\0", "(", "\u2028", "\x85", "\x0b", "\x1c", "\r", "SIGKILL",
    "NVRM: Xid (PCI:0000:41:00): 45, pid=1, name=a,", "CUDA out of memory. Process 7 has 1.5 GiB memory in use",
    r'\n","stream":"stderr","time":"2026-02-20T19:00:06Z"}',
]  # fmt: skip
ENDS = ["\n", "\n", "\r\n", ""]
LOGS = st.lists(st.sampled_from(FRONTS) | st.sampled_from(TEXTS) | st.sampled_from(ENDS), max_size=80).map("".join)


def pieces(data: bytes, size: int) -> list[bytes]:
    """The data cut behind line feeds, at least ``size`` bytes apart."""
    found, start = list[bytes](), 0
    while start < len(data):
        end = data.find(b"\n", start + size) + 1 or len(data)
        found.append(data[start:end])
        start = end
    return found


def simple(text: str) -> log_scan.Found:
    """All lines of a text, one by one."""
    return log_scan.line_by_line(text.split("\n"))


@given(LOGS, st.integers(1, 400))
@example("".join(f"{front}{sign}\r\n" for front in FRONTS for sign in TEXTS), 50)
def test_all_ways_find_the_same(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert log_scan.streaming(pieces(text.encode(), size)) == simple(text)
        patch.setattr(log_scan, "BATCH", 3)
        assert log_scan.streaming(pieces(text.encode(), size)) == simple(text)
        patch.setattr(log_scan, "SIMPLE_CAP", -1)
        assert log_scan.streaming(pieces(text.encode(), size)) == simple(text)


@given(st.lists(LOGS.map(str.encode) | st.sampled_from([b"\xff", b"\xc3", b"\xe2\x82"]), max_size=9).map(b"".join))
def test_text_that_is_not_utf8_is_read_all_the_same(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert log_scan.streaming([data]) == simple(data.decode("utf-8", "replace"))
        patch.setattr(log_scan, "SIMPLE_CAP", -1)
        assert log_scan.streaming([data]) == simple(data.decode("utf-8", "replace"))


@given(LOGS)
def test_what_is_kept_is_bounded_and_the_end_is_kept(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_scan, "FIRST", 2)
        patch.setattr(log_scan, "LAST", 3)
        found = simple(text)
        assert log_scan.streaming(pieces(text.encode(), 64)) == found
    everything = simple(text).telling
    assert len(found.telling) <= 5
    assert found.dropped == len(everything) - len(found.telling)
    assert found.telling[-3:] == everything[-3:]


def told(folder: Path) -> tuple[object, ...]:
    """All that a directory's logs say."""
    found = parse([read_input(folder, "I1")])
    return found.roles, found.log_events, found.kernel_events


@given(LOGS)
def test_a_log_left_on_disk_tells_what_its_text_tells(text: str) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        (folder / "server.log").write_text(f"# 2026-11-30T12:00:00Z $ docker logs x\n# rc=0\n{text}", newline="")
        read = told(folder)
        patch.setattr(files, "LONG_LOG", 0)
        (exhibit,) = read_input(folder, "I1").exhibits
        assert exhibit.path is not None
        assert exhibit.text == ""
        assert told(folder) == read


@given(LOGS, st.sampled_from(["server.log", "kern.log"]))
def test_rows_are_cited_where_they_stand(text: str, member: str) -> None:
    exhibit = Exhibit("I1", member, "", None, None, None, None, None, 1, text)
    lines = text.split("\n")
    for row in log_scan.rows(exhibit):
        if isinstance(row, LogRole | LogEvent | KernelEvent):
            assert row.cited.line is not None
            assert lines[row.cited.line - 1].startswith(row.cited.quote)
            assert len(row.cited.quote) <= 300
            assert len(row.text if not isinstance(row, LogRole) else row.role) <= 300


def test_a_line_without_an_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scan, "BLOCK", 64)
    monkeypatch.setattr(log_scan, "LONGEST", 128)
    log = tmp_path / "a.log"
    log.write_bytes(b"EADDRINUSE" + b"x" * 1000 + b" EADDRINUSE\nEADDRINUSE\n")
    with log.open("rb", buffering=0) as stream:
        blocks = list(log_scan.blocks_of(stream))
    assert all(len(block) <= 128 + 3 * 64 for block in blocks)
    assert [number for number, _ in log_scan.streaming(blocks).telling] == [0, 1]


@given(LOGS.map(str.encode), st.integers(1, 99))
def test_blocks_are_the_file_and_end_with_a_line(data: bytes, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_scan, "BLOCK", size)
        blocks = list(log_scan.blocks_of(BytesIO(data)))
    assert b"".join(blocks) == data
    assert all(block.endswith(b"\n") for block in blocks[:-1])


ROLES = st.sampled_from(["a", "b", "ab", "Worker", "Worker_TP0", "Worker_TP1", "rank-0", "V rank=0", "V rank=1", "V"])
TAGS = st.builds("{} pid={}".format, ROLES, st.sampled_from([1, 12, 123, 2, 23]))


@given(st.lists(TAGS, max_size=9), TAGS)
def test_the_pattern_of_other_tags_matches_all_but_the_known(known: list[str], tag: str) -> None:
    text = pl.Series([f"x ({tag}) y"])
    assert text.str.contains(log_tags.other_than(known)).to_list() == [tag not in known]


def test_more_tags_than_a_pattern_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"(Worker_TP{number % 40} pid={number}) x\n".encode() for number in range(400)]
    whole = simple(b"".join(lines).decode())
    assert len(whole.tagged) == 400
    monkeypatch.setattr(log_scan, "BATCH", 1)
    assert log_scan.streaming([*lines, *lines]) == whole
