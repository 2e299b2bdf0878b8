"""What a person is told while it goes on and at its end: plain sentences on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudiag.collect.recording import Recorded
    from gpudiag.collect.runner import Job

_NAMED_PIDS = 4
"""PIDs in the last line; the report names them all."""


class Progress:
    """A line a look, and one for every source that did not go well; what repeats itself is said once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, job: Job) -> None:
        folder = job.member.rpartition("/")[0]
        if folder:
            self._once(f"gpudiag: {folder}")
        if job.outcome != "ok":
            self._once(f"gpudiag:   {job.source.name}: {job.outcome}" + (f", {job.because}" if job.because else ""))
        elif job.exit_code:
            self._once(f"gpudiag:   {job.source.name}: exit code {job.exit_code}")

    def _once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            say(sentence)


def without_root(instead: str) -> str:
    """What is missing without root's rights, and the command that adds it."""
    return (
        "gpudiag: not root: descriptors, signal masks and kernel stacks of other users' processes and the kernel "
        f"log are missing; `{instead}` adds them"
    )


def holds(done: Recorded) -> str:
    """What holds memory, in half a sentence."""
    if not done.answered:
        return "no GPU source answered"
    if not done.used_mib:
        return "no figure of a GPU's memory was told"
    used = ", ".join(f"GPU {index} {size:.0f} MiB" for index, size in sorted(done.used_mib.items()))
    largest = sorted(done.booked_mib.items(), key=lambda pair: -pair[1])
    names = ", ".join(f"PID {pid} {size:.0f} MiB" for pid, size in largest[:_NAMED_PIDS])
    more = f" and {len(largest) - _NAMED_PIDS} more" if len(largest) > _NAMED_PIDS else ""
    return f"used: {used}; booked: {names or 'on no PID'}{more}"


def say(sentence: str) -> None:
    """One line of ASCII, whatever is in it."""
    shown = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in sentence)
    try:
        sys.stderr.write(shown.encode("ascii", "backslashreplace").decode("ascii") + "\n")
        sys.stderr.flush()
    except OSError:
        return  # The terminal has gone; the bundle matters.
