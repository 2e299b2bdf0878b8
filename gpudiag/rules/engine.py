"""Rules over fact tables, three-valued.

A predicate is computed as a column that is true, false or null; only then are rows picked. Filtering by the predicate
itself would drop its nulls, and a rule that lacks evidence would pass for one that was tested and found false.
"""

# polars' annotations name numpy's types, and numpy is not among the dependencies.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from gpudiag.rules import template
from gpudiag.rules.schema import Answer, AnyOf, Certainty, Condition, Rule
from gpudiag.rules.wording import Group, natural
from gpudiag.timeline.facts.schema import TABLES, Table

Row = dict[str, Any]

# Names of the engine's own columns; no table column may contain a NUL.
_VERDICT = "\0verdict"
_PROVEN = "\0proven"
_INFERRED = "\0inferred"
_CLAUSE = "\0clause"


@dataclass(frozen=True)
class Match:
    """One finding: the rows of one group that fire."""

    rule_id: str
    certainty: Certainty
    rows: tuple[Row, ...]
    families: tuple[str, ...]
    processes: tuple[str, ...]
    pids: tuple[int, ...]
    steps: tuple[str, ...]
    gpus: tuple[str, ...]
    explains_mib: float | None
    """Sum of what is known; ``None`` where no row knows it or the rule explains no memory."""
    measures: dict[str, float]
    text: str
    cites: tuple[int, ...]


@dataclass(frozen=True)
class RuleResult:
    """A rule's answer on one set of facts."""

    rule: Rule
    answer: Answer
    matches: tuple[Match, ...]
    unknown_columns: tuple[str, ...]
    """Columns whose nulls left a row undecided, in the table's order."""
    unknown_rows: tuple[Row, ...]
    signs: int = 0
    """Conditions of ``fires`` that hold in an undecided row, of the row with the most: 0 = merely untested."""


def evaluate_all(rules: Iterable[Rule], tables: Mapping[str, pl.DataFrame]) -> tuple[RuleResult, ...]:
    """Every rule on its table."""
    return tuple(evaluate(rule, tables[rule.table]) for rule in rules)


def evaluate(rule: Rule, table: pl.DataFrame) -> RuleResult:
    """The rule's answer. An empty table is quiet: missing evidence shows as rows with nulls, not as no rows."""
    columns = TABLES[rule.table]
    needed = [*rule.where, *rule.fires]
    judged = table.with_columns(
        _verdict(rule, columns).alias(_VERDICT),
        _always(rule.proven, columns).alias(_PROVEN),
        _always(rule.inferred, columns).alias(_INFERRED),
        *(_clause(clause, columns).alias(f"{_CLAUSE}{index}") for index, clause in enumerate(needed)),
    )
    # Null compares as null here and is left out on purpose: those rows are the next line's.
    firing = judged.filter(pl.col(_VERDICT)).to_dicts()
    undecided = judged.filter(pl.col(_VERDICT).is_null()).to_dicts()
    matches = tuple(_match(rule, rows) for rows in _groups(rule, firing))
    answer: Answer = "fires" if matches else "unknown" if undecided else "quiet"
    blank = _blank_columns(needed, undecided)
    return RuleResult(
        rule=rule,
        answer=answer,
        matches=matches,
        unknown_columns=tuple(name for name in columns.columns if name in blank),
        unknown_rows=tuple(_facts(row) for row in undecided),
        signs=max((_signs(rule, row) for row in undecided), default=0),
    )


def _verdict(rule: Rule, table: Table) -> pl.Expr:
    holds = _every((*rule.where, *rule.fires), table)
    if not rule.quiet:
        return holds
    contradicted = pl.any_horizontal(_clause(clause, table).fill_null(value=False) for clause in rule.quiet)
    return holds & ~contradicted


def _always(clauses: Sequence[Condition | AnyOf] | None, table: Table) -> pl.Expr:
    """True where every clause is; a class of certainty that the rule does not claim is never reached."""
    return pl.lit(value=False) if clauses is None else _every(clauses, table).fill_null(value=False)


