"""A headless browser for the tests of this folder: the machine's own Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from tests.browser.chromium import FLAGS, NAMES, find

TIMEOUT_MS = 60_000

Scheme = Literal["light", "dark"]
Media = Literal["screen", "print"]


@dataclass
class Opened:
    """A page that has been loaded, and everything it did on the way."""

    page: Page
    console: list[str] = field(default_factory=list[str])
    """Messages of the console: errors, refused loads."""
    dialogs: list[str] = field(default_factory=list[str])
    """What a script of the page said in a dialog."""
    requests: list[str] = field(default_factory=list[str])
    """Addresses that were asked for, the page's own among them."""

    def dismiss(self, dialog: Dialog) -> None:
        """Note what it says, and let the page go on."""
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def unfold(self) -> None:
        """Open what is folded: it is a part of the page as well."""
        self.page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser a module: it has ended before tests elsewhere count processes and open files."""
    found = find()
    if found is None:
        pytest.skip(f"NO BROWSER: none of {', '.join(NAMES)} is installed, so the pages were not looked at")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=list(FLAGS), timeout=TIMEOUT_MS)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page given as text: at a width, in a scheme, for the screen or for paper."""
    with ExitStack() as contexts:

        def open_text(
            text: str, width: int = 1280, scheme: Scheme = "light", media: Media = "screen", bypass_csp: bool = False
        ) -> Opened:
            file = tmp_path / "report.html"
            file.write_text(text, encoding="utf-8")
            context = browser.new_context(viewport={"width": width, "height": 900}, bypass_csp=bypass_csp)
            contexts.callback(context.close)
            opened = Opened(context.new_page())
            opened.page.on("console", lambda message: opened.console.append(message.text))
            opened.page.on("pageerror", lambda error: opened.console.append(str(error)))
            opened.page.on("dialog", opened.dismiss)
            opened.page.on("request", lambda request: opened.requests.append(request.url))
            opened.page.emulate_media(media=media, color_scheme=scheme)
            opened.page.goto(file.as_uri(), timeout=TIMEOUT_MS)
            return opened

        yield open_text
