"""fuser -k (psmisc 23): everybody who has one of the named files open or mapped."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpudiag.shell.lines import Word
from gpudiag.shell.selection import Selection, Verdict
from gpudiag.shell.signals import KILL, number_of
from gpudiag.shell.tools.common import any_of, permitted, refused, same_user, unknown
from gpudiag.shell.world import Caller, Candidate, World

_FLAGS = "aIkisuvwfMVl46cm"
_NOT_EVALUATED = {"i": "asks before each kill", "m": "-m takes the whole file system", "c": "-c takes the file system"}


@dataclass(frozen=True)
class _Request:
    files: tuple[Word, ...]
    signal: int
    kill: bool
    flags: frozenset[str]
    space: str | None


def kills(words: Sequence[Word]) -> bool:
    """The command is a ``fuser -k``, not a look."""
    request = _request(words)
    return isinstance(request, _Request) and request.kill


def asked_for(words: Sequence[Word]) -> tuple[Word, ...]:
    """The files and ports that the command names; none where it is not understood."""
    request = _request(words)
    return request.files if isinstance(request, _Request) else ()


def select(words: Sequence[Word], world: World, caller: Caller) -> Selection:
    """``words[0]`` is fuser."""
    request = _request(words)
    if isinstance(request, str):
        return refused(world, caller, request, 1, signal=KILL)
    shown = " ".join(word.text or word.raw for word in request.files)
    why = next((text for flag, text in _NOT_EVALUATED.items() if flag in request.flags), None)
    sockets = request.space not in (None, "file") or any(
        "/tcp" in w.template or "/udp" in w.template for w in request.files
    )
    if sockets:
        why = "who holds a socket is not recorded"
    elif any(word.text is None for word in request.files):
        why = "a file name depends on a variable or on another command"
    elif not all((word.text or "").startswith("/dev/") for word in request.files):
        why = "only device files are recorded"
    if why is not None:
        return unknown(world, caller, why, signal=request.signal, pattern=shown)
    verdicts = tuple(_verdict(process, request.files, world, caller) for process in world.processes)
    reached = any_of(one.selected for one in verdicts)
    # Unlike pkill, fuser succeeds if a file is in use, whether or not the signal went through.
    code = 0 if reached else (1 if reached is False and world.complete else None)
    return Selection(verdicts, request.signal, exit_code=code, pattern=shown)


def _request(words: Sequence[Word]) -> _Request | str:
    files: list[Word] = []
    flags: set[str] = set()
    signal = KILL
    space: str | None = None
    position, only_files = 1, False
    while position < len(words):
        text = words[position].template
        position += 1
        if only_files or not text.startswith("-") or text == "-":
            files.append(words[position - 1])
        elif text == "--":
            only_files = True
        elif text.startswith("--"):
            flags.update({"--kill": "k", "--interactive": "i", "--mount": "m"}.get(text, ""))
        elif text in ("-n", "-n=") and position < len(words):
            space = words[position].text
            position += 1
        elif number_of(text[1:]) is not None and text[1:] not in _FLAGS:
            signal = number_of(text[1:]) or 0
        elif all(letter in _FLAGS for letter in text[1:]):
            flags.update(text[1:])
        else:
            return f"unknown option {text}"
    if not files:
        return "no process specification given"
    return _Request(tuple(files), signal, "k" in flags, frozenset(flags), space)


def named(path: str, files: Sequence[Word]) -> bool:
    """A recorded device file is one of those that the command names."""
    for word in files:
        pattern = word.text or ""
        if pattern == path or (word.glob and _glob(pattern, path)):
            return True
    return False


def _glob(pattern: str, path: str) -> bool:
    """A shell's ``*`` does not cross a slash."""
    if pattern.count("/") != path.count("/"):
        return False
    parts = zip(pattern.replace("[^", "[!").split("/"), path.split("/"), strict=True)
    return all(re.match(fnmatch.translate(wanted), part) is not None for wanted, part in parts)


def _verdict(process: Candidate, files: Sequence[Word], world: World, caller: Caller) -> Verdict:
    allowed = permitted(caller, process)
    held = (world.open_devices or {}).get(process.pid)
    sees = any_of((caller.is_root, same_user(caller, process)))
    if held is None and sees is False:
        return Verdict(process.pid, False, allowed, True, "only root sees the descriptors of another user")
    if held is None:
        return Verdict(process.pid, None, allowed, None, "what it has open was not recorded")
    if not any(named(path, files) for path in held):
        return Verdict(process.pid, False, allowed, False, "does not have one of the files open or mapped")
    if process.state == "Z":
        return Verdict(process.pid, False, allowed, False, "a zombie leader shows no descriptors in /proc/PID/fd")
    if sees is None:
        return Verdict(process.pid, None, allowed, None, "has one of the files open; who called fuser is not known")
    if not sees:
        because = "has one of the files open, but only root sees the descriptors of another user"
        return Verdict(process.pid, False, allowed, True, because)
    return Verdict(process.pid, True, allowed, False, "has one of the files open or mapped")
