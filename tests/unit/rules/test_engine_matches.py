"""What a finding carries, beyond the verdict."""

from __future__ import annotations

import pytest

from gpudiag.rules.engine import evaluate, evaluate_all
from tests.unit.rules.facts import rule, table

MISSED = {"meant": True, "step": "A1.1", "family": "F1"}


def test_an_empty_table_is_quiet_and_a_row_of_nulls_is_unknown() -> None:
    assert evaluate(rule(), table("reach", [])).answer == "quiet"
    result = evaluate(rule(), table("reach", [{}]))
    assert (result.answer, result.unknown_columns, result.matches) == ("unknown", ("meant",), ())


def test_one_finding_for_each_group() -> None:
    rows = [
        {**MISSED, "process": "P10", "pid": 890, "gpus": ["GPU-b"], "cites": [3, 1]},
        {**MISSED, "process": "P7", "pid": 887, "gpus": ["GPU-a", "GPU-b"], "cites": [1, 2]},
        {**MISSED, "step": "A1.2", "family": None, "process": "P7", "pid": 887},
        {**MISSED, "meant": None, "process": "P8", "pid": 888},
        {**MISSED, "meant": False, "process": "P9", "pid": 889},
    ]
    result = evaluate(rule(), table("reach", rows))
    first, second = result.matches
    assert (first.processes, first.pids, first.steps) == (("P7", "P10"), (887, 890), ("A1.1",))
    assert (first.gpus, first.cites, first.families) == (("GPU-a", "GPU-b"), (1, 2, 3), ("F1",))
    assert (second.families, second.pids, second.text) == ((), (887,), "PID 887")
    assert [row["pid"] for row in result.unknown_rows] == [888]
    assert set(first.rows[0]) == set(table("reach", []).columns)


def test_unknown_names_only_the_columns_that_decide() -> None:
    tested = rule(where=[{"column": "alive_then", "op": "is", "value": True}])
    # In the first row it is the filter that is open, in the second the row is out whatever the rest says.
    rows = [{"meant": True, "selected": None}, {"alive_then": False}]
    result = evaluate(tested, table("reach", rows))
    assert (result.answer, result.unknown_columns) == ("unknown", ("alive_then",))


def test_counter_evidence_silences_only_when_it_is_there() -> None:
    tested = rule(quiet=[{"column": "ran", "op": "is", "value": False}])
    answers = [evaluate(tested, table("reach", [{**MISSED, "ran": ran}])).answer for ran in (True, None, False)]
    assert answers == ["fires", "fires", "quiet"]


def test_a_process_in_two_rows_holds_its_memory_once() -> None:
    rows = [
        {**MISSED, "process": "P7", "pid": 887, "holds_mib": 8802.0},
        {**MISSED, "step": "A1.2", "process": "P7", "pid": 887, "holds_mib": 8802.0},
        {**MISSED, "process": "P8", "pid": 888, "holds_mib": 100.5},
    ]
    tested = rule(group_by=["family"], explains="holds_mib", text="{count}: {mib} MiB")
    (match,) = evaluate(tested, table("reach", rows)).matches
    assert (match.explains_mib, match.text) == (8902.5, "2: 8,902.5 MiB")


def test_one_figure_for_a_family_in_several_carriers_counts_once() -> None:
    row = {"step": "A1.1", "matches": True, "family_holds_mib": 35208.0}
    tested = rule(
        table="carrier",
        group_by=["step"],
        explains="family_holds_mib",
        fires=[{"column": "matches", "op": "is", "value": True}],
        text="{mib}",
    )
    (match,) = evaluate(tested, table("carrier", [{**row, "shell": "sudo"}, {**row, "shell": "sh -c"}])).matches
    assert match.explains_mib == 35208.0


@pytest.mark.parametrize(
    ("held", "explained", "text"),
    [
        ((100.0, None), 100.0, "x at least 100 MiB"),
        ((None, None), None, "x"),
        ((0.0, 0.0), 0.0, "x 0 MiB"),
    ],
)
def test_unknown_memory_is_neither_zero_nor_silently_left_out(
    held: tuple[float | None, ...], explained: float | None, text: str
) -> None:
    rows = [{**MISSED, "process": f"P{number}", "holds_mib": mib} for number, mib in enumerate(held)]
    (match,) = evaluate(rule(explains="holds_mib", text="x[ {mib} MiB]"), table("reach", rows)).matches
    assert (match.explains_mib, match.text) == (explained, text)


def test_measures_take_the_first_known_value() -> None:
    rows = [
        {"kill_delivered": True, "family": "F1", "kill_age_s": None},
        {"kill_delivered": True, "family": "F1", "kill_age_s": 2.5},
    ]
    tested = rule(
        table="holder",
        group_by=["family"],
        fires=[{"column": "kill_delivered", "op": "is", "value": True}],
        measures={"age": "kill_age_s", "expected": "expected_release_s"},
    )
    (match,) = evaluate(tested, table("holder", rows)).matches
    assert match.measures == {"age": 2.5}


def test_strangers_change_no_finding() -> None:
    row = {**MISSED, "process": "P7", "pid": 887}
    stranger = {"meant": False, "step": "A1.1", "process": "P9", "pid": 12, "name": "python3"}
    alone, crowded = (evaluate(rule(), table("reach", rows)).matches for rows in ([row], [stranger, row, stranger]))
    assert alone == crowded


def test_every_rule_reads_its_own_table() -> None:
    on_gpus = rule(table="gpu", group_by=["host"], fires=[{"column": "list_empty", "op": "is", "value": True}])
    tables = {"reach": table("reach", [MISSED]), "gpu": table("gpu", [{"list_empty": False}])}
    assert [result.answer for result in evaluate_all([rule(), on_gpus], tables)] == ["fires", "quiet"]
