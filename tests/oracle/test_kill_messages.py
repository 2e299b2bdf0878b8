"""What the real kills say of a number that nobody has."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gpudiag.timeline.messages import no_such_process

PID = 2**22 + 1
"""Beyond the largest number that the kernel gives out."""


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", "kill"])
def test_the_number_is_read(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    argv = [program, "-9", str(PID)] if shell == "kill" else [program, "-c", f"kill -9 {PID}"]
    said = subprocess.run(argv, capture_output=True, text=True, check=False).stderr
    assert no_such_process(said, (PID,)) == [PID]
