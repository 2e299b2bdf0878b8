"""What a trace or process events show of the steps of one kill command: whether each ran, and whom it signalled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpudiag.model import Citation, KillAction, TraceEvent
from gpudiag.shell.lines import Line
from gpudiag.shell.replay import StepReplay, kill_dialects
from gpudiag.timeline.trace import Trace, TracedStep

_SENDERS = ("pkill", "killall", "fuser")
"""Programs other than kill that send signals."""
_ELSEWHERE = frozenset({"ssh client", "ssh", "client"})
"""Carriers that may hand the command to a process which is no descendant of theirs: a daemon."""


@dataclass
class Shown:
    """Of one step."""

    runs: list[TracedStep] = field(default_factory=list[TracedStep])
    sent_to: dict[int, bool] = field(default_factory=dict[int, bool])
    """PID to *the kernel recorded the signal*; nothing is said about others."""
    cites: list[Citation] = field(default_factory=list[Citation])
    ran: bool | None = None
    """Whether it ran, where that is shown."""
    because: str = ""


@dataclass(frozen=True)
class _Record:
    """The part of the kernel's record that is about one command."""

    trace: Trace
    events: Sequence[TraceEvent]
    covers: bool
    within: frozenset[int] | None
    """Who may have acted for the command; ``None``: everybody may have."""

    def runs_of(self, tool: str) -> list[TracedStep]:
        return self.trace.runs_of(tool, self.events, self.within)

    def has_unnamed(self) -> bool:
        """A program of the command was over before it could be asked for its name."""
        mine = self.within or frozenset()
        return any(event.kind == "exec" and not event.filename and event.pid in mine for event in self.events)


def dead_shell(trace: Trace | None, action: KillAction, line: Line) -> bool | None:
    """Whether a tool of the command signalled the shell that had forked it, and that shell died."""
    if trace is None or not trace.usable or not trace.signals:
        return None
    record = _record(trace, action, line)
    answers = [run.parent_died for tool in ("pkill", "killall") for run in record.runs_of(tool)]
    if any(answers):
        return True
    return False if answers and record.covers and all(answer is False for answer in answers) else None


def shown(
    trace: Trace, action: KillAction, line: Line, steps: Sequence[StepReplay], host: str, known: frozenset[int]
) -> list[Shown]:
    """One for each step. ``host``: whose trace it is; ``known``: PIDs of its recorded processes."""
    record = _record(trace, action, line)
    found = [Shown() for _ in steps]
    for step, one in zip(steps, found, strict=True):
        if step.tool is None or step.step.host not in (None, host):
            continue
        one.runs = _own_runs(step, steps, record, line)
        one.cites.extend(cite for run in one.runs for cite in run.cites)
        one.ran, one.because = _ran(step, one.runs, record, line)
        if trace.signals:
            _signals(one, step, steps, record, line, known)
    return found


def _record(trace: Trace, action: KillAction, line: Line) -> _Record:
    elsewhere = any(carrier.kind in _ELSEWHERE for carrier in line.carriers)
    within = None if action.pid is None or elsewhere else trace.descent(action.pid)
    events = trace.window(action.time_ns, action.end_ns)
    return _Record(trace, events, trace.covers(action.time_ns), within)


def _own_runs(step: StepReplay, steps: Sequence[StepReplay], record: _Record, line: Line) -> list[TracedStep]:
    """Starts of the step's program that can only be this step's."""
    if step.tool is None or not _is_program(step, line):
        return []
    rivals = [s for s in steps if s.tool == step.tool and s.ran is not False and _is_program(s, line)]
    runs = record.runs_of(step.tool)
    if rivals == [step]:
        return runs
    if step in rivals and len(rivals) == len(runs) and not any(s.step.groups or s.step.beside for s in rivals):
        return [runs[rivals.index(step)]]
    return []


def _is_program(step: StepReplay, line: Line) -> bool:
    """It is started as a program; a shell's own ``kill`` is not."""
    return step.tool != "kill" or kill_dialects(line, step.step) == ("program",)


def _ran(step: StepReplay, runs: Sequence[TracedStep], record: _Record, line: Line) -> tuple[bool | None, str]:
    what = "the kernel trace shows" if record.trace.signals else "the kernel's process events show"
    if runs:
        return True, f"{what} that {step.tool} was started (PID {', '.join(str(run.pid) for run in runs[:3])})"
    certain = record.covers and record.within is not None and _is_program(step, line)
    # What goes on in the background may begin when the command has ended.
    if not certain or step.step.beside or step.step.container is not None:
        return None, ""
    if record.runs_of(step.tool or "") or record.has_unnamed():
        return None, ""
    return False, f"{what} that no {step.tool} was started"


def _signals(
    one: Shown, step: StepReplay, steps: Sequence[StepReplay], record: _Record, line: Line, known: frozenset[int]
) -> None:
    sent = {pid for run in one.runs for pid in run.targets}
    everybody = known | set(literal_pids(step))
    told: Sequence[int] = ()
    if step.ran is False and step.ran_proven:
        told = sorted(everybody) if record.covers else ()
    elif _is_program(step, line):
        others = set[int]() if one.runs else {pid for run in record.runs_of(step.tool or "") for pid in run.targets}
        told = sorted(everybody - others) if record.covers and not step.step.beside else ()
    else:
        # Whose signal it is, only its receiver tells.
        meant = _meant(step, steps, record.within is not None)
        tools = {run.pid for name in _SENDERS for run in record.runs_of(name)}
        found = record.trace.signals_to(meant, step.signal, record.events, record.within)
        direct = [event for event in found if event.pid not in tools]
        sent |= {event.target_pid for event in direct if event.target_pid is not None}
        one.cites.extend(event.cited for event in direct)
        told = meant if record.covers and step.signal is not None and not step.step.beside else ()
    one.sent_to = {pid: pid in sent for pid in (*told, *(sent & everybody))}


def _meant(step: StepReplay, steps: Sequence[StepReplay], known_senders: bool) -> list[int]:
    """PIDs whose signals can only be this kill's: those that it names, and those that a list may have held if no other
    kill of the line can have sent the same signal to them."""
    named, listed = _receivers(step)
    rivals = [_receivers(s) for s in steps if s is not step and s.tool == "kill" and _may_send(s, step.signal)]
    if not known_senders or any(others for _, others in rivals):
        return sorted(named)
    return sorted(named | listed - {pid for others, _ in rivals for pid in others})


def _may_send(step: StepReplay, signal: int | None) -> bool:
    return step.signal == signal and step.ran is not False


def _receivers(step: StepReplay) -> tuple[set[int], set[int]]:
    """Who is named for certain, and of whom that is not known."""
    verdicts = step.selection.verdicts if step.selection is not None else ()
    named = {v.pid for v in verdicts if v.selected is True} | set(literal_pids(step))
    return named, {v.pid for v in verdicts if v.selected is None} - named


def literal_pids(step: StepReplay) -> tuple[int, ...]:
    """PIDs that stand in the step itself."""
    return step.selection.literal_pids if step.selection is not None else ()
