"""Where the commands of one typed line take effect, and which of several machines each part of an output is of."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import Iterator, List, Optional, Sequence, Tuple

from gpudiag.evidence.commands import TEXT_CAP, Part, bare, parts, split_words
from gpudiag.evidence.inside import Entry, entry
from gpudiag.kill_words import first_kill

_OBSERVES = re.compile(r"\b(?:nvidia-smi|ps|fuser|pgrep|lsof|gpustat|nvtop)\b")
_OBSERVERS = frozenset({"nvidia-smi", "ps", "fuser", "pgrep", "lsof", "gpustat", "nvtop", "watch"})
_SILENT = frozenset(
    {"cd", "export", "sleep", "set", "source", ".", "echo", "date", "clear", "true", "wait", "for", "done"}
)
_PRINTS = frozenset({"echo", "printf", "cat"})
_LOOP = re.compile(r"\bfor\s{1,9}(?P<name>\w{1,60})\s{1,9}in\s{1,9}(?P<words>[^;\n]{1,2000}?)\s{0,9}[;\n]\s{0,9}do\b")
_LITERAL = re.compile(r"[\w.@:-]{1,253}\Z")
_ANSIBLE = re.compile(
    r"(?P<host>[^\s|]{1,253}) \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE)!?(?: \| rc=(?P<rc>-?\d{1,3}) >>| => \{)"
)
_LABELLED = re.compile(r"(?P<host>[A-Za-z0-9][\w.\[\],-]{0,252}): ?(?P<line>.*)\Z", re.DOTALL)
_RULE = re.compile(r"-{5,}\Z")
_NODES = re.compile(r"(?P<host>[A-Za-z0-9][\w.\[\],-]{0,252})(?: \(\d{1,5}\))?\Z")
_LINE_CAP = 16384
_HOSTS_CAP = 64
"""Machines of one output that are told apart."""
_RANGE = re.compile(r"[\[\],*]")
"""In the name of a host: it is a list or a pattern of several."""
_TABLE = re.compile(r"\|\s*NVIDIA-SMI .{0,80}Driver Version")
_DECORATION = " \t=#*-:<>[]"


@dataclass(frozen=True)
class Section:
    """The part of an output that one machine printed."""

    host: str
    first: int
    """Index of its first line in the whole output."""
    lines: Tuple[str, ...]
    exit_code: Optional[int] = None


@dataclass(frozen=True)
class Seen:
    """What the output of a line shows."""

    entry: Optional[Entry]
    mixed: bool = False
    """Several places, and nothing tells which line is of which."""
    hosts: Tuple[str, ...] = ()
    """Machines that a loop goes through, one after the other."""


def killed_in(text: str) -> List[Optional[Entry]]:
    """Where the line's kill commands take effect: places in order, also of each round of a loop over machines."""
    found: List[Optional[Entry]] = []
    for pipeline in _pipelines(text):
        for part in pipeline:
            if first_kill(part.text) is not None:
                # What is only printed is for the shell at the end of the pipe: ``echo 'kill 7' | ssh h sh``.
                printed = _first_word(part.text) in _PRINTS
                found += _in_all_rounds(text, _entry_of(pipeline) if printed else entry(part.text))
    return list(dict.fromkeys(found)) or [entry(text)]


def _in_all_rounds(text: str, found: Optional[Entry]) -> List[Optional[Entry]]:
    rounds = _rounds(text, found)
    if found is None or rounds is None:
        return [found]
    port = (found.called or "")[len(found.host or "") :]
    return [replace(found, host=host, called=host + port) for host in rounds] or [
        replace(found, host=None, unnamed=True)
    ]


def seen_in(text: str) -> Seen:
    """Where what the output shows was looked at."""
    pipelines = [found for found in _pipelines(text) if len(found) > 1 or _first_word(found[0].text) not in _SILENT]
    led = [(found, _entry_of(found)) for found in pipelines]
    looking = [where for found, where in led if _looks(found, where)] or [where for _, where in led]
    places = list(dict.fromkeys(looking))
    if len(places) != 1:
        elsewhere = [where for where in places if where is not None and where.is_elsewhere]
        return Seen(None, mixed=bool(elsewhere))
    rounds = _rounds(text, places[0])
    if rounds is None:
        return Seen(places[0])
    return Seen(places[0], mixed=True, hosts=rounds)


def opened_by(text: str) -> Optional[Entry]:
    """Where the prompts behind the line may be: only its last command can be a shell that stays."""
    found = parts(text[:_LINE_CAP])
    return entry(found[-1].text) if found else None


def sections(seen: Seen, lines: Sequence[str]) -> List[Section]:
    """The output cut by the machines that printed it; empty where nothing names them."""
    if seen.hosts:
        return _in_rounds(seen.hosts, lines)
    if seen.entry is None or not seen.entry.many:
        return []
    return list(_under_headers(lines)) or list(_folded(lines)) or list(_labelled(lines))


