"""``docker ps`` as a table or with a template, and ``docker inspect`` with one; podman and nerdctl print the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from gpudiag.model import Container
from gpudiag.parse.columns import cells
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import pid_of

ENGINES = frozenset({"docker", "podman", "nerdctl"})
_HEADING = re.compile(r"CONTAINER ID\s+IMAGE\s+COMMAND\s+CREATED\s+STATUS\s+")
_ID = re.compile(r"[0-9a-f]{12}(?:[0-9a-f]{52})?\s")
_PLACEHOLDER = re.compile(r"\{\{\s*(?:json\s+)?\.([\w.]{1,60})\s*\}\}")
_TEMPLATE_CAP = 2000
_FIELDS = {
    "ID": "id", "Id": "id", "Names": "name", "Name": "name", "Image": "image", "Config.Image": "image",
    "Status": "status", "State": "status", "State.Status": "status", "State.Pid": "main_pid",
    "HostConfig.RestartPolicy.Name": "restart",
}  # fmt: skip
_WITH_BLANKS = frozenset({"Status", "Ports", "Command", "RunningFor", "CreatedAt", "Mounts", "Labels", "Networks"})


def verb(shown: Shown) -> str | None:
    """``ps``, ``top``, ``inspect`` … of an engine's command line; ``None`` for another tool."""
    if shown.tool not in ENGINES:
        return None
    words = [word for word in shown.argv[1:] if not word.startswith("-")]
    if words[:1] == ["container"]:
        words = words[1:]
    found = words[0] if words else None
    return "ps" if found == "ls" else found


def operands(shown: Shown) -> list[str]:
    """What stands behind the verb, options and their values left out as far as they can be told."""
    words = list(shown.argv[1:])
    name = next(
        (position for position, word in enumerate(words) if not word.startswith("-") and word != "container"), 0
    )
    found: list[str] = []
    skip = False
    for word in words[name + 1 :]:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = "=" not in word and word in ("-f", "--format", "--filter", "--type", "-n", "--last")
        else:
            found.append(word)
    return found


def table_rows(segment: Segment) -> Iterator[Row]:
    """One container a line."""
    heading = segment.lines[0]
    for offset, line in enumerate(segment.lines):
        if _HEADING.match(line):
            heading = line
        elif _ID.match(line):
            found = cells(heading, line)
            yield Container(
                at=segment.place,
                cited=segment.cite(offset),
                id=line.split(None, 1)[0],
                name=found.get("NAMES") or None,
                image=found.get("IMAGE") or None,
                status=found.get("STATUS") or None,
            )
    yield segment.coverage("containers", complete=_lists_all_running(segment.shown))


def template_rows(segment: Segment) -> Iterator[Row]:
    """One container a line that the template fits."""
    shown = segment.shown
    pattern = _pattern(template_of(shown)) if shown is not None else None
    if shown is None or pattern is None:
        return
    names = operands(shown) if verb(shown) == "inspect" else []
    number = 0
    for offset, line in enumerate(segment.lines):
        match = pattern[0].match(line)
        if match is None:
            continue
        values = dict(zip(pattern[1], match.groups(), strict=True))
        yield _container(segment, offset, values, names[number] if number < len(names) else None)
        number += 1
    yield segment.coverage("containers", complete=verb(shown) == "ps" and _lists_all_running(shown))


def _container(segment: Segment, offset: int, values: Mapping[str, str], asked: str | None) -> Container:
    found = {_FIELDS[name]: value.strip() for name, value in values.items() if name in _FIELDS}
    return Container(
        at=segment.place,
        cited=segment.cite(offset),
        id=found.get("id") or None,
        name=(found.get("name") or asked or "").removeprefix("/") or None,
        image=found.get("image") or None,
        status=found.get("status") or None,
        main_pid=pid_of(found.get("main_pid", "")),
        restart=found.get("restart") or None,
    )


def _lists_all_running(shown: Shown | None) -> bool | None:
    if shown is None:
        return None
    return not shown.filtered and not any(word.startswith(("-f", "--filter", "-n", "-l", "--l")) for word in shown.argv)


def template_of(shown: Shown) -> str | None:
    """The Go template that the command prints with."""
    if verb(shown) not in ("ps", "inspect"):
        return None
    names = ("--format", "-f") if verb(shown) == "inspect" else ("--format",)
    words = [*shown.argv, ""]
    for position, word in enumerate(words[:-1]):
        if word in names:
            return words[position + 1]
        if word.startswith("--format="):
            return word.partition("=")[2]
    return None


@lru_cache(maxsize=64)
def _pattern(template: str | None) -> tuple[re.Pattern[str], tuple[str, ...]] | None:
    """A pattern for a line of this template, and the fields of its groups."""
    if not template or len(template) > _TEMPLATE_CAP or template.startswith("table"):
        return None
    fields = [match[1] for match in _PLACEHOLDER.finditer(template)]
    if not 0 < len(fields) <= 16 or not any(field in _FIELDS for field in fields):
        return None
    literals = _PLACEHOLDER.split(template)[::2]
    if any("{{" in literal for literal in literals):
        return None
    parts = [_literal(literals[0])]
    for number, (field, after) in enumerate(zip(fields, literals[1:], strict=True)):
        last = number == len(fields) - 1
        parts.append(_pattern_of(field, last))
        parts.append(_literal(after))
    return re.compile("".join(parts) + r"\Z"), tuple(fields)


def _pattern_of(field: str, last: bool) -> str:
    if field in _WITH_BLANKS:
        return r"(.{0,300})" if last else r"(.{0,200}?)"
    return r"(\S{0,300})"


def _literal(text: str) -> str:
    pieces = re.split(r"(?:\\t|\s)+", text)
    return r"\s+".join(re.escape(piece) for piece in pieces)


def _fits_template(shown: Shown, line: str) -> bool:
    pattern = _pattern(template_of(shown))
    return pattern is not None and len(line) < _TEMPLATE_CAP and bool(pattern[0].match(line))


PS = Listing(
    rows=table_rows,
    begins=lambda line: bool(_HEADING.match(line)),
    continues=lambda line: bool(_ID.match(line)),
    printed_by=lambda shown: verb(shown) == "ps" and template_of(shown) is None,
)


def template_listing(shown: Shown, alone: bool) -> Listing | None:
    """The lines of one template. ``alone``: no other command of the line prints anything.

    A single word a line can be anybody's output, so such a template counts only where nobody else printed.
    """
    pattern = _pattern(template_of(shown))
    if pattern is None or (len(pattern[1]) == 1 and not alone):
        return None
    return Listing(
        rows=template_rows,
        continues=lambda line: _fits_template(shown, line),
        printed_by=lambda other: template_of(other) == template_of(shown),
        headless=_fits_template,
    )
