"""What a rule file may say. Everything is checked when it is loaded, against the fact tables' vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self, cast

import polars as pl
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpudiag.rules import template
from gpudiag.timeline.facts.schema import TABLES, Table

Certainty = Literal["proven", "inferred", "possible"]
Answer = Literal["fires", "quiet", "unknown"]
Op = Literal["is", "eq", "ne", "lt", "le", "gt", "ge", "in", "not_in", "contains", "known"]
Source = Literal[
    "gpu memory",
    "compute processes",
    "process table",
    "open handles",
    "kernel trace",
    "kill commands",
    "server log",
    "kernel log",
]
"""Classes of evidence, as ``model.Coverage.source`` names them."""

ORDERINGS = frozenset({"lt", "le", "gt", "ge"})
COMPARISONS = ORDERINGS | {"eq", "ne"}

CLAUSE_LISTS = ("where", "fires", "quiet", "proven", "inferred")

SUMMARIES = frozenset({"pids", "names", "mib", "count", "steps", "step_text", "gpus"})
"""Placeholders every rule has, besides the columns of its table."""

MAX_TEXT = 400
"""Longest wording of a finding, in characters of the template."""

MAX_VALUES = 32
"""Longest list that a column is compared with."""

Scalar = StrictBool | StrictInt | StrictFloat | StrictStr
Sentence = Annotated[str, Field(min_length=1, max_length=1000)]
RuleId = Annotated[str, Field(pattern=r"^GPD[1-9][0-9]{2}$")]


class Strict(BaseModel):
    """Unknown keys are errors: a misspelt field must not be a silent no-op."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _one_complaint(value: object, check: ValidatorFunctionWrapHandler) -> object:
    """One sentence for a value that is of no kind, in place of one for each kind that it is not."""
    try:
        return check(value)
    except ValidationError:
        kinds = f"true or false, a number, a text, or a list of at most {MAX_VALUES} numbers and texts"
        raise ValueError(f"it should be {kinds}") from None


class Condition(Strict):
    """One column against a value, or (``than``) against another column. Null in, null out, except ``known``."""

    column: str
    op: Op
    value: Annotated[
        Scalar | Annotated[tuple[StrictInt | StrictFloat | StrictStr, ...], Field(max_length=MAX_VALUES)] | None,
        WrapValidator(_one_complaint),
    ] = None
    than: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return (self.column,) if self.than is None else (self.column, self.than)


class AnyOf(Strict):
    """At least one of these conditions (Kleene's or)."""

    any: Annotated[tuple[Condition, ...], Field(min_length=1, max_length=16)]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return tuple(column for condition in self.any for column in condition.columns)


def _clause_kind(value: object) -> str:
    if isinstance(value, AnyOf):
        return "any"
    return "any" if isinstance(value, dict) and "any" in value else "condition"


Clause = Annotated[
    Annotated[Condition, Tag("condition")] | Annotated[AnyOf, Tag("any")],
    Discriminator(_clause_kind),
]
Clauses = Annotated[tuple[Clause, ...], Field(max_length=16)]


class Doc(Strict):
    """The rule's page."""

    what_it_is: Sentence
    how_told_apart: Sentence
    what_to_do: Sentence
    known_gaps: Annotated[tuple[Sentence, ...], Field(min_length=1)]


class RivalSpec(Strict):
    """Another cause that would look alike."""

    rule: RuleId
    excluded_when: Literal["proven", "never"]
    """``proven``: a proven finding of this rule leaves no room for the rival, an inferred one makes it less likely.
    ``never``: only the rival's own test can exclude it."""
    because: Sentence


class Missing(Strict):
    """The class of evidence that is not there when a column is null, and the command that gets it."""

    source: Source
    collect: Sentence


