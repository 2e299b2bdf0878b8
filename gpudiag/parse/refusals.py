"""What tools say when a GPU cannot be reset, its MIG layout not changed, or a module not unloaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudiag.model import GpuRef, Refusal
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import bus_id

_BUS = r"(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])"
_TEXT_CAP = 65536
_MODULE = r"(?P<module>[a-z][\w-]{0,60})"


@dataclass(frozen=True)
class _Message:
    kind: str
    reason: str | None
    pattern: re.Pattern[str]


def _message(kind: str, reason: str | None, pattern: str) -> _Message:
    return _Message(kind, reason, re.compile(pattern))


_MESSAGES = (
    _message("mig_change", "in_use", rf"MIG [Mm]ode .{{0,60}}?GPU {_BUS}\s?: ?In use by another client"),
    _message("gpu_reset", "in_use", rf"GPU {_BUS}\s?: ?In use by another client"),
    _message("gpu_reset", "in_use", r"Unable to reset this GPU because it's being used by some other process"),
    _message("gpu_reset", "not_supported", rf"Resetting GPU {_BUS} is not supported"),
    _message("gpu_reset", "not_supported", r"GPU Reset couldn't run because GPU .{1,40} is the primary GPU"),
    _message(
        "gpu_reset", None, rf"(?:GPU [Rr]eset couldn't run|Unable to reset|Failed to reset)\b.{{0,60}}?GPU {_BUS}"
    ),
    _message("gpu_reset", "denied", rf"GPU {_BUS}\s?: ?Insufficient Permissions"),
    _message("module_unload", "in_use", rf"(?:modprobe: FATAL|rmmod: ERROR): Module {_MODULE} is in use"),
    _message("module_unload", "denied", rf"rmmod: ERROR: could not remove '?{_MODULE}'?: Operation not permitted"),
)
_AROUND = re.compile(
    r"The following GPUs could not be reset:|\d{1,4} devices? (?:is|are) currently being used by one or more other "
    r'|.{0,60}level=(?:error|fatal) msg="(?:The following GPUs could not be reset:|Error resetting)'
)
"""Lines of the same messages that name no GPU."""


def _found(line: str) -> tuple[_Message, re.Match[str]] | None:
    return next(((message, match) for message in _MESSAGES if (match := message.pattern.search(line))), None)


def _belongs(line: str) -> bool:
    return bool(_AROUND.match(line)) or _found(line) is not None


def rows(segment: Segment) -> Iterator[Row]:
    """One row a GPU or module."""
    for offset, line in enumerate(segment.lines):
        found = _found(line)
        if found is None:
            continue
        message, match = found
        named = match.groupdict()
        gpu = GpuRef(bus_id=bus_id(named["bus"])) if named.get("bus") else GpuRef()
        module = (named.get("module") or "").replace("-", "_") or None
        yield Refusal(segment.place, message.kind, message.reason, gpu, module, segment.cite(offset))


def is_refused(text: str) -> bool:
    """The output of a command says that what was asked for was not done."""
    return any(_found(line) is not None for line in text[:_TEXT_CAP].split("\n"))


def resets(shown: Shown) -> bool:
    """The command asks for a reset of a GPU."""
    return shown.tool == "nvidia-smi" and any(word in ("-r", "--gpu-reset") for word in shown.argv[1:])


LISTING = Listing(
    rows=rows,
    begins=_belongs,
    continues=lambda line: _belongs(line) or not line.strip(),
    printed_by=resets,
)
