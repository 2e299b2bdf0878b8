"""Filters without a language of their own: cut, tr, sort, uniq, head, tail, tac, paste, xargs as an echo, wc, cat."""

from __future__ import annotations

import getopt
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby

from gpudiag.shell.text.base import Lines, UnreadError, as_lines, number

_CLASSES = {
    "digit": "0123456789", "space": " \t\n\v\f\r", "blank": " \t", "upper": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "lower": "abcdefghijklmnopqrstuvwxyz",
}  # fmt: skip
_CLASSES["alpha"] = _CLASSES["upper"] + _CLASSES["lower"]
_CLASSES["alnum"] = _CLASSES["alpha"] + _CLASSES["digit"]
_CLASSES["punct"] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def _options(arguments: Sequence[str], short: str, long: Sequence[str] = ()) -> tuple[dict[str, str], list[str]]:
    try:
        options, operands = getopt.gnu_getopt(list(arguments), short, list(long))
    except getopt.GetoptError:
        raise UnreadError from None
    return {name.lstrip("-"): value for name, value in options}, operands


def _no_files(operands: Sequence[str]) -> None:
    if list(operands) not in ([], ["-"]):
        raise UnreadError


# -- columns ---------------------------------------------------------------------------------------------------


def cut(arguments: Sequence[str], lines: Lines) -> Lines:
    """``-d``, ``-f``, ``-c``, ``-s``. Raises ``UnreadError``."""
    given, operands = _options(arguments, "d:f:c:s", ("delimiter=", "fields=", "characters=", "only-delimited"))
    _no_files(operands)
    fields = given.get("f", given.get("fields"))
    characters = given.get("c", given.get("characters"))
    separator = given.get("d", given.get("delimiter", "\t"))
    if (fields is None) == (characters is None) or len(separator) != 1:
        raise UnreadError
    if characters is not None:
        if not all(line.isascii() for line in lines):
            raise UnreadError
        return tuple("".join(line[place] for place in _places(characters, len(line))) for line in lines)
    found: list[str] = []
    for line in lines:
        parts = line.split(separator)
        if len(parts) > 1:
            found.append(separator.join(parts[place] for place in _places(fields or "", len(parts))))
        elif not set(given) & {"s", "only-delimited"}:
            found.append(line)
    return tuple(found)


def _places(text: str, count: int) -> list[int]:
    """Places from 0 of a list such as ``1,3-5,7-``, in their own order."""
    places: set[int] = set()
    for part in re.split("[, ]", text):
        found = re.fullmatch(r"(\d{0,6})(-?)(\d{0,6})", part)
        if found is None or not (found[1] or found[3]) or "0" in (found[1], found[3]):
            raise UnreadError
        first = int(found[1] or "1")
        last = int(found[3]) if found[3] else (count if found[2] else first)
        if last < first:
            raise UnreadError
        places.update(range(first - 1, min(last, count)))
    return sorted(places)


def tr(arguments: Sequence[str], lines: Lines) -> Lines:
    """``-d``, ``-s``, ``-c`` and a translation, for ASCII. Raises ``UnreadError``."""
    given, sets = _options(arguments, "dscC", ("delete", "squeeze-repeats", "complement"))
    deletes, squeezes = bool(set(given) & {"d", "delete"}), bool(set(given) & {"s", "squeeze-repeats"})
    others = bool(set(given) & {"c", "C", "complement"})
    text = "\n".join(lines) + "\n" if lines else ""
    if not text.isascii() or len(sets) not in ((1,) if deletes else (1, 2) if squeezes else (2,)):
        raise UnreadError
    if deletes and squeezes:
        raise UnreadError
    first = _set(sets[0])
    if others:
        first = "".join(char for char in map(chr, range(128)) if char not in set(first))
    if deletes:
        return as_lines(text.translate(dict.fromkeys(map(ord, first))))
    if len(sets) == 1:
        return as_lines(_squeezed(text, first))
    second = _set(sets[1])
    if not second:
        raise UnreadError
    second = second[: len(first)] + second[-1] * (len(first) - len(second))
    text = text.translate({ord(one): other for one, other in reversed(list(zip(first, second, strict=True)))})
    return as_lines(_squeezed(text, second) if squeezes else text)


