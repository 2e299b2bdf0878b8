"""Words that kill refused, as six implementations say it."""

from __future__ import annotations

import pytest

from gpudiag.parse.list_words import refused_words


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("/etc/epilog.d/50-gpu: line 12: kill: Idx: arguments must be process or job IDs", "Idx"),
        ("sh: 1: kill: Illegal number: PID", "PID"),
        ("kill: failed to parse argument: 'python3'", "python3"),
        ('kill: cannot find process "python3"', "python3"),
        ("zsh: kill: illegal pid: pid,", "pid,"),
        ("kill: invalid number '[No'", "[No"),
    ],
)
def test_each_implementation(line: str, word: str) -> None:
    assert list(refused_words(f"first\n{line}\nlast")) == [(1, word)]


@pytest.mark.parametrize(
    "line",
    [
        "bash: kill: (4711) - No such process",
        "bash: kill: %1: no such job",
        "bash: kill: %1: arguments must be process or job IDs",
        "skill: Idx: arguments must be process or job IDs",
    ],
)
def test_other_messages(line: str) -> None:
    assert list(refused_words(line)) == []
