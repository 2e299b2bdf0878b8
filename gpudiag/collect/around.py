"""``supervisors.txt``: who looks after the processes of interest, and where they write; then those are asked.

To find it out takes a look at each process and at folders that may hang, so that it is a source of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudiag.collect.groups import Keepers
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Out, Source

_DEADLINE_S = 3.0
_LINE = re.compile(r"(?P<key>unit|user_unit|container|pod|log)(?: (?P<detail>[^\s:]{1,4096}))?: (?P<value>.+)\Z")


def source(machine: Machine, interest: Sequence[int], *, logs: bool) -> Source:
    """``logs``: look for them; else a person has said which they are."""
    return Source(
        "who looks after them",
        "supervisors.txt",
        _DEADLINE_S,
        produce=lambda out: produce(machine, interest, out, logs=logs),
        then=lambda text: following(machine, text, logs=logs),
    )


def produce(machine: Machine, interest: Sequence[int], out: Out, *, logs: bool) -> None:
    """A line for each."""
    from gpudiag.collect.groups import keepers
    from gpudiag.collect.logs import container_logs, written_by

    found = keepers(machine.proc, interest)
    for unit in found.units:
        out.line(f"unit: {unit}")
    for uid, unit in found.user_units:
        out.line(f"user_unit {uid}: {unit}")
    for container in found.containers:
        out.line(f"container: {container}")
    for pod in found.pods:
        out.line(f"pod: {pod}")
    if not logs:
        return
    for file in (*written_by(machine.proc, interest), *container_logs(found)):
        if file.shown.isprintable() and file.opened.isprintable():
            out.line(f"log {file.opened}: {file.shown}")


def following(machine: Machine, text: str, *, logs: bool) -> list[Source]:
    """Their logs, and what is asked about them."""
    from gpudiag.collect import supervisors
    from gpudiag.collect.logs import LogFile, sources

    rows = [match.group("key", "detail", "value") for line in text.split("\n") if (match := _LINE.match(line))]

    def named(key: str) -> tuple[str, ...]:
        return tuple(value for found, _, value in rows if found == key)

    users = tuple((int(detail), value) for key, detail, value in rows if key == "user_unit" and detail.isdecimal())
    keepers = Keepers(named("unit"), users, named("container"), named("pod"))
    files = [LogFile(value, detail) for key, detail, value in rows if key == "log" and detail]
    return [*(sources(machine, files, keepers) if logs else ()), *supervisors.sources(machine, keepers)]
