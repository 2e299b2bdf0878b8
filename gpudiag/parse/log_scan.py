"""Whole log files: the lines that tell something, in one pass and bounded memory, whatever their size.

A line is searched for one of the signs of ``server_log`` and ``kernel_log`` and for a role's tag; what it means is read
from the few lines that are left. Small texts go line by line through Python's ``re``. Larger ones are first searched in
blocks of many lines, by polars with the same signs: most blocks of a long log hold no sign and no new tag, and are done
with when their lines are counted. The lines of the others go through polars' streaming engine, or through ``re`` where
they are few. Text that is not UTF-8 is repaired, because the engine refuses it. All ways give the same lines; a test
holds them to it.
"""

# polars' annotations name numpy's types, and numpy is not among the dependencies.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from io import BytesIO, RawIOBase
from itertools import islice
from typing import NamedTuple

import polars as pl

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, Coverage, Damage, KernelEvent, LogEvent, LogRole
from gpudiag.parse import kernel_log, server_log
from gpudiag.parse.log_tags import KNOWN_CAP, MAYBE_TAG, other_than
from gpudiag.parse.source import QUOTE_CAP, place_of

SIMPLE_CAP = 32 * 1024
"""Characters up to which line by line is as fast as starting the engine."""
LINE_CAP = 16384
"""Characters of a telling line that are kept for reading."""
FIRST, LAST = 2_000, 8_000
"""Telling lines kept from the beginning and from the end of a file; the end is about the incident."""
BLOCK = 64 * 1024
"""Bytes that are read at once and searched as one text, with what is missing of the last line."""
BATCH = 32
"""Blocks that are searched together: enough to make the start of a search cheap, few enough for a core's cache."""
LONGEST = 2 * 1024 * 1024
"""Bytes of a line after which its middle is left out."""
SIGNS = "|".join(re.escape(sign) for sign in sorted({*server_log.SIGNS, *kernel_log.SIGNS}))
_SIGNS = re.compile(SIGNS)
WORKERS = min(4, os.cpu_count() or 1)
KERNEL_CAP = 64 * 1024 * 1024
"""Bytes of a kernel log whose lines are gone through for the times of those without a stamp."""
_PID = " pid="
_PID_DIGITS = len(_PID) + 8
"""A tag's end: seven digits and the bracket."""
_KERNEL_MEMBER = re.compile(r"(?:^|/)(?:kern(?:el)?|dmesg)[\w.-]{0,40}\Z")
"""Files that hold the kernel's log by their name: one without a telling line was read all the same."""
_FILTER = re.compile(r"\b(?:[ef]?grep|rg|awk|sed|head|ack)\b")
"""Programs that show some lines of a log and leave out others."""


@dataclass(frozen=True)
class Found:
    """The lines of a file that tell something, each with its zero-based number."""

    tagged: tuple[tuple[int, str], ...]
    """First line of each role and PID."""
    telling: tuple[tuple[int, str], ...]
    dropped: int
    """Telling lines between the first and the last that are kept."""


class _Gathering:
    """Collects lines in order, bounded."""

    def __init__(self) -> None:
        self._tagged: dict[str, tuple[int, str]] = {}
        self._first: list[tuple[int, str]] = []
        self._last: deque[tuple[int, str]] = deque(maxlen=LAST)
        self._count = 0
        self.other_tag = other_than(())
        """Pattern of what may be a tag that is not known yet."""

    def tagged(self, tag: str, number: int, line: str) -> None:
        """A line with a role's tag."""
        if tag not in self._tagged and len(self._tagged) < server_log.ROLES_CAP:
            self._tagged[tag] = (number, line)
            if len(self._tagged) <= KNOWN_CAP:
                self.other_tag = other_than(self._tagged)

    def asks_for(self, tags: Iterable[str]) -> bool:
        """One of these is a tag that is not known yet, or looks like one."""
        return len(self._tagged) < server_log.ROLES_CAP and any(tag not in self._tagged for tag in tags)

    def telling(self, number: int, line: str) -> None:
        """A line with a sign."""
        (self._first if len(self._first) < FIRST else self._last).append((number, line))
        self._count += 1

    def found(self) -> Found:
        """All that was kept."""
        kept = (*self._first, *self._last)
        return Found(tuple(self._tagged.values()), kept, self._count - len(kept))


def line_by_line(lines: Iterable[str]) -> Found:
    """The simple way."""
    gathering = _Gathering()
    _take_lines(gathering, lines, 0)
    return gathering.found()


