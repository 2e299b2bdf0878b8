"""What `rules columns` prints is what the schema of a rule file takes."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from gpudiag.rules import columns
from gpudiag.rules.schema import Op
from gpudiag.timeline.facts.schema import TABLES
from tests.unit.rules.facts import rule

SAMPLES: dict[str, tuple[str, Any, Any]] = {
    "flag": ("meant", True, [True]),
    "text": ("tool", "pkill", ["pkill"]),
    "number": ("holds_mib", 1, [1]),
    "texts": ("gpus", "GPU-1", ["GPU-1"]),
    "numbers": ("cites", 1, [1]),
}


def test_every_column_of_every_table_stands_there_with_its_meaning() -> None:
    every = columns.render(None)
    for name, table in TABLES.items():
        text = columns.render(name)
        for column, spec in table.columns.items():
            assert re.search(rf"^  {column} +{columns.kind_of(spec)} ", text, re.MULTILINE), (name, column)
            assert f"  {column} " in every
        assert " ".join(table.row.split()) in " ".join(text.split())
    assert max(map(len, every.splitlines())) <= columns.WIDTH


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_operators_named_for_a_kind_are_those_that_a_rule_may_use(kind: str) -> None:
    column, one, several = SAMPLES[kind]
    line = re.search(rf"^  {kind} +(.*)$", columns.render("reach"), re.MULTILINE)
    assert line is not None
    named = set(re.findall(r"\b(?:is|eq|ne|lt|le|gt|ge|in|not_in|contains|known)\b", line[1]))
    taken: set[str] = set()
    for op in get_args(Op):
        for value in (one, several, True, 1):
            try:
                rule(fires=[{"column": column, "op": op, "value": value}])
            except ValidationError:
                continue
            taken.add(op)
    assert named == taken
