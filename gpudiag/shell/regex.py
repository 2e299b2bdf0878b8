"""Extended regular expressions exactly as this host's C library reads them.

Patterns come from untrusted text, and glibc can crash, hang or eat memory on them. Each one is therefore compiled and
run in a worker with limits, which a helper process forks (``regex_child``); whatever happens to it, the answer is an
answer. A pattern without operators means the same in every dialect and needs no library (``plain``).
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpudiag.redact.hint import REDACTED
from gpudiag.shell import plain
from gpudiag.shell.literals import required

_MAX_PATTERN = 4096
"""Bytes; Linux allows longer arguments, nobody types them."""
_MAX_TEXT = 256 * 1024
_MAX_TOTAL = 16 * 1024 * 1024
_MAX_FOUND = 1024 * 1024
_CPU_S = 1
_WALL_S = 1.8
_MEMORY = 512 * 1024 * 1024
_GRACE_S = 2.0
"""What the helper itself may take, its start included."""
_CHILD = Path(__file__).with_name("regex_child.py")
_MEANINGS = {"+": True, "-": False}
_OUT_OF_MEMORY = 12
"""``REG_ESPACE``: the limit set here was reached, which says nothing about the real tool."""
_DIED = "the C library did not survive the pattern, or is not usable here"


Spans = tuple[tuple[int, int], ...]
"""Start and end of a match and of its groups, in characters; -1 for a group that took no part."""


@dataclass(frozen=True)
class RegexError:
    """The pattern gave no answer."""

    message: str
    kind: str
    """``invalid``: the library refuses it, so the tool does too. ``unsafe``: it was not, or not safely, evaluated."""


def match(
    pattern: str,
    texts: Sequence[str],
    *,
    ignore_case: bool = False,
    whole: bool = False,
    extended: bool = True,
    locale: str = "UTF-8",
    libc: str | None = None,
) -> list[bool | None] | RegexError:
    """Says for each text whether the pattern is found in it; ``None`` where the library could not decide.

    ``whole`` is what ``pkill -x`` does: the pattern goes between ``^(`` and ``)$``. ``extended`` off is grep's own
    dialect. ``locale`` is ``UTF-8`` or ``C``, where each byte is a character of its own. ``libc`` is the library that
    the pattern was meant for, where that is known (``glibc 2.36``).
    """
    if len(pattern.encode("utf-8", "replace")) > _MAX_PATTERN:
        return RegexError(f"pattern longer than {_MAX_PATTERN} bytes", "unsafe")
    if "\0" in pattern:
        return RegexError("pattern with a NUL", "unsafe")
    if REDACTED in pattern:
        # What stands there now is no more what was typed, and in an expression it would be a class of letters.
        return RegexError("part of the pattern was taken out as a secret", "unsafe")
    shown = _shown(tuple(texts))
    if shown is None:
        return RegexError("too much text to match", "unsafe")
    simple = plain.compiled(pattern, ignore_case=ignore_case, whole=whole) if extended else None
    if simple is not None and (locale != "C" or all(map(str.isascii, shown.texts))):
        hits: list[bool | None] = [simple(text) for text in shown.texts]
    elif (libc or "glibc").partition(" ")[0] != (library() or "other").partition(" ")[0]:
        # Another library than the host's reads operators, classes and mistakes in its own way.
        return RegexError(
            f"the host's C library is {libc or 'probably glibc'}, this one is {library() or 'not'}", "unsafe"
        )
    else:
        answer = _run(f"^({pattern})$" if whole else pattern, shown.texts, ignore_case, extended, locale)
        if isinstance(answer, RegexError):
            return answer
        hits = list(answer)
    for number in shown.cut:
        hits[number] = hits[number] or None
    return hits


def find(
    pattern: str, texts: Sequence[str], *, ignore_case: bool = False, extended: bool = True, perl: bool = False
) -> list[list[Spans]] | RegexError:
    """Says for each text where the pattern matches, from left to right.

    ``perl`` is ``grep -P``, as far as Python's engine means the same by it.
    """
    if len(pattern.encode("utf-8", "replace")) > _MAX_PATTERN or "\0" in pattern or any("\0" in one for one in texts):
        return RegexError("too long, or with a NUL", "unsafe")
    if sum(map(len, texts)) > _MAX_FOUND:
        return RegexError("too much text to match", "unsafe")
    return _find(pattern, tuple(texts), ignore_case, extended, perl)


@lru_cache(maxsize=256)
def _find(
    pattern: str, texts: tuple[str, ...], ignore_case: bool, extended: bool, perl: bool
) -> list[list[Spans]] | RegexError:
    job: dict[str, object] = {"pattern": pattern, "ignore_case": ignore_case, "extended": extended, "locale": "UTF-8"}
    answer = _answer({**job, "spans": True, "perl": perl, "needs": []}, texts)
    if isinstance(answer, RegexError):
        return answer
    spans = answer["spans"]
    if len(spans) != len(texts) or None in spans:
        return RegexError(_DIED, "unsafe")
    return [[tuple((start, end) for start, end in groups) for groups in found] for found in spans]


@dataclass(frozen=True)
class _Shown:
    texts: tuple[str, ...]
    cut: tuple[int, ...]
    """Numbers of the texts that were too long; a miss there proves nothing."""


@lru_cache(maxsize=8)
def _shown(texts: tuple[str, ...]) -> _Shown | None:
    """What the library gets to see; ``None`` if it is too much. Many patterns go over the same process table."""
    if sum(map(len, texts)) > _MAX_TOTAL:
        return None
    cut = tuple(number for number, text in enumerate(texts) if len(text) > _MAX_TEXT)
    return _Shown(tuple(text[:_MAX_TEXT].replace("\0", " ") for text in texts), cut)


def library() -> str | None:
    """``glibc 2.36``: whose dialect this is; ``None`` for any other C library than the GNU one."""
    answer = _library()
    return answer if isinstance(answer, str) else None


@lru_cache(maxsize=1)
def _library() -> object:
    return (_helper.ask({"library": True}) or {}).get("library")


@lru_cache(maxsize=1024)
def _run(
    pattern: str, texts: tuple[str, ...], ignore_case: bool, extended: bool, locale: str
) -> tuple[bool | None, ...] | RegexError:
    job: dict[str, object] = {"pattern": pattern, "ignore_case": ignore_case, "extended": extended, "locale": locale}
    needs = [] if ignore_case or not extended else required(pattern)
    answer = _answer({**job, "spans": False, "perl": False, "needs": needs}, texts)
    if isinstance(answer, RegexError):
        return answer
    codes = answer["codes"]
    if len(codes) != len(texts):
        return RegexError(_DIED, "unsafe")
    return tuple(map(_MEANINGS.get, codes))


def _answer(job: Mapping[str, object], texts: tuple[str, ...]) -> dict[str, Any] | RegexError:
    answer = _helper.ask(job, texts)
    if answer is None:
        return RegexError(_DIED, "unsafe")
    if "late" in answer:
        return RegexError("took too long", "unsafe")
    if "error" in answer:
        return RegexError(str(answer["error"]), "unsafe" if answer["code"] == _OUT_OF_MEMORY else "invalid")
    return answer


class _Helper:
    """The helper process: started when first needed, and again after it died or fell silent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._texts: tuple[str, ...] | None = None

    def ask(self, job: Mapping[str, object], texts: tuple[str, ...] = ()) -> dict[str, Any] | None:
        """The helper's answer; ``None`` if there is none."""
        with self._lock:
            try:
                process = self._started()
                # Many patterns go over the same process table: it is sent once.
                send = {} if texts == self._texts else {"texts": texts}
                self._texts = texts
                _write(process, json.dumps({**job, **send}).encode())
                answer = _read(process, time.monotonic() + _WALL_S + _GRACE_S)
            except (OSError, ValueError):
                answer = None
            if answer is None:
                self.stop()
            return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and (self._owner != os.getpid() or self._process.poll() is not None):
            self.stop()
        if self._process is None:
            command = [sys.executable, "-I", "-S", str(_CHILD), str(_CPU_S), str(_WALL_S), str(_MEMORY)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._owner = os.getpid()
        return self._process

    def stop(self) -> None:
        """Ends the helper. A forked copy of this program only forgets it."""
        process, self._process, self._texts = self._process, None, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue
        process.wait()


def _write(process: subprocess.Popen[bytes], frame: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(len(frame).to_bytes(4, "big") + frame)
    process.stdin.flush()


def _read(process: subprocess.Popen[bytes], until: float) -> dict[str, Any] | None:
    assert process.stdout is not None
    size = _exactly(process.stdout.fileno(), 4, until)
    if size is None:
        return None
    frame = _exactly(process.stdout.fileno(), int.from_bytes(size, "big"), until)
    return None if frame is None else json.loads(frame)


def _exactly(descriptor: int, size: int, until: float) -> bytes | None:
    parts: list[bytes] = []
    while size > 0:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
        part = os.read(descriptor, size) if ready else b""
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


_helper = _Helper()
atexit.register(_helper.stop)
