"""Kill commands placed on the timeline and replayed against the processes that were there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpudiag.model import Booking, Citation, KillAction, PidFile, Printout
from gpudiag.shell.lines import Line
from gpudiag.shell.replay import Observed, Replay, StepReplay, replay
from gpudiag.shell.selection import Verdict
from gpudiag.shell.signals import ends_by_default
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.tools import fuser
from gpudiag.shell.world import Caller, Candidate, World
from gpudiag.timeline import messages
from gpudiag.timeline.lives import LOCAL_ERROR_S, Census, Key, Life, Sighting, started_comm
from gpudiag.timeline.order import SECOND, Look, slot_of, told_to_recorder
from gpudiag.timeline.pid_lists import pid_lists
from gpudiag.timeline.printouts import printed_at
from gpudiag.timeline.step_hosts import is_elsewhere, without_effect
from gpudiag.timeline.trace import Trace, TracedStep
from gpudiag.timeline.traced import dead_shell, literal_pids, shown
from gpudiag.timeline.views import View

CUDA_DEVICES = frozenset({"/dev/nvidiactl", "/dev/nvidia-uvm"})
"""What every process with a CUDA context has open, whatever GPU it uses (measured)."""


@dataclass
class StepView:
    """One step with what the evidence says about it."""

    id: str
    replay: StepReplay
    traced: list[TracedStep] = field(default_factory=list[TracedStep])
    sent_to: dict[int, bool] = field(default_factory=dict[int, bool])
    """PID to *the kernel recorded the signal*; only where a trace covers the step."""
    printed_status: int | None = None
    """Exit status of this step as a following ``echo … $?`` printed it."""
    refused: set[int] = field(default_factory=set[int])
    """PIDs for which the tool itself printed ``Operation not permitted``."""
    absent: set[int] = field(default_factory=set[int])
    """PIDs that the tool itself shows it did not reach: ``No such process``, or not among those that fuser printed."""
    failed: set[int] = field(default_factory=set[int])
    """PIDs that the tool says it could not signal, in words that tell no reason here (another language)."""
    listed: set[int] = field(default_factory=set[int])
    """PIDs that ``fuser`` itself printed as users of what it was asked for."""
    cites: list[Citation] = field(default_factory=list[Citation])
    elsewhere: bool = False
    """It took effect on another host than the rest of its line, and is shown there."""

    @property
    def may_end(self) -> bool:
        """It sends a signal that can end a process; ``pkill -0`` asks, ``kill -CONT`` and ``-STOP`` do other things."""
        if self.replay.tool is None:
            return False
        return self.replay.signal is None or ends_by_default(self.replay.signal)

    @property
    def unreached(self) -> set[int]:
        """PIDs that did not get the signal, as the tool itself says."""
        return self.refused | self.absent | self.failed

    def verdict(self, pid: int) -> Verdict | None:
        """What the tool's semantics say about a PID of the recorded world; where it printed its hits, those."""
        predicted = self._verdicts.get(pid)
        if pid not in self.listed or (predicted is not None and predicted.selected is True):
            return predicted
        return Verdict(pid, True, pid not in self.refused, False, "fuser printed its PID")

    @cached_property
    def _verdicts(self) -> dict[int, Verdict]:
        selection = self.replay.selection
        return {verdict.pid: verdict for verdict in selection.verdicts} if selection is not None else {}


@dataclass
class ActionView:
    """One recorded command on the timeline."""

    id: str
    action: KillAction
    host: str
    """Where it took effect."""
    slot: float
    """Between which looks: 0.5 is after the first."""
    caller: Caller
    replay: Replay
    steps: list[StepView]
    world_look: Look | None
    """The look that supplied the processes; ``None`` where only later looks exist."""
    world_pids: frozenset[int]
    not_after_ns: int | None = None
    """Start of the first look of the recorder to which the command was stated: it had been given by then."""

    @property
    def earliest_ns(self) -> int | None:
        """When it was given, at the earliest."""
        return None if self.action.time_ns is None else self.action.time_ns - self.action.time_error_ns

    @property
    def latest_ns(self) -> int | None:
        """When it was given, at the latest."""
        if self.action.time_ns is None:
            return self.not_after_ns
        latest = self.action.time_ns + self.action.time_error_ns
        return latest if self.not_after_ns is None else min(latest, self.not_after_ns)

    @property
    def duration_s(self) -> float | None:
        """How long it ran."""
        return _duration(self.action)


