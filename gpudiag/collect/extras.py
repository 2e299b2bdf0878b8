"""Sources that are not part of a look: what was done, and what the machine says about it."""

from __future__ import annotations

import os

from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Context, Out, Source
from gpudiag.collect.watching import places

_KILLS_DEADLINE_S = 8.0
_KERNEL_DEADLINE_S = 5.0
_HOST_DEADLINE_S = 5.0
_RING_DEADLINE_S = 15.0


def sources(context: Context) -> list[Source]:
    """Those that need not know the processes of interest; they run beside the first look."""
    machine = context.machine
    found = [
        Source(
            "kill commands",
            "kill-commands.json",
            _KILLS_DEADLINE_S,
            produce=lambda out: _kill_commands(context, out),
            evidence="kill commands",
        ),
        Source(
            "kernel log",
            "kernel.log",
            _KERNEL_DEADLINE_S,
            produce=lambda out: _kernel(machine, out),
            command="dmesg",
        ),
        Source("host", "host.txt", _HOST_DEADLINE_S, produce=lambda out: _host(machine, out)),
        *_flight_recorder(machine, context.ring),
    ]
    if context.logs:
        from gpudiag.collect import logs

        found += logs.sources(machine, [logs.LogFile(path, path) for path in context.logs])
    return found


def _flight_recorder(machine: Machine, folder: str | None) -> list[Source]:
    """``folder``: of the ring, where a person has named one. None where nobody has ever recorded."""
    looked = places.folders(folder, root=machine.root)
    if folder is None and not any(os.path.isdir(name) for name in looked):  # noqa: PTH112
        return []
    return [Source("flight recorder", "watch.jsonl", _RING_DEADLINE_S, produce=lambda out: _ring(machine, looked, out))]


# What a child does is imported in the child: there it costs nobody else time.


def _kill_commands(context: Context, out: Out) -> None:
    from gpudiag.collect import kill_commands

    kill_commands.produce(context, out)


def _kernel(machine: Machine, out: Out) -> None:
    from gpudiag.collect import kernel

    kernel.produce(machine, out, _KERNEL_DEADLINE_S)


def _host(machine: Machine, out: Out) -> None:
    from gpudiag.collect import host

    host.produce(machine, out)


def _ring(machine: Machine, looked: list[str], out: Out) -> None:
    from gpudiag.collect.watching import taken

    taken.produce(machine, looked, out)
