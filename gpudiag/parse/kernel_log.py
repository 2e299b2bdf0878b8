"""Kernel messages about GPUs and dying processes: ``dmesg`` in all its forms, ``journalctl -k``, ``kern.log``.

Only lines that say something about the driver, or about the end of a process, become rows.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from gpudiag.model import Citation, KernelEvent
from gpudiag.parse.log_stamps import LogLine, unwrap
from gpudiag.parse.source import QUOTE_CAP, is_omission
from gpudiag.parse.values import PID_CAP, bus_id

_BUS = r"(?P<bus>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f])?)"
_NAME = r"\((?P<comm>[^)]{1,64})\)"
_PID = r"(?P<pid>[0-9]{1,7})"
_FACTS = (
    ("xid", rf"NVRM: Xid \((?:PCI:)?{_BUS}[^)]{{0,32}}\): (?P<xid>[0-9]{{1,4}}),?"),
    ("off_bus", r"fallen off the bus"),
    ("cgroup_oom", rf"Memory cgroup out of memory: Kill(?:ed)? process {_PID} {_NAME}"),
    ("oom", rf"Out of memory(?: \(oom_kill_allocating_task\))?: Kill(?:ed)? process {_PID} {_NAME}"),
    ("cgroup_oom", rf"oom-kill:constraint=CONSTRAINT_MEMCG,.*,task=(?P<comm>[^,]{{1,64}}),pid={_PID},"),
    ("oom", rf"oom-kill:constraint=.*,task=(?P<comm>[^,]{{1,64}}),pid={_PID},"),
    ("oom", rf"oom_reaper: reaped process {_PID} {_NAME}"),
    ("hung_task", rf"INFO: task (?P<comm>.{{1,64}}):{_PID} blocked for more than [0-9]{{1,9}} seconds"),
    (
        "segfault",
        rf"(?P<comm>[^ \[]{{1,64}})\[{_PID}\]:? (?:segfault at |general protection fault|trap invalid opcode)",
    ),
    ("suspend", r"PM: (?:suspend (?:entry|exit)|hibernation: hibernation (?:entry|exit))"),
    ("gsp", r"NVRM: .{0,80}(?:GSP|gsp)"),
    ("uvm", r"nvidia[-_]uvm: "),
    ("nvrm", r"NVRM: "),
    ("driver_frame", r"^ {1,4}(?P<function>[\w.]{1,80})\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8} \[nvidia\w{0,40}\]"),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _FACTS)
SIGNS = (
    " [nvidia",
    "NVRM: ",
    "PM: hibernation",
    "PM: suspend",
    "blocked for more",
    "fallen off the bus",
    "invalid opcode",
    "l protection",
    "nvidia-uvm: ",
    "nvidia_uvm: ",
    "oom-kill:",
    "oom_reaper",
    "segfault at",
    "ut of memory",
)
"""A line without any of these tells nothing."""
_XID_OWNER = re.compile(r" ?pid='?(?P<pid>[0-9]{1,7})'?(?:, name=(?P<comm>[^,]{1,64}))?,")
_ANY_BUS = re.compile(rf"GPU (?:at )?(?:PCI:)?{_BUS}(?![0-9A-Fa-f:])")
_FRONT = re.compile(
    r"(?:kern {1,4}:[a-z]{1,6} {1,4}: |<[0-9]{1,3}>)?\[ {0,12}[0-9]{1,10}\.[0-9]{6}\] "
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}\] "
    r"|\[[A-Z][a-z]{2} ?[0-9]{1,2} [0-9]{2}:[0-9]{2}\] |\[ {1,4}\+ {0,9}[0-9]{1,9}\.[0-9]{6}\] "
    r"|[0-9T:.,Z+-]{19,35} [^ ]{1,64} kernel: |[A-Z][a-z]{2} [ 0-9][0-9] [0-9:.]{8,18} [^ ]{1,64} kernel: "
)
_CONTINUED_LINES = 3
"""A message of several lines names its GPU in the first one; only the first has a time."""
_TRACE_LINES = 48
"""Lines of a hung task's message with its call trace, which the kernel prints at once."""
_TRACE_S = 1.0


_RELATIVE = re.compile(r"(?:kern {1,4}:[a-z]{1,6} {1,4}: )?\[ {1,4}\+ {0,9}([0-9]{1,9}\.[0-9]{6})\] ")
_ANCHOR = re.compile(r"(?:kern {1,4}:[a-z]{1,6} {1,4}: )?\[([A-Z][a-z]{2} ?[0-9]{1,2} [0-9]{2}:[0-9]{2})\] ")
_MINUTE_S = 60


