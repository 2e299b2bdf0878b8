"""Runs a parsed line over a recorded process table: who was picked, which steps ran, which shells died."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gpudiag.shell.carriers import Standin, above, chain, later_steps, replaces_itself, signal_ends, standins
from gpudiag.shell.lines import Carrier, Line, Step
from gpudiag.shell.observed import Death, Observed, death, no_connection, printed, printed_status
from gpudiag.shell.selection import Selection, Verdict
from gpudiag.shell.signals import number_of
from gpudiag.shell.syntax import program_of
from gpudiag.shell.tools import fuser, kill, killall, pgrep
from gpudiag.shell.tools.common import any_of, refused, verdicts_for_all
from gpudiag.shell.world import Caller, World

__all__ = ["CarrierReplay", "Observed", "Replay", "StepReplay", "replay"]

_SEARCHES = frozenset({"pgrep", "ps", "pidof", None})
_ALWAYS_ZERO = frozenset({"true", ":", "echo", "sleep", "printf", "date", "set", "trap", "export", "declare", "unset"})


@dataclass(frozen=True)
class StepReplay:
    """One step: what it would hit, and whether it ran."""

    step: Step
    tool: str | None
    """``pkill``, ``killall``, ``kill`` or ``fuser``; ``None`` for a step that kills nothing."""
    signal: int | None
    selection: Selection | None
    ran: bool | None
    ran_proven: bool
    """``ran`` follows from what was observed, not only from the rules of the shell."""
    ran_because: str
    list_from: str | None
    """Program that supplied the PIDs: ``nvidia-smi``, ``pgrep`` …"""
    exit_code: int | None
    """As recorded where an ``echo $?`` or the line's own exit code shows it, else predicted."""


@dataclass(frozen=True)
class CarrierReplay:
    """One killing step against one process that carries the line."""

    carrier: Carrier
    step: int
    matches: bool | None
    execs: bool | None
    """The shell replaces itself by the step's program, so that there is nothing left to hit."""
    signal_fatal: bool | None
    later_steps: tuple[int, ...]
    death_seen: bool | None
    death_how: str | None
    because: str


@dataclass(frozen=True)
class Replay:
    """The whole line."""

    line: Line
    steps: tuple[StepReplay, ...]
    carriers: tuple[CarrierReplay, ...]


def replay(line: Line, world: World, caller: Caller, observed: Observed) -> Replay:
    """What each step of the line does to the recorded processes, and to the line itself."""
    flow = _Flow(line, observed)
    for step in line.steps:
        tool = tool_of(step)
        selection, rows = (None, ()) if tool is None else _pick(line, step, tool, world, caller, observed)
        flow.add(step, tool, selection, rows)
    return Replay(line, tuple(flow.steps), tuple(flow.rows))


# -- selection -------------------------------------------------------------------------------------------------


def tool_of(step: Step) -> str | None:
    """The kill tool that the step runs; a ``fuser`` without ``-k`` is a look."""
    program = program_of(step)
    if program == "fuser":
        return "fuser" if fuser.kills(step.words) else None
    return program if program in ("pkill", "killall", "kill") else None


def caller_of(step: Step, caller: Caller) -> Caller:
    """Who the step runs as; an ssh without a user name may log in as anybody."""
    if step.user is not None:
        return Caller(step.user, 0 if step.user == "root" else None)
    return caller if step.host is None else Caller(None, None)


def _pick(
    line: Line, step: Step, tool: str, world: World, caller: Caller, observed: Observed
) -> tuple[Selection, tuple[CarrierReplay, ...]]:
    """Runs the tool over the recorded processes and the carriers together: ``-n`` picks among all of them."""
    who = caller_of(step, caller)
    carriers = above(line, step)
    newest = max((process.start or 0.0 for process in world.processes), default=0.0)
    one_each = any(word.text in ("-n", "-o", "--newest", "--oldest") for word in step.words)
    present = tuple(one for one in carriers if replaces_itself(line, step, one) is not True)
    extra = standins(present, who, newest, one_each=one_each)
    own = tuple(candidate for one in extra for candidate in one.candidates)
    recorded = () if step.container is not None else world.processes
    whole = replace(world, processes=recorded + own)
    selection = _run_tool(tool, step, whole, who, frozenset(candidate.pid for candidate in own))
    if _dash_refuses(line, step):
        selection = refused(whole, who, "kill: Illegal number: -", 2, signal=selection.signal)
    by_pid = {verdict.pid: verdict for verdict in selection.verdicts}
    verdicts = tuple(verdict for verdict in selection.verdicts if verdict.pid > 0)
    if step.container is not None:
        because = f"it runs inside {step.container}, which processes are visible there is not recorded"
        verdicts = verdicts_for_all(world, who, because)
        selection = replace(selection, exit_code=selection.exit_code if selection.error else None)
    rows = tuple(_row(line, step, one, extra, by_pid, selection, observed) for one in carriers)
    return replace(selection, verdicts=verdicts), rows


