"""The engine against a few lines of Python that spell three-valued logic out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudiag.rules.engine import evaluate
from gpudiag.rules.schema import AnyOf, Clause, Condition, Rule
from tests.unit.rules.facts import rule, table

FLAGS = ("meant", "selected", "ran")
NUMBERS = ("holds_mib", "missed_mib")

flag = st.sampled_from([True, False, None])
number = st.sampled_from([0.0, 1.0, 2.5, float("nan"), None])
text = st.sampled_from(["pkill", "fuser", None])
gpus = st.sampled_from([[], ["GPU-a"], ["GPU-a", "GPU-b"], None])
rows = st.lists(
    st.fixed_dictionaries(
        {
            **dict.fromkeys(FLAGS, flag),
            **dict.fromkeys(NUMBERS, number),
            "tool": text,
            "gpus": gpus,
            "step": st.sampled_from(["A1.1", "A1.2", None]),
        }
    ),
    max_size=6,
)
orderings = st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"])
conditions = st.one_of(
    st.builds(dict, column=st.sampled_from(FLAGS), op=st.just("is"), value=st.booleans()),
    st.builds(
        dict, column=st.sampled_from((*FLAGS, *NUMBERS, "tool", "gpus")), op=st.just("known"), value=st.booleans()
    ),
    st.builds(dict, column=st.sampled_from(NUMBERS), op=orderings, value=st.sampled_from([0, 1.0, 2])),
    st.builds(dict, column=st.just("holds_mib"), op=orderings, than=st.just("missed_mib")),
    st.builds(dict, column=st.just("tool"), op=st.sampled_from(["eq", "ne"]), value=st.just("pkill")),
    st.builds(dict, column=st.just("tool"), op=st.sampled_from(["in", "not_in"]), value=st.just(["pkill", "killall"])),
    st.builds(dict, column=st.just("gpus"), op=st.just("contains"), value=st.just("GPU-a")),
    st.builds(dict, column=st.just("gpus"), op=st.sampled_from(["gt", "le"]), value=st.just(1)),
)
clauses = st.lists(
    st.one_of(conditions, st.builds(dict, any=st.lists(conditions, min_size=1, max_size=3))), min_size=1, max_size=3
)


def known(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value


def truth(clause: Clause, row: dict[str, Any]) -> bool | None:
    """One clause on one row."""
    if isinstance(clause, AnyOf):
        return either([truth(condition, row) for condition in clause.any])
    left = known(row[clause.column])
    if clause.op == "known":
        return (row[clause.column] is not None and left is not None) is clause.value
    right: Any = clause.value if clause.than is None else known(row[clause.than])
    if left is None or right is None:
        return None
    return compare(clause, left, right)


def compare(condition: Condition, left: Any, right: Any) -> bool:
    if condition.op == "contains":
        return right in left
    if isinstance(left, list):
        left = len(left)
    results = {
        "is": lambda: left is right,
        "eq": lambda: left == right,
        "ne": lambda: left != right,
        "lt": lambda: left < right,
        "le": lambda: left <= right,
        "gt": lambda: left > right,
        "ge": lambda: left >= right,
        "in": lambda: left in right,
        "not_in": lambda: left not in right,
    }
    return results[condition.op]()


def both(values: list[bool | None]) -> bool | None:
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def either(values: list[bool | None]) -> bool | None:
    if any(value is True for value in values):
        return True
    return None if any(value is None for value in values) else False


def verdict(tested: Rule, row: dict[str, Any]) -> bool | None:
    holds = both([truth(clause, row) for clause in (*tested.where, *tested.fires)])
    return False if any(truth(clause, row) is True for clause in tested.quiet) else holds


@given(rows=rows, where=clauses, fires=clauses, quiet=clauses, proven=st.none() | clauses, inferred=st.none() | clauses)
def test_the_engine_agrees_with_three_valued_logic(
    rows: list[dict[str, Any]], where: Any, fires: Any, quiet: Any, proven: Any, inferred: Any
) -> None:
    tested = rule(where=where, fires=fires, quiet=quiet, proven=proven, inferred=inferred, group_by=["step"])
    result = evaluate(tested, table("reach", rows))

    verdicts = [verdict(tested, row) for row in rows]
    firing = [row for row, value in zip(rows, verdicts, strict=True) if value is True]
    assert result.answer == ("fires" if firing else "unknown" if None in verdicts else "quiet")
    assert sum(len(match.rows) for match in result.matches) == len(firing)
    assert len(result.matches) == len({row["step"] for row in firing})
    assert len(result.unknown_rows) == verdicts.count(None)
    # Whoever is undecided is so because of a null in a clause that counts, and it is named.
    assert bool(result.unknown_columns) == (None in verdicts)

    for match in result.matches:
        group = [row for row in firing if (row["step"],) == (match.rows[0]["step"],)]
        expected = "possible"
        for name in ("inferred", "proven"):
            claims = getattr(tested, name)
            if claims is not None and all(truth(clause, row) is True for clause in claims for row in group):
                expected = name
        assert match.certainty == expected


@pytest.mark.parametrize(
    ("values", "and_", "or_"),
    [
        ((True, True), True, True),
        ((True, False), False, True),
        ((True, None), None, True),
        ((False, False), False, False),
        ((False, None), False, None),
        ((None, None), None, None),
    ],
)
def test_the_truth_table(values: tuple[bool | None, bool | None], and_: bool | None, or_: bool | None) -> None:
    conditions = [{"column": name, "op": "is", "value": True} for name in ("meant", "selected")]
    answers = {True: "fires", False: "quiet", None: "unknown"}
    for first, second in (values, values[::-1]):
        frame = table("reach", [{"meant": first, "selected": second}])
        assert evaluate(rule(fires=conditions), frame).answer == answers[and_]
        assert evaluate(rule(fires=[{"any": conditions}]), frame).answer == answers[or_]
