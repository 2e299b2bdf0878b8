"""Extended regular expressions exactly as this host's C library reads them.

Patterns come from untrusted text, and glibc can crash, hang or eat memory on them. Each one is therefore compiled and
run in a child process with limits; whatever happens to the child, the answer is an answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_MAX_PATTERN = 4096
"""Bytes; Linux allows longer arguments, nobody types them."""
_MAX_TEXT = 256 * 1024
_MAX_TOTAL = 16 * 1024 * 1024
_CPU_S = 2
_WALL_S = 6.0
_MEMORY = 768 * 1024 * 1024

_CHILD = r"""
import ctypes, json, locale, resource, sys
cpu, memory = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for name in ("C.UTF-8", "C.utf8", "en_US.UTF-8"):
    try:
        locale.setlocale(locale.LC_ALL, name)
        break
    except locale.Error:
        pass
libc = ctypes.CDLL(None)
job = json.loads(sys.stdin.buffer.read())
space = ctypes.create_string_buffer(1024)
EXTENDED, ICASE, NOSUB = 1, 2, 8
pattern = job["pattern"].encode("utf-8", "replace")
code = libc.regcomp(space, pattern, (EXTENDED if job["extended"] else 0) | NOSUB | (ICASE if job["ignore_case"] else 0))
if code:
    message = ctypes.create_string_buffer(200)
    libc.regerror(code, space, message, 200)
    print(json.dumps({"code": code, "error": message.value.decode("utf-8", "replace")}))
else:
    codes = [libc.regexec(space, text.encode("utf-8", "replace"), 0, None, 0) for text in job["texts"]]
    print(json.dumps({"codes": codes}))
"""
_NO_MATCH = 1
_OUT_OF_MEMORY = 12
"""``REG_ESPACE``: the limit set here was reached, which says nothing about the real tool."""


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
) -> list[bool | None] | RegexError:
    """Says for each text whether the pattern is found in it; ``None`` where the library could not decide.

    ``whole`` is what ``pkill -x`` does: the pattern goes between ``^(`` and ``)$``. ``extended`` off is grep's own
    dialect.
    """
    if len(pattern.encode("utf-8", "replace")) > _MAX_PATTERN:
        return RegexError(f"pattern longer than {_MAX_PATTERN} bytes", "unsafe")
    if "\0" in pattern:
        return RegexError("pattern with a NUL", "unsafe")
    if sum(map(len, texts)) > _MAX_TOTAL:
        return RegexError("too much text to match", "unsafe")
    anchored = f"^({pattern})$" if whole else pattern
    shown = tuple(text.replace("\0", " ")[:_MAX_TEXT] for text in texts)
    result = _run(anchored, shown, ignore_case, extended)
    if isinstance(result, RegexError):
        return result
    return [None if len(text) > _MAX_TEXT and hit is False else hit for text, hit in zip(texts, result, strict=True)]


@lru_cache(maxsize=64)
def _run(
    pattern: str, texts: tuple[str, ...], ignore_case: bool, extended: bool
) -> tuple[bool | None, ...] | RegexError:
    job = {"pattern": pattern, "texts": texts, "ignore_case": ignore_case, "extended": extended}
    command = [sys.executable, "-I", "-S", "-c", _CHILD, str(_CPU_S), str(_MEMORY)]
    try:
        done = subprocess.run(
            command, input=json.dumps(job).encode(), capture_output=True, timeout=_WALL_S, check=False
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return RegexError("took too long", "unsafe")
    except (OSError, ValueError):
        return RegexError("the C library did not survive the pattern, or is not usable here", "unsafe")
    if "error" in answer:
        return RegexError(str(answer["error"]), "unsafe" if answer["code"] == _OUT_OF_MEMORY else "invalid")
    verdicts = {0: True, _NO_MATCH: False}
    return tuple(verdicts.get(code) for code in answer["codes"])
