"""axe-core finds nothing to object to: on the screen in light and dark, and on paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from gpudiag.report import html
from tests.browser.conftest import Media, Open, Opened, Scheme
from tests.unit.report import sample

pytestmark = pytest.mark.browser

GALLERY = Path(__file__).parents[2] / "reports"
PAGES: dict[str, Callable[[], str]] = {
    "held": lambda: _shown("selfmatch-orphans"),
    "releasing": lambda: _shown("teardown-pinned-40g"),
    "a transcript": lambda: _shown("ghost-workers"),
    "nothing held": lambda: _shown("idle"),
    "hostile": lambda: html.render(sample.hostile()),
    "empty": lambda: html.render(sample.empty()),
    "large": lambda: html.render(sample.crowded(gpus=2, workers=20, hours=1)),
}
LOOKS: tuple[tuple[Scheme, Media], ...] = (("light", "screen"), ("dark", "screen"), ("light", "print"))


def _shown(name: str) -> str:
    return (GALLERY / f"{name}.html").read_text(encoding="utf-8")


def _objections(opened: Opened) -> list[str]:
    """Violations of any rule of axe-core, best practices among them, with the first element each."""
    found = Axe().run(opened.page).response
    return [f"{rule['id']}: {rule['nodes'][0]['html'][:200]}" for rule in found["violations"]]


@pytest.mark.parametrize("name", PAGES)
def test_axe_objects_to_nothing(name: str, open_page: Open) -> None:
    source = PAGES[name]()
    for scheme, media in LOOKS:
        # The page's policy forbids scripts, axe's too.
        opened = open_page(source, scheme=scheme, media=media, bypass_csp=True)
        # What is folded is a part of the page as well.
        opened.page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        assert _objections(opened) == [], f"{scheme}, {media}"


def test_axe_objects_to_a_bad_page(open_page: Open) -> None:
    bad = "<!doctype html><html><body><img src='data:,'><p style='color:#bbb'>pale</p></body></html>"
    rules = {objection.partition(":")[0] for objection in _objections(open_page(bad, bypass_csp=True))}
    assert {"image-alt", "color-contrast", "html-has-lang", "document-title"} <= rules
