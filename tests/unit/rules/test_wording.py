"""The text of a finding: what stands in it, and what cannot get into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudiag.rules import template
from gpudiag.rules.engine import evaluate
from gpudiag.rules.wording import MAX_LISTED, MAX_VALUE, natural
from tests.unit.rules.facts import rule, table


def text_of(template_text: str, *rows: dict[str, object]) -> str:
    fired = [{"meant": True, **row} for row in rows]
    (match,) = evaluate(rule(text=template_text, group_by=[]), table("reach", fired)).matches
    return match.text


def test_values_are_distinct_and_joined() -> None:
    rows = ({"pid": 10, "name": "b"}, {"pid": 9, "name": "a"}, {"pid": 10, "name": "b"})
    assert text_of("{pids}/{names}/{count}", *rows) == "9, 10/b, a/1"


def test_an_optional_part_goes_when_a_value_is_unknown() -> None:
    assert text_of("x[ ({signal} {tool})].", {"signal": "KILL"}) == "x."
    assert text_of("x[ ({signal} {tool})].", {"signal": "KILL", "tool": "pkill"}) == "x (KILL pkill)."
    assert text_of("x {signal}.", {}) == "x unknown."


@pytest.mark.parametrize("name", ["{pids}", "[{tool}]", "{0.__class__}", "%s", "\x1b[31m", "a{b"])
def test_a_value_is_not_read_as_a_template(name: str) -> None:
    assert text_of("{names} {pids}", {"name": name, "pid": 5}) == f"{name} 5"


def test_flags_and_lists_read_as_words() -> None:
    assert text_of("{ran} {gpus}", {"ran": True, "gpus": ["GPU-b", "GPU-a"]}) == "yes GPU-a, GPU-b"


def test_a_crowd_does_not_fill_the_sentence() -> None:
    rows = [{"pid": pid, "name": "x" * 5000} for pid in range(0, 2 * MAX_LISTED + 6, 2)]
    assert text_of("{pids}", *rows).endswith("30 and 3 more")
    assert text_of("{names}", *rows) == "x" * MAX_VALUE + "…"


@pytest.mark.parametrize(
    "bad", ["{", "}", "a [b", "b]", "[no placeholder]", "[[{pids}]]", "{pids!r}", "{pids:>9}", "[{x y}]"]
)
def test_malformed_templates_are_found(bad: str) -> None:
    assert template.problem(bad)


@given(st.text(alphabet="ab{}[] _"))
def test_a_template_without_a_problem_renders_every_character(text: str) -> None:
    if template.problem(text) is None:
        rendered = template.render(text, lambda name: "{" + name + "}")
        assert rendered == text.replace("[", "").replace("]", "")


def test_numbers_in_ids_sort_as_numbers() -> None:
    assert sorted(["P10", "P9", "A1.10", "A1.2", "", "x"], key=natural) == ["", "A1.2", "A1.10", "P9", "P10", "x"]