def replay_actions(
    actions: Sequence[KillAction],
    census: Census,
    views: Mapping[str, View],
    series: Sequence[Booking],
    traces: Mapping[str, Trace],
    listed: frozenset[str],
    libraries: Mapping[str, str] | None = None,
    adopted: Mapping[Key, Life] | None = None,
    files: Sequence[PidFile] = (),
    printouts: Sequence[Printout] = (),
) -> list[ActionView]:
    """Replay all commands in time order.

    ``listed``: looks that have a compute-process list. ``libraries``: the C library of each host, where it is recorded.
    ``adopted``: processes that no look before a command shows, with the server that must have started them before it
    died. ``files``: what PID files held. ``printouts``: what nvidia-smi printed.
    """
    libraries = libraries or {}
    positions = {look.id: look.position for look in census.looks}
    placed = sorted(((slot_of(a, census.looks), a.time_ns or 0, n) for n, a in enumerate(actions)))
    return [
        _view(
            f"A{number}",
            actions[n],
            slot,
            census,
            views,
            series,
            traces,
            listed,
            libraries,
            adopted or {},
            _before(files, slot, positions),
            printouts,
        )
        for number, (slot, _, n) in enumerate(placed, 1)
    ]


def _before(files: Sequence[PidFile], slot: float, positions: Mapping[str, int]) -> list[PidFile]:
    """What was printed of PID files in looks before the command."""
    return [file for file in files if positions.get(file.at.look or "", -1) < slot]


def _view(
    identity: str,
    action: KillAction,
    slot: float,
    census: Census,
    views: Mapping[str, View],
    series: Sequence[Booking],
    traces: Mapping[str, Trace],
    listed: frozenset[str],
    libraries: Mapping[str, str],
    adopted: Mapping[Key, Life],
    files: Sequence[PidFile],
    printouts: Sequence[Printout],
) -> ActionView:
    line = parse_line(
        action.text,
        how=action.how,
        argv=action.argv,
        script_text=action.script_text,
        user=action.user,
        host=None,
    )
    host = _host_of(action, line, census)
    world, base = _world(action, host, slot, census, series, listed, adopted, files)
    world = replace(world, libc=libraries.get(host))
    if base is not None:
        world = replace(world, printouts=printed_at(printouts, census.looks, base, slot))
    trace = traces.get(host)
    caller = _caller(action, line.steps[0].user if line.steps else None, host, census, views)
    result = replay(line, world, caller, _observed(action, trace, line))
    steps = [_step(f"{identity}.{n}", step, line, action, host) for n, step in enumerate(result.steps, 1)]
    view = ActionView(
        identity, action, host, slot, caller, result, steps, base, frozenset(c.pid for c in world.processes)
    )
    view.not_after_ns = _first_look_ns(action, census, host)
    if trace is not None and trace.usable:
        _apply_trace(view, trace)
    _apply_messages(view)
    _apply_fusers_list(view, census)
    _apply_printed_status(view)
    return view


def _step(identity: str, step: StepReplay, line: Line, action: KillAction, host: str) -> StepView:
    elsewhere = is_elsewhere(step, line, action, host)
    return StepView(identity, without_effect(step) if elsewhere else step, elsewhere=elsewhere)


def _host_of(action: KillAction, line: Line, census: Census) -> str:
    """Where it took effect. A pasted session tells it with the port and the prompts; a record has the words only."""
    known = set[str]() if action.source == "transcript" else {look.host for look in census.looks}
    return next((s.host for s in line.steps if s.host in known), None) or action.host


def _observed(action: KillAction, trace: Trace | None, line: Line) -> Observed:
    return Observed(action.exit_code, _duration(action), action.output, dead_shell(trace, action, line))


def _first_look_ns(action: KillAction, census: Census, host: str) -> int | None:
    if not told_to_recorder(action):
        return None
    return next((look.start_ns for look in census.looks if look.host == host and not look.recalled), None)


def _duration(action: KillAction) -> float | None:
    if action.time_ns is None or action.end_ns is None:
        return None
    return (action.end_ns - action.time_ns) / SECOND


def _caller(action: KillAction, step_user: str | None, host: str, census: Census, views: Mapping[str, View]) -> Caller:
    """Who gave the command: as recorded; a record without a user is by whoever took the looks."""
    user = step_user or action.user
    if user is None and action.source == "recorded":
        users = {views[look.id].user for look in census.looks if look.host == host and look.id in views}
        users.discard(None)
        user = users.pop() if len(users) == 1 else None
    return Caller(user=user, uid=0 if user == "root" else None)


