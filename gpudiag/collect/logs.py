"""The server's logs: where a person says they are, else where the output of the processes of interest goes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Callable, NamedTuple

from gpudiag.collect.ask import Answer, ask
from gpudiag.collect.groups import Keepers
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Ended, Out, Source
from gpudiag.collect.tails import TAIL, tail

_FILES_CAP = 8
_JOURNALS_CAP = 4
_DEADLINE_S = 5.0
_JOURNAL_LINES = 20_000
_NOT_FILES = ("/dev/", "/proc/", "/memfd:", "/anon_hugepage", "/SYSV")
_DELETED = " (deleted)"
_ROTATED_BELOW = 65536
"""A log shorter than this was perhaps just begun, so that what matters is in the one before it."""


class LogFile(NamedTuple):
    """A log and the path by which it can be opened here."""

    shown: str
    """As the process sees it; in a container that is another tree."""
    opened: str


def sources(machine: Machine, files: Sequence[LogFile], keepers: Keepers | None = None) -> list[Source]:
    """One for each log, numbered: ``server-1.log``. ``keepers``: their journals, too."""
    found = [(f"tail -c {TAIL} {shlex.quote(file.shown)}", _from_file(file)) for file in files[:_FILES_CAP]]
    if keepers is not None:
        found += [(" ".join(argv), _from_journal(machine, argv)) for argv in _journals(keepers)]
    return [
        Source("server log", f"server-{number}.log", _DEADLINE_S, produce=produce, command=command)
        for number, (command, produce) in enumerate(found, 1)
    ]


def written_by(proc: str, pids: Iterable[int]) -> list[LogFile]:
    """Files behind standard output and error. The links are read, not what they lead to: that may hang (NFS)."""
    found: dict[str, LogFile] = {}
    for pid in pids:
        for number in (1, 2):
            link = f"{proc}/{pid}/fd/{number}"
            try:
                target = os.readlink(link)  # noqa: PTH115
            except OSError:
                continue
            if target.startswith("/") and not target.startswith(_NOT_FILES):
                # The link opens the very file, also a deleted one and one of another mount namespace.
                found.setdefault(target, LogFile(target, link))
            if len(found) >= _FILES_CAP:
                return list(found.values())
    return list(found.values())


def container_logs(keepers: Keepers, root: str = "/") -> list[LogFile]:
    """What docker and the kubelet write for these containers and pods, where that can be seen."""
    base = Path(root)
    found = [base / "var/lib/docker/containers" / name / f"{name}-json.log" for name in keepers.containers]
    for pod in keepers.pods[:_FILES_CAP]:
        found += _listed(base / "var/log/pods", pod)
    return [LogFile(str(path), str(path)) for path in found if os.access(path, os.R_OK)]


def _listed(folder: Path, pod: str) -> list[Path]:
    """The newest log of each of a pod's containers: ``NAMESPACE_NAME_UID/CONTAINER/N.log``."""
    try:
        pods = [entry for entry in sorted(folder.iterdir()) if entry.name.endswith(f"_{pod}")]
        containers = [entry for folder in pods for entry in sorted(folder.iterdir()) if entry.is_dir()]
        logs = [sorted(entry.glob("*.log"), key=lambda path: (len(path.name), path.name)) for entry in containers]
    except OSError:
        return []
    return [path for paths in logs for path in paths[-1:]]


def _from_file(file: LogFile) -> Callable[[Out], None]:
    def produce(out: Out) -> None:
        lines, cut = tail(file.opened)
        size = sum(len(line) + 1 for line in lines)
        if not cut and size < _ROTATED_BELOW and not file.shown.endswith(_DELETED):
            for line in _rotated(file.shown):
                out.line(line.decode("utf-8", "surrogateescape"))
        for line in lines:
            out.line(line.decode("utf-8", "surrogateescape"))
        if cut:
            raise Ended("ok", f"the last {TAIL >> 20} MiB of it")

    return produce


def _rotated(path: str) -> list[bytes]:
    try:
        return tail(f"{path}.1")[0]
    except OSError:
        return []


def _journals(keepers: Keepers) -> Iterator[tuple[str, ...]]:
    plain = ("journalctl", "-q", "--no-pager", "-b", "-n", str(_JOURNAL_LINES), "-o", "short-iso-precise")
    # The container engines' own scopes hold no log of what runs in them.
    units = [unit for unit in keepers.units if unit.endswith(".service")]
    users = [(uid, unit) for uid, unit in keepers.user_units if unit.endswith(".service")]
    commands = [(*plain, "-u", unit) for unit in units]
    commands += [(*plain, f"_UID={uid}", f"_SYSTEMD_USER_UNIT={unit}") for uid, unit in users]
    yield from commands[:_JOURNALS_CAP]


def _from_journal(machine: Machine, argv: Sequence[str]) -> Callable[[Out], None]:
    def produce(out: Out) -> None:
        answer = Answer()
        for line in ask(machine, argv, _DEADLINE_S - 1, out.started, answer):
            out.line(line)
        if not answer.good:
            outcome = "absent" if answer.exit_code is None and machine.tool(argv[0]) is None else "truncated"
            raise Ended(outcome, answer.because or f"exit code {answer.exit_code}", answer.exit_code)

    return produce
