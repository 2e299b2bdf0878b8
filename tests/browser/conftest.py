"""A headless browser for the tests of this folder."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)

# A frame has the width that a window of a headless browser refuses; its page cannot run this script.
_FRAME = """<!doctype html><meta charset=utf-8><body style="margin:0">
<iframe id=f src="{page}" style="border:0;width:{width}px;height:800px"></iframe><pre id=out></pre><script>
f.onload = () => {{
  const page = f.contentDocument, root = page.documentElement;
  const wide = [...page.querySelectorAll("body *")].filter(
    (e) => e.getBoundingClientRect().right > root.clientWidth + 1).map((e) => e.tagName);
  out.textContent = JSON.stringify({{width: root.scrollWidth, view: root.clientWidth, height: root.scrollHeight,
    wide: wide, loaded: f.contentWindow.performance.getEntriesByType("resource").map((e) => e.name),
    font: getComputedStyle(page.querySelector("h1")).fontSize,
    headings: [...page.querySelectorAll("h1,h2,h3")].map((e) => +e.tagName[1])}});
}};
</script>"""


@dataclass(frozen=True)
class Seen:
    """What the browser made of a page."""

    measured: str
    """JSON: width, view, height, wide, loaded, font, headings."""
    console: tuple[str, ...]
    """Messages of the console: errors, refused loads."""


@pytest.fixture(scope="session")
def browser() -> str:
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    pytest.skip(f"NO BROWSER: none of {', '.join(BROWSERS)} is installed, so the pages were not looked at")


@pytest.fixture
def look(browser: str, tmp_path: Path) -> Callable[[Path, int], Seen]:
    """Open a page in a frame of some width, measure it, and collect what the console says."""

    def open_page(page: Path, width: int) -> Seen:
        frame = tmp_path / f"frame-{width}.html"
        frame.write_text(_FRAME.format(page=page.as_uri(), width=width), encoding="utf-8")
        done = subprocess.run(
            [
                browser,
                *FLAGS,
                "--allow-file-access-from-files",
                f"--user-data-dir={tmp_path / 'profile'}",
                f"--window-size={width + 40},900",
                "--dump-dom",
                frame.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        )
        out = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
        console = tuple(line for line in done.stderr.splitlines() if "CONSOLE" in line)
        return Seen(html.unescape(out[1]) if out else "", console)

    return open_page
