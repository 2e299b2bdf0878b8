"""Inflate a gzip file member by member, within limits, and find the next member behind a damaged one."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import BinaryIO, Callable, Iterator, Optional

from gpudiag.bundle.format import RATIO_CAP, RATIO_FREE

INFLATED_CAP = 512 * 1024 * 1024
"""Bytes that are inflated at most, those that are skipped included."""
SEARCH_CAP = 10_000
"""Places at which a member could begin and none does, after which the search is given up."""
REREAD_CAP = 4
"""How many times the length of the file may be read in all; a search behind damage reads parts again."""

MAGIC = b"\x1f\x8b\x08"
_CHUNK = 1 << 16
_OUT = 1 << 18
_PROBE = 1 << 12
"""Bytes of a possible member that are looked at to tell whether it is one."""


@dataclass(frozen=True)
class Stretch:
    """What became of one gzip member."""

    start: int
    """Offset of its first byte in the file."""
    end: int
    """Offset behind its last byte, or behind the last one that was read."""
    state: str
    """``whole`` (its checksum is right), ``torn`` (the file ends in it), ``damaged``, or ``over`` (a limit)."""
    because: str = ""


class Gzipped:
    """A gzip file that may be cut, altered, or made to exhaust its reader."""

    def __init__(self, stream: BinaryIO, size: int, is_content: Callable[[bytes], bool]) -> None:
        """``is_content``: whether a first piece of inflated text can be the beginning of a member's content."""
        self._stream = stream
        self._size = size
        self._is_content = is_content
        self._inflated = 0
        self._consumed = 0
        self._misses = 0

    def inflate(self, start: int, take: Callable[[bytes], None]) -> Stretch:
        """Give the content of the member at ``start`` to ``take``, piece by piece."""
        inflater = zlib.decompressobj(31)
        self._stream.seek(start)
        position = start
        pending = b""
        while not inflater.eof:
            if not pending:
                pending = self._stream.read(min(_CHUNK, self._size - position)) if position < self._size else b""
                position += len(pending)
                self._consumed += len(pending)
                if not pending:
                    return Stretch(start, position, "torn")
            try:
                out = inflater.decompress(pending, _OUT)
            except zlib.error as error:
                return Stretch(start, position, "damaged", str(error)[:100])
            pending = inflater.unconsumed_tail
            self._inflated += len(out)
            over = self._over()
            if over:
                return Stretch(start, position, "over", over)
            take(out)
        return Stretch(start, position - len(inflater.unused_data), "whole")

    def next_member(self, start: int) -> Optional[int]:
        """The next place at or behind ``start`` at which a member with the right kind of content begins."""
        for place in self._magics(start):
            if self._misses >= SEARCH_CAP:
                return None
            if self._begins(place):
                return place
            self._misses += 1
        return None

    def only_padding(self, start: int) -> bool:
        """Nothing but NULs follows, as tapes and some tools write."""
        self._stream.seek(start)
        while True:
            data = self._stream.read(_CHUNK)
            if not data:
                return True
            if data.strip(b"\0"):
                return False

    def _begins(self, place: int) -> bool:
        self._stream.seek(place)
        data = self._stream.read(_PROBE)
        self._consumed += len(data)
        try:
            return self._is_content(zlib.decompressobj(31).decompress(data, 1024))
        except zlib.error:
            return False

    def _magics(self, start: int) -> Iterator[int]:
        position = start
        while position < self._size:
            self._stream.seek(position)
            data = self._stream.read(_CHUNK)
            found = data.find(MAGIC)
            while found >= 0:
                yield position + found
                found = data.find(MAGIC, found + 1)
            if len(data) < _CHUNK:
                return
            # A magic may lie across the end of the piece.
            position += len(data) - len(MAGIC) + 1

    def _over(self) -> str:
        if self._inflated > INFLATED_CAP:
            return f"inflates to more than {INFLATED_CAP >> 20} MiB"
        if self._inflated > RATIO_FREE and self._inflated > RATIO_CAP * self._size:
            return f"inflates to more than {RATIO_CAP} times its size"
        if self._consumed > REREAD_CAP * self._size + (1 << 24):
            return "is so damaged that the search for its parts does not end"
        return ""
