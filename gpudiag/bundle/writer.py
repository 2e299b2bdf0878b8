"""Write a bundle so that what has been seen is on disk before the next thing is looked at.

Every source is one gzip member of its own, written when the source ends. A recorder that is killed leaves a file that
``gpudiag explain`` reads, under the name with ``.partial`` behind it.
"""

from __future__ import annotations

import io
import zlib
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from gpudiag.bundle.format import (
    BLOCK,
    CHECKSUMS,
    END,
    OUTCOME_VALUES,
    OUTCOMES,
    RATIO_CAP,
    RATIO_FREE,
    RECORDS,
    SOURCE_CAP,
    SOURCES_CAP,
    START,
    TOTAL_CAP,
    WRITTEN_NAME_CAP,
    Clocks,
    End,
    Outcome,
    Start,
    checksum_lines,
    is_record,
    name_problem,
)
from gpudiag.bundle.sinks import PartialFile, Sink, partial_path

HEAD_CAP = 65536
"""Bytes that are kept free for the header lines of a source."""
_IN_MEMORY = 4 * 1024 * 1024
"""Bytes of an unfinished source that stay in memory; beyond that it is spooled to a nameless file."""
_CHUNK = 1 << 16
_SAFE_RATIO = RATIO_CAP * 3 // 4
_SAFE_FREE = RATIO_FREE * 3 // 4
"""A reader also counts records and padding."""
_LEFT_OF_MONOTONY = 1024 * 1024
"""Bytes that are kept of a source whose content is so uniform that a reader would take the bundle for a bomb."""


class BundleWriter:
    """An open bundle. Not for several threads: who reads sources side by side hands them over one by one."""

    def __init__(self, path: Path, start: Start, sync: bool = False, sink: Optional[Sink] = None) -> None:
        """Create ``path`` with ``.partial`` behind it, readable by its owner only; it may not exist yet.

        ``sync``: wait after every source until the disk has it. ``sink``: where the bundle goes in place of ``path``.
        """
        self.path = path
        self.partial = partial_path(path)
        self._sink = PartialFile(path, sync) if sink is None else sink
        self._names: Set[str] = set()
        self._sums: Dict[str, str] = {}
        self._kept = self._packed = 0
        self._outcomes = 0
        self._start = start.to_json()
        # What computes checksums takes longer to load than the rest of this; it is not needed before a source ends.
        self._member(_entry(START, self._start))

    def source(self, member: str, most: Optional[int] = None) -> SourceWriter:
        """Begin a source. Nothing of it is in the bundle before it is closed.

        ``most``: bytes that are kept of it; ``None``: as many as the format allows.
        """
        problem = name_problem(member, WRITTEN_NAME_CAP)
        if problem is None and is_record(member):
            problem = f"{RECORDS}/ is the format's own folder"
        if problem is None and member in self._names:
            problem = "it is in the bundle already"
        if problem is None and len(self._names) >= SOURCES_CAP:
            problem = f"the bundle holds {SOURCES_CAP} sources already"
        if problem is not None:
            raise ValueError(f"{member!r} cannot be written: {problem}")
        self._names.add(member)
        allowed = min(SOURCE_CAP, TOTAL_CAP - self._kept) - HEAD_CAP
        return SourceWriter(self, member, allowed if most is None else min(allowed, most))

    def room(self, size: int, text: Callable[[], Iterable[bytes]]) -> int:
        """How many bytes of a source of this size a reader will take; only ``SourceWriter`` calls this."""
        total = self._kept + size
        if total <= _SAFE_FREE:
            return size
        deflate = zlib.compressobj(1)
        packed = sum(len(deflate.compress(chunk)) for chunk in text()) + len(deflate.flush())
        if total <= min(TOTAL_CAP, _SAFE_RATIO * (self._packed + packed)):
            return size
        return min(size, _LEFT_OF_MONOTONY)

    def finish(self, clocks: Clocks, pids: Sequence[int] = ()) -> Path:
        """Write the end record and the checksums and give the file its name."""
        end = End(clocks, tuple(pids)).to_json()
        self._member(_entry(END, end))
        sums = {START: _sha256([self._start]), **self._sums, END: _sha256([end])}
        self._member([*_entry(CHECKSUMS, checksum_lines(sums)), b"\0" * (2 * BLOCK)])
        self._sink.finish()
        return self.path

    def close(self) -> None:
        """Leave the bundle as it is, with its ``.partial`` name."""
        self._sink.close()

    def commit(self, outcome: Outcome, text: Iterable[bytes]) -> None:
        """Write a closed source and its outcome as one gzip member; only ``SourceWriter`` calls this."""
        told, name = outcome.to_json(), f"{OUTCOMES}{self._outcomes:04d}.json"
        record = _entry(name, told)
        sums = {name: _sha256([told])}
        if outcome.size is None:
            self._member(record)
        else:
            sums[outcome.member] = outcome.sha256 or ""
            header = _header(outcome.member, outcome.size)
            self._member(chain([header], text, [b"\0" * (-outcome.size % BLOCK)], record))
        self._sums.update(sums)
        self._outcomes += 1
        self._kept += outcome.size or 0

    def _member(self, chunks: Iterable[bytes]) -> None:
        deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
        with self._sink.member():
            for chunk in chunks:
                self._put(deflate.compress(chunk))
            self._put(deflate.flush())

    def _put(self, data: bytes) -> None:
        self._packed += len(data)
        self._sink.put(data)


