"""Formats besides nvidia-smi's, ps's and fuser's: what their first line looks like, and who prints them.

``segments`` cuts a text with them. A heading or an unmistakable row opens a listing; rows without one are read only
where the command says what they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpudiag.parse import (
    containers,
    gpustat,
    jobs,
    lsof,
    modules,
    nvitop,
    pods,
    proc_by_hand,
    pstree,
    refusals,
    smi_list,
    sockets,
    top,
    units,
    versions,
)
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing

LISTINGS: Sequence[Listing] = (
    smi_list.LISTING,
    gpustat.LISTING,
    nvitop.LISTING,
    top.TOP,
    top.HTOP,
    pstree.LISTING,
    containers.PS,
    pods.LISTING,
    jobs.LISTING,
    units.STATUS,
    units.SHOW,
    units.IS_ACTIVE,
    lsof.LISTING,
    lsof.TERSE,
    sockets.LISTING,
    modules.LISTING,
    refusals.LISTING,
    versions.DRIVER_FILE,
    versions.MODULE_FILE,
    proc_by_hand.STATUS,
    proc_by_hand.STACK,
    proc_by_hand.WCHAN,
    proc_by_hand.CMDLINE,
    proc_by_hand.DESCRIPTORS,
)


_SILENT = frozenset({"sleep", "cd", "export", "set", "true", "wait", "sync", "unset", "clear"})


def without_heading(shown: Shown, left: Sequence[Shown], line: str) -> Listing | None:
    """The listing that this command prints, if the line can be a row of it. ``left``: all that may still print."""
    alone = all(other is shown or other.tool in _SILENT for other in left)
    template = containers.template_listing(shown, alone)
    found = (*LISTINGS, template) if template is not None else LISTINGS
    return next((listing for listing in found if listing.headless(shown, line)), None)
