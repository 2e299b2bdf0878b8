"""Names, limits and records of the bundle format. ``docs/bundle-format.md`` is normative; this is its vocabulary.

Records are read leniently: a field of the wrong type is unknown, an unknown field is skipped.
"""

from __future__ import annotations

import json
import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, cast

MAJOR = 1
"""Raised when an old reader would misunderstand a new bundle."""
MINOR = 0
"""Raised when something is added that an old reader may skip."""

RECORDS = "_bundle"
"""Folder of the format's own entries; no source may lie in it."""
START = RECORDS + "/start.json"
END = RECORDS + "/end.json"
CHECKSUMS = RECORDS + "/checksums.sha256"
OUTCOMES = RECORDS + "/outcomes/"

BLOCK = 512
"""Bytes of a tar block."""
SOURCES_CAP = 2000
SOURCE_CAP = 64 * 1024 * 1024
"""Bytes of one source, header lines included."""
TOTAL_CAP = 256 * 1024 * 1024
"""Bytes of all sources together."""
RATIO_CAP = 200
"""How many times larger than the file its content may be, above ``RATIO_FREE``. Tool output reaches about 30."""
RATIO_FREE = 32 * 1024 * 1024
WRITTEN_NAME_CAP = 100
"""Bytes of a source's name: what a tar header holds without an extension."""
READ_NAME_CAP = 240
DEPTH_CAP = 8
"""Folders in a name."""

OUTCOME_VALUES = ("ok", "absent", "denied", "timed_out", "truncated")

