"""The rules' vocabulary as plain text: what a person reads who writes a rule."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from gpudiag.rules.loader import VERDICT_TABLE
from gpudiag.timeline.facts.schema import COMMON, COUNT, FLAG, NUMBER, TABLES, TEXT, Column

WIDTH = 80

_KINDS = {TEXT: "text", FLAG: "flag", NUMBER: "number", COUNT: "number"}
_OPERATORS = {
    "flag": "is, known",
    "text": "eq, ne, in, not_in, known",
    "number": "eq, ne, lt, le, gt, ge, in, not_in, known",
    "texts": "contains, known; lt, le, gt, ge compare how many there are",
    "numbers": "contains, known; lt, le, gt, ge compare how many there are",
}


def render(table: str | None) -> str:
    """The columns of one table, or of all; every line at most ``WIDTH`` columns. Raises ``KeyError``."""
    return "\n".join(_all() if table is None else _one(table)) + "\n"


def kind_of(column: Column) -> str:
    """What a column holds, in the words of the conditions."""
    if isinstance(column.dtype, pl.List):
        return "numbers" if column.dtype.inner == pl.Int64 else "texts"
    return next(word for dtype, word in _KINDS.items() if column.dtype == dtype)


def _all() -> Iterator[str]:
    yield from _common()
    for name in TABLES:
        yield from ("", *_table(name))
    yield from ("", *_operators(_OPERATORS))


def _one(name: str) -> Iterator[str]:
    yield from _table(name)
    yield from ("", *_common())
    kinds = {kind_of(column) for column in TABLES[name].columns.values()}
    yield from ("", *_operators(kind for kind in _OPERATORS if kind in kinds))


def _table(name: str) -> Iterator[str]:
    table = TABLES[name]
    yield from textwrap.wrap(f"{name}: a row is {table.row}", WIDTH, subsequent_indent="    ")
    if name == VERDICT_TABLE:
        yield "  (filled after the rules were asked: not for a pack)"
    own = {column: meaning for column, meaning in table.columns.items() if column not in COMMON}
    yield from _columns(own)


def _common() -> Iterator[str]:
    yield "In every table:"
    yield from _columns(COMMON)


def _columns(columns: Mapping[str, Column]) -> Iterator[str]:
    for name, column in columns.items():
        told = f"{name:<22} {kind_of(column):<8} {column.meaning}"
        yield from textwrap.wrap(told, WIDTH, initial_indent="  ", subsequent_indent=" " * 34, break_on_hyphens=False)


def _operators(kinds: Iterable[str]) -> Iterator[str]:
    yield "Operators (`op`); null is what the evidence does not tell:"
    for kind in kinds:
        yield f"  {kind:<8} {_OPERATORS[kind]}"
