"""The ring on disk: segments of lines that only grow, the oldest ones removed when time or room is up.

Every segment begins with all that is known, so that it can be read without those before it. A segment is never touched
again once the next one has begun, and a new writer begins a new one: what a killed writer left half-written is the last
line of a file and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Callable, NamedTuple

SEGMENT = re.compile(r"ring-(\d{12})\.jsonl\Z")
LOCK = "lock"
PART = b'{"is":"part"}\n'
"""Ends a snapshot for which there was not enough room."""
_PARTS = 32
"""Segments of a full ring: what is removed at a time is one part of so many."""
_AGES = 8
"""Segments within the time that is kept, where little happens."""
_SNAPSHOT_PART = 3
"""A snapshot takes at most this part of the ring; what does not fit is missing, and the snapshot is not whole."""
_RETRY_S = 10.0
"""Between two attempts to begin a segment where nothing can be written."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Bounds(NamedTuple):
    """What the ring may take."""

    keep_s: float
    """At least so much is kept, and an eighth more at most."""
    max_bytes: int
    """Of all segments together, at every moment."""


class TakenError(Exception):
    """Another writer has the ring."""

    def __init__(self, pid: int | None) -> None:
        super().__init__("another gpudiag watch" + ("" if pid is None else f" (PID {pid})"))


class _Segment(NamedTuple):
    path: Path
    size: int
    ended_s: float
    """Time of its last line, seconds since the epoch."""


class Ring:
    """The one writer. ``OSError`` when it is made: the folder cannot be used; ``TakenError``: it has a writer."""

    def __init__(self, folder: Path, bounds: Bounds, snapshot: Callable[[bool], Iterable[bytes]]) -> None:
        """``snapshot``: lines that say all that is known, the most important first, the last one that they are all. It
        is told whether the segment before it ends where the new one begins.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._lock = _locked(folder / LOCK)
        self._bounds = bounds
        self._snapshot = snapshot
        found = sorted(_segments(folder), key=lambda segment: segment.path.name)
        self._older = found
        numbers = [int(match[1]) for segment in found if (match := SEGMENT.match(segment.path.name))]
        self._number = max(numbers, default=0)
        self._path: Path | None = None
        self._file: int | None = None
        self._size = self._head = 0
        self._begun_s = self._tried_s = 0.0
        self.trouble: str | None = None
        """Why nothing is written at the moment."""
        self.dropped_early = 0
        """Segments that were removed because the disk was full."""

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._size + sum(segment.size for segment in self._older)

    def put(self, data: bytes) -> None:
        """Append whole lines; they are in the file when this returns, unless there is ``trouble``."""
        now = time.time()
        if self._file is None or self._size + len(data) > self._bounds.max_bytes // 2:
            self._begin(now)  # The snapshot has what the lines say.
        else:
            self._write(data)
            if self._over(now):
                self._begin(now)
        self._expire(now)

    def close(self) -> None:
        """Give the ring back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        os.close(self._lock)

    def _over(self, now: float) -> bool:
        # A snapshot that is as large as a segment must not be followed by the next one at once.
        part = max(self._bounds.max_bytes // _PARTS, self._head + self._bounds.max_bytes // (2 * _PARTS))
        return self._size >= part or not 0 <= now - self._begun_s < self._bounds.keep_s / _AGES

    def _begin(self, now: float) -> None:
        if self.trouble is not None and now - self._tried_s < _RETRY_S:
            return
        self._tried_s = now
        goes_on = self._file is not None
        self._end(now)
        self._number += 1
        path = self.folder / f"ring-{self._number:012d}.jsonl"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            self._failed(error)
            return
        self._path, self._size, self._begun_s = path, 0, now
        self.trouble = None
        self._write(self._cut_snapshot(goes_on))
        self._head = self._size

    def _cut_snapshot(self, goes_on: bool) -> bytes:
        data = bytearray()
        for line in self._snapshot(goes_on):
            if len(data) + len(line) > self._bounds.max_bytes // _SNAPSHOT_PART:
                data += PART
                break
            data += line
        return bytes(data)

    def _end(self, now: float) -> None:
        if self._file is not None and self._path is not None:
            os.close(self._file)
            self._older.append(_Segment(self._path, self._size, now))
        self._file, self._path, self._size = None, None, 0

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        while self._older and self.size + len(data) > self._bounds.max_bytes:
            self._drop()
        while True:
            try:
                _write_all(self._file, data)
                self._size += len(data)
                return
            except OSError as error:
                os.ftruncate(self._file, self._size)
                if error.errno in _FULL and self._older:
                    self._drop()
                    self.dropped_early += 1
                    continue
                self._failed(error)
                return

    def _failed(self, error: OSError) -> None:
        """What is lost now is in the next segment's snapshot, if not its time."""
        self.trouble = error.strerror or str(error)
        if self._size == 0 and self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            if self._file is not None:
                os.close(self._file)
            self._file = self._path = None
        self._end(time.time())

    def _expire(self, now: float) -> None:
        while self._older and self._older[0].ended_s < now - self._bounds.keep_s:
            self._drop()

    def _drop(self) -> None:
        with contextlib.suppress(OSError):  # It is gone already.
            self._older[0].path.unlink()
        del self._older[0]


def segments(folder: Path) -> list[Path]:
    """The files of a ring, oldest first. ``OSError``: they cannot be listed."""
    return sorted(segment.path for segment in _segments(folder))


def _segments(folder: Path) -> Iterable[_Segment]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if SEGMENT.match(entry.name) and entry.is_file(follow_symlinks=False):
                state = entry.stat(follow_symlinks=False)
                yield _Segment(Path(entry.path), state.st_size, state.st_mtime)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _locked(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        words = os.read(file, 32)
        os.close(file)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        raise TakenError(int(words) if words.strip().isdigit() else None) from None
    os.ftruncate(file, 0)
    os.write(file, b"%d\n" % os.getpid())
    return file
