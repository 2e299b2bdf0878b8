"""A report written to a file, in the form that the file's suffix names."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpudiag.report.contract import Report


def _html(report: Report) -> str:
    # Imported here because a JSON or text report needs no template engine.
    from gpudiag.report import html

    return html.render(report)


def _markdown(report: Report) -> str:
    from gpudiag.report import markdown

    return markdown.render(report)


def _text(report: Report) -> str:
    from gpudiag.report import terminal

    return terminal.render(report)


RENDERERS: Final[dict[str, Callable[[Report], str]]] = {
    ".html": _html,
    ".md": _markdown,
    ".json": Report.to_json,
    ".txt": _text,
}
"""Form by suffix."""


class UnknownSuffixError(ValueError):
    """The file's name does not say which form is wanted."""


def renderer(path: Path) -> Callable[[Report], str]:
    """The form for a file; to be asked before the work, so that a mistyped name costs nothing."""
    found = RENDERERS.get(path.suffix.lower())
    if found is None:
        raise UnknownSuffixError(f"{path.name!r}: the name must end in one of {', '.join(RENDERERS)}")
    return found


def write(report: Report, path: Path) -> None:
    """Write the report in the form that the suffix names."""
    write_text(renderer(path)(report), path)


def write_text(text: str, path: Path) -> None:
    """The file is there whole or not at all, and an older one stays until then."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
