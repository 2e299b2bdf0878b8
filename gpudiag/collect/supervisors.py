"""Who would start it again: units, containers, jobs and pods around the processes of interest."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from gpudiag.collect.ask import Answer, ask
from gpudiag.collect.groups import Keepers
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Ended, Out, Source

_DEADLINE_S = 4.0
_PROPERTIES = "Id,ActiveState,SubState,MainPID,Restart,KillMode,ExecStart"
_TEMPLATE = "{{.Id}} {{.Name}} {{.State.Pid}} {{.HostConfig.RestartPolicy.Name}} {{.State.Status}}"
_ENGINES = ("docker", "podman", "nerdctl")
_UNITS_CAP = 20
_CONTAINERS_CAP = 20


def sources(machine: Machine, keepers: Keepers) -> list[Source]:
    """A source for each that could be asked; none for what is not there."""
    found: list[Source] = []
    if keepers.units:
        argv = ("systemctl", "show", "--no-pager", "-p", _PROPERTIES, *keepers.units[:_UNITS_CAP])
        found.append(_asked(machine, "units", "units.txt", argv))
    for uid, unit in keepers.user_units[:1]:
        argv = ("systemctl", "--user", "-M", f"{uid}@.host", "show", "--no-pager", "-p", _PROPERTIES, unit)
        found.append(_asked(machine, "units of a user", "user-units.txt", argv))
    if keepers.containers:
        engine = next((name for name in _ENGINES if machine.tool(name) is not None), None)
        argv = (engine or "docker", "inspect", "--format", _TEMPLATE, *keepers.containers[:_CONTAINERS_CAP])
        found.append(_asked(machine, "containers", "containers.txt", argv))
    return found


def _asked(machine: Machine, name: str, member: str, argv: Sequence[str]) -> Source:
    def produce(out: Out) -> None:
        answer = Answer()
        for line in ask(machine, argv, _DEADLINE_S - 1, out.started, answer):
            out.line(line)
        if not answer.good:
            late = answer.because is not None and "did not end" in answer.because
            raise Ended("timed_out" if late else "truncated", answer.because or f"exit code {answer.exit_code}")

    absent = None if machine.tool(argv[0]) is not None else f"{argv[0]} is not installed"
    return Source(name, member, _DEADLINE_S, produce=produce, command=shlex.join(argv), absent=absent)
