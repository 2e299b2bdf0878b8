"""Foreign text in each kind of output."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gpudiag.report.escape import markdown_code, markdown_fence, markdown_text, visible
from tests.unit.report.sample import HOSTILE

# Surrogates never get this far (see the contract), but these functions should not depend on it.
ANY = st.text(st.one_of(st.characters(), st.sampled_from("`|\\\n\x1b<*_[]@&#\u202e"), st.characters(categories=["Cs"])))


@given(ANY)
def test_what_is_visible_prints(text: str) -> None:
    assert visible(text).isprintable()


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_what_prints_stays(text: str) -> None:
    assert visible(text) == text


def test_terminal_sequences_and_bidi_are_shown() -> None:
    assert visible("a\x1b[31m\x9b\u202e\u200b\r\n\0") == r"a\x1b[31m\x9b\u202e\u200b\r\n\x00"


@given(ANY)
def test_a_code_span_cannot_be_left(text: str) -> None:
    span = markdown_code(text)
    if span != "(empty)":
        fence = re.match("`+", span)
        assert fence is not None
        assert span.endswith(fence[0])
        inner = span[len(fence[0]) : -len(fence[0])]
        assert fence[0] not in re.findall("`+", inner)
        assert not re.search(r"(?<!\\)\|", inner), "a cell would end here"


@given(st.lists(ANY, min_size=1).map(tuple))
def test_a_fence_cannot_be_closed_from_inside(lines: tuple[str, ...]) -> None:
    first, *body, last = markdown_fence(lines, "sh").split("\n")
    assert first == last + "sh"
    assert len(body) == len(lines)
    assert all(len(run) < len(last) for line in body for run in re.findall("`+", line))


@given(ANY)
def test_prose_has_no_markup_left(text: str) -> None:
    shown = markdown_text(text.replace("`", "'"))
    assert not re.search(r"(?<!\\)(?:\\\\)*[*_\[\]<>#|~&$](?<!<!-- -->)", shown.replace("<!-- -->", ""))
    assert "\n" not in shown


def test_prose_names_nobody_and_links_nowhere() -> None:
    shown = markdown_text(HOSTILE)
    assert "@everyone" not in shown
    assert "https://" not in shown
    assert "](" not in shown.replace(r"\](", "")


def test_a_list_sign_at_the_start_is_text() -> None:
    assert [markdown_text(text) for text in ("- a", "1. a", "+ a", "2) a", "a - b. 1. c")] == [
        r"\- a",
        r"1\. a",
        r"\+ a",
        r"2\) a",
        "a - b. 1. c",
    ]


def test_code_in_prose_stays_code() -> None:
    assert markdown_text("run `a_b|c` now_") == r"run `a_b\|c` now\_"
