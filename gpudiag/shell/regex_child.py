"""Compiles and runs patterns in the C library, in a forked worker with limits. Started by ``regex``.

Reads frames (four bytes of length, then JSON) from standard input and answers each with one. Standard library only: it
runs with ``-I -S``.

The worker takes one pattern after the other, because a fork costs more than most patterns; one that crashes it, or runs
into a limit, costs the worker and nothing else. After a while a new one takes over.
"""

from __future__ import annotations

import ctypes
import json
import locale
import os
import re
import resource
import signal
import sys
from typing import Any

_EXTENDED, _ICASE, _NOSUB = 1, 2, 8
_STARTEND = 4
"""Look at a part of the text and still see what stands before it."""
_GROUPS = 10
_JOBS_A_WORKER = 200
_UTF_8 = ("C.UTF-8", "C.utf8", "en_US.UTF-8")
_Limits = tuple[int, float, int]


def main() -> None:
    limits = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    libc = ctypes.CDLL(None)
    texts: list[bytes] = []
    worker: _Worker | None = None
    while True:
        frame = _read(sys.stdin.fileno())
        if frame is None:
            return
        job = json.loads(frame)
        if "texts" in job:
            texts = [text.encode("utf-8", "replace") for text in job.pop("texts")]
            worker = worker and worker.end()
        if "library" in job:
            _write(sys.stdout.fileno(), {"library": _library(libc)})
            continue
        if worker is None or worker.jobs >= _JOBS_A_WORKER:
            worker = worker and worker.end()
            worker = _Worker(libc, texts, limits)
        answer = worker.ask(job)
        if answer is None or "late" in answer:
            worker = None
        _write(sys.stdout.fileno(), answer)


