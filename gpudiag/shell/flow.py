"""Walks the steps of a line in order: which of them run, and what each leaves to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpudiag.shell.carriers import chain
from gpudiag.shell.conditions import status_of
from gpudiag.shell.lines import Carrier, Group, Line, Step
from gpudiag.shell.missing import NOT_FOUND, Missing
from gpudiag.shell.observed import Observed, no_connection, printed, printed_status
from gpudiag.shell.results import CarrierReplay, StepReplay
from gpudiag.shell.selection import Selection
from gpudiag.shell.signals import INT, fatal
from gpudiag.shell.syntax import program_of
from gpudiag.shell.tools.common import all_of
from gpudiag.shell.tools.listing import Looking
from gpudiag.shell.tools.stops import Stop
from gpudiag.shell.world import Caller, World

_ALWAYS_ZERO = frozenset({"true", ":", "echo", "sleep", "printf", "date", "set", "trap", "export", "declare", "unset"})
_RARELY_FAIL = frozenset(
    {"cd", "free", "ls", "mkdir", "nvidia-smi", "ps", "pwd", "rm", "sync", "touch", "uname", "wait"}
)
"""What ``set -e`` is not expected to end the shell at."""
_GOES = "no step before it could stop it"
_Scope = tuple[str, int]
"""Something that ``exit`` ends: ``carrier`` or ``group``, and its index."""


@dataclass(frozen=True)
class Ran:
    """Whether a step runs."""

    value: bool | None
    proven: bool
    because: str
    unfound: bool = False
    """Its shell came to it, and found no such program."""


class Flow:
    """Keeps what each carrier's shell knows at the point that was reached."""

    def __init__(self, line: Line, observed: Observed, world: World, absent: Missing) -> None:
        self.line = line
        self.observed = observed
        self.absent = absent
        self.world = world
        self.processes = {process.pid: process for process in world.processes}
        self.steps: list[StepReplay] = []
        self.rows: list[CarrierReplay] = []
        self.status: dict[int, int | None] = {}
        self.conditions: dict[int, int | None] = {}
        """Exit code of each condition, by the index of its group."""
        self.ended: dict[_Scope, Ran] = {}
        """What ``exit``, ``exec``, ``return`` or ``break`` left, or what stopped at an error."""
        self.endless: dict[_Scope, int] = {}
        """Shells that may be caught in a loop, with the index of its group."""
        self.strict: set[_Scope] = {("carrier", one.index) for one in line.carriers if one.stops_on_error}
        self.entered: dict[_Scope, Ran] = {}
        self.hit: set[int] = set()
        """PIDs that a step before has signalled, or may have, so that they may be gone."""

    def add(
        self,
        step: Step,
        tool: str | None,
        selection: Selection | None,
        rows: tuple[CarrierReplay, ...],
        looked: Selection | None = None,
        stop: Stop | None = None,
    ) -> None:
        """The next step; ``looked`` is what a pgrep found, which decides its exit code."""
        ran = self.found(step, self.seen(step, self.ran(step)))
        unfound = ran.value is False and ran.unfound
        if ran.value is False:
            rows = tuple(replace(row, death_seen=None, death_how=None) if row.death_seen else row for row in rows)
        own_death = next((row for row in rows if row.matches and row.signal_fatal and row.death_seen), None)
        if ran.value and own_death is not None:
            ran = Ran(True, True, f"it killed what carries it: {own_death.death_how}")
        if step.beside and step.fed_by is not None and ran.value and any(row.matches is not False for row in rows):
            ran = Ran(None, False, "in the background, and its list names the shells of its own pipeline")
        code = self.unfound_code(step) if unfound else self.exit_code(step, selection or looked, ran)
        self.overtake(step, ran, rows)
        self.rows.extend(rows)
        source = step.pid_source if tool == "kill" else None
        signal = None if selection is None else selection.signal
        self.steps.append(
            StepReplay(step, tool, signal, selection, ran.value, ran.proven, ran.because, source, code, stop)
        )
        if unfound:
            self.record(step, code, ())
            self.leave(step, Ran(True, ran.proven, ran.because), code, tool)
        elif ran.value is not False:
            self.remember(selection)
            self.record(step, code if ran.value else None, rows)
            self.leave(step, ran, code, tool)

    def overtake(self, step: Step, ran: Ran, rows: tuple[CarrierReplay, ...]) -> None:
        """What runs beside this step, in a copy of a shell that it may kill, may not have come that far."""
        # Where the shell has become the step's program, its copies still look like it.
        struck = {row.carrier.index for row in rows if row.matches is not False or row.execs}
        because = f"it runs beside step {step.index + 1}, which may kill its shell"
        for number, one in enumerate(self.steps if ran.value is not False else ()):
            above = {carrier.index for carrier in chain(self.line, one.step)}
            # A shell of its own beside the step was not among those that the tool was compared with.
            reached = bool(above & struck) or (bool(rows) and not above <= {row.carrier.index for row in rows})
            if one.step.beside and one.ran and not one.ran_proven and reached:
                self.steps[number] = replace(one, ran=None, ran_because=because)

    # -- did it run ------------------------------------------------------------------------------------------

    def ran(self, step: Step) -> Ran:
        if step.host is not None and no_connection(self.observed.output, self.observed.exit_code):
            return Ran(False, True, "the ssh client did not reach the host")
        if step.assigned is not None:
            self.status[step.carrier] = 0 if step.assigned == "zero" else None
        verdicts = [self.killed(step), *(self.ended.get(scope) for scope in self.scopes(step))]
        verdicts.append(self.joined(step))
        if step.beside and self.hunted(step):
            verdicts.append(Ran(None, False, "it runs beside a step that may kill its shell"))
        if self.caught(step):
            verdicts.append(Ran(None, False, "a loop before it may not end"))
        worst = [one for one in verdicts if one is not None and one.value is False]
        worst += [one for one in verdicts if one is not None and one.value is None]
        return worst[0] if worst else Ran(True, False, _GOES)

    def scopes(self, step: Step) -> list[_Scope]:
        """Everything around the step, innermost first."""
        found: list[_Scope] = [("group", group.index) for group in reversed(step.groups)]
        for one in chain(self.line, step):
            found.append(("carrier", one.index))
            found.extend(("group", group.index) for group in reversed(one.groups))
        return found

    def hunted(self, step: Step) -> bool:
        """A step in the background may still be about to signal the copy of the shell that runs this one."""
        above = {one.index for one in chain(self.line, step)}
        rows = (row for row in self.rows if row.carrier.index in above and row.matches is not False)
        causes = [self.steps[row.step] for row in rows]
        return any(cause.step.beside and cause.ran is not False and cause.signal != 0 for cause in causes)

    def caught(self, step: Step) -> bool:
        """It stands behind a loop that its shell may never leave."""
        around = {group.index for group in step.groups}
        return any(self.endless.get(scope, -1) not in {-1, *around} for scope in self.scopes(step))

    def killed(self, step: Step) -> Ran | None:
        """Whether a shell that still had to start this step was killed before."""
        doubtful: Ran | None = None
        for row in self.rows:
            if step.index not in row.later_steps or row.death_seen is False:
                continue
            cause = self.steps[row.step]
            if cause.ran is False or row.execs or row.matches is False:
                continue
            # A shell that waits for its child lives through SIGINT; one that is at work itself does not.
            at_work = cause.step.beside and cause.signal == INT
            if row.signal_fatal is False and not at_work:
                continue
            name = f"step {row.step + 1} ({cause.tool})"
            shell = "its shell, if that was given the line (ssh, bash -c)"
            if row.carrier.kind != "stated":
                shell = f"the shell that runs the line ({row.carrier.kind})"
            sure = row.matches and row.execs is False and row.signal_fatal and cause.ran
            if sure and (row.death_seen or not cause.step.beside):
                proof = f": {row.death_how}" if row.death_seen else ""
                return Ran(False, bool(row.death_seen), f"{name} matched {shell} and killed it{proof}")
            doubtful = doubtful or Ran(None, False, f"{name} may have killed {shell}")
        return doubtful

    def joined(self, step: Step) -> Ran | None:
        """``&&``, ``||`` and conditions, on this step and on everything around it, outermost first."""
        for one in reversed(chain(self.line, step)):
            if one.parent is None:
                continue
            for entered in (*self.through(one.groups, one.parent), self.carrier_entered(one)):
                if entered.value is not True:
                    return entered
        for entered in self.through(step.groups, step.carrier):
            if entered.value is not True:
                return entered
        return self.by_connector(step.connector, step.branch, step.carrier)

    def carrier_entered(self, one: Carrier) -> Ran:
        assert one.parent is not None
        return self.once(("carrier", one.index), lambda: self.by_connector(one.connector, one.branch, one.parent or 0))

    def through(self, groups: tuple[Group, ...], carrier: int) -> list[Ran]:
        """Whether each of the compound commands is entered, as far as they are."""
        found: list[Ran] = []
        for group in groups:
            found.append(self.once(("group", group.index), lambda group=group: self.into(group, carrier)))
            if found[-1].value is not True:
                break
        return found

    def once(self, scope: _Scope, decide: Callable[[], Ran]) -> Ran:
        if scope not in self.entered:
            self.entered[scope] = decide()
        return self.entered[scope]

    def into(self, group: Group, carrier: int) -> Ran:
        if group.after is None:
            return self.by_connector(group.connector, branch=False, carrier=carrier)
        code = self.conditions.get(group.after)
        if code is None:
            return Ran(None, False, "it depends on a condition whose exit code is not known")
        goes = (code == 0) == group.wanted
        if not goes and group.wanted and group.kind == "body":
            # An `if` of which no branch runs ends with 0.
            self.leaves_zero(carrier)
        if not goes and group.kind == "loop":
            self.leaves_zero(carrier)
        return Ran(goes, False, f"the exit code of its condition is {code}")

    def leaves_zero(self, carrier: int) -> None:
        """The exit code of a compound command; so far it is that of the shells above as well."""
        above: int | None = carrier
        while above is not None:
            self.status[above] = 0
            above = self.line.carriers[above].parent

    def by_connector(self, connector: str | None, branch: bool, carrier: int) -> Ran:
        if branch:
            return Ran(None, False, "it stands in a condition or a loop")
        if connector not in ("&&", "||"):
            return Ran(True, False, _GOES)
        status = self.status.get(carrier)
        if status is None:
            return Ran(None, False, f"it depends, by {connector}, on an exit code that is not known")
        goes = (status == 0) == (connector == "&&")
        return Ran(goes, False, f"the exit code before {connector} is {status}")

    def seen(self, step: Step, ran: Ran) -> Ran:
        """Corrects the prediction by what the step printed, and by an end that only a whole run has."""
        if printed(step, self.observed.output):
            return Ran(True, True, "its text is in the output")
        plain = step.connector in (None, ";") and not step.branch and not step.groups
        if (ran.value or self.caught(step)) and ran.value is not False and plain and self.ran_through():
            return Ran(True, True, f"the line ended by itself with exit code {self.observed.exit_code}")
        return ran

    def found(self, step: Step, ran: Ran) -> Ran:
        """A step whose program the shell did not find never ran, and leaves the exit code for that."""
        absent = self.absent.steps.get(step.index)
        if absent is None or ran.value is False:
            return ran
        if not absent.certain:
            return Ran(None, False, f"{absent.program} was not found in one of the places where the line needs it")
        return Ran(False, absent.proven, f"{absent.program} is not installed", unfound=True)

    @staticmethod
    def unfound_code(step: Step) -> int:
        return 0 if step.negated else NOT_FOUND

    def ran_through(self) -> bool:
        code = self.observed.exit_code
        return code is not None and 0 <= code < 126 and not self.ended and not self.strict

    # -- what it leaves behind -------------------------------------------------------------------------------

    def exit_code(self, step: Step, selection: Selection | None, ran: Ran) -> int | None:
        shown = self.shown_code(step)
        if shown is not None and ran.value is not False:
            return shown
        code = self.tool_code(step, selection)
        return code if code is None or not step.negated else int(code == 0)

    def tool_code(self, step: Step, selection: Selection | None) -> int | None:
        program = program_of(step)
        if selection is not None:
            return None if self.rests_on_the_dead(selection) else selection.exit_code
        if program in _ALWAYS_ZERO:
            return 0
        return 1 if program == "false" else status_of(step, Looking(self.world, Caller(None, None)))

    def rests_on_the_dead(self, selection: Selection) -> bool:
        """Only processes that an earlier step may have ended are left to be hit."""
        if selection.error is not None or not self.hit:
            return False
        reached = {one.pid for one in selection.verdicts if all_of((one.selected, one.permitted)) is not False}
        return bool(reached & self.hit) and (selection.exit_code != 0 or reached <= self.hit)

    def remember(self, selection: Selection | None) -> None:
        """Whom the step may have ended; a PID below zero is a stand-in for a carrier."""
        if selection is None:
            return
        for one in selection.verdicts:
            process = self.processes.get(one.pid)
            ends = None if process is None else fatal(selection.signal, process)
            waits = process is not None and process.state in ("T", "t") and selection.signal != 0
            if all_of((one.selected, one.permitted)) is not False and (ends is not False or waits):
                self.hit.add(one.pid)

    def record(self, step: Step, code: int | None, rows: tuple[CarrierReplay, ...]) -> None:
        """The exit code becomes that of all that is around the step, unless one of them dies on the way."""
        struck = {row.carrier.index: row for row in rows if not row.execs}
        self.note_conditions(step.groups, code)
        for one in chain(self.line, step):
            self.status[one.index] = code
            row = struck.get(one.index)
            dies = None if row is None else all_of((row.matches, row.signal_fatal))
            if row is not None and dies is not False:
                signal = self.steps[-1].signal
                code = 128 + signal if dies and signal is not None and code is not None else None
            self.note_conditions(one.groups, code)

    def note_conditions(self, groups: tuple[Group, ...], code: int | None) -> None:
        for group in groups:
            if group.kind == "condition":
                self.conditions[group.index] = code

    def shown_code(self, step: Step) -> int | None:
        """The code that the next step printed, or that of the whole line for its last step."""
        following = self.line.steps[step.index + 1] if step.index + 1 < len(self.line.steps) else None
        if following is not None and following.carrier == step.carrier and following.connector in (";", "&&", "||"):
            return printed_status(following, self.observed.output)
        carriers = chain(self.line, step)
        passes = step.tail and all(one.tail or one.parent is None for one in carriers)
        code = self.observed.exit_code
        return code if passes and following is None and code is not None and 0 <= code < 126 else None

    def leave(self, step: Step, ran: Ran, code: int | None, tool: str | None) -> None:
        """``exit``, ``exec``, ``return``, ``break`` and ``set -e`` end what is around them; a loop may never end."""
        program = program_of(step)
        value = False if ran.value else None
        if program == "set" and not step.forked:
            self.set_strict(step)
        if program == "exit" or "exec" in step.wrappers:
            word = "exit" if program == "exit" else "exec"
            self.end(step, ("subshell",), Ran(value, False, f"the shell ends at step {step.index + 1} ({word})"))
        elif program in ("return", "break", "continue"):
            kinds = {"return": ("function",), "break": ("loop",), "continue": ("round", "loop")}[program]
            self.end(step, kinds, Ran(value, False, f"{program} at step {step.index + 1}"))
        elif self.fails_strictly(step, code, tool):
            self.stop_at_error(step, Ran(value if code else None, False, self.strict_reason(step)))
        loop = next((group for group in step.groups if group.kind == "loop" and group.after is not None), None)
        if loop is not None:
            outside = next((one for one in reversed(step.groups) if one.kind == "subshell"), None)
            scope: _Scope = ("carrier", step.carrier) if outside is None else ("group", outside.index)
            self.endless.setdefault(scope, loop.index)

    def end(self, step: Step, kinds: tuple[str, ...], how: Ran) -> None:
        """Ends the innermost thing of these kinds, or the shell itself where that is what the word means."""
        group = next((one for one in reversed(step.groups) if one.kind in kinds), None)
        if group is not None:
            self.ended.setdefault(("group", group.index), how)
        elif "subshell" in kinds and not step.forked:
            self.ended.setdefault(("carrier", step.carrier), how)

    def set_strict(self, step: Step) -> None:
        texts = [word.text or "" for word in step.words[1:]]
        scope = self.shell_of(step)
        if texts[:2] == ["-o", "errexit"] or any(_sets(text, "-") for text in texts):
            self.strict.add(scope)
        elif texts[:2] == ["+o", "errexit"] or any(_sets(text, "+") for text in texts):
            self.strict.discard(scope)

    def shell_of(self, step: Step) -> _Scope:
        """The process that reads the step: its carrier, or a sub-shell of that."""
        group = next((one for one in reversed(step.groups) if one.kind == "subshell"), None)
        return ("carrier", step.carrier) if group is None else ("group", group.index)

    def fails_strictly(self, step: Step, code: int | None, tool: str | None) -> bool:
        scopes = {("carrier", step.carrier), *(("group", group.index) for group in step.groups)}
        if not scopes & self.strict or step.background or step.negated or self.checked(step):
            return False
        return bool(code) or (code is None and (tool is not None or program_of(step) not in _RARELY_FAIL))

    def stop_at_error(self, step: Step, how: Ran) -> None:
        """Ends the shell; from inside a compound command it is not certain that nobody looks at the exit code."""
        sure = not step.groups and step.connector != "|" and not step.forked
        self.ended.setdefault(self.shell_of(step), how if sure else replace(how, value=None))
        if not sure:
            self.ended.setdefault(("carrier", step.carrier), replace(how, value=None))

    @staticmethod
    def strict_reason(step: Step) -> str:
        return f"set -e: the shell ends if step {step.index + 1} fails"

    def checked(self, step: Step) -> bool:
        """Its exit code is looked at by ``&&``, ``||`` or a condition, which ``set -e`` lets pass."""
        if any(group.kind == "condition" for group in step.groups):
            return True
        following = self.line.steps[step.index + 1] if step.index + 1 < len(self.line.steps) else None
        if following is None or following.carrier != step.carrier:
            return False
        entered = next((one for one in following.groups if one not in step.groups), None)
        connector = following.connector if entered is None else entered.connector
        return connector in ("&&", "||", "|")


def _sets(text: str, sign: str) -> bool:
    return text.startswith(sign) and text[1:].isalpha() and "e" in text
