"""The browser that the tests of this folder and the README's picture use."""

from __future__ import annotations

import shutil
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")
"""Root may not use the sandbox; the others keep the browser from asking for updates of its own."""


def find() -> str | None:
    """Path of the first one that is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)