def _world(
    action: KillAction,
    host: str,
    slot: float,
    census: Census,
    series: Sequence[Booking],
    listed: frozenset[str],
    adopted: Mapping[Key, Life],
    files: Sequence[PidFile],
) -> tuple[World, Look | None]:
    """The processes that were there: those of the look before, and of a later look those that were old enough."""
    earlier = [look for look in _peopled(census, host) if look.position < slot]
    base = earlier[-1] if earlier else None
    everybody = base is not None and census.sees_everybody(base)
    candidates: list[Candidate] = []
    devices: dict[int, frozenset[str]] = {}
    for life in census.lives:
        if life.host != host:
            continue
        seen = life.sightings.get(base.id) if base is not None else None
        if seen is not None and (seen.in_table or seen.bookings):
            candidates.append(_candidate(life, seen, True))
            opened = seen.open if seen.open is not None or not seen.bookings else CUDA_DEVICES
            if opened is not None:
                devices[life.pid] = opened
        elif not (base is not None and census.covers(base, life)) and (
            _was_there(life, action, census, slot) or _starter_was_seen(life, adopted, slot)
        ):
            later = next(iter(life.sightings.values()))
            candidates.append(_candidate(life, later, False))
    world = World(
        processes=tuple(candidates),
        complete=everybody,
        open_devices=devices or None,
        compute_pids=_compute_pids(action, base, series, listed, census),
        printed_lists=pid_lists(action, [file for file in files if file.at.host == host]),
    )
    return world, base


def world_of(look: Look, census: Census, listed: frozenset[str], left_out: frozenset[int], *, complete: bool) -> World:
    """The processes of one look, as a command given right then finds them.

    ``left_out``: PIDs that only the looking itself put there. Where the look has no whole table (``complete`` is
    false), processes that other looks show are added if nothing says that they were not there.
    """
    candidates: list[Candidate] = []
    devices: dict[int, frozenset[str]] = {}
    for life in census.lives:
        if life.host != look.host or life.pid in left_out or census.present(life, look) is False:
            continue
        seen = life.sightings.get(look.id)
        if seen is not None and (seen.in_table or seen.bookings):
            candidates.append(_candidate(life, seen, True))
            opened = seen.open if seen.open is not None or not seen.bookings else CUDA_DEVICES
            if opened is not None:
                devices[life.pid] = opened
        elif not complete and seen is None and _may_be_as_old(life, look):
            candidates.append(_candidate(life, next(iter(life.sightings.values())), False))
    compute = frozenset(
        life.pid for life in census.lives if look.id in life.sightings and life.sightings[look.id].bookings
    )
    return World(
        processes=tuple(candidates),
        complete=complete,
        open_devices=devices or None,
        compute_pids=compute if look.id in listed else None,
    )


def _may_be_as_old(life: Life, look: Look) -> bool:
    """Another look shows it, and its start does not lie after this one."""
    if life.start_ns is None or look.end_ns is None:
        return True
    return life.start_ns - life.start_error_ns <= look.end_ns


def _was_there(life: Life, action: KillAction, census: Census, slot: float) -> bool:
    """A process first seen after the command: it was there if it started before, or if nothing speaks against it."""
    first = min((seen.look.position for seen in life.sightings.values()), default=-1)
    if first < slot:
        return False
    if life.start_ns is not None and action.time_ns is not None:
        return life.start_ns - life.start_error_ns <= action.time_ns
    if life.local_start_s is not None and action.local_s is not None:
        return life.local_start_s - LOCAL_ERROR_S <= action.local_s
    return not any(look.position < slot for look in _peopled(census, life.host))


def _starter_was_seen(life: Life, adopted: Mapping[Key, Life], slot: float) -> bool:
    """The server that must have started it was seen before the command, and did not outlive it."""
    server = adopted.get(life.key)
    return server is not None and any(seen.look.position < slot for seen in server.sightings.values())


def _peopled(census: Census, host: str) -> list[Look]:
    """Looks that show processes or that are a whole table: one with figures only says nothing about who was there."""
    own = (look for look in census.looks if look.host == host)
    return [look for look in own if census.shows_processes(look) or census.sees_everybody(look)]


def _candidate(life: Life, seen: Sighting, then: bool) -> Candidate:
    """A life as the kill tools saw it. A zombie of a later look has lost its command line; that is not *empty* then."""
    row = seen.rows[0] if seen.rows else None
    cmdline = life.cmdline if (seen.zombie and not then) else _text(seen.first("cmdline"))
    comm = life.comm
    source = row.text_from if row is not None else "nvidia-smi"
    if row is None or (source == "fuser" and life.booked_name and not cmdline):
        cmdline, source = life.booked_name, "nvidia-smi"
    uid = life.integer("uid")
    user = life.string("user")
    return Candidate(
        pid=life.pid,
        ppid=_number(seen.first("ppid")) if then else life.born_ppid,
        pgid=life.integer("pgid"),
        sid=life.integer("sid"),
        uid=uid if uid is not None else (0 if user == "root" else None),
        user=user,
        comm=comm if comm is not None else started_comm(row.cmdline if row is not None else None),
        comm_cut=bool(comm) and all(r.comm_cut for s in life.sightings.values() for r in s.rows if r.comm),
        cmdline=cmdline,
        cmdline_cut=bool(row.cmdline_cut) if row is not None else False,
        state=_text(seen.first("state")) if then else None,
        start=life.start_ns,
        kernel_thread=bool(seen.first("kernel_thread")) if seen.first("kernel_thread") is not None else None,
        text_from=source,
        sig_caught=life.integer("sig_caught"),
        sig_ignored=life.integer("sig_ignored"),
        sig_blocked=life.integer("sig_blocked"),
        start_ticks=life.start_ticks,
    )


