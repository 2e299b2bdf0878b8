"""Small fact tables and rules for these tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from gpudiag.rules.schema import Rule
from gpudiag.timeline.facts.schema import TABLES


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """A fact table; a column that a row does not name is null."""
    columns = TABLES[name].columns
    rows = list(rows)
    unknown = {key for row in rows for key in row} - columns.keys()
    assert not unknown, f"no such columns: {unknown}"
    return pl.DataFrame(
        [{column: row.get(column) for column in columns} for row in rows], schema=TABLES[name].polars_schema()
    )


def rule_fields(**changes: Any) -> dict[str, Any]:
    """What a minimal valid rule file says, as TOML gives it."""
    fields: dict[str, Any] = {
        "id": "GPD101",
        "slug": "pattern-misses-holder",
        "title": "t",
        "since": "0.1.0",
        "maturity": "preview",
        "table": "reach",
        "group_by": ["step", "family"],
        "fires": [{"column": "meant", "op": "is", "value": True}],
        "text": "PID {pids}",
        "settled_by": "look",
        "doc": {"what_it_is": "w", "how_told_apart": "h", "what_to_do": "d", "known_gaps": ["g"]},
    }
    fields.update(changes)
    return {name: value for name, value in fields.items() if value is not None}


def rule(**changes: Any) -> Rule:
    """A minimal valid rule with these fields changed; ``None`` takes a field away."""
    return Rule.model_validate(rule_fields(**changes))
