"""Patterns without operators. They mean the same in every dialect and take linear time, so no C library is asked.

That is what people type most: ``vllm.entrypoints``, ``[v]llm``, ``^python -m vllm``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_LITERAL = r"[\w \-/:=,@%~#&;<>!\"'`.]"
_BRACKET = r"\[\^?[\w/:=,@%]+\]"
_ESCAPED = r"\\[.\[\]*+?(){}|^$/]"
_PLAIN = re.compile(rf"\^?(?:{_LITERAL}|{_BRACKET}|{_ESCAPED})*\$?", re.ASCII)


def compiled(pattern: str, *, ignore_case: bool = False, whole: bool = False) -> Callable[[str], bool] | None:
    """A test for one text, or ``None`` if the pattern has more than letters, ``.``, plain brackets and anchors."""
    if len(pattern) > 256 or not pattern.isascii():
        return None
    return _compiled(pattern, ignore_case, whole)


@lru_cache(maxsize=1024)
def _compiled(pattern: str, ignore_case: bool, whole: bool) -> Callable[[str], bool] | None:
    if _PLAIN.fullmatch(pattern) is None or "[:" in pattern or "[=" in pattern:
        return None
    if not ignore_case and not whole and not re.search(r"[.\[\\^$]", pattern):
        return lambda text: pattern in text
    anchored = pattern[:-1] + r"\Z" if pattern.endswith("$") and not pattern.endswith(r"\$") else pattern
    anchored = rf"\A(?:{anchored})\Z" if whole else anchored
    flags = re.DOTALL | re.ASCII | (re.IGNORECASE if ignore_case else 0)
    search = re.compile(anchored, flags).search
    return lambda text: search(text) is not None
