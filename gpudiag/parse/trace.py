"""``trace.txt``: the kernel's own record of signals, forks, execs and exits (tracefs, clock ``boot``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import TraceEvent
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment

UNKNOWN_COMM = "<...>"
LINE = re.compile(
    r"\s*(?P<comm>\S.{0,30}?|<\.\.\.>)-(?P<pid>\d{1,10})\s+(?:\(\s*[\d-]+\)\s+)?\[\d+\]\s+(?:\S{3,8}\s+)?"
    r"(?P<clock>\d{1,12}\.\d{1,9}): (?P<event>\w+): (?P<rest>.*)\Z"
)
_FIELDS = {
    "signal_generate": re.compile(
        r"sig=(?P<signal>\d{1,3}) errno=-?\d+ code=-?\d+ comm=(?P<target_comm>.*?)\s+pid=(?P<target_pid>\d{1,10})"
        r" grp=-?\d+ res=(?P<result>\d{1,3})"
    ),
    "signal_deliver": re.compile(r"sig=(?P<signal>\d{1,3}) "),
    "sched_process_fork": re.compile(
        r"comm=(?P<comm>.*) pid=\d+ child_comm=(?P<target_comm>.*?)\s+child_pid=(?P<target_pid>\d{1,10})"
    ),
    "sched_process_exec": re.compile(r"filename=(?P<filename>.*) pid=\d+ old_pid=\d+"),
    "sched_process_exit": re.compile(r"comm=(?P<comm>.*) pid=\d+ prio=-?\d+(?: group_dead=(?P<group_dead>\w+))?"),
}
_KINDS = {
    "signal_generate": "signal_generate",
    "signal_deliver": "signal_deliver",
    "sched_process_fork": "fork",
    "sched_process_exec": "exec",
    "sched_process_exit": "exit",
}
_WRITTEN = re.compile(r"# entries-in-buffer/entries-written: (\d{1,18})/(\d{1,18})")
_LOST = re.compile(r"CPU:\d+ \[LOST (\d+) EVENTS\]")


def rows(segment: Segment) -> Iterator[Row]:
    """One event a line of the five kinds; other events are not ours."""
    lost: str | None = None
    for offset, line in enumerate(segment.lines):
        event = _event(segment, offset, line)
        if event is not None:
            yield event
        elif line.startswith("#") or not line.strip():
            written = _WRITTEN.match(line)
            if written and int(written[1]) < int(written[2]):
                lost = f"the ring buffer kept {written[1]} of {written[2]} events"
        elif _LOST.match(line):
            lost = line.strip()
        elif not LINE.match(line):
            yield segment.damage(offset, "not a line of a kernel trace")
    outcome = "truncated" if lost else "ok"
    yield segment.coverage("kernel trace", outcome=outcome, because=lost, complete=lost is None)


def _event(segment: Segment, offset: int, line: str) -> TraceEvent | None:
    match = LINE.match(line)
    if not match or match["event"] not in _FIELDS:
        return None
    fields = _FIELDS[match["event"]].match(match["rest"])
    if not fields:
        return None
    values = fields.groupdict()
    target_comm = values.get("target_comm")
    return TraceEvent(
        kind=_KINDS[match["event"]],
        clock_s=float(match["clock"]),
        pid=int(match["pid"]),
        comm=_comm(match["comm"].strip(), values.get("comm")),
        cited=segment.cite(offset),
        signal=_integer(values.get("signal")),
        target_pid=_integer(values.get("target_pid")),
        target_comm=None if target_comm is None else target_comm.strip(),
        result=_integer(values.get("result")),
        filename=values.get("filename"),
        group_dead=_flag(values.get("group_dead")),
    )


def _comm(shown: str, told: str | None) -> str:
    """The name in front of the line, which the kernel does not always know; some events tell it themselves."""
    return told.strip() if shown == UNKNOWN_COMM and told else shown


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def _flag(text: str | None) -> bool | None:
    return None if text is None else text in ("true", "1")
