"""Sources that are not part of a look: what was done, and what the machine says about it."""

from __future__ import annotations

from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Context, Out, Source
from gpudiag.collect.watching import taken

_KILLS_DEADLINE_S = 8.0
_KERNEL_DEADLINE_S = 5.0
_HOST_DEADLINE_S = 5.0


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
        *taken.sources(machine, context.ring),
    ]
    if context.logs:
        from gpudiag.collect import logs

        found += logs.sources(machine, [logs.LogFile(path, path) for path in context.logs])
    return found


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
