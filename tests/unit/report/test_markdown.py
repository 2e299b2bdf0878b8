"""The Markdown output: its tables and fences hold whatever a name contains."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudiag.report.contract import Evidence, Report, UnknownRule
from gpudiag.report.escape import markdown_code, markdown_text
from gpudiag.report.markdown import COMMENT_CAP, render
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


def _cells(line: str) -> list[str]:
    """A row cut as GitHub does: at every bar that no backslash escapes, before anything else is looked at."""
    found, position = [""], 0
    while position < len(line):
        if line[position] == "\\" and position + 1 < len(line):
            found[-1] += line[position : position + 2]
            position += 2
            continue
        if line[position] == "|":
            found.append("")
        else:
            found[-1] += line[position]
        position += 1
    return found[1:-1]


@given(st.text(alphabet="a|\\`* <>&$~_#\n\t[]()", max_size=30))
def test_no_name_tears_a_row(name: str) -> None:
    for cell in (markdown_code(name), markdown_text(name)):
        assert "\n" not in cell
        assert len(_cells(f"| {cell} | x |")) == 2


@pytest.mark.parametrize("make", REPORTS)
def test_tables_are_whole(make: object) -> None:
    columns = 0
    for line in _outside_fences(render(make())):  # type: ignore[operator]
        if not line.startswith("|"):
            columns = 0
            continue
        cells = len(_cells(line))
        assert columns in (0, cells), line
        columns = cells


@pytest.mark.parametrize("make", REPORTS)
def test_nothing_but_text_comes_out(make: object) -> None:
    assert all(line.isprintable() for line in render(make()).split("\n"))  # type: ignore[operator]


def test_no_markup_of_others() -> None:
    for line in _outside_fences(render(sample.hostile())):
        if re.fullmatch(r"<details><summary>[\w, ]+</summary>|</details>", line):
            continue
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


@pytest.mark.parametrize("make", REPORTS)
def test_folds_open_and_close(make: object) -> None:
    lines = list(_outside_fences(render(make())))  # type: ignore[operator]
    depth = 0
    for number, line in enumerate(lines):
        if line.startswith("<details>"):
            depth += 1
            # Without a blank line GitHub reads what follows as HTML.
            assert lines[number + 1] == ""
        depth -= line == "</details>"
        assert depth in (0, 1)
    assert depth == 0


def _with_evidence(count: int, length: int) -> Report:
    report = sample.selfmatch()
    quotes = tuple(Evidence(input="I1", member="a.txt", line=n, quote="q" * length) for n in range(count))
    finding = report.findings[0].model_copy(update={"evidence": quotes})
    return report.model_copy(update={"findings": (finding, *report.findings[1:])})


def test_quotes_are_left_out_first() -> None:
    assert "q" * 250 in render(_with_evidence(20, 250))
    shown = render(_with_evidence(300, 250))
    assert len(shown) <= COMMENT_CAP
    assert "q" * 250 not in shown
    assert "Quotes of the evidence are left out here; the JSON report has everything." in shown
    assert "## Servers and their processes" in shown
    lines = shown.split("\n")
    assert all(entry.command in lines for entry in sample.selfmatch().plan.kill)


def _with_processes(count: int) -> Report:
    report = sample.selfmatch()
    one = report.processes[0]
    more = tuple(one.model_copy(update={"id": f"Q{n}", "pid": 10_000 + n, "name": "n" * 280}) for n in range(count))
    family = report.families[0].model_copy(update={"members": tuple(process.id for process in more)})
    return report.model_copy(update={"processes": more, "families": (family,) * 3})


def test_families_are_left_out_next() -> None:
    shown = render(_with_processes(300))
    assert len(shown) <= COMMENT_CAP
    assert "## Servers and their processes" not in shown
    assert "Quotes of the evidence and the families, " in shown


def test_a_plan_that_does_not_fit_is_cut_between_commands_and_says_so() -> None:
    report = sample.selfmatch()
    entry = report.plan.kill[0]
    many = tuple(
        entry.model_copy(update={"order": n, "pid": n, "command": f"kill -KILL {n}  # {'x' * 400}", "host": f"H{n}"})
        for n in range(1, 400)
    )
    shown = render(report.model_copy(update={"plan": report.plan.model_copy(update={"kill": many})}))
    assert len(shown) <= COMMENT_CAP
    assert "perhaps a part of the plan too, is left out here" in shown
    commands = [line for line in shown.split("\n") if line.startswith("kill -KILL")]
    assert commands == [entry.command for entry in many][: len(commands)]
    assert len(commands) > 50
    assert list(_outside_fences(shown))


def test_a_recorded_command_as_long_as_a_file_is_shortened() -> None:
    report = sample.selfmatch()
    action = report.actions[0].model_copy(update={"text": "pkill -f " + "x" * 200_000})
    shown = render(report.model_copy(update={"actions": (action,)}))
    assert len(shown) <= COMMENT_CAP
    assert "more characters)" in shown


def test_of_commands_in_one_place_as_many_are_kept_as_fit() -> None:
    report = sample.crowded()
    shown = render(report)
    assert COMMENT_CAP - 10_000 < len(shown) <= COMMENT_CAP
    commands = [line for line in shown.split("\n") if "kill -KILL" in line]
    assert commands == [entry.command for entry in report.plan.kill][: len(commands)]
    assert "perhaps a part of the plan too, is left out here" in shown
    assert list(_outside_fences(shown))


def test_unknown_causes_are_named_and_asked_for_once() -> None:
    rules = tuple(
        UnknownRule(rule=f"GPD20{n}", title=f"Cause {n}", missing=("process table",), collect="ps -e") for n in (1, 2)
    )
    shown = render(sample.empty().model_copy(update={"unknown": rules}))
    assert "- Cause 1 (GPD201)\n- Cause 2 (GPD202)" in shown
    assert shown.count("ps -e") == 1
