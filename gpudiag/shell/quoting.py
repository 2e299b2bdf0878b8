"""Text as shells and procps write it: quote removal, brace expansion, joining, escaping."""

from __future__ import annotations

import re

from gpudiag.shell.lines import FIRST_LIST_HOLE, HOLE, MAX_LISTS, Substitution, Word

_PRIVATE = re.compile(f"[{HOLE}-{chr(FIRST_LIST_HOLE + MAX_LISTS)}]")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_ANSI_C = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_MAX_BRACE_WORDS = 64

LITERAL, QUOTED, EXPANDED = 0, 1, 2
"""Origin of a character: written bare, written in quotes, or put there by an unquoted expansion."""
Chars = list[tuple[str, int]]


def sanitise(text: str) -> str:
    """Text without NULs, lone surrogates and the characters that mark unknown pieces."""
    plain = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return _PRIVATE.sub("\ufffd", plain)


def has_holes(template: str) -> bool:
    return _PRIVATE.search(template) is not None


def show_holes(template: str) -> str:
    """A template for reading and matching: U+FFFD for each unknown piece."""
    return _PRIVATE.sub("\ufffd", template)


def hole_parts(template: str) -> list[str]:
    """The known pieces between the unknown ones."""
    return _PRIVATE.split(template)


def as_procps(cmdline: str) -> str:
    """A command line the way ps and pgrep show it: a newline is a space, other control characters are ``?``."""
    return _CONTROL.sub("?", cmdline.replace("\n", " "))


def comm_as_procps(comm: str) -> str:
    """A comm the same way: a newline, too, is ``?`` there."""
    return as_procps(comm.replace("\n", "?"))


def literal(text: str, raw: str | None = None) -> Word:
    clean = sanitise(text)
    return Word(text=clean, raw=text if raw is None else raw, template=clean)


def join(words: tuple[Word, ...]) -> Word:
    """Several arguments joined by blanks, as ssh sends them and as a command line is printed."""
    lists: list[Substitution] = []
    pieces: list[str] = []
    for word in words:
        offset = len(lists)
        pieces.append("".join(_moved(char, offset) for char in word.template))
        lists.extend(word.substitutions)
    template = " ".join(pieces)
    return Word(
        text=None if has_holes(template) else template,
        raw=" ".join(word.raw for word in words),
        substitutions=tuple(lists[:MAX_LISTS]),
        template=template,
    )


def _moved(char: str, offset: int) -> str:
    number = list_number(char)
    if number is None:
        return char
    return chr(FIRST_LIST_HOLE + number + offset) if number + offset < MAX_LISTS else HOLE


def list_number(char: str) -> int | None:
    """Which substitution a character of a template stands for."""
    number = ord(char) - FIRST_LIST_HOLE
    return number if 0 <= number < MAX_LISTS else None


def unescape_bare(text: str) -> Chars:
    """Unquoted text: a backslash quotes the next character and swallows a newline."""
    out: Chars = []
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and position + 1 < len(text):
            if text[position + 1] != "\n":
                out.append((text[position + 1], QUOTED))
            position += 2
            continue
        out.append((char, LITERAL))
        position += 1
    return out


def unescape_double(text: str) -> Chars:
    """Text between double quotes: a backslash matters before ``$``, backquote, ``"``, itself and a newline only."""
    value = re.sub(r'\\([$`"\\\n])', lambda found: "" if found[1] == "\n" else found[1], text)
    return [(char, QUOTED) for char in value]


def unescape_ansi_c(text: str) -> Chars:
    """The inside of ``$'…'``."""

    def value(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] in "01234567":
            return sanitise(chr(int(code, 8) & 0xFF))
        if code[0] in "xuU":
            number = int(code[1:], 16)
            return sanitise(chr(number)) if number < 0x110000 else "\ufffd"
        return _ANSI_C.get(code, code if code in "\\'\"?" else "\\" + code)

    pattern = r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|.)"
    return [(char, QUOTED) for char in re.sub(pattern, value, text, flags=re.DOTALL)]


def brace_words(chars: Chars) -> list[Chars]:
    """``a{1,2}b`` and ``a{0..3}`` written bare become several words, as in bash; dash leaves them."""
    done: list[Chars] = []
    waiting = [chars]
    while waiting and len(done) + len(waiting) <= _MAX_BRACE_WORDS:
        word = waiting.pop(0)
        parts = _split_brace(word)
        if parts is None:
            done.append(word)
        else:
            waiting[:0] = parts
    return done if not waiting else [chars]


def _split_brace(word: Chars) -> list[Chars] | None:
    bare = "".join(char if origin == LITERAL else "\0" for char, origin in word)
    found = re.search(r"\{([^{},]*(?:,[^{},]*)+|-?\d{1,4}\.\.-?\d{1,4})\}", bare)
    if found is None:
        return None
    before, after = word[: found.start()], word[found.end() :]
    inside = word[found.start() + 1 : found.end() - 1]
    return [before + part + after for part in _brace_parts(found[1], inside)]


def _brace_parts(bare: str, inside: Chars) -> list[Chars]:
    if "," not in bare:
        first, last = (int(number) for number in bare.split(".."))
        numbers = range(first, last + 1) if first <= last else range(first, last - 1, -1)
        return [[(char, LITERAL) for char in str(number)] for number in numbers[: _MAX_BRACE_WORDS + 1]]
    parts: list[Chars] = [[]]
    for char in inside:
        if char == (",", LITERAL):
            parts.append([])
        else:
            parts[-1].append(char)
    return parts


def split_fields(chars: Chars) -> list[Chars]:
    """Splits at blanks that an unquoted expansion put there."""
    fields: list[Chars] = [[]]
    for char, origin in chars:
        if origin == EXPANDED and char in " \t\n":
            if fields[-1]:
                fields.append([])
        else:
            fields[-1].append((char, origin))
    return fields if fields[-1] or len(fields) == 1 else fields[:-1]
