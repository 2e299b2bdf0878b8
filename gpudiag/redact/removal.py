"""Replace secrets by ``[redacted]`` and count them.

PIDs, names and the structure of a line stay: a value gives way, never the name before it or the mark behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from gpudiag.redact.hint import REDACTED, may_hold_secret
from gpudiag.redact.names import is_secret
from gpudiag.redact.patterns import (
    ASSIGNMENT,
    BEARER,
    COOKIE,
    END_OF_COMMAND,
    HEADER,
    HERE_STRING,
    NAMED_VALUE,
    NETRC,
    OPTION,
    PIPED,
    PRIVATE_KEY,
    PROGRAMS,
    QUERY,
    REACH,
    SENTENCE,
    SHAPES,
    URL,
    VARIABLE_PAIR,
    WEBHOOK,
    Program,
)

OPTION_VALUE, ASSIGNED, AUTHORIZATION, URL_CREDENTIALS, TOKEN = (
    "option value", "assigned value", "authorization header", "URL credential", "token",
)  # fmt: skip
"""Kinds under which removals are counted."""
_VALUES = (
    (HEADER, AUTHORIZATION), (BEARER, AUTHORIZATION), (NETRC, ASSIGNED), (PIPED, OPTION_VALUE),
    (HERE_STRING, OPTION_VALUE),
)  # fmt: skip
"""Expressions whose value may be quoted."""
_WHOLE = (
    (COOKIE, AUTHORIZATION), (URL, URL_CREDENTIALS), (QUERY, URL_CREDENTIALS), (WEBHOOK, URL_CREDENTIALS),
    (PRIVATE_KEY, TOKEN),
)  # fmt: skip
"""Expressions whose value is all of it secret."""
_NO_SECRET = re.compile(
    r"(?:None|null|True|False|true|false|\*{3,}|<[^>]{0,40}>|str|int|Optional\S{0,40})?[)\]},;.]{0,8}\Z"
)
"""What stands behind a secret's name when there is no secret."""
_MARKS_BEHIND = re.compile(r"[)\]},;|&\\]*\Z")
_MEASURE = re.compile(r"-?[\d.,]{1,20}(?:[a-z%/]{1,6})?\Z", re.IGNORECASE)
"""``token: 12.5ms``, ``token = 151643``: of a text, and measured."""
_SPLIT_WORD = re.compile(r"(?P<front>-{0,2}(?P<name>[A-Za-z_][\w.-]{1,80})=)(?P<value>.*)\Z", re.DOTALL)
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s/]{12,}\Z")
"""A further key of an option that takes several (vLLM's ``--api-key K1 K2``); no word of any language."""

_TAKEN_CAP = 1000
_TAKEN_LENGTH = 1024


