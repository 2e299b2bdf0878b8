"""What a process's control group tells about who looks after it: a unit, a container, a pod."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_UNIT = re.compile(r"/([\w@:.\\-]{1,250}\.(?:service|scope))(?=/|\Z)")
_USER_MANAGER = re.compile(r"/user@(\d{1,10})\.service/")
_SESSION = re.compile(r"(?:session-\w{1,20}|init)\.scope\Z")
_CONTAINER = re.compile(r"(?:/docker/|docker-|libpod-|cri-containerd-|crio-|nerdctl-|/)([0-9a-f]{64})(?=[./]|\Z)")
_POD = re.compile(r"pod([0-9a-f]{8}[-_](?:[0-9a-f]{4}[-_]){3}[0-9a-f]{12})")
_TEXT_CAP = 65536
_PIDS_CAP = 500


class Keepers(NamedTuple):
    """All of them, in the order of the processes."""

    units: tuple[str, ...] = ()
    """Of the system's manager."""
    user_units: tuple[tuple[int, str], ...] = ()
    """Of a user's own manager, with the user's UID."""
    containers: tuple[str, ...] = ()
    """Ids of 64 digits."""
    pods: tuple[str, ...] = ()
    """UIDs, with hyphens."""


def keepers(proc: str, pids: Iterable[int]) -> Keepers:
    """Those of these processes. ``cgroup`` takes no lock of the process, so it can be read by the collector itself."""
    return named(_read(f"{proc}/{pid}/cgroup") for pid in list(pids)[:_PIDS_CAP])


def named(texts: Iterable[str]) -> Keepers:
    """Those that ``/proc/PID/cgroup`` names."""
    units: dict[str, None] = {}
    user_units: dict[tuple[int, str], None] = {}
    containers: dict[str, None] = {}
    pods: dict[str, None] = {}
    for text in texts:
        for line in text.split("\n"):
            path = line.partition(":")[2].partition(":")[2]
            containers.update(dict.fromkeys(_CONTAINER.findall(path)))
            pods.update(dict.fromkeys(pod.replace("_", "-") for pod in _POD.findall(path)))
            manager = _USER_MANAGER.search(path)
            found = [unit for unit in _UNIT.findall(path) if not _SESSION.match(unit)]
            if manager is not None:
                inner = [unit for unit in found if unit != f"user@{manager[1]}.service"]
                user_units.update(dict.fromkeys((int(manager[1]), unit) for unit in inner[-1:]))
            else:
                units.update(dict.fromkeys(found[-1:]))
    return Keepers(tuple(units), tuple(user_units), tuple(containers), tuple(pods))


def _read(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return file.read(_TEXT_CAP)
    except OSError:
        return ""