def _take_lines(gathering: _Gathering, lines: Iterable[str], start: int) -> None:
    """A carriage return before the line feed is part of the line's end, as it is for the engine."""
    for number, whole in enumerate(lines, start):
        line = whole.removesuffix("\r")
        tag = server_log.tag_of(line) if _PID in line else None
        if tag is not None:
            gathering.tagged(tag, number, line[:LINE_CAP])
        if _SIGNS.search(line):
            gathering.telling(number, line[:LINE_CAP])


def streaming(blocks: Iterable[bytes]) -> Found:
    """The fast way: blocks of whole lines."""
    gathering = _Gathering()
    start = 0
    for batch in _ahead(blocks, gathering):
        run = _Run(start)
        for block in batch:
            if block.sign or gathering.asks_for(block.tags):
                run.blocks.append(block.text)
            else:
                if run.blocks:
                    run.into(gathering)
                run = _Run(start + block.lines)
            start += block.lines
        run.into(gathering)
    return gathering.found()


@dataclass
class _Run:
    """Consecutive blocks whose lines have to be looked at."""

    start: int
    blocks: list[bytes] = field(default_factory=list[bytes])

    def into(self, gathering: _Gathering) -> None:
        """Look at them."""
        text = b"".join(self.blocks)
        if len(text) <= SIMPLE_CAP:
            lines = text.decode("utf-8", "replace").removesuffix("\n").split("\n") if text else ()
            _take_lines(gathering, lines, self.start)
            return
        found = _search(text, self.start)
        for number, line, tag in _tagged(found).iter_rows():
            gathering.tagged(tag, number, line)
        start = pl.col("line").str.slice(0, LINE_CAP)
        for number, line in found.filter(pl.col("sign")).select("number", start).iter_rows():
            gathering.telling(number, line)


class _Block(NamedTuple):
    """Lines that were searched as one text."""

    text: bytes
    lines: int
    """Line feeds in it."""
    sign: bool
    tags: list[str]
    """What may be tags that were not known when the search began, and others beside them."""


def _ahead(blocks: Iterable[bytes], gathering: _Gathering) -> Iterator[list[_Block]]:
    """All blocks, searched, in order. polars lets other threads run meanwhile; as many batches are in memory."""
    left = iter(blocks)
    with ThreadPoolExecutor(WORKERS) as pool:
        waiting: deque[Future[list[_Block]]] = deque()
        while batch := list(islice(left, BATCH)):
            waiting.append(pool.submit(_searched, batch, gathering.other_tag))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _searched(blocks: list[bytes], other_tag: str) -> list[_Block]:
    try:
        text = pl.Series("text", blocks, dtype=pl.Binary).cast(pl.String)
    except pl.exceptions.ComputeError:
        text = pl.Series("text", [block.decode("utf-8", "replace") for block in blocks])
    column = pl.col("text").str
    found = text.to_frame().with_columns_seq(
        lines=column.count_matches("\n"), sign=column.contains(SIGNS), tag=column.contains(other_tag)
    )
    tags: Iterator[list[str]] = iter(())
    if found["tag"].any():
        tags = iter(found.filter("tag")["text"].str.extract_all(MAYBE_TAG).list.unique().to_list())
    return [
        _Block(block, lines, sign, [tag[1:-1] for tag in next(tags)] if tag else [])
        for block, lines, sign, tag in zip(blocks, found["lines"], found["sign"], found["tag"], strict=True)
    ]


def _search(piece: bytes, start: int) -> pl.DataFrame:
    try:
        return _query(piece, start).collect(engine="streaming")
    except pl.exceptions.ComputeError:
        repaired = piece.decode("utf-8", "replace").encode()
        return _query(repaired, start).collect(engine="streaming")


def _query(piece: bytes, start: int) -> pl.LazyFrame:
    line = pl.col("line")
    return (
        pl.scan_lines(piece, row_index_name="number", row_index_offset=start)
        .with_columns(sign=line.str.contains(SIGNS), pid=line.str.contains(_PID, literal=True))
        .filter(pl.col("sign") | pl.col("pid"))
    )


def _tagged(found: pl.DataFrame) -> pl.DataFrame:
    """First line of each tag. Most lines of a log may have one, so the costly pattern sees each beginning once only."""
    line, tag = pl.col("line"), pl.col("tag")
    beginning = line.str.slice(0, line.str.find(_PID, literal=True) + _PID_DIGITS)
    return (
        found.filter(pl.col("pid"))
        .with_columns(beginning=beginning)
        .unique("beginning", keep="first", maintain_order=True)
        .with_columns(tag=line.str.extract(server_log.TAG, 1))
        .filter(tag.is_not_null())
        .unique("tag", keep="first", maintain_order=True)
        .select("number", line.str.slice(0, LINE_CAP), "tag")
    )


