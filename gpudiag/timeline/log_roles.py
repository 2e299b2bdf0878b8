"""Roles that servers' logs give to PIDs, each only where the number can be no other host's process."""

from __future__ import annotations

from collections.abc import Iterable

from gpudiag.model import LogRole
from gpudiag.timeline.lives import Census


def own_roles(roles: Iterable[LogRole], census: Census) -> tuple[LogRole, ...]:
    """Those whose PID only the log's own host shows; a log without a host may be of the only one that shows it."""
    shown: dict[int, set[str]] = {}
    for life in census.lives:
        shown.setdefault(life.pid, set()).add(life.host)
    return tuple(role for role in roles if _is_of_one(role, shown.get(role.pid, set[str]())))


def _is_of_one(role: LogRole, hosts: set[str]) -> bool:
    if len(hosts) > 1:
        return False
    # The host prints the logs of its containers (``docker logs``), with the PIDs that they have inside.
    return not role.host or all(host in ("", role.host) or host.startswith(role.host + "/") for host in hosts)
