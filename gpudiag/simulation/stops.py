"""Stops that go by control group: ``systemctl stop|kill UNIT`` and ``docker|podman stop|kill|rm -f NAME``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpudiag.shell.lines import Step
from gpudiag.shell.selection import Selection, Verdict
from gpudiag.shell.signals import KILL, TERM
from gpudiag.shell.syntax import program_of
from gpudiag.shell.world import Caller

STOPPERS = frozenset({"systemctl", "docker", "podman"})
_SYSTEM_UNIT = re.compile(r"/system\.slice/(?:[^/]{1,200}\.slice/){0,4}(?P<unit>[^/]{1,200}\.service)(?:/|\Z)")
_CONTAINER = re.compile(r"(?:docker|libpod|crio|cri-containerd)[-/](?P<id>[0-9a-f]{12,64})")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:\\-]{0,200}")
_WITH_VALUE = ("-s", "--signal", "-t", "--time", "-n")


@dataclass(frozen=True)
class ControlGroups:
    """Which control group the processes of a look are in, by PID; a missing PID was not recorded."""

    paths: Mapping[int, str]
    units: Mapping[str, frozenset[int]]
    """PIDs of a unit, where its own status listed them."""
    containers: Mapping[str, str]
    """Id (its first twelve digits) by name and by id."""

    def unit_of(self, pid: int) -> str | None:
        """The system service that the process belongs to."""
        found = _SYSTEM_UNIT.match(self.paths.get(pid, ""))
        return found["unit"] if found is not None else None

    def container_of(self, pid: int) -> str | None:
        """Id of the container that the process belongs to, twelve digits."""
        found = _CONTAINER.search(self.paths.get(pid, ""))
        return found["id"][:12] if found is not None else None

    def in_unit(self, pid: int, unit: str) -> bool | None:
        """Whether a stop of the unit reaches the process."""
        if pid in self.paths:
            return self.unit_of(pid) == unit
        return pid in self.units[unit] if unit in self.units else None

    def in_container(self, pid: int, name: str) -> bool | None:
        """Whether a stop of the container reaches the process."""
        own = self.container_of(pid)
        if own is None:
            return False if pid in self.paths else None
        wanted = self.containers.get(name) or self.containers.get(name[:12])
        return None if wanted is None else own == wanted


def stop_selection(step: Step, groups: ControlGroups, pids: Sequence[int], caller: Caller) -> Selection | None:
    """Whom the step stops; ``None`` if it is no such stop, or not a plain one."""
    program = program_of(step)
    options, operands = _split([word.text for word in step.words[1:]])
    if program not in STOPPERS or None in operands or step.container is not None:
        return None
    verb, names = (operands[0] if operands else None), [name for name in operands[1:] if name is not None]
    if (
        not names
        or any(_PLAIN_NAME.fullmatch(name) is None for name in names)
        or set(options) & {"--user", *_WITH_VALUE}
    ):
        return None
    if program == "systemctl" and verb in ("stop", "kill"):
        units = [name if "." in name else f"{name}.service" for name in names]
        signal = TERM if verb == "kill" else KILL
        return _selection(units, groups.in_unit, pids, caller, signal, "unit")
    if program != "systemctl" and (verb in ("stop", "kill") or (verb == "rm" and "-f" in options)):
        return _selection(names, groups.in_container, pids, caller, KILL, "container")
    return None


def _split(words: Sequence[str | None]) -> tuple[list[str], list[str | None]]:
    options = [word for word in words if word is not None and word.startswith("-")]
    return [option.partition("=")[0] for option in options], [w for w in words if w is None or not w.startswith("-")]


def _selection(
    names: Sequence[str],
    contains: Callable[[int, str], bool | None],
    pids: Sequence[int],
    caller: Caller,
    signal: int,
    what: str,
) -> Selection:
    """A stop sends SIGTERM first and SIGKILL to whoever is left; what it comes to is SIGKILL."""
    permitted = True if caller.is_root else None
    verdicts: list[Verdict] = []
    for pid in pids:
        answers = [contains(pid, name) for name in names]
        inside = True if True in answers else (None if None in answers else False)
        verb = {True: "is in", False: "is not in", None: "is not recorded to be in or outside"}[inside]
        verdicts.append(Verdict(pid, inside, permitted, None, f"it {verb} the {what} {', '.join(names)}"))
    return Selection(tuple(verdicts), signal)
