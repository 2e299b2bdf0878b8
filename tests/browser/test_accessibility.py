"""axe-core finds nothing to object to: on the screen in light and dark, and on paper."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import Media, Open, Opened, Scheme
from tests.browser.pages import PAGES

pytestmark = pytest.mark.browser

LOOKS: tuple[tuple[Scheme, Media], ...] = (("light", "screen"), ("dark", "screen"), ("light", "print"))


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
        opened.unfold()
        assert _objections(opened) == [], f"{scheme}, {media}"


def test_axe_objects_to_a_bad_page(open_page: Open) -> None:
    bad = "<!doctype html><html><body><img src='data:,'><p style='color:#bbb'>pale</p></body></html>"
    rules = {objection.partition(":")[0] for objection in _objections(open_page(bad, bypass_csp=True))}
    assert {"image-alt", "color-contrast", "html-has-lang", "document-title"} <= rules