def _squeezed(text: str, chars: str) -> str:
    return "".join(char if char in chars else char * len(list(run)) for char, run in groupby(text))


def _set(text: str) -> str:
    """The characters of a set of tr."""
    found: list[str] = []
    for one in re.finditer(
        r"\[:(\w+):\]|(\\[ntrfv\\]|\\[0-7]{1,3}|[^\\])(?:-(\\[ntrfv\\]|\\[0-7]{1,3}|[^\\]))?|(.)", text, re.DOTALL
    ):
        if one[1] is not None:
            if one[1] not in _CLASSES:
                raise UnreadError
            found.append(_CLASSES[one[1]])
        elif one[4] is not None or (one[3] is None and one[2] == "[" and text[one.end() : one.end() + 1] in ("=", ".")):
            raise UnreadError
        elif one[3] is None:
            found.append(_char(one[2]))
        else:
            first, last = ord(_char(one[2])), ord(_char(one[3]))
            if last < first:
                raise UnreadError
            found.append("".join(map(chr, range(first, last + 1))))
    return "".join(found)


def _char(text: str) -> str:
    if len(text) == 1:
        return text
    if text[1] in "01234567":
        return chr(int(text[1:], 8) & 0x7F)
    return {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "\\": "\\"}[text[1]]


# -- lines -----------------------------------------------------------------------------------------------------


def head(arguments: Sequence[str], lines: Lines) -> Lines:
    """Its first lines. Raises ``UnreadError``."""
    count, from_end = _count(arguments)
    return lines[: len(lines) - count if from_end else count] if not from_end or count < len(lines) else ()


def tail(arguments: Sequence[str], lines: Lines) -> Lines:
    """Its last lines, or those from one on. Raises ``UnreadError``."""
    words = [re.sub(r"^(-n|--lines=)?\+", "+", word) for word in arguments]
    words = words[1:] if words[:1] == ["-n"] and words[1:2] and words[1].startswith("+") else words
    if len(words) == 1 and words[0].startswith("+"):
        return lines[max(0, number(words[0][1:]) - 1) :]
    count, _ = _count(arguments)
    return lines[len(lines) - count :] if 0 < count < len(lines) else (lines if count else ())


