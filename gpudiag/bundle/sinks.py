"""Where the gzip members of a bundle go: a file that gets its name at the end, or a pipe."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import ContextManager, Generator, Protocol

PARTIAL = ".partial"
"""Stands behind the name of a bundle that has no end, or none yet."""


class Sink(Protocol):
    """Takes a bundle member by member."""

    def member(self) -> ContextManager[None]:
        """Around the writing of one gzip member; what happens to the part of one that fails is the sink's matter."""
        ...

    def put(self, data: bytes) -> None:
        """All of these bytes, or ``OSError``."""
        ...

    def finish(self) -> None:
        """The bundle has its end."""
        ...

    def close(self) -> None:
        """The bundle has no end."""
        ...


class PartialFile:
    """A file with ``.partial`` behind its name until it is finished; a member is in it whole or not at all."""

    def __init__(self, path: Path, sync: bool = False) -> None:
        """Create it, readable by its owner only; it may not exist yet, under neither name.

        ``sync``: wait after every member until the disk has it.
        """
        if os.path.lexists(str(path)):
            raise FileExistsError(f"{path} exists already")
        self._path = path
        self._partial = partial_path(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(str(self._partial), flags, 0o600), "wb", buffering=0)
        self._sync = sync

    @contextmanager
    def member(self) -> Generator[None, None, None]:
        """After a full disk the file ends where it ended before."""
        begin = self._file.tell()
        try:
            yield
            if self._sync:
                os.fsync(self._file.fileno())
        except BaseException:
            self._file.truncate(begin)
            self._file.seek(begin)
            raise

    def put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) or 0 :]

    def finish(self) -> None:
        self._file.close()
        os.rename(str(self._partial), str(self._path))  # noqa: PTH104 - Path.rename is the same call

    def close(self) -> None:
        self._file.close()


class Stream:
    """A descriptor that cannot be cut back. A member that failed half-way is the last: nothing may follow a cut."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._cut = False

    @contextmanager
    def member(self) -> Generator[None, None, None]:
        try:
            yield
        except BaseException:
            self._cut = True
            raise

    def put(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._cut:
            view = view[os.write(self._descriptor, view) :]

    def finish(self) -> None:
        """Its reader sees the end."""

    def close(self) -> None:
        """Its reader sees that there is no end."""


def partial_path(path: Path) -> Path:
    """The name of a bundle without an end."""
    return path.with_name(path.name + PARTIAL)
