"""Signs that the driver's PIDs are the reader's own, where no full process table shows the host's PID namespace.

In a container a listed PID is absent and its process alive under another number. That is excluded for a number that a
``kill`` found there, and on a machine that answered as one: the batch system's and systemd's tools work on hosts (a
container that Slurm itself starts has the host's PIDs).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpudiag.model import KillAction
from gpudiag.shell.syntax import simple_commands
from gpudiag.timeline.lives import Census

_PLAIN_KILL = re.compile(r"(?:sudo\s+)?kill(?:\s+-(?!0\b|l\b)\w{1,9})?(?P<pids>(?:\s+\d{1,10}){1,64})\s*\Z")
_JOB_NOTICE = re.compile(r"\s*(?:\[\d{1,4}\][+-]?\s.{0,300}\s*)?\Z")
_HOST_COMMANDS = frozenset({"scancel", "squeue", "scontrol", "systemctl"})
_FAILED = re.compile(r"not found|No such file|Failed to connect to bus|not been booted with systemd|Unable to contact")
_TEXT_CAP = 4096


def note_own_numbers(census: Census, actions: Iterable[KillAction]) -> None:
    """Tell the census which numbers are the reader's own, and which hosts answered as hosts."""
    for action in actions:
        for pid in _found_by(action):
            census.note_own(action.host, pid)
        if _answered_as_host(action):
            census.note_host(action.host)


def _found_by(action: KillAction) -> Iterator[int]:
    """PIDs of a plain ``kill`` that said nothing, or only that the shell's own job ended."""
    match = _PLAIN_KILL.match(action.text.strip()[:_TEXT_CAP])
    if match is None or action.output is None or action.exit_code not in (None, 0):
        return
    if _JOB_NOTICE.match(action.output[:_TEXT_CAP]) and len(action.output) <= _TEXT_CAP:
        yield from (int(pid) for pid in match["pids"].split())


def _answered_as_host(action: KillAction) -> bool:
    if action.output is None or _FAILED.search(action.output[:_TEXT_CAP]):
        return False
    commands = simple_commands(action.text[:_TEXT_CAP])
    return any(argv and argv[0].rsplit("/", 1)[-1] in _HOST_COMMANDS for argv in commands)
