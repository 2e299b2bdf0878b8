"""The plan as a POSIX shell script that checks before it acts and looks afterwards.

The script is for a person who would rather not paste line by line. It runs under ``dash`` as well as ``bash``; what it
needs besides is in every base system (``sed``, ``cut``, ``tr``, ``awk``).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpudiag.report.contract import Gpu, Host, KillEntry, Report
from gpudiag.report.escape import visible

GRACE_S: Final = 30
"""Between TERM and KILL: vLLM's shutdown takes up to ten seconds; a model being unloaded by its engine takes longer."""
PATIENCE_S: Final = 60
"""For the memory after the last process has ended; pinned host memory is given back at about 6 GiB/s."""
ENOUGH: Final = 0.9
"""Share of the planned memory that has to come back: somebody else may start in the meantime."""


class NothingToDoError(ValueError):
    """The report names no process to kill."""


class SeveralMachinesError(ValueError):
    """The plan has processes on more than one machine, and a script runs on one."""


def render(report: Report) -> str:
    """The script for the plan of a report."""
    kills = sorted((entry for entry in report.plan.kill if entry.run_in == "host"), key=lambda entry: entry.order)
    if not kills:
        raise NothingToDoError("the plan names no process to kill on the host")
    hosts = {entry.host for entry in kills}
    if len(hosts) > 1:
        raise SeveralMachinesError(f"the plan has processes on {len(hosts)} machines; explain one at a time")
    host = next(host for host in report.hosts if host.id in hosts)
    conditions = _gpu_conditions([gpu for gpu in report.gpus if gpu.host == host.id], kills)
    return (
        _environment()
        .get_template("clean_up.sh.j2")
        .render(
            report=report,
            kills=kills,
            pids=[entry.pid for entry in kills],
            terms=[entry.pid for entry in kills if entry.signal == "TERM"],
            kills_at_once=[entry.pid for entry in kills if entry.signal != "TERM"],
            stops=report.plan.stop_first,
            rungs=_rungs(report),
            gpu_filter=f"({' || '.join(conditions)}) && " if conditions else "",
            gpu_words="the GPUs of the plan" if conditions else "all GPUs of this machine",
            **_machine(host, kills),
            **_expected(kills),
            grace_s=GRACE_S,
            patience_s=PATIENCE_S,
        )
    )


def _machine(host: Host, kills: Sequence[KillEntry]) -> dict[str, object]:
    """A boot id proves the machine; a name does it only for evidence that has nothing better."""
    boot_id = host.boot_id if all(entry.identity == "strong" for entry in kills) else None
    return {"boot_id": boot_id, "host_name": host.name or "the machine of the report", "known_name": bool(host.name)}


def _expected(kills: Sequence[KillEntry]) -> dict[str, int]:
    frees = sum(int(entry.frees_mib or 0) for entry in kills)
    return {"frees_mib": frees, "enough_mib": max(1, int(frees * ENOUGH))}


def _gpu_conditions(gpus: Sequence[Gpu], kills: Sequence[KillEntry]) -> list[str]:
    """For awk, the GPUs that these processes hold memory on; none where one of them has no name to ask for."""
    pids = {entry.pid for entry in kills}
    held = [_gpu_condition(gpu) for gpu in gpus if any(row.pid in pids for row in gpu.ledger)]
    named = [condition for condition in held if condition is not None]
    return named if len(named) == len(held) else []


def _gpu_condition(gpu: Gpu) -> str | None:
    """By UUID, else by index, which stays the same until the machine starts anew."""
    if gpu.uuid and _plain(gpu.uuid):
        return f'$1 == "{gpu.uuid}"'
    return None if gpu.index is None else f"$2 == {gpu.index}"


def _plain(uuid: str) -> bool:
    """Nothing that awk or the shell could take for syntax."""
    return uuid.isascii() and uuid.replace("-", "").isalnum()


def _rungs(report: Report) -> list[str]:
    """What the report advises after the kills; words for a person, never run."""
    return [
        f"Then ({entry.kind.replace('_', ' ')}): {entry.because}" + (f": {entry.command}" if entry.command else "")
        for entry in report.plan.then
        if entry.kind not in ("verify", "wait")
    ]


def _environment() -> Environment:
    # No HTML comes out of it: what is foreign passes `sh`, `printed` or `comment`.
    environment = Environment(
        loader=PackageLoader("gpudiag.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Jinja types its filters as a plain dict.
    environment.filters.update(  # pyright: ignore[reportUnknownMemberType]
        sh=shlex.quote, printed=visible, comment=visible
    )
    return environment
