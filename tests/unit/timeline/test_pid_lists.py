"""Lists of PIDs from files, and what is not known of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpudiag.model import Citation, KillAction, PidFile, Place
from gpudiag.timeline.pid_lists import pid_lists

CITED = Citation("I1", "session.txt", 1, "")


def action(text: str) -> KillAction:
    return KillAction(
        host="h",
        text=text,
        argv=None,
        how="prompt",
        time_ns=None,
        end_ns=None,
        time_error_ns=0,
        after_look=None,
        user=None,
        exit_code=None,
        output=None,
        script_text=None,
        source="transcript",
        cited=CITED,
    )


def file(path: str, pid: int) -> PidFile:
    return PidFile(Place("h", "I1:look-1", None), path, pid, CITED)


FILES = [file("/home/u/run/shard-0.pid", 41), file("/home/u/run/shard-1.pid", 42), file("run/other.pid", 7)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("kill $(cat run/other.pid)", {"cat run/other.pid": {7}}),
        ("kill `cat run/other.pid`", {"cat run/other.pid": {7}}),
        ("kill $(< run/other.pid)", {"< run/other.pid": {7}}),
        ("for f in ~/run/shard-*.pid; do kill $(cat $f); done", {"cat $f": {41, 42}}),
        ('for f in ~/run/shard-?.pid; do kill "$(cat "$f")"; done', {'cat "$f"': {41, 42}}),
        ("kill $(cat ~/run/shard-1.pid)", {"cat ~/run/shard-1.pid": {42}}),
        ("kill $(cat run/unknown.pid)", {}),
        ("kill $(cat $f)", {}),
        ("for f in /tmp/*.pid; do kill $(cat $f); done", {}),
    ],
)
def test_lists(text: str, found: dict[str, set[int]]) -> None:
    assert pid_lists(action(text), FILES) == found


def test_the_newest_content_counts() -> None:
    renewed = [*FILES, replace(FILES[2], pid=8)]
    assert pid_lists(action("kill $(cat run/other.pid)"), renewed) == {"cat run/other.pid": {8}}


def test_a_long_line_takes_no_time() -> None:
    assert pid_lists(action("for f in " + "a " * 200_000 + "; do kill $(cat $f); done"), FILES) == {}
