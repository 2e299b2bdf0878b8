"""Wording: every helper that outputs share."""

from __future__ import annotations

import pytest

from gpudiag.report import text
from gpudiag.report.contract import ActionStep


def test_a_set_of_pids_is_sorted() -> None:
    assert text.pid_set([9, 7, 8, 7]) == "7–9"


@pytest.mark.parametrize(
    ("given", "expected"),
    [(92967, "92,967 MiB"), (0, "0 MiB"), (None, "not known"), (0.013, "0.013 MiB"), (1234.56, "1,234.6 MiB")],
)
def test_sizes(given: float | None, expected: str) -> None:
    assert text.mib(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [([1, 2], "3 MiB"), ([1, None], "at least 1 MiB"), ([None], "not known"), ([], "0 MiB")],
)
def test_a_sum_admits_what_it_lacks(given: list[float | None], expected: str) -> None:
    assert text.total(given) == expected


@pytest.mark.parametrize(
    ("time", "error", "expected"),
    [
        ("2026-11-30T19:40:09.876Z", 0.01, "2026-11-30 19:40:09 UTC"),
        ("2026-11-30T19:40:09Z", 2.0, "2026-11-30 19:40:09 UTC ±2 s"),
        ("2026-02-20T19:00:06Z", 50_400.0, "2026-02-20 19:00:06 UTC ±14 h"),
        ("yesterday", None, "yesterday"),
        ("0001-01-01T00:00:00+23:00", None, "0001-01-01T00:00:00+23:00"),
        (None, None, "time not known"),
    ],
)
def test_times(time: str | None, error: float | None, expected: str) -> None:
    assert text.when(time, error) == expected


def test_times_of_another_zone_are_told_in_utc() -> None:
    assert text.when("2026-11-30T20:40:09+01:00") == "2026-11-30 19:40:09 UTC"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("released_after_s", 10.3, "released after 10.3 s"),
        ("pinned_mib", 65536, "pinned 65,536 MiB"),
        ("restarts", 3, "restarts: 3"),
        ("s", 3, "s: 3"),
        ("released_after_s", None, "released after: not known"),
        ("was_seen", True, "was seen: True"),
    ],
)
def test_measures_carry_their_unit(key: str, value: object, expected: str) -> None:
    assert text.measure(key, value) == expected


def test_a_step_that_may_not_have_run_is_not_said_to_have_hit() -> None:
    step = ActionStep(id="A1.1", text="pkill x", ran="unknown", hit=(7,), because="no exit code")
    assert text.step_outcome(step) == "Not known whether it ran: no exit code. If it ran, it hit 7."


def test_a_step_with_everything() -> None:
    step = ActionStep(
        id="A1.1",
        text="pkill x",
        ran="yes",
        hit=(7,),
        hit_shells=("its own shell",),
        missed=(8, 9, 10),
        collateral=(11,),
        not_permitted=(12,),
        error="Operation not permitted",
        exit_code=1,
    )
    assert text.step_outcome(step) == (
        "Ran. Hit 7 and its own shell. Missed 8–10. Also hit, though not part of it: 11. Not permitted: 12. "
        "It said: Operation not permitted. Exit code 1."
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("run `a b` now", ((False, "run "), (True, "a b"), (False, " now"))),
        ("a ` alone", ((False, "a ` alone"),)),
        ("`` ` ```", ((False, "`` ` ```"),)),
        ("", ()),
    ],
)
def test_code_spans(given: str, expected: tuple[tuple[bool, str], ...]) -> None:
    assert text.spans(given) == expected


def test_clip_says_what_it_left_out() -> None:
    assert text.clip("x" * 10, 4) == "xxxx… (6 more characters)"
    assert text.clip("xxxx", 4) == "xxxx"


def _step(number: int, tool: str | None, because: str) -> ActionStep:
    return ActionStep(id=f"A1.{number}", text="x", tool=tool, ran="no", because=because)


def test_a_shared_reason_is_told_once_and_where_it_matters() -> None:
    steps = (
        _step(2, None, "the shell died"),
        _step(3, "fuser", "the shell died"),
        _step(4, None, "never asked"),
        _step(5, "pkill", "the shell died"),
    )
    assert text.step_outcomes(steps) == (
        "Did not run.",
        "Did not run: the shell died.",
        "Did not run: never asked.",
        "Did not run, for the same reason as A1.3.",
    )


def test_a_statement_stands_on_its_own() -> None:
    assert text.statement("the group names every member") == "The group names every member."
    assert text.statement("") == ""


def test_an_exit_code_is_told_once() -> None:
    step = ActionStep(id="A1.1", text="kill 7", ran="yes", because="the line ended with exit code 0", exit_code=0)
    assert text.step_outcome(step) == "Ran: the line ended with exit code 0."
    assert text.step_outcome(step.model_copy(update={"exit_code": 1})).endswith("exit code 0. Exit code 1.")


def test_who_was_hit_besides_is_not_counted_twice() -> None:
    step = ActionStep(id="A1.1", text="pkill x", ran="yes", hit=(7, 11), collateral=(11,))
    assert text.step_outcome(step) == "Ran. Hit 7. Also hit, though not part of it: 11."
