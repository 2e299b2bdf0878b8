"""A rule's case as an input on disk, so that it goes through the real parsers like anybody's evidence."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpudiag.rules.schema import Case


def lay_out(case: Case, fixtures: Path, scratch: Path) -> Path:
    """The case's evidence as a path to explain; whatever must be changed is a copy below ``scratch``."""
    if case.transcript is not None:
        target = scratch / "transcript.txt"
        target.write_text(case.transcript, encoding="utf-8")
        return target
    source = fixtures / (case.input or "")
    if not case.without:
        return source
    target = scratch / source.name
    shutil.copytree(source, target)
    for pattern in case.without:
        _remove(target, pattern)
    return target


def _remove(directory: Path, pattern: str) -> None:
    """A pattern that fits nothing is a mistake in the case: it would test the full evidence."""
    found = [path for path in directory.glob(pattern) if path.is_file()]
    if not found:
        raise ValueError(f"without: {pattern!r} fits no file of {directory.name}")
    for path in found:
        path.unlink()
