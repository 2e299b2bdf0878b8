"""The Markdown output: its tables and fences hold whatever a name contains."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gpudiag.report.markdown import render
from tests.unit.report import sample

REPORTS = [sample.selfmatch, sample.ghost_workers, sample.hostile, sample.empty]


def _outside_fences(text: str) -> Iterator[str]:
    fence = ""
    for line in text.split("\n"):
        opened = re.match("`{3,}(?=sh$|$)", line)
        if not fence and opened:
            fence = opened[0]
        elif fence and line == fence:
            fence = ""
        elif not fence:
            yield line
    assert fence == "", "a fence stays open"


@pytest.mark.parametrize("make", REPORTS)
def test_tables_are_whole(make: object) -> None:
    columns = 0
    for line in _outside_fences(render(make())):  # type: ignore[operator]
        if not line.startswith("|"):
            columns = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        assert columns in (0, cells), line
        columns = cells


@pytest.mark.parametrize("make", REPORTS)
def test_nothing_but_text_comes_out(make: object) -> None:
    assert all(line.isprintable() for line in render(make()).split("\n"))  # type: ignore[operator]


def test_no_markup_of_others() -> None:
    for line in _outside_fences(render(sample.hostile())):
        prose = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line).replace("<!-- -->", "")
        assert not re.search(r"(?<!\\)<", prose), prose
        assert not re.search(r"(?<!\\)\]\(", prose), prose
        assert "@everyone" not in line.split("`")[0]


def test_commands_stand_as_they_are() -> None:
    report = sample.selfmatch()
    lines = render(report).split("\n")
    assert all(entry.command in lines for entry in report.plan.kill)
    assert report.actions[0].text in lines


def test_plan_table_names_every_pid_in_order() -> None:
    rows = [line for line in render(sample.selfmatch()).split("\n") if re.match(r"\| \d+ \| \d+ \|", line)]
    assert [row.split(" | ")[1] for row in rows] == ["698", "699", "700", "886", "887", "888", "889", "890"]


def test_unknown_is_named() -> None:
    shown = render(sample.ghost_workers())
    assert "| GPU 7 | not known | 92,967 MiB | not known | not known | not known | Memory is still held |" in shown
