"""A rule's page for people, and a case's evidence on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.rules.cases import lay_out
from gpudiag.rules.loader import load_rules
from gpudiag.rules.page import WIDTH, render
from gpudiag.rules.schema import Case


def test_every_page_names_the_rule_and_its_gaps() -> None:
    for rule in load_rules():
        page = render(rule)
        words = " ".join(page.split())
        assert page.startswith(f"{rule.id} ")
        for text in (rule.title, rule.doc.what_it_is, rule.doc.what_to_do, *rule.doc.known_gaps):
            assert " ".join(text.split()) in words
        commands = {f"      {need.collect}" for need in rule.missing.values()}
        lines = set(page.splitlines())
        assert commands <= lines
        assert all(len(line) <= WIDTH for line in lines - commands)


def fixtures(root: Path) -> Path:
    look = root / "fixtures" / "capture" / "after"
    look.mkdir(parents=True)
    for name in ("ps.txt", "proc.json"):
        (look / name).write_text(name, encoding="utf-8")
    return root / "fixtures"


def test_a_transcript_becomes_a_file(tmp_path: Path) -> None:
    case = Case(name="n", expect="fires", transcript="$ true\n")
    assert lay_out(case, tmp_path, tmp_path).read_text(encoding="utf-8") == "$ true\n"


def test_files_are_taken_from_a_copy(tmp_path: Path) -> None:
    whole = fixtures(tmp_path)
    assert lay_out(Case(name="n", expect="fires", input="capture"), whole, tmp_path / "s") == whole / "capture"
    case = Case(name="n", expect="unknown", input="capture", without=("*/proc.json",))
    laid = lay_out(case, whole, tmp_path / "s")
    assert sorted(path.name for path in laid.rglob("*.*")) == ["ps.txt"]
    assert (whole / "capture/after/proc.json").exists()


def test_a_glob_that_removes_nothing_is_a_mistake(tmp_path: Path) -> None:
    case = Case(name="n", expect="unknown", input="capture", without=("*/prok.json",))
    with pytest.raises(ValueError, match=r"'\*/prok.json' fits no file of capture"):
        lay_out(case, fixtures(tmp_path), tmp_path / "s")


def test_the_evidence_of_every_shipped_case_exists(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "fixtures"
    for rule in load_rules():
        for number, case in enumerate(rule.cases):
            scratch = tmp_path / f"{rule.id}-{number}"
            scratch.mkdir()
            assert lay_out(case, shipped, scratch).exists(), (rule.id, case.name)