_BOOT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_NAMESPACE = re.compile(r"pid:\[\d{1,20}\]\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\Z", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PIDS_CAP = 10_000
_LOOKS_CAP = 100
_PID_MAX = 1 << 22
"""The kernel's own limit of a PID."""
_TEXT_CAP = 4096


class Clocks(NamedTuple):
    """One instant on three clocks, in nanoseconds."""

    wall_ns: Optional[int] = None
    """Since the Unix epoch, UTC."""
    monotonic_ns: Optional[int] = None
    """``CLOCK_MONOTONIC``: kernel messages use it; it stands still while the machine sleeps."""
    boot_ns: Optional[int] = None
    """``CLOCK_BOOTTIME``: start ticks and the kernel trace use it."""


class Start(NamedTuple):
    """What the recorder knows before it looks."""

    tool_version: str
    host: Optional[str] = None
    boot_id: Optional[str] = None
    """``/proc/sys/kernel/random/boot_id``."""
    clocks: Clocks = Clocks()
    pids: Tuple[int, ...] = ()
    """The recorder, its ancestors, and the children that it had started by then."""
    uid: Optional[int] = None
    user: Optional[str] = None
    pid_namespace: Optional[str] = None
    """``readlink /proc/self/ns/pid``: ``pid:[4026531836]``."""
    argv: Tuple[str, ...] = ()
    """The recorder's own command line, secrets taken out by who makes the record."""
    looks: Tuple[str, ...] = ()
    """Names of the looks that it is going to take for certain, in their order: where the file ends before the last of
    them, what it shows is known not to be the newest state."""
    major: int = MAJOR
    minor: int = MINOR

    def to_json(self) -> bytes:
        """The record as it is written."""
        return _dump(
            {
                "format": "gpudiag.bundle",
                "version": f"{self.major}.{self.minor}",
                "tool_version": self.tool_version,
                "host": self.host,
                "boot_id": self.boot_id,
                "clocks": _clocks_object(self.clocks),
                "pids": list(self.pids),
                "uid": self.uid,
                "user": self.user,
                "pid_namespace": self.pid_namespace,
                "argv": list(self.argv),
                "looks": list(self.looks),
            }
        )

    @staticmethod
    def from_json(data: bytes) -> Optional[Start]:
        """The record, or ``None`` if it is none or names no version."""
        record = _load(data)
        version = _VERSION.match(_text(record, "version") or "")
        if version is None:
            return None
        boot_id = _text(record, "boot_id") or ""
        namespace = _text(record, "pid_namespace") or ""
        return Start(
            tool_version=_text(record, "tool_version") or "",
            host=_text(record, "host"),
            boot_id=boot_id if _BOOT_ID.match(boot_id) else None,
            clocks=_clocks_of(record),
            pids=_pids(record),
            uid=_number(record, "uid"),
            user=_text(record, "user"),
            pid_namespace=namespace if _NAMESPACE.match(namespace) else None,
            argv=tuple(word for word in _list(record, "argv") if isinstance(word, str)),
            looks=tuple(
                name for name in _list(record, "looks")[:_LOOKS_CAP] if isinstance(name, str) and _is_folder(name)
            ),
            major=int(version[1]),
            minor=int(version[2]),
        )


class Outcome(NamedTuple):
    """How it went with one source."""

    member: str
    """Name of the source's entry; there is no such entry if nothing was read."""
    outcome: str
    """One of ``OUTCOME_VALUES``."""
    because: Optional[str] = None
    source: Optional[str] = None
    """Class of evidence in the report's words (``open handles``), if the source is the whole of a class."""
    command: Optional[str] = None
    started_ns: Optional[int] = None
    """Wall clock."""
    duration_s: Optional[float] = None
    exit_code: Optional[int] = None
    pids: Tuple[int, ...] = ()
    """Children of the recorder that read the source, those that it left behind included."""
    size: Optional[int] = None
    """Bytes of the entry; ``None`` if there is none."""
    sha256: Optional[str] = None

    def to_json(self) -> bytes:
        """The record as it is written."""
        return _dump(
            {
                "member": self.member,
                "outcome": self.outcome,
                "because": self.because,
                "source": self.source,
                "command": self.command,
                "started_ns": self.started_ns,
                "duration_s": self.duration_s,
                "exit_code": self.exit_code,
                "pids": list(self.pids),
                "size": self.size,
                "sha256": self.sha256,
            }
        )

    @staticmethod
    def from_json(data: bytes) -> Optional[Outcome]:
        """The record, or ``None`` if it does not say what became of which source."""
        record = _load(data)
        member, outcome = _text(record, "member"), _text(record, "outcome")
        if member is None or outcome not in OUTCOME_VALUES:
            return None
        digest = _text(record, "sha256") or ""
        duration = record.get("duration_s")
        return Outcome(
            member=member,
            outcome=outcome,
            because=_text(record, "because"),
            source=_text(record, "source"),
            command=_text(record, "command"),
            started_ns=_number(record, "started_ns"),
            duration_s=float(duration) if isinstance(duration, float) and 0 <= duration < 1e9 else None,
            exit_code=_number(record, "exit_code"),
            pids=_pids(record),
            size=_number(record, "size"),
            sha256=digest if _SHA256.match(digest) else None,
        )


class End(NamedTuple):
    """The recorder came to its end."""

    clocks: Clocks = Clocks()
    pids: Tuple[int, ...] = ()
    """Every process that the recorder started, those that it left behind included."""

    def to_json(self) -> bytes:
        """The record as it is written."""
        return _dump({"clocks": _clocks_object(self.clocks), "pids": list(self.pids)})

    @staticmethod
    def from_json(data: bytes) -> End:
        """The record; what cannot be read in it is unknown."""
        record = _load(data)
        return End(_clocks_of(record), _pids(record))


def name_problem(name: str, cap: int = READ_NAME_CAP) -> Optional[str]:
    """Why a name may not be in a bundle; ``None`` if it may."""
    if not name or len(name.encode("utf-8", "replace")) > cap:
        return "its name is empty" if not name else f"its name is longer than {cap} bytes"
    if _CONTROL.search(name) or "\\" in name:
        return "its name holds a control character or a backslash"
    parts = name.split("/")
    if name.startswith("/") or ".." in parts:
        return "its name leads out of the bundle"
    if "" in parts or "." in parts:
        return "its name is not in its shortest form"
    return f"its name is more than {DEPTH_CAP} folders deep" if len(parts) > DEPTH_CAP + 1 else None


def is_record(name: str) -> bool:
    """The entry is one of the format's own, not a source."""
    return name.split("/")[0] == RECORDS


def checksum_lines(sums: Mapping[str, str]) -> bytes:
    """The list of checksums, as ``sha256sum --check`` reads it."""
    return "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode()


def read_checksums(data: bytes) -> Dict[str, str]:
    """Checksum by name; lines of another form are skipped."""
    sums: Dict[str, str] = {}
    for line in data.decode("utf-8", "replace").split("\n"):
        digest, _, name = line.partition("  ")
        if name and _SHA256.match(digest):
            sums[name] = digest
    return sums


def _dump(record: Mapping[str, object]) -> bytes:
    return (json.dumps(record, ensure_ascii=True) + "\n").encode("ascii")


def _load(data: bytes) -> Mapping[str, object]:
    try:
        value: object = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return cast("Dict[str, object]", value) if isinstance(value, dict) else {}


def _text(record: Mapping[str, object], key: str) -> Optional[str]:
    value = record.get(key)
    return value[:_TEXT_CAP] if isinstance(value, str) else None


def _number(record: Mapping[str, object], key: str) -> Optional[int]:
    value = record.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _list(record: Mapping[str, object], key: str) -> Sequence[object]:
    value = record.get(key)
    return cast("List[object]", value)[:_PIDS_CAP] if isinstance(value, list) else ()


def _is_folder(name: str) -> bool:
    return "/" not in name and name_problem(name) is None


def _pids(record: Mapping[str, object]) -> Tuple[int, ...]:
    return tuple(
        pid for pid in _list(record, "pids") if isinstance(pid, int) and pid is not True and 0 < pid <= _PID_MAX
    )


def _clocks_object(clocks: Clocks) -> Mapping[str, Optional[int]]:
    return {"wall_ns": clocks.wall_ns, "monotonic_ns": clocks.monotonic_ns, "boot_ns": clocks.boot_ns}


def _clocks_of(record: Mapping[str, object]) -> Clocks:
    value = record.get("clocks")
    clocks = cast("Dict[str, object]", value) if isinstance(value, dict) else {}
    return Clocks(_number(clocks, "wall_ns"), _number(clocks, "monotonic_ns"), _number(clocks, "boot_ns"))
