"""A compiled stand-in for NVIDIA's management library, for what only a real one can do: hang, crash, lay out bytes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "fixtures/nvml-stub"


def compiled(folder: Path, source: str = "nvml.c") -> dict[str, str]:
    """The environment in which a program finds the stand-in; ``NVML_STUB`` in it says how it behaves."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on this machine: the library was not stood in for")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(SOURCES / source)], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}
