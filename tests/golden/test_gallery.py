"""The gallery under ``reports/`` is what the tool writes today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpudiag.explain import explain
from gpudiag.report import html
from tests.golden.expectations import Incident, captures, transcripts

ROOT = Path(__file__).parents[2]


def _without_digest(page: str) -> str:
    """Every edit of a rule changes the digest on every page; only what it changes besides is worth a look."""
    return re.sub(r"rules [0-9a-f]{64}", "rules", page)


@pytest.mark.parametrize("incident", [*captures(), *transcripts()], ids=lambda incident: incident.name)
def test_report_in_the_gallery_is_current(incident: Incident, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = (ROOT / "reports" / f"{incident.name}.html").read_text(encoding="utf-8")
    written = html.render(explain([incident.path.relative_to(ROOT)]))
    assert _without_digest(shown) == _without_digest(written), "run scripts/gallery and look at what changed"


def test_gallery_has_no_report_of_an_incident_that_is_gone() -> None:
    known = {f"{incident.name}.html" for incident in (*captures(), *transcripts())}
    assert {path.name for path in (ROOT / "reports").glob("*.html")} == known
