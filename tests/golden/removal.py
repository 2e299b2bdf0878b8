"""Evidence with parts taken away: what is left must never lead to a wrong PID or a cause out of nowhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

KILL_COMMANDS = "kill-commands.json"


@dataclass(frozen=True)
class Removal:
    """Which files are taken away, and what is cut out of others."""

    name: str
    gone: frozenset[str]
    """Members, with forward slashes."""
    without_handles: bool = False
    """Descriptors and mappings are cut out of the raw process files."""


def members(capture: Path) -> list[str]:
    """All files of a capture."""
    return sorted(path.relative_to(capture).as_posix() for path in capture.rglob("*") if path.is_file())


def _gpu(member: str) -> bool:
    base = member.rsplit("/", 1)[-1]
    return base.startswith(("nvidia-smi", "query-", "q.", "pmon", "nvml"))


def _processes(member: str) -> bool:
    return member.rsplit("/", 1)[-1].startswith(("ps-", "proc.json"))


def _handles(member: str) -> bool:
    return member.endswith("/fuser.txt")


def _actions(member: str) -> bool:
    return member == KILL_COMMANDS


def _trace(member: str) -> bool:
    return member.startswith(("trace", "format-"))


CLASSES: dict[str, Callable[[str], bool]] = {
    "gpu": _gpu,
    "processes": _processes,
    "handles": _handles,
    "actions": _actions,
    "trace": _trace,
}


def single_files(capture: Path) -> Iterator[Removal]:
    """Each file in turn."""
    for member in members(capture):
        yield Removal(member, frozenset({member}))


def classes(capture: Path) -> Iterator[Removal]:
    """Each class of evidence, and each pair of classes; only where the capture has something of it."""
    names = [name for name in CLASSES if _of_class(capture, name)]
    for n, first in enumerate(names):
        for second in names[n:]:
            kinds = {first, second}
            gone = frozenset(member for kind in kinds for member in _of_class(capture, kind))
            yield Removal("+".join(sorted(kinds)), gone, without_handles="handles" in kinds)


def _of_class(capture: Path, name: str) -> list[str]:
    return [member for member in members(capture) if CLASSES[name](member)]


def reduced(capture: Path, removal: Removal, target: Path) -> Path | None:
    """A copy of the capture without the removed parts; ``None`` if nothing is left."""
    left = [member for member in members(capture) if member not in removal.gone]
    for member in left:
        copy = target / member
        copy.parent.mkdir(parents=True, exist_ok=True)
        if removal.without_handles and member.endswith("proc.json"):
            copy.write_text(_without_handles(capture / member))
        else:
            shutil.copyfile(capture / member, copy)
    return target if left else None


def _without_handles(file: Path) -> str:
    processes: dict[str, dict[str, object]] = json.loads(file.read_text())
    for files in processes.values():
        files.pop("nvidia_fds", None)
        files.pop("nvidia_maps", None)
    return json.dumps(processes, indent=1)


def without_earlier_looks(capture: Path) -> Iterator[Removal]:
    """Most people collect only after the clean-up failed: alone, without recordings, without even the command."""
    before = {member for member in members(capture) if member.startswith("before/")}
    if not before:
        return
    recorded = {member for member in members(capture) if member in ("nvml-series.json", "server.log") or _trace(member)}
    yield Removal("after only", frozenset(before))
    yield Removal("after only, nothing recorded", frozenset(before | recorded))
    yield Removal("after only, command unknown", frozenset(before | recorded | {KILL_COMMANDS}))
