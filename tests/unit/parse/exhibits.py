"""Exhibits for the tests of the parsers: a text as if a command had printed it, or a real capture."""

from __future__ import annotations

from pathlib import Path

from gpudiag.evidence import Exhibit, Input, LookName, read_input
from gpudiag.parse import Parsed, parse

FIXTURES = Path(__file__).parents[2] / "fixtures"
H200 = FIXTURES / "h200"
NOON_NS = 1_796_040_000_000_000_000


def exhibit(
    text: str,
    command: str | None = None,
    *,
    member: str = "after/output.txt",
    exit_code: int | None = None,
    user: str | None = None,
    time_ns: int | None = NOON_NS,
    first_line: int = 3,
) -> Exhibit:
    """One exhibit of the look ``I1:after`` on no named host."""
    return Exhibit("I1", member, "", "I1:after", command, time_ns, exit_code, user, first_line, text)


def evidence(*exhibits: Exhibit) -> Input:
    """An input that holds these exhibits."""
    look = LookName("I1:after", "after", "")
    return Input("I1", "incident", "directory", True, exhibits, (look,), (), ())


def parsed(
    text: str, command: str | None = None, *, member: str = "after/output.txt", exit_code: int | None = None
) -> Parsed:
    """What the parsers make of one text."""
    return parse([evidence(exhibit(text, command, member=member, exit_code=exit_code))])


def capture(name: str) -> Parsed:
    """A real capture, read from its files."""
    return parse([read_input(H200 / name, "I1")])