class Case(Strict):
    """Raw evidence and the answer that the rule must give on it."""

    name: Annotated[str, Field(min_length=1, max_length=120)]
    expect: Answer
    input: str | None = None
    """Path below ``tests/fixtures``."""
    without: Annotated[tuple[Annotated[str, Field(max_length=100)], ...], Field(max_length=16)] = ()
    """Globs, relative to ``input``, of files that are taken away first."""
    transcript: str | None = None
    """A pasted terminal session, instead of ``input``."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.input is None) == (self.transcript is None):
            raise ValueError("a case has either an input or a transcript")
        if self.without and self.input is None:
            raise ValueError("without goes with an input")
        for name in (*(() if self.input is None else (self.input,)), *self.without):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{name!r} leaves the fixtures")
            if path.parts.count("**") > 1:
                raise ValueError(f"{name!r} goes through all folders more than once")
        return self


class Rule(Strict):
    """One cause: when it holds, how certain that is, what the person reads."""

    id: RuleId
    slug: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
    title: Annotated[str, Field(min_length=1, max_length=80)]
    since: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
    """Version in which the id first meant this."""
    maturity: Literal["stable", "preview"]
    table: str
    """Fact table that the rule reads."""
    group_by: tuple[str, ...]
    """One finding for each combination of these columns among the firing rows; empty: one finding."""
    explains: str | None = None
    """Column in MiB, summed over the firing rows; a process that stands in several rows counts once."""
    measures: dict[str, str] = Field(default_factory=dict)
    """Name of a figure -> numeric column; the first known value of the group."""
    where: Clauses = ()
    """What the rule is about. A row for which this is false is none of its business."""
    fires: Annotated[Clauses, Field(min_length=1)]
    """All must hold."""
    quiet: Clauses = ()
    """Counter-evidence: one that is true silences the row, one that is unknown does not."""
    proven: Clauses | None = None
    """All true in every firing row of the group: proven. Empty: always. Absent: never."""
    inferred: Clauses | None = None
    """The same for inferred, where it is not proven. What is neither is possible."""
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    settled_by: Sentence
    """What would prove or disprove it, a command where one can."""
    missing: dict[str, Missing] = Field(default_factory=dict)
    """Column -> evidence. In the file: a list of ``{columns, source, collect}``."""
    rivals: tuple[RivalSpec, ...] = ()
    doc: Doc
    cases: Annotated[tuple[Case, ...], Field(alias="case", max_length=32)] = ()
    no_unknown_case: Sentence | None = None
    """Why the rule can never be unknown, where it has no such case."""

    @property
    def order_class(self) -> int:
        """Rank in the order of judgement: 0 view, 1 nothing wrong, 2 stuck, 3 what holds it, 4 why the command
        missed it, 5 plain survival."""
        if self.id in ("GPD201", "GPD210", "GPD211", "GPD213"):
            return 5
        return {"9": 0, "4": 0, "6": 1, "5": 2, "3": 3, "2": 3, "1": 4}.get(self.id[3], 0)

    @property
    def file_name(self) -> str:
        """The name that the rule's file must have."""
        return f"{self.id}-{self.slug}.toml"

    @field_validator("missing", mode="before")
    @classmethod
    def _by_column(cls, value: object) -> object:
        """Turn the file's list into the map; a column may stand there once."""
        if not isinstance(value, list):
            return value
        found: dict[str, object] = {}
        for entry in cast("list[Any]", value):
            if not isinstance(entry, dict) or not isinstance(entry.get("columns"), list):  # pyright: ignore[reportUnknownMemberType]
                raise ValueError("each entry needs a list of columns")
            rest = {key: item for key, item in cast("dict[str, Any]", entry).items() if key != "columns"}
            for column in cast("list[Any]", entry["columns"]):
                if not isinstance(column, str) or column in found:
                    raise ValueError(f"column {column!r} stands there twice or is no name")
                found[column] = rest
        return found

    @model_validator(mode="after")
    def _in_vocabulary(self) -> Self:
        table = TABLES.get(self.table)
        if table is None:
            known = ", ".join(sorted(TABLES))
            complaint = _complaint(f"there is no fact table {self.table!r} (there are: {known})", "table")
            raise ValidationError.from_exception_data(type(self).__name__, [complaint])
        complaints = list(self._complaints(table))
        if complaints:
            # One error a complaint, each at its own place, as those that pydantic finds by itself.
            raise ValidationError.from_exception_data(type(self).__name__, complaints)
        return self

    def _complaints(self, table: Table) -> Iterator[InitErrorDetails]:
        for name in CLAUSE_LISTS:
            clauses: tuple[Condition | AnyOf, ...] = getattr(self, name) or ()
            for index, clause in enumerate(clauses):
                for condition in clause.any if isinstance(clause, AnyOf) else (clause,):
                    complaint = _condition_problem(table, condition)
                    if complaint:
                        yield _complaint(complaint, name, index)
        yield from _column_problems(table, "group_by", self.group_by, lists=False)
        yield from _column_problems(table, "missing", self.missing)
        yield from _column_problems(table, "explains", () if self.explains is None else (self.explains,), numeric=True)
        yield from _column_problems(table, "measures", self.measures.values(), numeric=True)
        bad_form = template.problem(self.text)
        if bad_form:
            yield _complaint(bad_form, "text")
        for name in template.placeholders(self.text):
            if name not in SUMMARIES and name not in table.columns:
                yield _complaint(f"{{{name}}} is neither a summary nor a column of {self.table}", "text")
        if "mib" in template.placeholders(self.text) and self.explains is None:
            yield _complaint("{mib} needs explains", "text")