class _Worker:
    """A forked copy of this program that knows the texts."""

    def __init__(self, libc: ctypes.CDLL, texts: list[bytes], limits: _Limits) -> None:
        self.jobs = 0
        there, self.to = os.pipe()
        self.back, here = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.to)
            os.close(self.back)
            try:
                _work(libc, texts, limits, there, here)
            finally:
                os._exit(1)
        os.close(there)
        os.close(here)

    def ask(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; ``None`` if it crashed, ``{"late": …}`` if it ran into a time limit. Then the worker is gone."""
        self.jobs += 1
        try:
            _write(self.to, job)
            frame = _read(self.back)
        except OSError:
            frame = None
        if frame is not None:
            return json.loads(frame)
        status = self._gone()
        late = (signal.SIGALRM, signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL)
        return {"late": True} if os.WIFSIGNALED(status) and os.WTERMSIG(status) in late else None

    def _gone(self) -> int:
        os.close(self.to)
        os.close(self.back)
        return os.waitpid(self.pid, 0)[1]

    def end(self) -> None:
        """It leaves when nobody writes to it any more."""
        self._gone()


def _work(libc: ctypes.CDLL, texts: list[bytes], limits: _Limits, reader: int, writer: int) -> None:
    """One job after the other; each has its own time, which the kernel ends."""
    cpu_s, wall_s, memory = limits
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s * _JOBS_A_WORKER, cpu_s * _JOBS_A_WORKER))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    ascii_only = all(map(bytes.isascii, texts))
    while True:
        frame = _read(reader)
        if frame is None:
            os._exit(0)
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        signal.setitimer(signal.ITIMER_REAL, wall_s)
        answer = _evaluate(libc, json.loads(frame), texts, ascii_only)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(writer, answer)


def _read(descriptor: int) -> bytes | None:
    size = _exactly(descriptor, 4)
    return None if size is None else _exactly(descriptor, int.from_bytes(size, "big"))


def _exactly(descriptor: int, size: int) -> bytes | None:
    parts: list[bytes] = []
    while size > 0:
        part = os.read(descriptor, size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(descriptor: int, answer: dict[str, Any] | None) -> None:
    frame = json.dumps(answer).encode()
    frame = len(frame).to_bytes(4, "big") + frame
    while frame:
        frame = frame[os.write(descriptor, frame) :]


def _library(libc: ctypes.CDLL) -> str | None:
    version = getattr(libc, "gnu_get_libc_version", None)
    if version is None:
        return None
    version.restype = ctypes.c_char_p
    return f"glibc {version().decode()}"


def _evaluate(libc: ctypes.CDLL, job: dict[str, Any], texts: list[bytes], ascii_only: bool) -> dict[str, Any]:
    if job["perl"]:
        return _perl(job, texts)
    pattern = job["pattern"].encode("utf-8", "replace")
    # Where everything is ASCII both locales agree, and C is several times faster.
    plain = job["locale"] == "C" or (pattern.isascii() and ascii_only)
    _set_locale(("C",) if plain else _UTF_8)
    space = ctypes.create_string_buffer(1024)
    chosen = ((_EXTENDED, job["extended"]), (_NOSUB, not job["spans"]), (_ICASE, job["ignore_case"]))
    flags = sum(flag for flag, wanted in chosen if wanted)
    code = libc.regcomp(space, pattern, flags)
    if code:
        message = ctypes.create_string_buffer(200)
        libc.regerror(code, space, message, 200)
        return {"code": code, "error": message.value.decode("utf-8", "replace")}
    run, compiled = libc.regexec, ctypes.addressof(space)
    run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int]
    if job["spans"]:
        answer = {"codes": "", "spans": [_spans(libc, compiled, text) for text in texts]}
    else:
        answer = {"codes": _codes(run, compiled, texts, [[one.encode() for one in choice] for choice in job["needs"]])}
    libc.regfree(space)
    return answer


def _codes(run: Any, compiled: int, texts: list[bytes], needs: list[list[bytes]]) -> str:
    """One character a text: found, not found, not told. A text that lacks every text of a choice cannot match."""
    left = list(range(len(texts)))
    for choice in needs:
        found = [[place for place in left if need in texts[place]] for need in choice]
        left = found[0] if len(found) == 1 else sorted({place for places in found for place in places})
    codes = ["-"] * len(texts)
    for place in left:
        code = run(compiled, texts[place], 0, None, 0)
        codes[place] = "+-"[code] if code in (0, 1) else "?"
    return "".join(codes)


def _set_locale(names: tuple[str, ...]) -> None:
    for name in names:
        try:
            locale.setlocale(locale.LC_ALL, name)
            return
        except locale.Error:
            continue


class _Match(ctypes.Structure):
    _fields_ = [("start", ctypes.c_int), ("end", ctypes.c_int)]


def _spans(libc: ctypes.CDLL, compiled: int, text: bytes) -> list[list[list[int]]] | None:
    """Where it matches, one after the other, with its groups, in characters; ``None`` if the library could not tell."""
    found: list[list[list[int]]] = []
    room = (_Match * _GROUPS)()
    position = 0
    while position <= len(text):
        room[0].start, room[0].end = position, len(text)
        code = libc.regexec(compiled, text, _GROUPS, ctypes.addressof(room), _STARTEND)
        if code != 0:
            return found if code == 1 else None
        groups = [[one.start, one.end] for one in room]
        start, end = groups[0]
        # An empty match right behind another one is none.
        if start < end or not found or found[-1][0][1] != start:
            found.append(groups)
        position = end if end > start else end + 1
    return [[[_characters(text, at) for at in group] for group in groups] for groups in found]


def _characters(text: bytes, position: int) -> int:
    return position if position < 0 else len(text[:position].decode("utf-8", "replace"))


def _perl(job: dict[str, Any], texts: list[bytes]) -> dict[str, Any]:
    """``grep -P``, as far as Python means the same: what it does not know is an error, which decides nothing."""
    flags = re.ASCII | (re.IGNORECASE if job["ignore_case"] else 0)
    before, keep, after = job["pattern"].partition("\\K")
    compiled = re.compile(f"(?:{before})(?P<kept>{after})" if keep else before, flags)
    spans: list[list[list[list[int]]]] = []
    for text in texts:
        found = [one.span("kept" if keep else 0) for one in compiled.finditer(text.decode("utf-8", "replace"))]
        spans.append([[list(span)] for span in found])
    return {"codes": "", "spans": spans}


if __name__ == "__main__":
    main()