def _text(value: object | None) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object | None) -> int | None:
    return value if isinstance(value, int) else None


def _compute_pids(
    action: KillAction, base: Look | None, series: Sequence[Booking], listed: frozenset[str], census: Census
) -> frozenset[int] | None:
    """What ``nvidia-smi --query-compute-apps`` would have printed: the last list before the command."""
    past = [
        b for b in series if action.time_ns is not None and b.at.time_ns is not None and b.at.time_ns <= action.time_ns
    ]
    if past:
        newest = max(b.at.time_ns or 0 for b in past)
        return frozenset(b.pid for b in past if b.at.time_ns == newest and b.kind != "graphics")
    if base is None or base.id not in listed:
        return None
    return frozenset(
        life.pid for life in census.lives if base.id in life.sightings and life.sightings[base.id].bookings
    )


def _apply_trace(view: ActionView, trace: Trace) -> None:
    steps = [step.replay for step in view.steps]
    told = shown(trace, view.action, view.replay.line, steps, view.host, view.world_pids)
    for step, found in zip(view.steps, told, strict=True):
        step.traced = found.runs
        step.sent_to = found.sent_to
        step.cites.extend(found.cites)
        if found.ran is not None and not step.replay.ran_proven:
            step.replay = replace(step.replay, ran=found.ran, ran_proven=True, ran_because=found.because)


def _apply_messages(view: ActionView) -> None:
    """Errors that a tool printed name the PIDs that it selected and could not signal."""
    output = view.action.output or ""
    for tool, refused in messages.not_permitted(output).items():
        step = next((s for s in view.steps if s.replay.tool == tool and s.replay.ran is not False), None)
        if refused and step is not None:
            step.refused |= refused
            step.cites.append(view.action.cited)
    for step in view.steps:
        if step.replay.tool == "kill":
            named = literal_pids(step.replay)
            step.absent |= set(messages.no_such_process(output, named)) & set(named)
        if step.replay.tool == "fuser" and step.replay.ran is not False:
            asked = fuser.asked_for(step.replay.step.words)
            step.listed |= messages.listed_by_fuser(output, lambda name, asked=asked: fuser.named(name, asked))
        step.failed |= messages.failed(step.replay.tool, output) - step.refused - step.absent


def _apply_fusers_list(view: ActionView, census: Census) -> None:
    """``fuser -k`` prints every PID that it finds: who is not printed, and lives on, was not found by it.

    Of a session all output is there. Who does not wait for a device in a later look has no SIGKILL on it that could
    not end it.
    """
    steps = [step for step in view.steps if step.replay.tool == "fuser" and step.replay.ran is not False]
    if view.action.source != "transcript" or view.action.output is None or not all(_prints_pids(s) for s in steps):
        return
    printed = messages.numbers(view.action.output)
    for step in steps:
        selection = step.replay.selection
        picked = {one.pid for one in selection.verdicts if one.selected} if selection is not None else set[int]()
        silent = picked - printed
        step.absent |= {pid for pid in silent if any(_lives_on(life, view) for life in census.named(view.host, pid))}


def _prints_pids(step: StepView) -> bool:
    options = [word.template for word in step.replay.step.words[1:] if word.template.startswith("-")]
    return step.replay.step.prints and not any("s" in option.lower() for option in options)


def _lives_on(life: Life, view: ActionView) -> bool:
    """A table from after the command shows it at work, and the same one was there before."""
    later = [seen for seen in life.sightings.values() if seen.look.position > view.slot and seen.in_table]
    working = bool(later) and later[-1].first("state") not in ("D", "Z", "X") and bool(later[-1].first("cmdline"))
    return working and any(seen.look.position < view.slot for seen in life.sightings.values())


def _apply_printed_status(view: ActionView) -> None:
    """``fuser …; echo rc=$?`` prints the status of the step before: the words of the echo tell where to look."""
    for step, after in itertools.pairwise(view.steps):
        words = [word.raw for word in after.replay.step.words]
        if len(words) != 2 or words[0] != "echo" or "$?" not in words[1]:
            continue
        shape = re.escape(words[1].strip("\"'")).replace(re.escape("$?"), r"(\d{1,3})")
        found = re.search(rf"^{shape}$", view.action.output or "", re.MULTILINE)
        if found is not None:
            step.printed_status = int(found.group(1))
    if len(view.steps) == 1 and view.action.exit_code is not None and view.action.exit_code >= 0:
        view.steps[0].printed_status = view.action.exit_code
