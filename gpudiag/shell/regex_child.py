"""Compiles and runs patterns in the C library, each in a forked process with limits. Started by ``regex``.

Reads frames (four bytes of length, then JSON) from standard input and answers each with one. Standard library only: it
runs with ``-I -S``.
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


def main() -> None:
    cpu_s, wall_s, memory = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    libc = ctypes.CDLL(None)
    for name in ("C.UTF-8", "C.utf8", "en_US.UTF-8"):
        try:
            locale.setlocale(locale.LC_ALL, name)
            break
        except locale.Error:
            continue
    texts: list[bytes] = []
    while True:
        size = sys.stdin.buffer.read(4)
        if len(size) < 4:
            return
        job = json.loads(sys.stdin.buffer.read(int.from_bytes(size, "big")))
        if "texts" in job:
            texts = [text.encode("utf-8", "replace") for text in job["texts"]]
        if "library" in job:
            _answer({"library": _library(libc)})
        else:
            _answer(_limited(libc, job, texts, (cpu_s, wall_s, memory)))


def _library(libc: ctypes.CDLL) -> str | None:
    version = getattr(libc, "gnu_get_libc_version", None)
    if version is None:
        return None
    version.restype = ctypes.c_char_p
    return f"glibc {version().decode()}"


def _answer(answer: dict[str, Any] | None) -> None:
    frame = json.dumps(answer).encode()
    sys.stdout.buffer.write(len(frame).to_bytes(4, "big") + frame)
    sys.stdout.buffer.flush()


def _limited(
    libc: ctypes.CDLL, job: dict[str, Any], texts: list[bytes], limits: tuple[int, float, int]
) -> dict[str, Any] | None:
    """The answer of a forked process; ``None`` if it crashed, ``{"late": …}`` if it ran into a time limit."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            cpu_s, wall_s, memory = limits
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            signal.setitimer(signal.ITIMER_REAL, wall_s)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(json.dumps(_evaluate(libc, job, texts)).encode())
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        written = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGXCPU, signal.SIGKILL):
        return {"late": True}
    return json.loads(written) if status == 0 else None


def _evaluate(libc: ctypes.CDLL, job: dict[str, Any], texts: list[bytes]) -> dict[str, Any]:
    if job["perl"]:
        return _perl(job, texts)
    pattern = job["pattern"].encode("utf-8", "replace")
    if job["locale"] == "C" or (pattern.isascii() and all(map(bytes.isascii, texts))):
        # Where everything is ASCII both locales agree, and this one is several times faster.
        locale.setlocale(locale.LC_ALL, "C")
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
        return {"codes": [], "spans": [_spans(libc, compiled, text) for text in texts]}
    return {"codes": [run(compiled, text, 0, None, 0) for text in texts]}


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
    return {"codes": [], "spans": spans}


if __name__ == "__main__":
    main()
