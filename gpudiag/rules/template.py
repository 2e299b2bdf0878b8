"""The wording of a finding: literal text, ``{placeholder}`` and ``[an optional part with a {placeholder}]``.

There are no format specifications, no attribute access and no loops, so a rule file cannot compute. A value is
put in once and never read as a template again: a process named ``{pids}`` stays that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_PART = re.compile(r"\{([a-z_]+)\}|\[([^\[\]]*)\]|[^{}\[\]]+")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")

UNKNOWN = "unknown"
"""Stands for a value that no row knows, outside an optional part."""


def problem(template: str) -> str | None:
    """What is wrong with the template's form, or ``None``."""
    position = 0
    for part in _PART.finditer(template):
        if part.start() != position:
            break
        position = part.end()
        optional = part.group(2)
        if optional is not None and not _PLACEHOLDER.search(optional):
            return f"the optional part [{optional}] has no placeholder"
        if optional is not None and re.search(r"[{}]", _PLACEHOLDER.sub("", optional)):
            return f"the optional part [{optional}] has a brace that is no {{placeholder}}"
    if position != len(template):
        return f"cannot be read from {template[position : position + 20]!r} on"
    return None


def placeholders(template: str) -> tuple[str, ...]:
    """The names that stand in braces, in order of appearance."""
    return tuple(match.group(1) for match in _PLACEHOLDER.finditer(template))


def render(template: str, value_of: Callable[[str], str | None]) -> str:
    """The text with its values; ``value_of`` gives ``None`` for what is not known."""
    return "".join(_pieces(template, value_of))


def _pieces(template: str, value_of: Callable[[str], str | None]) -> Iterator[str]:
    for part in _PART.finditer(template):
        name, optional = part.group(1), part.group(2)
        if name is not None:
            value = value_of(name)
            yield UNKNOWN if value is None else value
        elif optional is None:
            yield part.group(0)
        elif all(value_of(inner) is not None for inner in placeholders(optional)):
            yield _PLACEHOLDER.sub(lambda match: value_of(match.group(1)) or "", optional)
