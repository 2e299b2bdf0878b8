"""The driver's version as its module tells it: ``/proc/driver/nvidia/version``, ``/sys/module/nvidia/version``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import HostFact
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing, one_line
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment

_NVRM = re.compile(r"NVRM version: NVIDIA UNIX .{0,80}?Kernel Module .{0,60}?\s(?P<version>\d{3}[\d.]{1,12})\s")
_GCC = re.compile(r"GCC version:\s")
_BARE = re.compile(r"(?P<version>\d{3}\.[\d.]{1,12})\s*\Z")
_FILE = "/sys/module/nvidia/version"


def rows(segment: Segment) -> Iterator[Row]:
    """The version."""
    for offset, line in enumerate(segment.lines):
        match = _NVRM.match(line) or _BARE.match(line)
        if match:
            yield HostFact(segment.place, "driver_version", match["version"], segment.cite(offset))


def _reads_module_file(shown: Shown) -> bool:
    return shown.tool in ("cat", "head") and _FILE in shown.argv


DRIVER_FILE = Listing(
    rows=rows,
    begins=lambda line: bool(_NVRM.match(line)),
    continues=lambda line: bool(_GCC.match(line)),
    printed_by=lambda shown: shown.tool in ("cat", "head") and "/proc/driver/nvidia/version" in shown.argv,
)
MODULE_FILE = Listing(
    rows=rows,
    continues=one_line,
    printed_by=_reads_module_file,
    headless=lambda shown, line: _reads_module_file(shown) and bool(_BARE.match(line)),
)