def is_relative(line: str) -> bool:
    """The line has no time but the seconds since the line before it, as ``dmesg --reltime`` prints them."""
    return bool(_RELATIVE.match(line))


def relative_stamps(lines: Iterable[tuple[int, str]], wanted: Container[int]) -> dict[int, str]:
    """Stamps of the wanted lines, by number: the minute printed last and the seconds added up since then.

    ``dmesg`` prints each new minute, so the sum stays below sixty seconds; where it does not, lines are missing. So are
    they where somebody marked an omission, and where every line is about GPUs or dying processes: those were
    picked out, and the seconds count from a line that is gone, perhaps of another day. Then there is no time.
    """
    stamps: dict[int, str] = {}
    anchor: str | None = None
    passed = 0.0
    picked = True
    for number, line in lines:
        begun, step = _ANCHOR.match(line), _RELATIVE.match(line)
        if begun is not None:
            anchor, passed = begun[1], 0.0
        elif step is not None:
            passed += float(step[1])
        elif is_omission(line) or _FRONT.match(line):
            anchor = None
        if (begun or step) and not any(sign in line for sign in SIGNS):
            picked = False
        if step is not None and anchor is not None and passed < _MINUTE_S and number in wanted:
            stamps[number] = f"{anchor} +{passed:.6f} s"
    return {} if picked else stamps


def shaped(line: str) -> bool:
    """The line can be nothing but the kernel's, whether or not anything is made of it."""
    return bool(_FRONT.match(line)) or line.lstrip(" ").startswith("NVRM: ")


class KernelReader:
    """Reads the telling lines of one text in order."""

    def __init__(self, host: str, relative: Mapping[int, str]) -> None:
        """``relative``: stamps of lines that do not have their own, by number."""
        self._host = host
        self._relative = relative
        self._last: tuple[int, KernelEvent] | None = None
        self._hung: tuple[int, KernelEvent] | None = None

    def events(self, number: int, line: str, cited: Citation) -> Iterator[KernelEvent]:
        """What one line says. ``number`` tells whether it continues the message of the line before."""
        if not any(sign in line for sign in SIGNS):
            return
        front = unwrap(line)
        for kind, pattern in _COMPILED:
            match = pattern.search(front.body)
            if match is None:
                continue
            event = self._event(kind, match, front, cited, number)
            if kind == "driver_frame":
                yield from self._of_hung_task(event, number)
                return
            self._last = (number, event)
            self._hung = (number, event) if kind == "hung_task" else self._hung
            yield event
            return

    def _of_hung_task(self, frame: KernelEvent, number: int) -> Iterator[KernelEvent]:
        """The innermost frame in the driver of the task that the kernel has just reported as hung; others tell nothing.

        A later trace of something else has another time.
        """
        if self._hung is None or number - self._hung[0] > _TRACE_LINES:
            return
        hung, self._hung = self._hung[1], None
        if None not in (hung.boot_s, frame.boot_s):
            same = abs((hung.boot_s or 0.0) - (frame.boot_s or 0.0)) <= _TRACE_S
        else:
            same = hung.stamp == frame.stamp
        if same:
            yield replace(frame, pid=hung.pid, comm=hung.comm)

    def _event(self, kind: str, match: re.Match[str], front: LogLine, cited: Citation, number: int) -> KernelEvent:
        groups = match.groupdict()
        owner = _XID_OWNER.match(front.body, match.end()) if kind == "xid" else None
        pid = owner["pid"] if owner else groups.get("pid")
        comm = owner["comm"] if owner else groups.get("comm")
        named = match if groups.get("bus") else _ANY_BUS.search(front.body)
        before = self._before(number) if front.body.startswith(" ") else None
        gpu = _bus(named["bus"]) if named else before.bus_id if before else None
        stamp = front.stamp if front.stamp is not None else self._relative.get(number)
        return KernelEvent(
            kind=kind,
            xid=int(groups["xid"]) if groups.get("xid") else None,
            bus_id=gpu,
            pid=int(pid) if pid and 0 < int(pid) <= PID_CAP else None,
            comm=comm if comm and comm != "<unknown>" else None,
            time_ns=None,
            boot_s=before.boot_s if before and front.boot_s is None else front.boot_s,
            time_error_ns=0,
            text=front.body.strip()[:QUOTE_CAP],
            cited=cited,
            host=self._host,
            stamp=before.stamp if before and stamp is None else stamp,
        )

    def _before(self, number: int) -> KernelEvent | None:
        near = self._last is not None and 0 < number - self._last[0] <= _CONTINUED_LINES
        return self._last[1] if self._last is not None and near else None


def _bus(text: str) -> str | None:
    """The address in one form; Xid lines leave the function out, and a GPU's is 0."""
    return bus_id(text if "." in text else f"{text}.0")
