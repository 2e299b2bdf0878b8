"""The pages that are looked at: some of the gallery, each of another kind, and some made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpudiag.report import html
from gpudiag.report.contract import Report
from tests.unit.report import sample

GALLERY: Final = Path(__file__).parents[2] / "reports"


def _shown(name: str) -> Callable[[], str]:
    return lambda: (GALLERY / f"{name}.html").read_text(encoding="utf-8")


def _made(make: Callable[[], Report]) -> Callable[[], str]:
    return lambda: html.render(make())


PAGES: Final = {
    "held": _shown("selfmatch-orphans"),
    "started again": _shown("respawned"),
    "releasing": _shown("teardown-pinned-40g"),
    "a transcript": _shown("ghost-workers"),
    "nothing held": _shown("idle"),
    "hostile": _made(sample.hostile),
    "empty": _made(sample.empty),
    "crowded": _made(lambda: sample.crowded(gpus=2, workers=20, hours=1)),
}
"""Source by kind."""