def scan(exhibit: Exhibit) -> Found:
    """All telling lines of a log, from disk where the exhibit is a reference."""
    if exhibit.path is not None:
        with exhibit.path.open("rb", buffering=0) as stream:
            return streaming(blocks_of(stream))
    if len(exhibit.text) <= SIMPLE_CAP:
        return line_by_line(exhibit.text.split("\n"))
    return streaming(blocks_of(BytesIO(exhibit.text.encode("utf-8", "replace"))))


def blocks_of(stream: RawIOBase | BytesIO) -> Iterator[bytes]:
    """A file in blocks that end with a line; the middle of an endless line is left out."""
    begun: list[bytes] = []
    while data := stream.read(BLOCK):
        end = data.rfind(b"\n") + 1
        if end:
            yield b"".join((*begun, memoryview(data)[:end]))
            begun = [data[end:]]
        elif len(begun) <= LONGEST // BLOCK:
            begun.append(data)
    if any(begun):
        yield b"".join(begun)


def rows(exhibit: Exhibit) -> Iterator[LogRole | LogEvent | KernelEvent | Coverage | Damage]:
    """Everything that a log file tells."""
    try:
        found = scan(exhibit)
    except OSError as error:
        yield Damage(exhibit.input, exhibit.member, None, f"cannot be read ({error.strerror or error})")
        return
    tagged = [server_log.role_row(line, _cite(exhibit, n, line), exhibit.host) for n, line in found.tagged]
    roles = [row for row in tagged if row is not None]
    yield from roles
    events = list(telling_rows(exhibit, found.telling, _relative(exhibit, found.telling)))
    yield from events
    if found.dropped:
        reason = f"of more than {FIRST + LAST} lines that tell something, {found.dropped} in the middle were left out"
        yield Damage(exhibit.input, exhibit.member, None, reason)
    kernel = next((event.cited for event in events if isinstance(event, KernelEvent)), None)
    is_kernels = bool(_KERNEL_MEMBER.search(exhibit.member))
    if kernel is not None or is_kernels:
        yield Coverage(place_of(exhibit), "kernel log", "ok", None, kernel)
    if roles or (kernel is None and not is_kernels) or any(isinstance(event, LogEvent) for event in events):
        yield Coverage(place_of(exhibit), "server log", "ok", None, roles[0].cited if roles else None)


def begins(line: str) -> bool:
    """The line's front is that of a log and of nothing else."""
    return kernel_log.shaped(line) or server_log.tag_of(line) is not None


def fits(line: str) -> bool:
    """One line by itself can be told to be a log's, by its front or by what it says."""
    if begins(line):
        return True
    if not _SIGNS.search(line):
        return False
    nowhere = Exhibit("", "", "", None, None, None, None, None, 1, "")
    return any(True for _ in telling_rows(nowhere, [(0, line)], {}))


def _relative(exhibit: Exhibit, telling: Iterable[tuple[int, str]]) -> Mapping[int, str]:
    """Stamps of the telling lines that only say how long after the line before they were printed."""
    wanted = {number for number, line in telling if kernel_log.is_relative(line)}
    text = _short_text(exhibit) if wanted else None
    return kernel_log.relative_stamps(enumerate(text.split("\n")), wanted) if text is not None else {}


def _short_text(exhibit: Exhibit) -> str | None:
    """The text if it can be the kernel's buffer, which holds a few MiB; a file many times as long is something else."""
    if exhibit.path is None:
        return exhibit.text if len(exhibit.text) <= KERNEL_CAP else None
    try:
        with exhibit.path.open("rb") as stream:
            data = stream.read(KERNEL_CAP + 1)
    except OSError:
        return None
    return data.decode("utf-8", "replace") if len(data) <= KERNEL_CAP else None


def telling_rows(
    exhibit: Exhibit, lines: Iterable[tuple[int, str]], relative: Mapping[int, str]
) -> Iterator[LogEvent | KernelEvent]:
    """Rows of lines with their zero-based numbers in the exhibit's text. A kernel line is not a server's.

    ``relative``: stamps of the kernel's lines that do not have their own.
    """
    kernel = kernel_log.KernelReader(exhibit.host, relative)
    picked = bool(_FILTER.search((exhibit.command or "")[:LINE_CAP]))
    for number, line in lines:
        cited = _cite(exhibit, number, line)
        events = list(kernel.events(number, line, cited))
        yield from events or (replace(event, picked=picked) for event in server_log.events(line, cited, exhibit.host))


def _cite(exhibit: Exhibit, number: int, line: str) -> Citation:
    return Citation(exhibit.input, exhibit.member, exhibit.first_line + number, line[:QUOTE_CAP])