def is_mixed(seen: Seen, lines: Sequence[str]) -> bool:
    """Output without any machine's name above it, that is of several or may be."""
    if seen.entry is None or not seen.entry.many:
        return seen.mixed
    return bool(_RANGE.search(seen.entry.host or "")) or sum(bool(_TABLE.match(line)) for line in lines) > 1


def _rounds(text: str, found: Optional[Entry]) -> Optional[Tuple[str, ...]]:
    """The machines of a loop whose variable names the host; empty where they are not written down.

    ``None``: the place does not depend on a loop.
    """
    if found is None or found.host is None or "$" not in found.host:
        return None
    loop = _LOOP.search(text[:TEXT_CAP])
    if loop is None:
        return () if re.search(r"\b(?:for|while|until)\b", text[:TEXT_CAP]) else None
    words = loop["words"].split()
    if found.host not in ("$" + loop["name"], "${" + loop["name"] + "}") or not all(map(_LITERAL.match, words)):
        return ()
    return tuple(word.rpartition("@")[2] for word in words)


def _pipelines(text: str) -> Iterator[List[Part]]:
    found: List[Part] = []
    for part in parts(text[:_LINE_CAP]):
        if found and not part.piped:
            yield found
            found = []
        found.append(part)
    if found:
        yield found


def _entry_of(pipeline: List[Part]) -> Optional[Entry]:
    """``echo kill | ssh h sh`` is about h; what only filters the text of the first command is about nothing."""
    return next((found for part in pipeline if (found := entry(part.text)) is not None and found.is_elsewhere), None)


def _looks(pipeline: List[Part], where: Optional[Entry]) -> bool:
    if where is not None:
        return any(_OBSERVES.search(part.text) for part in pipeline)
    return any(_first_word(part.text) in _OBSERVERS for part in pipeline)


def _first_word(text: str) -> str:
    words = bare(split_words(text[:TEXT_CAP]))
    return words[0].rpartition("/")[2] if words else ""


def _under_headers(lines: Sequence[str]) -> Iterator[Section]:
    """``node1 | CHANGED | rc=0 >>`` stands above what ansible brings from each machine."""
    heads = [(position, head) for position, line in enumerate(lines) if (head := _ANSIBLE.match(line)) is not None]
    for number, (position, head) in enumerate(heads):
        end = heads[number + 1][0] if number + 1 < len(heads) else len(lines)
        code = int(head["rc"]) if head["rc"] else None
        yield Section(head["host"], position + 1, tuple(lines[position + 1 : end]), code)


def _folded(lines: Sequence[str]) -> Iterator[Section]:
    """Between two rules stands who printed what follows (``clush -b``, ``dshbak -c``)."""
    heads: List[Tuple[int, str]] = []
    for position in range(1, len(lines) - 1):
        name = _NODES.match(lines[position])
        # The rule under one name is not the rule above the next.
        above = position - 1 if not heads or position - 1 > heads[-1][0] + 1 else -1
        if name is not None and above >= 0 and _RULE.match(lines[above]) and _RULE.match(lines[position + 1]):
            heads.append((position, name["host"]))
    for number, (position, host) in enumerate(heads):
        end = heads[number + 1][0] - 1 if number + 1 < len(heads) else len(lines)
        yield Section(host, position + 2, tuple(lines[position + 2 : end]))


def _labelled(lines: Sequence[str]) -> Iterator[Section]:
    """Every line begins with the name of its machine; each machine's lines are kept at their places in the text."""
    found = [(number, _LABELLED.match(line)) for number, line in enumerate(lines) if line.strip()]
    if not found or any(match is None for _, match in found):
        return
    hosts = dict.fromkeys(match["host"] for _, match in found if match is not None)
    for host in islice(hosts, _HOSTS_CAP):
        own = {number: match["line"] for number, match in found if match is not None and match["host"] == host}
        first, last = min(own), max(own)
        # Lines of several machines may be mixed: blank ones stand for those of others, so that line numbers stay true.
        yield Section(host, first, tuple(own.get(number, "") for number in range(first, last + 1)))


def _in_rounds(hosts: Sequence[str], lines: Sequence[str]) -> List[Section]:
    """``echo $h`` before each round: a line that is nothing but the name."""
    heads = [(number, word) for number, line in enumerate(lines) if (word := line.strip(_DECORATION)) in hosts]
    if [host for _, host in heads] != list(hosts):
        return []
    ends = [number for number, _ in heads[1:]] + [len(lines)]
    return [Section(host, number + 1, tuple(lines[number + 1 : end])) for (number, host), end in zip(heads, ends)]
