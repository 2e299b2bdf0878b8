"""A path that somebody named -> exhibits: raw text with its place, time and command."""

from __future__ import annotations

from pathlib import Path

from gpudiag.evidence.bundle import is_bundle, read_bundle
from gpudiag.evidence.directory import read_directory
from gpudiag.evidence.exhibit import Exhibit, Input, LookName, Unreadable
from gpudiag.evidence.transcript import read_transcript

__all__ = ["Exhibit", "Input", "LookName", "Unreadable", "read_input"]


def read_input(path: Path, input_id: str) -> Input:
    """Read a directory of captured outputs, a bundle or a text; raise ``Unreadable`` if it holds nothing usable."""
    if path.is_dir():
        return read_directory(path, input_id)
    if is_bundle(path):
        return read_bundle(path, input_id)
    return read_transcript(path, input_id)