def _every(clauses: Sequence[Condition | AnyOf], table: Table) -> pl.Expr:
    return pl.all_horizontal(_clause(clause, table) for clause in clauses) if clauses else pl.lit(value=True)


def _clause(clause: Condition | AnyOf, table: Table) -> pl.Expr:
    if isinstance(clause, AnyOf):
        return pl.any_horizontal(_condition(condition, table) for condition in clause.any)
    return _condition(clause, table)


def _condition(condition: Condition, table: Table) -> pl.Expr:
    left = _column(condition.column, table)
    if condition.op == "known":
        return left.is_not_null() if condition.value else left.is_null()
    if condition.op == "contains":
        return left.list.contains(condition.value)
    if condition.op in ("in", "not_in"):
        found = pl.any_horizontal(left == item for item in _items(condition.value))
        return found if condition.op == "in" else ~found
    if condition.than is not None:
        return _compare(condition.op, left, _column(condition.than, table))
    if isinstance(table.columns[condition.column].dtype, pl.List):
        left = left.list.len()
    return _compare(condition.op, left, pl.lit(condition.value))


def _column(name: str, table: Table) -> pl.Expr:
    """The column; a float that is not a number is not known."""
    column = pl.col(name)
    return column.fill_nan(None) if table.columns[name].dtype == pl.Float64 else column


def _items(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]


def _compare(op: str, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    match op:
        case "is" | "eq":
            return left == right
        case "ne":
            return left != right
        case "lt":
            return left < right
        case "le":
            return left <= right
        case "gt":
            return left > right
        case _:
            return left >= right


def _signs(rule: Rule, row: Row) -> int:
    first = len(rule.where)
    return sum(row[f"{_CLAUSE}{index}"] is True for index in range(first, first + len(rule.fires)))


def _groups(rule: Rule, rows: Iterable[Row]) -> Iterable[list[Row]]:
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in rule.group_by), []).append(row)
    return groups.values()


def _match(rule: Rule, rows: Sequence[Row]) -> Match:
    group = Group(tuple(_facts(row) for row in rows), rule.explains)
    return Match(
        rule_id=rule.id,
        certainty=_certainty(rows),
        rows=group.rows,
        families=tuple(sorted(group.distinct("family"), key=natural)),
        processes=tuple(sorted(group.distinct("process"), key=natural)),
        pids=tuple(sorted(group.distinct("pid"))),
        steps=tuple(sorted(group.distinct("step"), key=natural)),
        gpus=tuple(sorted(group.distinct("gpus"), key=natural)),
        explains_mib=group.explained_mib(),
        measures=_measures(rule, group),
        text=template.render(rule.text, group.placeholder),
        cites=tuple(sorted(group.distinct("cites"))),
    )


def _certainty(rows: Sequence[Row]) -> Certainty:
    if all(row[_PROVEN] for row in rows):
        return "proven"
    return "inferred" if all(row[_INFERRED] for row in rows) else "possible"


def _measures(rule: Rule, group: Group) -> dict[str, float]:
    found = {name: group.distinct(column) for name, column in rule.measures.items()}
    return {name: float(values[0]) for name, values in found.items() if values}


def _facts(row: Row) -> Row:
    """The row without the engine's own columns."""
    return {name: value for name, value in row.items() if not name.startswith("\0")}


def _blank_columns(needed: Sequence[Condition | AnyOf], undecided: Iterable[Row]) -> set[str]:
    """Columns that are null in a row and made a clause of that row undecided."""
    blank: set[str] = set()
    for row in undecided:
        for index, clause in enumerate(needed):
            if row[f"{_CLAUSE}{index}"] is None:
                blank.update(name for name in clause.columns if _is_blank(row[name]))
    return blank


def _is_blank(value: object) -> bool:
    return value is None or value != value  # not a number differs from itself