class SourceWriter:
    """The rows of one source on their way into the bundle."""

    def __init__(self, bundle: BundleWriter, member: str, cap: int) -> None:
        self._bundle = bundle
        self._member = member
        self._left = max(0, cap)
        self._cut = False
        self._spool: BinaryIO = io.BytesIO()
        self._in_memory = True

    def write(self, data: bytes) -> bool:
        """Take output of the source; false once it is full and the rest is not wanted."""
        if len(data) > self._left:
            self._cut = True
            data = data[: self._left]
        self._left -= len(data)
        if self._in_memory and self._spool.tell() + len(data) > _IN_MEMORY:
            self._move()
        self._spool.write(data)
        return not self._cut

    def _move(self) -> None:
        """To a nameless file. Few sources are that long, so the module for it is loaded here."""
        from tempfile import TemporaryFile

        # It lives as long as this object does; close() ends it.
        moved = TemporaryFile()  # noqa: SIM115
        for piece in self._written():
            moved.write(piece)
        self._spool.close()
        self._spool, self._in_memory = moved, False

    def close(
        self,
        outcome: str = "ok",
        because: Optional[str] = None,
        *,
        source: Optional[str] = None,
        command: Optional[str] = None,
        started_ns: Optional[int] = None,
        duration_s: Optional[float] = None,
        exit_code: Optional[int] = None,
        pids: Sequence[int] = (),
    ) -> Outcome:
        """Write the source. With ``command`` the two header lines of a capture are put above what was written.

        A source of which nothing was written and that is not ``ok`` gets no entry, only its outcome.
        """
        with self._spool:
            self._fit()
            result, head = self._result(
                Outcome(self._member, outcome, because, source, command, started_ns, duration_s, exit_code, tuple(pids))
            )
            self._bundle.commit(result, chain([head], self._written()))
        return result

    def _fit(self) -> None:
        """Cut what would make the bundle unreadable."""
        written = self._spool.tell()
        room = self._bundle.room(written, self._written)
        if room < written:
            self._spool.seek(room)
            self._spool.truncate()
            self._cut = True

    def _result(self, told: Outcome) -> Tuple[Outcome, bytes]:
        """What the caller tells, completed with what was written; and the header lines."""
        if told.outcome not in OUTCOME_VALUES:
            raise ValueError(f"{told.outcome!r} is no outcome; one of {', '.join(OUTCOME_VALUES)}")
        if self._cut and told.outcome == "ok":
            told = told._replace(outcome="truncated", because="longer than a source of a bundle may be")
        head = b"" if told.command is None else _head(told.command, told.started_ns, told.exit_code)
        written = self._spool.tell()
        if written == 0 and told.outcome != "ok":
            return told, b""
        return told._replace(size=len(head) + written, sha256=self._digest(head)), head

    def _digest(self, head: bytes) -> str:
        return _sha256(chain([head], self._written()))

    def _written(self) -> Iterator[bytes]:
        self._spool.seek(0)
        while True:
            data = self._spool.read(_CHUNK)
            if not data:
                return
            yield data


def _head(command: str, started_ns: Optional[int], exit_code: Optional[int]) -> bytes:
    """The header lines of a capture: ``# <time> $ <command>`` and ``# rc=<n>``."""
    if "\n" in command or "\r" in command:
        raise ValueError("a command in a header is one line")
    time = ""
    if started_ns is not None:
        seconds, rest = divmod(started_ns, 1_000_000_000)
        moment = datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=rest // 1000)
        time = moment.isoformat(timespec="microseconds") + " "
    code = "" if exit_code is None else f"# rc={exit_code}\n"
    head = f"# {time}$ {command}\n{code}".encode("utf-8", "replace")
    if len(head) > HEAD_CAP:
        raise ValueError(f"a command in a header is at most {HEAD_CAP} bytes long")
    return head


def _sha256(pieces: Iterable[bytes]) -> str:
    from hashlib import sha256

    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _entry(name: str, data: bytes) -> List[bytes]:
    """A small tar entry."""
    return [_header(name, len(data)), data, b"\0" * (-len(data) % BLOCK)]


def _header(name: str, size: int) -> bytes:
    """A ustar header of a file that only its owner may read."""
    fields = (
        name.encode("utf-8").ljust(100, b"\0")
        + b"0000600\0"  # mode
        + b"0000000\0" * 2  # uid, gid
        + f"{size:011o}\0".encode("ascii")
        + b"00000000000\0"  # mtime: the start record has the clocks
        + b" " * 8  # checksum, counted as blanks
        + b"0".ljust(101, b"\0")  # a file, linked to nothing
        + b"ustar\00000"
    ).ljust(BLOCK, b"\0")
    return fields[:148] + f"{sum(fields):06o}\0 ".encode("ascii") + fields[156:]
