"""Cut a stream of bytes into the files of a tar archive. Links, devices and names that lead elsewhere are refused."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Tuple

from gpudiag.bundle.format import BLOCK, SOURCE_CAP, name_problem

HEADERS_CAP = 10_000
"""Entries of any kind, refused ones and folders included."""
_LONG_NAME_CAP = 65536
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a named pipe",
    b"S": "a sparse file",
}
_FILES = (b"0", b"\0", b"7")
_SKIPPED = (b"g", b"K", b"V")
"""Entries that only describe: defaults of the archive, a long link target, the name of the volume."""


@dataclass
class Entry:
    """One file of the archive."""

    name: str
    size: int
    kept: bytearray
    """Its beginning, at most ``SOURCE_CAP`` bytes."""
    seen: int = 0
    sha256: str = ""
    """Of all its bytes; empty while some are missing."""

    @property
    def whole(self) -> bool:
        """All its bytes were there."""
        return self.seen == self.size


@dataclass
class _Body:
    """What lies behind a header and is still to come."""

    left: int
    padding: int
    take: Callable[[bytes], None]
    done: Callable[[], None]


@dataclass
class Tarred:
    """State of the reading. Entries are provisional until ``accept``: the bytes may yet turn out to be damaged."""

    room: int
    """Bytes of files that may still be kept."""
    entries: List[Entry] = field(default_factory=lambda: list[Entry]())
    refused: List[Tuple[str, str]] = field(default_factory=lambda: list[Tuple[str, str]]())
    """Name and reason of what was not taken."""
    full: bool = False
    """More headers than a reader takes; what follows is skipped."""
    _accepted: int = 0
    _headers: int = 0
    _lost: bool = False
    _waiting: bytearray = field(default_factory=bytearray)
    _body: Optional[_Body] = None
    _open: Optional[Entry] = None
    _extended: Dict[str, str] = field(default_factory=lambda: dict[str, str]())

    @property
    def unfinished(self) -> bool:
        """An entry has begun and not ended."""
        return self._open is not None

    def take(self, data: bytes) -> None:
        """Read on."""
        view = memoryview(data)
        while view and not self.full:
            if self._body is not None:
                view = self._into_body(self._body, view)
            elif self._waiting or len(view) < BLOCK:
                wanted = BLOCK - len(self._waiting)
                self._waiting += view[:wanted]
                view = view[wanted:]
                if len(self._waiting) == BLOCK:
                    block, self._waiting = bytes(self._waiting), bytearray()
                    self._header(block)
            else:
                self._header(bytes(view[:BLOCK]))
                view = view[BLOCK:]

    def accept(self) -> None:
        """What was read so far is right."""
        self._accepted = len(self.entries)

    def drop(self) -> List[str]:
        """Forget what was not accepted and expect a header; the names of what is lost."""
        lost = self.entries[self._accepted :] + ([self._open] if self._open is not None else [])
        del self.entries[self._accepted :]
        self.room += sum(len(entry.kept) for entry in lost)
        self._restart()
        return [entry.name for entry in lost]

    def salvage(self) -> None:
        """The file ends here: keep the beginning of the entry that was being read."""
        if self._open is not None:
            self.entries.append(self._open)
        self._restart()
        self.accept()

    def _restart(self) -> None:
        self._waiting = bytearray()
        self._body = None
        self._open = None
        self._extended = {}
        self._lost = False

    def _into_body(self, body: _Body, view: memoryview) -> memoryview:
        if body.left:
            part = view[: body.left]
            body.take(bytes(part))
            body.left -= len(part)
            view = view[len(part) :]
            if not body.left:
                body.done()
        skipped = min(body.padding, len(view)) if not body.left else 0
        body.padding -= skipped
        if not body.left and not body.padding:
            self._body = None
        return view[skipped:]

    def _header(self, block: bytes) -> None:
        if not block.strip(b"\0"):
            return
        size = header_size(block)
        if size is None:
            if not self._lost:
                self.refused.append(("", "a place in it is no tar header; what belongs to it was not read"))
            self._lost = True
            return
        self._lost = False
        self._headers += 1
        if self._headers > HEADERS_CAP:
            self.full = True
            return
        kind = block[156:157]
        if kind in (b"L", b"x") and size <= _LONG_NAME_CAP:
            self._extension(kind, size)
            return
        if kind in _SKIPPED or kind in (b"L", b"x"):
            self._skip(size)
            return
        name = self._extended.get("path") or _name(block)
        size = _extended_size(self._extended, size)
        self._extended = {}
        self._file(kind, name[2:] if name.startswith("./") else name, size)

    def _file(self, kind: bytes, name: str, size: int) -> None:
        if kind == b"5":
            self._skip(size)
            return
        problem = name_problem(name)
        if kind not in _FILES:
            problem = f"it is {_KINDS.get(kind, 'of an unknown kind')}"
        if problem is not None:
            self.refused.append((_printable(name), f"not read: {problem}"))
            self._skip(size)
            return
        entry = Entry(name, size, bytearray())
        digest = hashlib.sha256()

        def take(data: bytes) -> None:
            digest.update(data)
            part = data[: max(0, min(SOURCE_CAP - len(entry.kept), self.room))]
            entry.kept += part
            entry.seen += len(data)
            self.room -= len(part)

        def done() -> None:
            entry.sha256 = digest.hexdigest()
            self.entries.append(entry)
            self._open = None

        self._open = entry
        self._expect(size, take, done)

    def _extension(self, kind: bytes, size: int) -> None:
        text = bytearray()

        def done() -> None:
            if kind == b"L":
                self._extended["path"] = text.rstrip(b"\0").decode("utf-8", "replace")
            else:
                self._extended.update(_pax(bytes(text)))

        self._expect(size, text.extend, done)

    def _skip(self, size: int) -> None:
        self._expect(size, lambda _: None, lambda: None)

    def _expect(self, size: int, take: Callable[[bytes], None], done: Callable[[], None]) -> None:
        if size:
            self._body = _Body(size, -size % BLOCK, take, done)
        else:
            done()


def header_size(block: bytes) -> Optional[int]:
    """Size of the file that a header describes; ``None`` if the block is no header of a tar archive."""
    if len(block) < BLOCK or block[257:262] != b"ustar":
        return None
    stated = _octal(block[148:156])
    return _octal(block[124:136]) if stated == sum(block[:148]) + 8 * 32 + sum(block[156:BLOCK]) else None


def _octal(raw: bytes) -> Optional[int]:
    if raw[:1] == b"\x80":
        return int.from_bytes(raw[1:], "big")
    digits = raw.strip(b"\0 ")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else None


def _name(block: bytes) -> str:
    name, prefix = block[:100].split(b"\0", 1)[0], block[345:500].split(b"\0", 1)[0]
    # GNU's own header has times where ustar has the prefix.
    joined = prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name
    return joined.decode("utf-8", "replace")


def _pax(data: bytes) -> Dict[str, str]:
    """The records ``length key=value`` of an extended header."""
    found: Dict[str, str] = {}
    while data:
        digits, _, _ = data.partition(b" ")
        if not digits.isdigit() or len(digits) > 6 or not 0 < int(digits) <= len(data):
            break
        record, data = data[len(digits) + 1 : int(digits) - 1], data[int(digits) :]
        key, _, value = record.partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return found


def _extended_size(extended: Dict[str, str], size: int) -> int:
    text = extended.get("size", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else size


def _printable(name: str) -> str:
    """A name that a report can show: bounded, without control characters."""
    return "".join(char if char.isprintable() else "\ufffd" for char in name[:200])
