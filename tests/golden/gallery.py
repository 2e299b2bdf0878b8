"""The files under ``reports/``: what they are called and what they hold today. Run as a module, it writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpudiag.explain import explain
from gpudiag.report.contract import Report
from gpudiag.report.escape import markdown_text
from gpudiag.report.text import OUTCOME_WORDS, word
from gpudiag.report.write import renderer
from tests.golden.expectations import Incident, captures, transcripts

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "reports"
SUFFIXES: Final = (".html", ".md", ".json")
_LABELS: Final = ("HTML", "Markdown", "JSON")
INDEX: Final = "README.md"
_NO_DIGEST: Final = "left out in the gallery"
"""Every edit of a rule changes the digest on every page; what it changes besides would be lost among that."""
_INDEX_HEAD: Final = """# Gallery

One report for every captured incident, as `gpudiag explain` writes it today, in three forms. `scripts/gallery` writes
them again; a test compares them, so a change to a rule or to a page shows here what it does to every report. Only the
digest of the rules is left out.

| incident | forms | verdict |
| --- | --- | --- |
"""


def incidents() -> tuple[Incident, ...]:
    """Those that have a report in the gallery."""
    return (*captures(), *transcripts())


def report_of(incident: Incident) -> Report:
    """The report as the gallery shows it. The working directory must be ROOT: paths are shown as they were given."""
    report = explain([incident.path.relative_to(ROOT)])
    return report.model_copy(update={"tool": report.tool.model_copy(update={"rules_digest": _NO_DIGEST})})


def files_of(incident: Incident, report: Report) -> dict[str, str]:
    """Text by file name."""
    paths = [Path(incident.name + suffix) for suffix in SUFFIXES]
    return {path.name: renderer(path)(report) for path in paths}


def index_row(incident: Incident, report: Report) -> str:
    """The incident's line in the gallery's own README."""
    name = incident.name
    forms = ", ".join(f"[{label}]({name}{suffix})" for label, suffix in zip(_LABELS, SUFFIXES, strict=True))
    verdict = markdown_text(f"{word(OUTCOME_WORDS, report.outcome)}. {report.summary}")
    return f"| {name} | {forms} | {verdict} |"


def index(rows: list[str]) -> str:
    """The gallery's README."""
    return _INDEX_HEAD + "\n".join(rows) + "\n"


def files() -> Iterator[tuple[str, str]]:
    """Every file's name and text."""
    rows: list[str] = []
    for incident in incidents():
        report = report_of(incident)
        rows.append(index_row(incident, report))
        yield from files_of(incident, report).items()
    yield INDEX, index(rows)


def write() -> None:
    """Write all of them, and remove what no incident stands behind any more."""
    written = set[Path]()
    for name, text in files():
        path = FOLDER / name
        path.write_text(text, encoding="utf-8", newline="\n")
        written.add(path)
    for path in set(FOLDER.iterdir()) - written:
        if path.suffix in SUFFIXES:
            path.unlink()


if __name__ == "__main__":
    write()
