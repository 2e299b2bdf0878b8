"""Foreign text as one word of a POSIX shell, of characters that print: a command is read before it is pasted."""

from __future__ import annotations

import shlex


def quoted(text: str) -> str:
    """The word. What does not print, or turns the direction of the text, is written as octal bytes for ``printf``.

    Line ends at the very end are lost then, as in every command substitution: a comparison fails, and nothing is done.
    """
    if text.isprintable():
        return shlex.quote(text)
    # printf would take a dash at the beginning for an option.
    first = _octal(text[0]) if text[0] == "-" else _written(text[0])
    return "\"$(printf '" + first + "".join(map(_written, text[1:])) + "')\""


def _written(character: str) -> str:
    return character if character.isprintable() and character not in "\\%'" else _octal(character)


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in _bytes(character))


def _bytes(character: str) -> bytes:
    """Those of the sick machine, which need not be UTF-8."""
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00])
    return character.encode("utf-8", "surrogatepass")