def _dash_refuses(line: Line, step: Step) -> bool:
    """dash's own kill takes no ``--`` behind ``-9`` or ``-KILL`` (behind ``-s KILL`` it does) and signals nobody."""
    words = [word.text or "" for word in step.words[:3]]
    own = words[0] == "kill" and not step.wrappers and line.carriers[step.carrier].shell == "dash"
    return own and words[2:] == ["--"] and words[1].startswith("-") and number_of(words[1][1:]) is not None


def _run_tool(tool: str, step: Step, world: World, caller: Caller, ancestors: frozenset[int]) -> Selection:
    if tool == "kill":
        return kill.select(step.words, step.fed_by, world, caller, ancestors)
    if step.fed_by is not None:
        because = "its arguments come from a pipeline"
        return Selection(verdicts_for_all(world, caller, because), None, understood=False)
    if tool == "pkill":
        return pgrep.select(step.words, world, caller, ancestors)
    return (killall if tool == "killall" else fuser).select(step.words, world, caller)


def _row(
    line: Line,
    step: Step,
    carrier: Carrier,
    extra: list[Standin],
    verdicts: dict[int, Verdict],
    selection: Selection,
    observed: Observed,
) -> CarrierReplay:
    execs = replaces_itself(line, step, carrier)
    found = [verdicts[c.pid] for one in extra if one.carrier == carrier.index for c in one.candidates]
    selected = {verdict.selected for verdict in found}
    matches = selected.pop() if len(selected) == 1 else (None if found else False)
    because = "it has become the step's program: no shell is left" if execs else _because(found, matches)
    if matches is None and _spares_carriers(step):
        matches, because = False, "the step's list of PIDs or files has nothing to do with this shell"
    fatal = signal_ends(line, step, carrier, selection.signal)
    if matches and any_of(verdict.permitted for verdict in found) is False:
        fatal, because = False, "the caller may not signal it"
    later = later_steps(line, step, carrier)
    seen = death(line, step, carrier, selection.signal, later, observed)
    if seen.seen and matches is False:
        seen = Death(None, None)
    return CarrierReplay(carrier, step.index, matches, execs, fatal, later, seen.seen, seen.how, because)


def _spares_carriers(step: Step) -> bool:
    """A list that was not made by looking through all processes names no shell that has only just started."""
    program = program_of(step)
    if program == "fuser":
        return not any(word.template in ("-m", "-c", "--mount") for word in step.words)
    if program != "kill" or any(re.search(r"\$(?:\$|\{?PPID)", word.raw) for word in step.words):
        return False
    lists = [one for word in step.words for one in word.substitutions] + ([step.fed_by] if step.fed_by else [])
    return not any(one.expands_on == "here" and one.program in _SEARCHES for one in lists)


def _because(found: list[Verdict], matches: bool | None) -> str:
    if matches is None and len(found) > 1:
        return "depends on which shell it is"
    return found[0].because if found else "not among the processes that the tool looks at"


# -- flow ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ran:
    value: bool | None
    proven: bool
    because: str


