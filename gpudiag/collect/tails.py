"""The end of a file of any size, read without following what should not be followed."""

from __future__ import annotations

import os
import stat

TAIL = 4 << 20
"""Bytes that are read from the end of a log or a history."""


def tail(path: str, size: int = TAIL, *, follow: bool = True) -> tuple[list[bytes], bool]:
    """The last whole lines of a regular file, and whether something before them was left out.

    ``OSError`` where it cannot be read or is no regular file: a pipe or a terminal is not opened at all, because
    opening one has consequences. ``follow``: a link is good, too; what root reads in folders of
    others should be none.
    """
    before = os.stat(path, follow_symlinks=follow)  # noqa: PTH116
    if not stat.S_ISREG(before.st_mode):
        raise OSError(f"{path} is not a regular file")
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is not a regular file")
        end = file.seek(0, os.SEEK_END)
        begin = max(0, end - size)
        file.seek(begin)
        # Whoever writes to it goes on; only what was there is read.
        lines = file.read(end - begin).split(b"\n")
    if begin:
        lines = lines[1:]
    if lines and not lines[-1]:
        lines.pop()
    return lines, begin > 0
