"""The repository as a whole: nothing in it points at somebody's machine, and what its documents name exists."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpudiag

ROOT = Path(__file__).parents[2]
NOT_OURS = {".git", ".venv", ".pytest_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache", "__pycache__"}
LOCK_FILES = {"uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile.lock"}

# Written in pieces, so that this file does not find itself.
INDEX_HOST = re.compile(r"pypi\.(org|python)|python" + r"hosted|art" + r"ifactory|/simp" + r"le/")
MACHINE_PATH = re.compile(r"/wo" + r"rk/|\.py" + r"env\b|/opt/py" + r"pi|/tm" + r"p/spec")

FRAGMENT_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(added|changed|fixed|removed|security)\.md")
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")


def own_files() -> Iterator[Path]:
    for directory, names, files in os.walk(ROOT):
        names[:] = sorted(set(names) - NOT_OURS)
        yield from (Path(directory, name) for name in sorted(set(files) - NOT_OURS))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def documents() -> list[Path]:
    fixtures = ROOT / "tests" / "fixtures"
    return [path for path in own_files() if path.suffix == ".md" and path.parent != fixtures / "incidents"]


@pytest.mark.parametrize("pattern", [INDEX_HOST, MACHINE_PATH], ids=["package index", "machine path"])
def test_no_file_names(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in own_files()
        if path != Path(__file__) and (match := pattern.search(text_of(path)))
    ]
    assert found == []


def test_no_lock_file() -> None:
    assert [path.name for path in own_files() if path.name in LOCK_FILES] == []


@pytest.mark.parametrize("name", ["run", "dev"])
def test_every_requirement_is_pinned_and_hashed(name: str) -> None:
    lines = text_of(ROOT / "requirements" / f"{name}.txt").replace("\\\n", " ").splitlines()
    assert lines
    for line in lines:
        assert re.match(r"[a-z0-9.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line), line


def test_requirements_hold_every_direct_dependency() -> None:
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    pinned = {line.partition("==")[0] for line in text_of(ROOT / "requirements" / "run.txt").splitlines()}
    assert {re.split(r"[<>=\[]", dependency)[0] for dependency in project["dependencies"]} <= pinned


def test_development_uses_the_releases_that_users_get() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^\S+==\S+", text_of(ROOT / "requirements" / f"{name}.txt"), re.MULTILINE))

    assert pins("run") <= pins("dev")


@pytest.mark.parametrize("script", ["scripts/try", "scripts/test", "scripts/lock", ".ci/run"])
def test_scripts_can_be_run(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    assert text_of(ROOT / script).startswith("#!/usr/bin/env bash\n")


def test_the_readme_gives_two_commands_and_ci_runs_the_second() -> None:
    commands = re.findall(r"^\./scripts/\S+$", text_of(ROOT / "README.md"), re.MULTILINE)
    assert commands == ["./scripts/try", "./scripts/test"]
    assert commands[1] in text_of(ROOT / ".ci" / "run")


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_inside_the_repository_lead_somewhere(document: Path) -> None:
    broken = [target for target in LINK.findall(text_of(document)) if not (document.parent / target).exists()]
    assert broken == []


def test_every_fixture_stands_in_the_fixtures_readme() -> None:
    readme = text_of(ROOT / "tests" / "fixtures" / "README.md")
    directories = [path.name for path in (ROOT / "tests" / "fixtures" / "h200").iterdir() if path.is_dir()]
    assert directories
    for name in directories:
        variant = re.fullmatch(r"(.+)(-40g|-done|-killed)", name)
        while variant and f"`{name}`" not in readme:
            assert f"`{variant[2]}`" in readme, name
            name = variant[1]
            variant = re.fullmatch(r"(.+)(-40g|-done|-killed)", name)
        assert f"`{name}" in readme, name


def test_changelog_fragments_have_the_agreed_form() -> None:
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    for path in fragments:
        assert FRAGMENT_NAME.fullmatch(path.name), path.name
        text = text_of(path)
        assert text.endswith(".\n"), f"{path.name}: end with a full stop and a line end"
        assert not re.search(r"^[#*-]", text, re.MULTILINE), f"{path.name}: sentences only, no heading and no list"


def test_every_decision_is_in_the_list_of_decisions() -> None:
    folder = ROOT / "docs" / "adr"
    listed = re.findall(r"\]\((\d{4}-[a-z0-9-]+\.md)\)", text_of(folder / "README.md"))
    assert listed == sorted(path.name for path in folder.glob("[0-9]*.md"))
    for name in listed:
        assert re.match(rf"# {name[:4]}: .+\n\nStatus: (proposed|accepted|replaced by) ?", text_of(folder / name)), name


def test_the_list_of_allowed_skips_names_tests_that_exist() -> None:
    for line in text_of(ROOT / "tests" / "allowed-skips.txt").splitlines():
        if line.strip() and not line.startswith("#"):
            assert (ROOT / line.split()[0].partition("::")[0]).exists(), line


def test_version_is_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", gpudiag.__version__)