class _Flow:
    """Walks the steps in order and keeps what each carrier's shell knows at that point."""

    def __init__(self, line: Line, observed: Observed) -> None:
        self.line = line
        self.observed = observed
        self.steps: list[StepReplay] = []
        self.rows: list[CarrierReplay] = []
        self.status: dict[int, int | None] = {}
        self.ended: dict[int, _Ran] = {}
        """Shells that ran ``exit`` or ``exec``, or stopped at an error."""
        self.strict = {one.index for one in line.carriers if one.stops_on_error}
        self.entered: dict[int, _Ran] = {}

    def add(self, step: Step, tool: str | None, selection: Selection | None, rows: tuple[CarrierReplay, ...]) -> None:
        ran = self.seen(step, self.ran(step))
        if ran.value is False:
            rows = tuple(replace(row, death_seen=None, death_how=None) if row.death_seen else row for row in rows)
        own_death = next((row for row in rows if row.matches and row.signal_fatal and row.death_seen), None)
        if ran.value and own_death is not None:
            ran = _Ran(True, True, f"it killed what carries it: {own_death.death_how}")
        code = self.exit_code(step, selection, ran)
        self.rows.extend(rows)
        source = step.pid_source if tool == "kill" else None
        signal = None if selection is None else selection.signal
        self.steps.append(StepReplay(step, tool, signal, selection, ran.value, ran.proven, ran.because, source, code))
        if ran.value is not False:
            for one in chain(self.line, step):
                self.status[one.index] = code if ran.value else None
            self.leave(step, ran, code, tool)

    # -- did it run ------------------------------------------------------------------------------------------

    def ran(self, step: Step) -> _Ran:
        if step.host is not None and no_connection(self.observed.output, self.observed.exit_code):
            return _Ran(False, True, "the ssh client did not reach the host")
        verdicts = [self.killed(step), *(self.ended.get(one.index) for one in chain(self.line, step))]
        verdicts.append(self.joined(step))
        worst = [one for one in verdicts if one is not None and one.value is False]
        worst += [one for one in verdicts if one is not None and one.value is None]
        return worst[0] if worst else _Ran(True, False, "no step before it could stop it")

    def killed(self, step: Step) -> _Ran | None:
        """Whether a shell that still had to start this step was killed before."""
        doubtful: _Ran | None = None
        for row in self.rows:
            if step.index not in row.later_steps or row.death_seen is False:
                continue
            cause = self.steps[row.step]
            if cause.ran is False or row.execs or row.matches is False or row.signal_fatal is False:
                continue
            name = f"step {row.step + 1} ({cause.tool})"
            shell = f"the shell that runs the line ({row.carrier.kind})"
            sure = row.matches and row.execs is False and row.signal_fatal and cause.ran
            if sure and step.connector != "&":
                proof = f": {row.death_how}" if row.death_seen else ""
                return _Ran(False, bool(row.death_seen), f"{name} matched {shell} and killed it{proof}")
            doubtful = doubtful or _Ran(None, False, f"{name} may have killed {shell}")
        return doubtful

    def joined(self, step: Step) -> _Ran | None:
        """``&&`` and ``||``, on this step and on every shell above it."""
        for one in reversed(chain(self.line, step)):
            if one.index not in self.entered and one.parent is not None:
                self.entered[one.index] = self.by_connector(one.connector, one.branch, one.parent)
            entered = self.entered.get(one.index)
            if entered is not None and entered.value is not True:
                return entered
        return self.by_connector(step.connector, step.branch, step.carrier)

    def by_connector(self, connector: str | None, branch: bool, carrier: int) -> _Ran:
        if branch:
            return _Ran(None, False, "it stands in a condition or a loop")
        if connector not in ("&&", "||"):
            return _Ran(True, False, "no step before it could stop it")
        status = self.status.get(carrier)
        if status is None:
            return _Ran(None, False, f"it depends, by {connector}, on an exit code that is not known")
        goes = (status == 0) == (connector == "&&")
        return _Ran(goes, False, f"the exit code before {connector} is {status}")

    def seen(self, step: Step, ran: _Ran) -> _Ran:
        """Corrects the prediction by what the step printed, and by an end that only a whole run has."""
        if printed(step, self.observed.output):
            return _Ran(True, True, "its text is in the output")
        if ran.value and self.ran_through() and step.connector in (None, ";") and not step.branch:
            return _Ran(True, True, f"the line ended by itself with exit code {self.observed.exit_code}")
        return ran

    def ran_through(self) -> bool:
        code = self.observed.exit_code
        return code is not None and 0 <= code < 126 and not self.ended and not self.strict

    # -- what it leaves behind -------------------------------------------------------------------------------

    def exit_code(self, step: Step, selection: Selection | None, ran: _Ran) -> int | None:
        shown = self.shown_code(step)
        if shown is not None and ran.value is not False:
            return shown
        program = program_of(step)
        if selection is not None:
            return selection.exit_code
        if program in _ALWAYS_ZERO:
            return 0
        return 1 if program == "false" else None

    def shown_code(self, step: Step) -> int | None:
        """The code that the next step printed, or that of the whole line for its last step."""
        following = self.line.steps[step.index + 1] if step.index + 1 < len(self.line.steps) else None
        if following is not None and following.carrier == step.carrier and following.connector in (";", "&&", "||"):
            return printed_status(following, self.observed.output)
        carriers = chain(self.line, step)
        passes = step.tail and all(one.tail or one.parent is None for one in carriers)
        code = self.observed.exit_code
        return code if passes and following is None and code is not None and 0 <= code < 126 else None

    def leave(self, step: Step, ran: _Ran, code: int | None, tool: str | None) -> None:
        """``exit``, ``exec`` and ``set -e`` end the shell."""
        program = program_of(step)
        carrier = step.carrier
        if program == "set" and any(w.text == "errexit" or _sets_e(w.text or "") for w in step.words[1:]):
            self.strict.add(carrier)
        if program == "exit" or "exec" in step.wrappers:
            word = "exit" if program == "exit" else "exec"
            value = False if ran.value else None
            self.ended[carrier] = _Ran(value, False, f"the shell ends at step {step.index + 1} ({word})")
        elif carrier in self.strict and not self.checked(step) and (code or (code is None and tool is not None)):
            value = False if code and ran.value else None
            because = f"set -e: the shell ends if step {step.index + 1} fails"
            self.ended[carrier] = _Ran(value, False, because)

    def checked(self, step: Step) -> bool:
        """Its exit code is looked at by ``&&``, ``||`` or a condition, which ``set -e`` lets pass."""
        following = self.line.steps[step.index + 1] if step.index + 1 < len(self.line.steps) else None
        looked_at = following is not None and following.connector in ("&&", "||", "|")
        return looked_at and following is not None and following.carrier == step.carrier


def _sets_e(text: str) -> bool:
    return text.startswith("-") and not text.startswith("--") and "e" in text
