"""Captured files whose headers name other machines or containers: ``# $ ssh node2 nvidia-smi``.

A directory is of one machine, whoever asked it from where. Only where its headers name two, or a container beside its
host, does a file belong to the one that its header names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Sequence, Tuple

from gpudiag.evidence.exhibit import Exhibit, LookName
from gpudiag.evidence.shells import NOWHERE, Shells, Where


def placed(exhibits: Sequence[Exhibit], input_id: str) -> Tuple[List[Exhibit], Tuple[LookName, ...]]:
    """The exhibits, each at its place, and their looks in order."""
    shells = Shells(input_id)
    shown = [_place(exhibit, shells) for exhibit in exhibits]
    hosts = {shells.host_of(exhibit.command) for exhibit in exhibits if exhibit.command is not None} - {""}
    found: List[Exhibit] = []
    looks: Dict[str, LookName] = {}
    for exhibit, where in zip(exhibits, shown):
        there = where if len(hosts) > 1 else _alone(where)
        look = exhibit.look
        if look is not None:
            name = look.partition(":")[2]
            look = f"{look}@{there.host}" if there.host else look
            looks.setdefault(look, LookName(look, name, there.host, there.container))
        found.append(replace(exhibit, host=there.host, container=there.container, look=look))
    return found, tuple(looks.values())


def _place(exhibit: Exhibit, shells: Shells) -> Where:
    if exhibit.command is None:
        return NOWHERE
    return shells.shown_by(exhibit.command)


def _alone(where: Where) -> Where:
    """The only machine needs no name; a container on it does."""
    return NOWHERE if where.container is None else Where(where.container, where.container)
