"""The set of rules: the shipped one is clean, and each kind of mistake is found."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpudiag.rules.files import data_dir
from gpudiag.rules.lint import CATALOGUE, lint_directory, lint_pack, lint_rules
from gpudiag.rules.loader import load_pack, load_rules
from gpudiag.rules.schema import Rule
from gpudiag.selftest import run_cases
from tests.unit.rules.facts import rule

CASES: list[dict[str, Any]] = [
    {"name": answer, "expect": answer, "transcript": "$ true"} for answer in ("fires", "quiet", "unknown")
]
MISSING = [{"columns": ["meant"], "source": "process table", "collect": "ps -ef"}]


def finished(**changes: Any) -> Rule:
    return rule(**{"case": CASES, "missing": MISSING} | changes)


def test_the_shipped_set_is_clean() -> None:
    assert lint_directory() == ()


def test_the_catalogue_holds_what_is_written() -> None:
    assert {loaded.id for loaded in load_rules()} <= CATALOGUE


def test_a_finished_rule_is_clean() -> None:
    tested = finished()
    assert lint_rules({tested.file_name: tested}) == ()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"id": "GPD199"}, "GPD199 is not in the catalogue"),
        ({"rivals": [{"rule": "GPD999", "excluded_when": "never", "because": "b"}]}, "GPD999 is no other rule"),
        ({"rivals": [{"rule": "GPD101", "excluded_when": "never", "because": "b"}]}, "GPD101 is no other rule"),
        ({"case": CASES[1:]}, "none expects fires"),
        ({"case": CASES[::2]}, "none expects quiet"),
        ({"case": CASES[:2]}, "none expects unknown"),
        ({"no_unknown_case": "never null"}, "there is an unknown case"),
        ({"case": [*CASES, CASES[0]]}, "'fires' stands there twice"),
        ({"missing": None}, "when meant is null"),
        ({"where": [{"column": "holds_mib", "op": "gt", "than": "missed_mib"}]}, "when holds_mib is null"),
        ({"where": [{"any": [{"column": "tool", "op": "eq", "value": "kill"}]}]}, "when tool is null"),
    ],
)
def test_each_mistake_is_found(changes: dict[str, Any], says: str) -> None:
    tested = finished(**changes)
    problems = lint_rules({tested.file_name: tested})
    assert any(says in problem for problem in problems), problems


def test_a_rule_that_is_never_unknown_says_why() -> None:
    tested = finished(case=CASES[:2], missing=None, no_unknown_case="the flag is never null")
    assert lint_rules({tested.file_name: tested}) == ()


def test_names_are_taken_once() -> None:
    first, second = finished(), finished(id="GPD103")
    problems = lint_rules({first.file_name: first, "other.toml": second, "third.toml": first})
    assert "other.toml: the file should be named GPD103-pattern-misses-holder.toml." in problems
    assert f"other.toml: slug: pattern-misses-holder is taken by {first.file_name}." in problems
    assert f"third.toml: id: GPD101 is taken by {first.file_name}." in problems


def test_a_file_that_does_not_load_does_not_hide_the_others(tmp_path: Path) -> None:
    for path in data_dir().glob("GPD10[12]-*.toml"):
        shutil.copy(path, tmp_path)
    (tmp_path / "broken.toml").write_text("id = 3", encoding="utf-8")
    moved = next(tmp_path.glob("GPD102-*"))
    moved.rename(moved.with_name("GPD102.toml"))
    problems = lint_directory(tmp_path)
    assert problems[0] == "broken.toml:1: id: Input should be a valid string."
    assert all(problem.startswith("broken.toml:1: ") for problem in problems[:-1])
    assert problems[-1].startswith("GPD102.toml: the file should be named GPD102-")


def test_the_pack_of_the_documentation_has_nothing_wrong_and_passes_its_cases(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "writing-a-rule.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(id = \"GPD7.*?)```", text, re.DOTALL)
    (tmp_path / "GPD700.toml").write_text(example, encoding="utf-8")
    assert lint_pack(tmp_path) == ()
    results = list(run_cases(load_pack(tmp_path), tmp_path))
    assert [result.got for result in results] == ["fires", "quiet", "unknown"]
    assert all(result.passed for result in results)


def test_a_pack_owes_three_kinds_of_cases_and_may_name_its_own_rules(tmp_path: Path) -> None:
    text = next(data_dir().glob("GPD207-*")).read_text(encoding="utf-8")
    own = text.replace("GPD207", "GPD700").replace("stopped-or-frozen", "our-own")
    (tmp_path / "ours.toml").write_text(own, encoding="utf-8")
    assert lint_pack(tmp_path) == ()
    head, *cases = own.split("[[case]]")
    bare = head.replace("GPD700", "GPD701").replace("our-own", "our-other") + "[[case]]" + cases[0]
    bare = re.sub(r'rule = "GPD\d+"', 'rule = "GPD700"', bare)
    assert 'rule = "GPD700"' in bare
    (tmp_path / "other.toml").write_text(bare, encoding="utf-8")
    assert set(lint_pack(tmp_path)) == {
        "other.toml: case: none expects quiet.",
        "other.toml: case: none expects unknown.",
    }
