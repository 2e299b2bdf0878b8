"""The concrete syntax tree of shell text, made in bounded time."""

from __future__ import annotations

import re

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

MAX_TEXT = 64 * 1024
"""Characters; a longer line is no kill command."""
_MAX_PIPES = 400
"""The grammar needs quadratic time for long pipelines."""
_MAX_HEREDOCS = 200
_MAX_REPAIRED = 8 * 1024
_REPAIRS = ('"', "'", ")", '")', "`", "; done", "; fi", "; }")
"""What a line that was cut off most often lacks."""

_parser = Parser(Language(tree_sitter_bash.language()))


def refuse(text: str) -> str | None:
    """Why this text is not parsed at all; ``None`` if it is."""
    if len(text) > MAX_TEXT:
        return f"longer than {MAX_TEXT} characters"
    if text.count("|") > _MAX_PIPES:
        return f"more than {_MAX_PIPES} pipes"
    if text.count("<<") > _MAX_HEREDOCS:
        return f"more than {_MAX_HEREDOCS} here-documents"
    return None


def parse(text: str) -> tuple[Node, bytes, str | None]:
    """Root node, the bytes it refers to, and what had to be added to make it whole."""
    source = text.encode("utf-8", "replace")
    root = _parser.parse(source).root_node
    if not root.has_error:
        return root, source, None
    # `((a); b)` is a sub-shell in a sub-shell; the grammar takes it for arithmetic.
    apart = re.sub(rb"(?<![$(])\(\((?!\()", b"( (", source)
    if apart != source and not (again := _parser.parse(apart).root_node).has_error:
        return again, apart, None
    for ending in _REPAIRS if len(source) <= _MAX_REPAIRED else ():
        longer = source + ending.encode()
        repaired = _parser.parse(longer).root_node
        if not repaired.has_error:
            return repaired, longer, ending
    return root, source, None


def text_of(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")
