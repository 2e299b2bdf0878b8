"""Texts of nvidia-smi that a command would have found at a time: of the look before it, or of one between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpudiag.model import Printout
from gpudiag.shell.world import Printed
from gpudiag.timeline.order import Look


def printed_at(
    printouts: Sequence[Printout], looks: Sequence[Look], base: Look, before: float
) -> Mapping[str, Printed]:
    """The newest text of each kind that is no older than the look ``base`` and older than the slot ``before``."""
    positions = {look.id: look.position for look in looks if look.host == base.host}
    found: dict[str, tuple[int, Printed]] = {}
    for one in printouts:
        position = positions.get(one.at.look or "", -1)
        if not base.position <= position < before:
            continue
        newest = found.get(one.kind)
        # Of several in one look the one with the most columns tells the most.
        if newest is None or (position, len(one.columns)) >= (newest[0], len(newest[1].columns)):
            found[one.kind] = position, Printed(one.columns, one.lines)
    return {kind: printed for kind, (_, printed) in found.items()}