def _complaint(words: str, *place: str | int) -> InitErrorDetails:
    # The words stand in the context: they may hold braces, which the template would read.
    return InitErrorDetails(type=PydanticCustomError("vocabulary", "{words}", {"words": words}), loc=place, input=None)


def _column_problems(
    table: Table, where: str, names: Iterable[str], *, numeric: bool = False, lists: bool = True
) -> Iterator[InitErrorDetails]:
    for name in names:
        column = table.columns.get(name)
        if column is None:
            yield _complaint(f"the table has no column {name!r}", where)
        elif numeric and not _is_number(column.dtype):
            yield _complaint(f"column {name!r} is not a number", where)
        elif not lists and isinstance(column.dtype, pl.List):
            yield _complaint(f"column {name!r} is a list", where)


def _is_number(dtype: object) -> bool:
    return dtype == pl.Float64 or dtype == pl.Int64


def _condition_problem(table: Table, condition: Condition) -> str | None:
    """Why the condition cannot be evaluated on the table, or ``None``."""
    for name in condition.columns:
        if name not in table.columns:
            return f"the table has no column {name!r}"
    dtype = table.columns[condition.column].dtype
    if (condition.than is None) == (condition.value is None):
        return f"{condition.column} {condition.op}: either value or than"
    if condition.than is not None:
        fits = condition.op in COMPARISONS and _is_number(dtype) and _is_number(table.columns[condition.than].dtype)
    else:
        fits = _value_fits(dtype, condition.op, condition.value)
    return None if fits else f"{condition.column} {condition.op} does not fit a column of type {dtype}"


def _value_fits(dtype: object, op: str, value: object) -> bool:
    if op in ("is", "known"):
        return isinstance(value, bool) and (op == "known" or dtype == pl.Boolean)
    if op in ("in", "not_in"):
        items = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
        return bool(items) and all(_same_kind(dtype, item) for item in items)
    if isinstance(dtype, pl.List):
        # An ordering on a list is about its length.
        inner = cast("object", dtype.inner)
        return _same_kind(inner, value) if op == "contains" else op in ORDERINGS and _same_kind(pl.Int64, value)
    allowed = COMPARISONS if _is_number(dtype) else {"eq", "ne"}
    return op in allowed and _same_kind(dtype, value)


def _same_kind(dtype: object, value: object) -> bool:
    if _is_number(dtype):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return dtype == pl.String and isinstance(value, str)