def _count(arguments: Sequence[str]) -> tuple[int, bool]:
    plain = [re.fullmatch(r"-\d{1,9}", word) and before not in ("-n", "--lines") for before, word in _pairs(arguments)]
    words = [f"-n{word[1:]}" if short else word for word, short in zip(arguments, plain, strict=True)]
    given, operands = _options(words, "n:q", ("lines=",))
    _no_files(operands)
    text = given.get("n", given.get("lines", "10"))
    return number(text.removeprefix("-")), text.startswith("-")


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each word with the one before it."""
    return zip(["", *words], words, strict=False)


def sort(arguments: Sequence[str], lines: Lines) -> Lines:
    """By number, or numbers only: the order of other text depends on the locale. Raises ``UnreadError``."""
    given, operands = _options(arguments, "nrughk:t:sb", ("numeric-sort", "reverse", "unique", "key=", "stable"))
    _no_files(operands)
    backwards, single = bool(set(given) & {"r", "reverse"}), bool(set(given) & {"u", "unique"})
    key = given.get("k", given.get("key"))
    if set(given) & {"g", "h", "t"}:
        raise UnreadError
    if key is not None:
        return _by_column(lines, key, by_number="n" in given, backwards=backwards, single=single)
    if "n" in given or "numeric-sort" in given:
        if single and not all(line.strip().isdecimal() for line in lines):
            raise UnreadError
        ordered = sorted(_alike(lines), key=lambda line: (_leading(line), line))
    else:
        ordered = sorted(_alike(lines))
    if single:
        ordered = list(dict.fromkeys(ordered))
    return tuple(reversed(ordered) if backwards else ordered)


def _alike(lines: Lines) -> Lines:
    """Lines that every locale orders in the same way."""
    if len(lines) > 1 and not all(re.fullmatch(r"[0-9]*", line) for line in lines):
        raise UnreadError
    return lines


def _leading(line: str) -> int:
    found = re.match(r"\s*(\d{1,15})", line)
    return int(found[1]) if found else 0


def _by_column(lines: Lines, key: str, *, by_number: bool, backwards: bool, single: bool) -> Lines:
    """``sort -k6 -n``: one column of numbers that are all different."""
    found = re.fullmatch(r"(\d{1,3})(?:,\1)?([nr]*)", key)
    if found is None or single or not (by_number or "n" in found[2]):
        raise UnreadError
    place = int(found[1]) - 1
    columns = [line.split() for line in lines]
    numbers = [int(parts[place]) for parts in columns if place < len(parts) and parts[place].isdecimal()]
    if len(numbers) != len(lines) or len(set(numbers)) != len(numbers):
        raise UnreadError
    ordered = [line for _, line in sorted(zip(numbers, lines, strict=True))]
    return tuple(reversed(ordered) if backwards or "r" in found[2] else ordered)


def uniq(arguments: Sequence[str], lines: Lines) -> Lines:
    """``-c``, ``-d``, ``-u``. Raises ``UnreadError``."""
    given, operands = _options(arguments, "cdu", ("count", "repeated", "unique"))
    _no_files(operands)
    runs = [(line, len(list(run))) for line, run in groupby(lines)]
    if set(given) & {"d", "repeated"}:
        runs = [run for run in runs if run[1] > 1]
    if set(given) & {"u", "unique"}:
        runs = [run for run in runs if run[1] == 1]
    counts = bool(set(given) & {"c", "count"})
    return tuple(f"{count:7} {line}" if counts else line for line, count in runs)


def tac(arguments: Sequence[str], lines: Lines) -> Lines:
    """Backwards."""
    _no_files(arguments)
    return lines[::-1]


def cat(arguments: Sequence[str], lines: Lines) -> Lines:
    """As it is."""
    _no_files(arguments)
    return lines


def paste(arguments: Sequence[str], lines: Lines) -> Lines:
    """``paste -sd' '``: one line. Raises ``UnreadError``."""
    given, operands = _options(arguments, "sd:", ("serial", "delimiters="))
    separator = given.get("d", given.get("delimiters", "\t"))
    if not set(given) & {"s", "serial"} or len(separator) != 1:
        raise UnreadError
    _no_files(operands)
    return (separator.join(lines),)


def wc(arguments: Sequence[str], lines: Lines) -> Lines:
    """``wc -l``. Raises ``UnreadError``."""
    if list(arguments) not in (["-l"], ["--lines"]):
        raise UnreadError
    return (str(len(lines)),)


def xargs(arguments: Sequence[str], lines: Lines) -> Lines:
    """Without a command, or with ``echo``: all words in one line, or so many in each. Raises ``UnreadError``."""
    words = [word for word in arguments if word not in ("-r", "--no-run-if-empty", "-t")]
    each = 0
    if words and (
        found := re.fullmatch(r"-(?:n|L)\s*(\d{1,5})", " ".join(words[:2])) or re.fullmatch(r"-n(\d{1,5})", words[0])
    ):
        each = number(found[1])
        words = words[1:] if re.fullmatch(r"-n\d+", words[0]) else words[2:]
    if words not in ([], ["echo"]) or (each and "-L" in arguments):
        raise UnreadError
    found_words = list(arguments_of(lines))
    if not found_words and "-r" not in arguments:
        return ("",)
    size = each or max(1, len(found_words))
    return tuple(" ".join(found_words[n : n + size]) for n in range(0, len(found_words), size))


def arguments_of(lines: Lines) -> Iterator[str]:
    """The arguments that xargs makes of lines: quotes and backslashes count. Raises ``UnreadError``."""
    for line in lines:
        if not set(line) & set("'\"\\"):
            yield from re.split(r"[ \t]+", line.strip(" \t")) if line.strip(" \t") else ()
            continue
        try:
            yield from shlex.split(line)
        except ValueError:
            raise UnreadError from None
