"""Takes the picture of a report that the README shows. Run as a module; it is not a test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from tests.browser.chromium import FLAGS, find

ROOT: Final = Path(__file__).parents[2]
REPORT: Final = ROOT / "reports" / "traced-selfmatch.html"
PICTURE: Final = ROOT / "docs" / "report.png"
WIDTH: Final = 1160


def take() -> None:
    """The first screen of the report: from its top to what must not be killed."""
    browser = find()
    if browser is None:
        sys.exit("No Chromium is installed, so no picture was taken.")
    with sync_playwright() as playwright:
        # Grey edges of letters make a smaller file than coloured ones.
        chromium = playwright.chromium.launch(executable_path=browser, args=[*FLAGS, "--disable-lcd-text"])
        page = chromium.new_page(viewport={"width": WIDTH, "height": 800}, color_scheme="light")
        page.goto(REPORT.as_uri())
        end: float = page.evaluate("() => document.querySelector('.todo ul').getBoundingClientRect().bottom")
        page.screenshot(path=PICTURE, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": round(end)})
        chromium.close()


if __name__ == "__main__":
    take()
