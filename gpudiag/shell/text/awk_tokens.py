"""Tokens of an awk program."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpudiag.shell.text.base import UnreadError

_MAX_PROGRAM = 4096
_TOKEN = re.compile(
    r"(?P<blank>[ \t\r]+|\\\n|\#[^\n]*)|(?P<number>\d{1,15}(?:\.\d{1,15})?)|(?P<string>\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<mark>&&|\|\||!~|==|!=|<=|>=|\+\+|[-+*/%~!<>=(){}\[\],;$\n?:|&])"
)
_ERE = re.compile(r"/((?:[^/\\\n\[]|\\.|\[\^?\]?[^\]\n]*\])*)/")
_ENDS_A_VALUE = frozenset({"number", "string", "name", "ere"})
_WORDS = frozenset({"print", "printf", "if", "else", "next", "exit", "BEGIN", "END"})
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "/": "/"}


@dataclass(frozen=True)
class Token:
    """``kind``: ``number``, ``string``, ``name``, ``word`` (a keyword), ``ere``, ``mark`` or ``end``."""

    kind: str
    text: str


def tokens(program: str) -> list[Token]:
    """The program in pieces; raises ``UnreadError`` for what has no place in one that people type."""
    if len(program) > _MAX_PROGRAM:
        raise UnreadError
    found: list[Token] = []
    position = 0
    while position < len(program):
        ere = _ERE.match(program, position) if program[position] == "/" and not _after_value(found) else None
        if ere is not None:
            found.append(Token("ere", expression(ere[1])))
            position = ere.end()
            continue
        one = _TOKEN.match(program, position)
        if one is None:
            raise UnreadError
        kind = one.lastgroup or ""
        if kind == "string":
            found.append(Token(kind, unescaped(one[0][1:-1])))
        elif kind == "name":
            found.append(Token("word" if one[0] in _WORDS else "name", one[0]))
        elif kind != "blank":
            found.append(Token(kind, one[0]))
        position = one.end()
    return [*found, Token("end", "")]


def _after_value(found: list[Token]) -> bool:
    return bool(found) and (found[-1].kind in _ENDS_A_VALUE or found[-1].text in (")", "]"))


def unescaped(text: str) -> str:
    """A string's value. Raises ``UnreadError`` for an escape on which the awks differ."""

    def value(one: re.Match[str]) -> str:
        if one[1] not in _ESCAPES:
            raise UnreadError
        return _ESCAPES[one[1]]

    return re.sub(r"\\(.)", value, text, flags=re.DOTALL)


def expression(text: str) -> str:
    """A regular expression as the C library reads it. mawk knows no ``\\s`` and, in older versions, no ``{2}``."""
    text = text.replace("\\/", "/").replace('\\"', '"').replace("\\t", "\t")
    if re.search(r"\\[A-Za-z0-9<>`'&]|\{\d", text):
        raise UnreadError
    return text
