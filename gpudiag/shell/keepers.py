"""Which unit, container, pod or batch job a process belongs to, as its control group or the keeper's own list shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SYSTEM_UNIT = re.compile(r"/system\.slice/(?:[^/]{1,200}\.slice/){0,4}(?P<unit>[^/]{1,200}\.service)(?:/|\Z)")
_MANAGER = re.compile(r"/user@(?P<uid>\d{1,10})\.service/")
_CONTAINER = re.compile(r"(?:docker|libpod|crio|cri-containerd|nerdctl)[-/](?P<id>[0-9a-f]{12,64})")
_JOB = re.compile(r"/job_(?P<id>\d{1,12})(?:/|\Z)")
_SHORT_ID = 12


@dataclass(frozen=True)
class ControlGroups:
    """By PID; a missing PID was not recorded."""

    paths: Mapping[int, str] = field(default_factory=dict[int, str])
    """Path in the hierarchy of control groups."""
    units: Mapping[str, frozenset[int]] = field(default_factory=dict[str, "frozenset[int]"])
    """PIDs of a unit, where its own status listed them."""
    containers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Id (its first twelve digits) by name and by id."""
    members: Mapping[str, frozenset[int]] = field(default_factory=dict[str, "frozenset[int]"])
    """PIDs of a container by its id, where the engine listed them."""
    main: Mapping[str, int] = field(default_factory=dict[str, int])
    """PID of the first process of a unit, by its name, and of a container, by its id."""

    def unit_of(self, pid: int) -> str | None:
        """The system service that the process belongs to."""
        found = _SYSTEM_UNIT.match(self.paths.get(pid, ""))
        return found["unit"] if found is not None else None

    def container_of(self, pid: int) -> str | None:
        """Id of the container that the process belongs to, twelve digits."""
        found = _CONTAINER.search(self.paths.get(pid, ""))
        return found["id"][:_SHORT_ID] if found is not None else None

    def in_unit(self, pid: int, unit: str) -> bool | None:
        """Whether a stop of the system's unit (service, scope or slice) reaches the process."""
        if pid in self.paths:
            return unit in _MANAGER.split(self.paths[pid])[0].split("/")
        return pid in self.units[unit] if unit in self.units else None

    def in_user_unit(self, pid: int, unit: str, uid: int | None) -> bool | None:
        """As ``in_unit``, of the manager of one user."""
        if pid not in self.paths:
            return None
        manager = _MANAGER.search(self.paths[pid])
        if manager is None or unit not in self.paths[pid][manager.end() :].split("/"):
            return False
        return None if uid is None else int(manager["uid"]) == uid

    def id_of(self, name: str) -> str | None:
        """Id of a container that is called so, or whose id begins so."""
        if name in self.containers:
            return self.containers[name]
        begins = {number for number in self.containers.values() if number.startswith(name[:_SHORT_ID])}
        return begins.pop() if len(begins) == 1 and re.fullmatch(r"[0-9a-f]{4,64}", name) else None

    def in_container(self, pid: int, name: str) -> bool | None:
        """Whether the process is in the container."""
        wanted = self.id_of(name)
        own = self.container_of(pid)
        if own is None and pid in self.paths:
            return False
        if own is None:
            return pid in self.members[wanted] if wanted is not None and wanted in self.members else None
        if wanted is None and re.fullmatch(r"[0-9a-f]{12,64}", name):
            wanted = name[:_SHORT_ID]
        return None if wanted is None else own == wanted

    def job_of(self, pid: int) -> str | None:
        """Id of the batch job that the process belongs to."""
        found = _JOB.search(self.paths.get(pid, ""))
        return found["id"] if found is not None else None