class Removal:
    """Takes secrets out of texts that may hold some, and counts them."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """How many were taken out, by kind."""
        self.taken: set[str] = set()
        """Values that can be nothing but a secret, ``_TAKEN_CAP`` at most."""

    def assigned(self, value: str) -> str:
        """The value of a name that announces a secret."""
        return value if _NO_SECRET.match(value) else self._removed(value, ASSIGNED)

    def whole(self, value: str, kind: str) -> str:
        """A text that is a secret as a whole."""
        return self._removed(value, kind)

    def argv(self, words: Sequence[str]) -> list[str]:
        """An argument vector; as many words come back as were given."""
        result: list[str] = []
        option: str | None = None
        short: list[re.Pattern[str]] = []
        for position, word in enumerate(words):
            if option is not None and not word.startswith("-") and word:
                further = bool(result) and result[-1] == REDACTED
                if not further or (option.endswith(("key", "keys")) and _RANDOM.match(word)):
                    result.append(self._removed(word, OPTION_VALUE))
                    continue
            option = None
            name = word.lstrip("-")
            if word.startswith("-") and "=" not in word and is_secret(name):
                option = name
                result.append(word)
                continue
            short += _short_options(words, position)
            taken = next((match for found in short if (match := found.match(word))), None)
            if taken is None or word.startswith("--"):
                result.append(self._word(word))
                option = "" if taken is not None and taken.end() == len(word) else None
            elif taken.end() == len(word):
                option = ""
                result.append(word)
            else:
                result.append(word[: taken.end()] + self._removed(word[taken.end() :], OPTION_VALUE))
        return result

    def row(self, text: str) -> str:
        """A command line, a line of a tool's table, of JSON, or of a log."""
        if not may_hold_secret(text):
            return text
        for pattern, kind in _VALUES:
            if pattern.may_match(text.casefold()):
                text = pattern.compiled.sub(partial(self._value, kind=kind), text)
        for pattern, kind in _WHOLE:
            if pattern.may_match(text.casefold()):
                text = pattern.compiled.sub(partial(self._whole, kind=kind), text)
        text = self._named(text)
        text = self._short(text)
        if SENTENCE.may_match(text.casefold()):  # What is no option's and no variable's value may be one in words.
            text = SENTENCE.compiled.sub(partial(self._whole, kind=ASSIGNED), text)
        if SHAPES.may_match(text.casefold()):
            text = SHAPES.compiled.sub(lambda match: self._removed(match[0], TOKEN), text)
        return text

    def _word(self, word: str) -> str:
        """One argument: an assignment goes to its end, blanks and quotes included."""
        match = _SPLIT_WORD.match(word)
        if match is None or not is_secret(match["name"]) or _NO_SECRET.match(match["value"]):
            return self.row(word)
        kind = OPTION_VALUE if word.startswith("-") else ASSIGNED
        return match["front"] + self._removed(match["value"], kind)

    def _named(self, text: str) -> str:
        """Values behind names. Behind a name that announces nothing the search goes on at once."""
        for pattern, kind in ((VARIABLE_PAIR, ASSIGNED), (ASSIGNMENT, ASSIGNED), (OPTION, OPTION_VALUE)):
            if not pattern.may_match(text.casefold()):
                continue
            pieces: list[str] = []
            begin = position = 0
            while (name := pattern.compiled.search(text, position)) is not None:
                position = name.end()
                value = NAMED_VALUE.compiled.match(text, position) if is_secret(name["name"]) else None
                if value is None or not _is_value(name, value["value"], kind):
                    continue
                pieces += (text[begin:position], self._taken(value["value"], kind))
                begin = position = value.end()
                if kind == OPTION_VALUE and name["name"].endswith(("key", "keys")):
                    begin = position = self._further(text, begin, pieces)
            text = "".join(pieces) + text[begin:]
        return text

    def _further(self, text: str, position: int, pieces: list[str]) -> int:
        """More keys behind the first one."""
        while (match := _NEXT_WORD.match(text, position)) is not None and _RANDOM.match(match["word"]):
            pieces += (match["gap"], self._removed(match["word"], OPTION_VALUE))
            position = match.end()
        return position

    def _short(self, text: str) -> str:
        folded = text.casefold()
        for program in PROGRAMS:
            if program.in_text.may_match(folded):
                text = self._short_of(program, text)
        return text

    def _short_of(self, program: Program, text: str) -> str:
        search = program.in_text.compiled.search
        found = search(text)
        while found is not None:
            end = END_OF_COMMAND.search(text, found.end(), found.end() + REACH)
            stop = end.start() if end is not None else min(len(text), found.end() + REACH)
            replaced = partial(self._value, kind=OPTION_VALUE)
            region = program.option_in_text.compiled.sub(replaced, text[found.end() : stop])
            text = text[: found.end()] + region + text[stop:]
            found = search(text, found.end() + len(region))
        return text

    def _value(self, match: re.Match[str], kind: str) -> str:
        return match["front"] + self._taken(match["value"], kind)

    def _whole(self, match: re.Match[str], kind: str) -> str:
        return match["front"] + self._removed(match["value"], kind)

    def _taken(self, value: str, kind: str) -> str:
        """What is left of a value: quotes around it, marks behind it."""
        if value.startswith(REDACTED):
            return value
        front = back = ""
        marks = _MARKS_BEHIND.search(value)
        if marks is not None and marks.start() > 0:
            value, back = value[: marks.start()], marks[0]
        if back.startswith("\\") and value.startswith('\\"'):
            value, back = value + back[0], back[1:]
        for quote in ('\\"', '"', "'"):
            if value.startswith(quote) and value.endswith(quote) and len(value) >= 2 * len(quote):
                front, value, back = quote, value[len(quote) : -len(quote)], quote + back
                break
        return front + (self._removed(value, kind) if value else "") + back

    def _removed(self, value: str, kind: str) -> str:
        if value != REDACTED:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            if len(self.taken) < _TAKEN_CAP and len(value) < _TAKEN_LENGTH and _RANDOM.match(value):
                self.taken.add(value)
        return REDACTED


def _is_value(name: re.Match[str], text: str, kind: str) -> bool:
    """What stands behind the secret's name is one."""
    value = text.strip("'\"\\")
    if _NO_SECRET.match(value):
        return False
    measured = kind == ASSIGNED and name["sign"] != "=" and name["name"].lower().endswith(("token", "auth", "pass"))
    return not (measured and _MEASURE.match(value.rstrip(",;)]}")))


_NEXT_WORD = re.compile(r"(?P<gap>[ \t\x00]|\\u0000)(?P<word>(?!-)(?:(?!\\u0000)[^\s\x00'\";|&<>()\\]){12,512})")


def _short_options(words: Sequence[str], position: int) -> list[re.Pattern[str]]:
    """Options of the program that this word names, if it names one."""
    word = words[position].rpartition("/")[2]
    pair = f"{word} {words[position + 1]}" if position + 1 < len(words) else word
    folded = pair.casefold()
    named = [program for program in PROGRAMS if program.word.may_match(folded)]
    found = [p for p in named if p.word.compiled.match(word) or p.word.compiled.match(pair)]
    return [program.option_word.compiled for program in found]
