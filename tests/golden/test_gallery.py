"""The gallery under ``reports/`` is what the tool writes today."""

from __future__ import annotations

import pytest

from tests.golden import gallery
from tests.golden.expectations import Incident

STALE = "run scripts/gallery and look at what changed"


@pytest.mark.parametrize("incident", gallery.incidents(), ids=lambda incident: incident.name)
def test_report_in_the_gallery_is_current(incident: Incident, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(gallery.ROOT)
    report = gallery.report_of(incident)
    for name, text in gallery.files_of(incident, report).items():
        assert (gallery.FOLDER / name).read_text(encoding="utf-8") == text, f"{name}: {STALE}"
    assert gallery.index_row(incident, report) in (gallery.FOLDER / gallery.INDEX).read_text(encoding="utf-8"), STALE


def test_gallery_has_no_report_of_an_incident_that_is_gone() -> None:
    known = {incident.name + suffix for incident in gallery.incidents() for suffix in gallery.SUFFIXES}
    shown = {path.name for path in gallery.FOLDER.iterdir() if path.suffix in gallery.SUFFIXES}
    assert shown - {gallery.INDEX} == known
    rows = [line for line in (gallery.FOLDER / gallery.INDEX).read_text().splitlines() if line.startswith("| ")]
    assert len(rows) == len(gallery.incidents()) + 2


def test_the_readme_shows_a_picture_of_a_reasonable_size() -> None:
    picture = gallery.ROOT / "docs" / "report.png"
    assert "](docs/report.png)" in (gallery.ROOT / "README.md").read_text(encoding="utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert 10_000 < picture.stat().st_size <= 150_000
