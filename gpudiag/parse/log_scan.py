"""Whole log files: the lines that tell something, in one pass and bounded memory, whatever their size.

A line is searched for one of the signs of ``server_log`` and ``kernel_log`` and for a role's tag; what it means is read
from the few lines that are left. Small texts go line by line through Python's ``re``. Larger ones are first searched in
blocks of many lines, by polars with the same patterns: most blocks of a long log hold no sign and no new tag, and are
done with. The lines of the others go through polars' streaming engine, or through ``re`` where they are few. Text that
is not UTF-8 is repaired, because the engine refuses it. All ways give the same lines; a test holds them to it.
"""

# polars' annotations name numpy's types, and numpy is not among the dependencies.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, Coverage, Damage, KernelEvent, LogEvent, LogRole
from gpudiag.parse import kernel_log, server_log
from gpudiag.parse.source import QUOTE_CAP, place_of

SIMPLE_CAP = 256 * 1024
"""Characters up to which line by line is as fast as starting the engine."""
LINE_CAP = 16384
"""Characters of a telling line that are kept for reading."""
FIRST, LAST = 2_000, 8_000
"""Telling lines kept from the beginning and from the end of a file; the end is about the incident."""
PIECE = 8 * 1024 * 1024
"""Bytes read at once. A line longer than two pieces is cut."""
SIGNS = "|".join(re.escape(sign) for sign in sorted({*server_log.SIGNS, *kernel_log.SIGNS}))
_SIGNS = re.compile(SIGNS)
WORKERS = min(4, os.cpu_count() or 1)
BLOCK = 64 * 1024
"""Bytes that are searched as one text."""
_PID = " pid="
_MAYBE_TAG = r"\([A-Za-z][A-Za-z0-9_.:-]{0,63}(?: rank=[0-9]{1,6})? pid=[0-9]{1,7}\)"
"""A role's tag wherever it stands."""
_PID_DIGITS = len(_PID) + 8
"""A tag's end: seven digits and the bracket."""
_KERNEL_MEMBER = re.compile(r"(?:^|/)(?:kern(?:el)?|dmesg)[\w.-]{0,40}\Z")
"""Files that hold the kernel's log by their name: one without a telling line was read all the same."""


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

    def tagged(self, tag: str, number: int, line: str) -> None:
        """A line with a role's tag."""
        if tag not in self._tagged and len(self._tagged) < server_log.ROLES_CAP:
            self._tagged[tag] = (number, line)

    def asks_for(self, tags: Iterable[str]) -> bool:
        """One of these is a tag that is not known yet, or looks like one."""
        return len(self._tagged) < server_log.ROLES_CAP and any(tag[1:-1] not in self._tagged for tag in tags)

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
        tag = server_log.tag_of(line)
        if tag is not None:
            gathering.tagged(tag, number, line[:LINE_CAP])
        if _SIGNS.search(line):
            gathering.telling(number, line[:LINE_CAP])


def streaming(pieces: Iterable[bytes]) -> Found:
    """The fast way: pieces of whole lines."""
    gathering = _Gathering()
    start = 0
    for blocks in _ahead(pieces):
        run = _Run(start)
        for block, lines, sign, tags in blocks:
            if sign or gathering.asks_for(tags):
                run.blocks.append(block)
            else:
                run.into(gathering)
                run = _Run(start + lines)
            start += lines
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


_Looked = list[tuple[bytes, int, bool, list[str]]]


def _ahead(pieces: Iterable[bytes]) -> Iterator[_Looked]:
    """Every piece looked over, in order. polars lets other threads run meanwhile; as many pieces are in memory."""
    with ThreadPoolExecutor(WORKERS) as pool:
        waiting: deque[Future[_Looked]] = deque()
        for piece in pieces:
            waiting.append(pool.submit(_looked_over, piece))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _looked_over(piece: bytes) -> _Looked:
    """Each block with its number of line feeds, whether it has a sign, and what may be tags in it."""
    blocks = list(_blocks(piece))
    try:
        text = pl.Series("text", blocks, dtype=pl.Binary).cast(pl.String)
    except pl.exceptions.ComputeError:
        text = pl.Series("text", [block.decode("utf-8", "replace") for block in blocks])
    column = pl.col("text").str
    found = text.to_frame().select(
        lines=column.count_matches("\n", literal=True),
        sign=column.contains(SIGNS),
        tags=column.extract_all(_MAYBE_TAG).list.unique(),
    )
    return list(zip(blocks, found["lines"], found["sign"], found["tags"].to_list(), strict=True))


def _blocks(piece: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(piece):
        end = piece.rfind(b"\n", start, start + BLOCK) + 1 or piece.find(b"\n", start) + 1 or len(piece)
        yield piece[start:end]
        start = end


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
        return streaming(pieces_of(exhibit.path))
    if len(exhibit.text) <= SIMPLE_CAP:
        return line_by_line(exhibit.text.split("\n"))
    return streaming([exhibit.text.encode("utf-8", "replace")])


def pieces_of(path: Path) -> Iterator[bytes]:
    """A file in pieces that end with a line; the middle of an endless line is left out."""
    with path.open("rb") as stream:
        rest = b""
        while piece := stream.read(PIECE):
            end = piece.rfind(b"\n") + 1
            if end:
                yield rest + piece[:end]
                rest = piece[end:]
            elif len(rest) <= PIECE:
                rest += piece
        if rest:
            yield rest


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
    events = list(telling_rows(exhibit, found.telling))
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
    return any(True for _ in telling_rows(nowhere, [(0, line)]))


def telling_rows(exhibit: Exhibit, lines: Iterable[tuple[int, str]]) -> Iterator[LogEvent | KernelEvent]:
    """Rows of lines with their zero-based numbers in the exhibit's text. A kernel line is not a server's."""
    kernel = kernel_log.KernelReader(exhibit.host)
    for number, line in lines:
        cited = _cite(exhibit, number, line)
        events = list(kernel.events(number, line, cited))
        yield from events or server_log.events(line, cited, exhibit.host)


def _cite(exhibit: Exhibit, number: int, line: str) -> Citation:
    return Citation(exhibit.input, exhibit.member, exhibit.first_line + number, line[:QUOTE_CAP])
