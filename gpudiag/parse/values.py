"""The values that tools print: sizes, bus ids, ages, and everything that stands where a value is missing."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from gpudiag.model import GpuRef

_NON_VALUES = frozenset(
    {
        "",
        "-",
        "n/a",
        "[n/a]",
        "[not found]",
        "[no data]",
        "[not supported]",
        "[unknown error]",
        "[insufficient permissions]",
        "[gpu requires reset]",
        "[gpu is lost]",
        "[gpu access blocked]",
        "[reboot required]",
        "[unknown]",
        "not supported",
        "unknown error",
        "function not found",
        "insufficient permissions",
        "requested functionality has been deprecated",
        "not available in wddm driver model",
        "err!",
        "???",
        "(null)",
    }
)
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([KMGT]i?B|B)?\Z", re.ASCII)
_MIB_PER_UNIT = {"B": 2**-20, "K": 2**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20}
_BUS_ID = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-9A-Fa-f])\Z")
_AGE = re.compile(r"(?:(?:(\d{1,7})-)?(\d{1,3}):)?(\d{1,3}):(\d\d)\Z", re.ASCII)
_WHOLE = re.compile(r"\d{1,15}\Z", re.ASCII)
PID_CAP = 2**22
"""Linux gives no PID above this."""


def is_non_value(text: str) -> bool:
    """The text stands where a tool has no value; none of them means 0."""
    return text.strip().lower() in _NON_VALUES


_FAULTS = ("requires reset", "is lost", "reboot required", "fallen off the bus")
"""Not ``ERR!``: a broken fan shows that on a GPU that works."""


def is_fault(text: str) -> bool:
    """The words say that the GPU itself is in trouble, not that one figure does not exist."""
    lower = text.lower()
    return any(words in lower for words in _FAULTS)


def mib(text: str, unit: str = "MiB") -> float | None:
    """A size in MiB. ``unit`` is the one that the column's heading gives to a bare number.

    nvidia-smi's ``MB`` (pmon) is a binary megabyte too.
    """
    match = _SIZE.match(text.strip())
    if not match:
        return None
    return float(match[1]) * _MIB_PER_UNIT[(match[2] or unit)[0]]


def whole(text: str) -> int | None:
    """A number without sign or point, as PIDs and indices are printed."""
    text = text.strip()
    return int(text) if _WHOLE.match(text) else None


def pid_of(text: str) -> int | None:
    """A PID; 0 and what Linux cannot have given are none."""
    number = whole(text)
    return number if number is not None and 0 < number <= PID_CAP else None


def bus_id(text: str) -> str | None:
    """A PCI address in one form: lower case, domain of eight digits."""
    match = _BUS_ID.match(text.strip())
    if not match:
        return None
    domain, bus, device, function = (part or "0" for part in match.groups())
    return f"{domain.rjust(8, '0')}:{bus}:{device}.{function}".lower()


def gpu_ref(index: str | None = None, uuid: str | None = None, bus: str | None = None) -> GpuRef:
    """A GPU by what a tool printed about it; what is no value stays unknown."""
    return GpuRef(
        index=None if index is None else whole(index),
        uuid=None if uuid is None or is_non_value(uuid) else uuid.strip(),
        bus_id=None if bus is None else bus_id(bus),
    )


_ANY_BUS_ID = re.compile(
    r"(?<![0-9A-Fa-f:.])(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f](?![0-9A-Fa-f.])"
)
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s?%?\Z", re.ASCII)


def bus_in(text: str) -> str | None:
    """The first PCI address of a message."""
    match = _ANY_BUS_ID.search(text)
    return bus_id(match[0]) if match else None


def percent(text: str) -> float | None:
    """``97 %`` or ``97%``."""
    match = _PERCENT.match(text.strip())
    return float(match[1]) if match else None


def withheld(text: str | None) -> str | None:
    """The words in place of a size; ``None`` where a size stands, or nothing was asked for."""
    return text.strip() if text is not None and text.strip() and is_non_value(text) else None


def age_s(text: str) -> float | None:
    """``etime``'s ``[[days-]hours:]minutes:seconds`` or ``etimes``' seconds."""
    number = whole(text)
    if number is not None:
        return float(number)
    match = _AGE.match(text.strip())
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def local_s(text: str) -> int | None:
    """``lstart``'s ``Thu Dec  4 09:40:15 2025``: seconds since the epoch, the clock read as if it showed UTC."""
    try:
        moment = datetime.strptime(" ".join(text.split()), "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp())


def shown_name(text: str) -> tuple[str | None, str | None]:
    """A process name and the non-value in its place; one of the two is ``None``."""
    text = text.strip()
    return (None, text) if is_non_value(text) else (text, None)


def kind_of(letters: str) -> str:
    """What kind of client nvidia-smi's type column means."""
    kinds = {"C": "compute", "G": "graphics", "C+G": "both", "M": "mps", "M+C": "mps"}
    return kinds.get(letters.strip(), "unknown")
