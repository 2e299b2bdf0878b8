"""Files: the form by suffix, and whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.report import html, markdown, terminal
from gpudiag.report.write import UnknownSuffixError, write
from tests.unit.report import sample


def test_each_suffix_has_its_form(tmp_path: Path) -> None:
    report = sample.selfmatch()
    forms = {
        "r.html": html.render(report),
        "r.md": markdown.render(report),
        "r.json": report.to_json(),
        "r.txt": terminal.render(report),
        "R.JSON": report.to_json(),
    }
    for name, expected in forms.items():
        write(report, tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == expected


def test_unknown_suffix_names_the_known_ones_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownSuffixError, match=r"report\.pdf.*\.html, \.md, \.json, \.txt"):
        write(sample.empty(), tmp_path / "report.pdf")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "r.json"
    target.write_text("old", encoding="utf-8")

    def fail(fd: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write(sample.empty(), target)
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]
