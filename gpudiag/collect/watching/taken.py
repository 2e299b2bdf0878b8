"""``watch.jsonl``: what a flight recorder has seen on this machine until now, from its ring into the bundle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from gpudiag.collect.identity import own
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Ended, Out
from gpudiag.collect.watching.known import Row
from gpudiag.collect.watching.ring import PART, segments

_CAP = 12 << 20
"""Bytes of the newest segments that are taken along."""
_HEAD_CAP = 1 << 16
_SNAPSHOT_ENDS = (b'{"is":"all"}\n', PART)


class Taken(NamedTuple):
    """Segments of one ring, oldest first."""

    files: tuple[Path, ...]
    left: int
    """Older ones that are not taken along."""
    others: int
    """Of another boot or PID namespace."""


def lines(taken: Taken) -> Iterator[bytes]:
    """Whole lines. What a segment repeats of the one before it is left out."""
    for number, path in enumerate(taken.files):
        try:
            file = _opened(path)
        except OSError:
            continue  # It was the oldest, and has just made room.
        with file:
            head = file.readline(_HEAD_CAP)
            repeats = number > 0 and _header(head).get("goes_on") is True
            if not repeats:
                yield head
            for line in file:
                if not line.endswith(b"\n"):
                    break  # It is being written, or its writer was killed.
                if not repeats:
                    yield line
                elif line in _SNAPSHOT_ENDS:
                    repeats = False


def found(machine: Machine, looked: Sequence[str]) -> Taken | None:
    """The ring of this boot and PID namespace; ``None``: there is none. ``OSError``: it may not be read."""
    here = own(machine.proc)
    denied: OSError | None = None
    others = 0
    for folder in looked:
        try:
            files = segments(Path(folder))
        except FileNotFoundError:
            continue
        except OSError as error:
            denied = error
            continue
        same = [file for file in files if _of(file) == (here.boot_id, here.pid_namespace)]
        others += len(files) - len(same)
        if same:
            newest = _newest(same)
            return Taken(newest, len(same) - len(newest), others)
    if denied is not None:
        raise denied
    return Taken((), 0, others) if others else None


def produce(machine: Machine, looked: Sequence[str], out: Out) -> None:
    """The lines of the ring in one of these folders."""
    try:
        taken = found(machine, looked)
    except OSError as error:
        raise Ended("denied", f"{error.filename}: {error.strerror}; root can read the flight recorder's ring") from None
    if taken is None:
        raise Ended("absent", "gpudiag watch has recorded nothing yet")
    if not taken.files:
        raise Ended("absent", "the flight recorder's ring is of another boot or PID namespace")
    for line in lines(taken):
        out.line(line.rstrip(b"\n").decode("utf-8", "replace"))
    if taken.left:
        raise Ended("ok", f"{taken.left} older parts of the ring were left where they are")


def _newest(files: list[Path]) -> tuple[Path, ...]:
    kept: list[Path] = []
    total = 0
    for file in reversed(files):
        try:
            total += file.stat().st_size
        except OSError:
            continue
        if kept and total > _CAP:
            break
        kept.append(file)
    return tuple(reversed(kept))


def _of(path: Path) -> tuple[object, object]:
    try:
        with _opened(path) as file:
            header = _header(file.readline(_HEAD_CAP))
    except OSError:
        return None, None
    return header.get("boot_id"), header.get("pid_namespace")


def _opened(path: Path) -> BinaryIO:
    # The folder of a user who called sudo is not root's: a link there could name any file.
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb")


def _header(line: bytes) -> Row:
    try:
        value: object = json.loads(line)
    except ValueError:
        return {}
    row = cast("Row", value) if isinstance(value, dict) else {}
    return row if row.get("is") == "ring" else {}
