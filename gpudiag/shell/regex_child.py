"""Compiles and runs patterns in the C library, each in a forked process with limits. Started by ``regex``.

Reads frames (four bytes of length, then JSON) from standard input and answers each with one. Standard library only: it
runs with ``-I -S``.
"""

from __future__ import annotations

import ctypes
import json
import locale
import os
import resource
import signal
import sys
from typing import Any

_EXTENDED, _ICASE, _NOSUB = 1, 2, 8


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
    pattern = job["pattern"].encode("utf-8", "replace")
    if job["locale"] == "C" or (pattern.isascii() and all(map(bytes.isascii, texts))):
        # Where everything is ASCII both locales agree, and this one is several times faster.
        locale.setlocale(locale.LC_ALL, "C")
    space = ctypes.create_string_buffer(1024)
    flags = (_EXTENDED if job["extended"] else 0) | _NOSUB | (_ICASE if job["ignore_case"] else 0)
    code = libc.regcomp(space, pattern, flags)
    if code:
        message = ctypes.create_string_buffer(200)
        libc.regerror(code, space, message, 200)
        return {"code": code, "error": message.value.decode("utf-8", "replace")}
    run, compiled = libc.regexec, ctypes.addressof(space)
    run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int]
    return {"codes": [run(compiled, text, 0, None, 0) for text in texts]}


if __name__ == "__main__":
    main()
