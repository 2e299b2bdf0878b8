"""Read a file with bounded memory, and tell text from something else."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

FILE_CAP = 64 * 1024 * 1024
"""Bytes of one file that are read at most."""

_MAGIC = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x1f\x8b", "a gzip file"),
    (b"PK\x03\x04", "a zip file"),
    (b"%PDF", "a PDF file"),
    (b"\x7fELF", "a program"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"SQLite format 3", "a database"),
)
_SNIFF = 8192
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


LONG_LOG = 4 * 1024 * 1024
"""Bytes from which on a log is left on disk and handed over as a path."""
_END = 65536
"""Bytes of its beginning and of its end that are looked at."""


@dataclass(frozen=True)
class FileText:
    """The content of one file, or why there is none."""

    text: Optional[str]
    cut: bool
    """The file is longer than the cap; the text is its beginning."""
    problem: Optional[str]


def read_text(path: Path, cap: int = FILE_CAP) -> FileText:
    """The text of a regular file; never waits for a pipe or a device."""
    try:
        descriptor = os.open(str(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return FileText(None, False, "is not a regular file")
            data = stream.read(cap + 1)
    except OSError as error:
        return FileText(None, False, f"cannot be read ({error.strerror or error})")
    return decoded(data[:cap], len(data) > cap)


def decoded(data: bytes, cut: bool) -> FileText:
    """The text that these bytes are, if they are text."""
    kind = binary_kind(data[:_SNIFF])
    if kind is not None:
        return FileText(None, False, f"is {kind}, not text")
    encoding = "utf-16" if data[:2] in _UTF16 else "utf-8-sig"
    return FileText(data.decode(encoding, "replace"), cut, None)


def head_of_long_log(path: Path) -> Optional[str]:
    """The beginning of a log that is better left on disk; ``None`` if the file is to be read as any other."""
    try:
        state = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(state.st_mode) or state.st_size <= LONG_LOG:
        return None
    head = read_text(path, _END).text
    # A log in UTF-16 has a NUL beside every letter; its reader would find nothing.
    return None if head is None or head[:_SNIFF].count("\0") * 4 > len(head[:_SNIFF]) else head


def tail_of(path: Path) -> str:
    """The end of a file that ``head_of_long_log`` took for a log; empty if it cannot be read any more."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _END))
            return stream.read(_END).decode("utf-8", "replace")
    except OSError:
        return ""


def binary_kind(head: bytes) -> Optional[str]:
    """What the first bytes show, if it is not text. NULs alone do not make a file binary (``cmdline`` has them)."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[:2] in _UTF16:
        return None
    control = sum(1 for byte in head if (byte < 32 and byte not in b"\0\t\n\r\x1b\x08\x0c") or byte == 127)
    return "binary data" if control * 10 > len(head) else None
