"""Runs a parsed line over a recorded process table: who was picked, which steps ran, which shells died."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpudiag.shell.carriers import Standin, above, chain, is_shell, later_steps, replaces_itself, signal_ends, standins
from gpudiag.shell.dialects import kill_dialects, shells_of
from gpudiag.shell.flow import Flow
from gpudiag.shell.lines import Carrier, Line, Step, Substitution
from gpudiag.shell.missing import missing
from gpudiag.shell.observed import Death, Observed, death
from gpudiag.shell.results import CarrierReplay, StepReplay
from gpudiag.shell.selection import Selection, Verdict
from gpudiag.shell.syntax import program_of
from gpudiag.shell.tools import fuser, keeper_stops, kill, killall, pgrep
from gpudiag.shell.tools.common import all_of, any_of, verdicts_for_all
from gpudiag.shell.tools.listing import Looking
from gpudiag.shell.tools.stops import stop_of
from gpudiag.shell.words import first_program
from gpudiag.shell.world import Caller, World
from gpudiag.shell.wrappers import strip

__all__ = ["CarrierReplay", "Observed", "Replay", "StepReplay", "replay"]

_SEARCHES = frozenset({"pgrep", "ps", "pidof", None})


@dataclass(frozen=True)
class Replay:
    """The whole line."""

    line: Line
    steps: tuple[StepReplay, ...]
    carriers: tuple[CarrierReplay, ...]


def replay(line: Line, world: World, caller: Caller, observed: Observed) -> Replay:
    """What each step of the line does to the recorded processes, and to the line itself."""
    absent = missing(line, observed.output)
    world = replace(world, printed_lists={**world.printed_lists, **dict.fromkeys(absent.lists, frozenset[int]())})
    flow = Flow(line, observed, world, absent)
    for step in line.steps:
        tool = tool_of(step)
        selection, rows = (None, ()) if tool is None else _pick(line, step, tool, world, caller, observed)
        stop = None if tool is not None else stop_of(step.words)
        if stop is not None and step.container is None:
            selection = keeper_stops.select(stop, step.words, world, _asking(step, caller, world))
            tool = program_of(step) if selection is not None else None
        looked = _pick(line, step, "pgrep", world, caller, observed)[0] if program_of(step) == "pgrep" else None
        flow.add(step, tool, selection, rows, looked, stop)
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


def _asking(step: Step, caller: Caller, world: World) -> Caller:
    """Who asks the keeper, with the number that the table shows for the name."""
    who = caller_of(step, caller)
    numbers = {process.uid for process in world.processes if process.user == who.user} - {None}
    return replace(who, uid=numbers.pop()) if who.uid is None and len(numbers) == 1 else who


def _pick(
    line: Line, step: Step, tool: str, world: World, caller: Caller, observed: Observed
) -> tuple[Selection, tuple[CarrierReplay, ...]]:
    """Runs the tool over the recorded processes and the carriers together: ``-n`` picks among all of them."""
    who = caller_of(step, caller)
    carriers = above(line, step)
    newest = max((process.start or 0.0 for process in world.processes), default=0.0)
    one_each = _picks_one(step)
    # Copies of a shell that runs something in the background stay, whatever the shell itself has become.
    copies = one_each and any(other.beside for other in line.steps[: step.index])
    present = tuple(one for one in carriers if copies or replaces_itself(line, step, one) is not True)
    extra = standins(present, who, newest, one_each=one_each)
    own = tuple(candidate for one in extra for candidate in one.candidates)
    recorded = () if step.container is not None else world.processes
    whole = replace(world, processes=recorded + own)
    earlier = _above_expanding_shells(line, step, extra)
    selection = _run_tool(tool, line, step, whole, who, frozenset(candidate.pid for candidate in own), earlier)
    selection = _without_doubtful_carriers(line, step, selection, extra)
    if _hits_what_runs_beside(tool, line, step, world, who):
        selection = replace(selection, exit_code=None)
    by_pid = {verdict.pid: verdict for verdict in selection.verdicts}
    verdicts = tuple(verdict for verdict in selection.verdicts if verdict.pid > 0)
    if step.container is not None:
        because = f"it runs inside {step.container}, which processes are visible there is not recorded"
        verdicts = verdicts_for_all(world, who, because)
        selection = replace(selection, exit_code=selection.exit_code if selection.error else None)
    rows = tuple(_row(line, step, one, extra, by_pid, selection, observed) for one in carriers)
    return replace(selection, verdicts=verdicts), rows


def _above_expanding_shells(line: Line, step: Step, extra: list[Standin]) -> dict[int, frozenset[int]]:
    """The stand-ins that were there when the shell so many levels up expanded a list; none on another host."""
    carriers = chain(line, step)
    shells = [position for position, one in enumerate(carriers) if is_shell(one)]
    found: dict[int, frozenset[int]] = {}
    for level, position in enumerate(shells):
        there = {one.index for one in carriers[position:]}
        if carriers[position].host == step.host and step.container is None:
            found[level] = frozenset(c.pid for one in extra if one.carrier in there for c in one.candidates)
    return found


def _hits_what_runs_beside(tool: str, line: Line, step: Step, world: World, who: Caller) -> bool:
    """With ``&`` other shells and clients of the same line may be there while the step looks."""
    if not step.beside and not any(other.beside for other in line.steps[: step.index]):
        return False
    own = {one.index for one in chain(line, step)}
    others = tuple(one for one in line.carriers if one.index not in own and one.host == step.host and one.cmdline)
    extra = standins(others, who, 0.0, one_each=False)
    beside = replace(world, processes=tuple(candidate for one in extra for candidate in one.candidates))
    if not beside.processes:
        return False
    selection = _run_tool(tool, line, step, beside, who, frozenset(), {})
    return any(verdict.selected is not False for verdict in selection.verdicts)


def _picks_one(step: Step) -> bool:
    return any(word.text in ("-n", "-o", "--newest", "--oldest") for word in step.words)


def _without_doubtful_carriers(line: Line, step: Step, selection: Selection, extra: list[Standin]) -> Selection:
    """A carrier that may not look like that, or may have gone already, proves no success and no newest match."""
    by_pid = {verdict.pid: verdict for verdict in selection.verdicts}
    picks_one = _picks_one(step)
    # A copy of the shell, made for a part of the line, has the same command line and is younger.
    copied = picks_one and (
        step.forked
        or any(group.kind == "subshell" for group in step.groups)
        or any(other.beside for other in line.steps[: step.index])
    )
    doubtful: set[int] = set()
    for one in extra:
        answers = {by_pid[candidate.pid].selected for candidate in one.candidates}
        if answers != {False} and (len(answers) > 1 or step.beside or one.uncertain or copied):
            doubtful.update(candidate.pid for candidate in one.candidates)
    if not doubtful:
        return selection
    verdicts = selection.verdicts
    if picks_one:
        because = "which of the matches is the newest or oldest is not known"
        verdicts = tuple(replace(one, selected=None, because=because) for one in verdicts)
    others = any_of(all_of((v.selected, v.permitted)) for v in verdicts if v.pid not in doubtful)
    return replace(selection, verdicts=verdicts, exit_code=selection.exit_code if others else None)


def _expands_braces(step: Step) -> bool:
    return any("{" not in word.template and re.search(r"(?<!\$)\{[^}]*(?:,|\.\.)", word.raw) for word in step.words)


def _run_tool(
    tool: str,
    line: Line,
    step: Step,
    world: World,
    caller: Caller,
    ancestors: frozenset[int],
    earlier: Mapping[int, frozenset[int]],
) -> Selection:
    """``earlier``: see ``_above_expanding_shells``."""
    if _expands_braces(step) and "dash" in shells_of(line, step):
        because = "braces become several words under bash, not under dash: which shell this is is not known"
        if line.carriers[step.carrier].shell == "dash":
            because = "dash leaves braces as they stand; what the tool makes of them is not evaluated"
        return Selection(verdicts_for_all(world, caller, because), None, understood=False)
    if tool == "kill":
        dialects = kill_dialects(line, step)
        look = Looking(world, caller, ancestors, earlier)
        looped = any(group.kind == "round" for group in step.groups)
        return kill.select(step.words, step.fed_by, look, dialects, step.xargs, looped=looped)
    if step.fed_by is not None:
        because = "its arguments come from a pipeline"
        return Selection(verdicts_for_all(world, caller, because), None, understood=False)
    if tool in ("pkill", "pgrep"):
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
    if matches and carrier.may_be_gone:
        matches = None
    because = "it has become the step's program: no shell is left" if execs else _because(found, matches)
    if selection.own_group and matches is None and carrier.index == step.carrier and carrier.kind != "prompt":
        matches, because = True, "0 is the process group of the shell itself"
    elif matches is None and not selection.own_group and _spares_carriers(line, step):
        matches, because = False, "the step's list of PIDs or files has nothing to do with this shell"
    fatal = signal_ends(line, step, carrier, selection.signal)
    if matches and any_of(verdict.permitted for verdict in found) is False:
        fatal, because = False, "the caller may not signal it"
    later = later_steps(line, step, carrier)
    seen = death(line, step, carrier, selection.signal, later, observed)
    if seen.seen and matches is False:
        seen = Death(None, None)
    return CarrierReplay(carrier, step.index, matches, execs, fatal, later, seen.seen, seen.how, because)


def _spares_carriers(line: Line, step: Step) -> bool:
    """A list that was not made by looking through all processes names no shell that has only just started."""
    program = program_of(step)
    if program == "fuser":
        return not any(word.template in ("-m", "-c", "--mount") for word in step.words)
    if program != "kill" or any(re.search(r"\$(?:\$|\{?PPID)", word.raw) for word in step.words):
        return False
    lists = [one for word in step.words for one in word.substitutions] + ([step.fed_by] if step.fed_by else [])
    shells = [one for one in chain(line, step) if is_shell(one)]
    here = [one for one in lists if one.levels < len(shells) and shells[one.levels].host == step.host]
    return not any(_looks_through_all(one) for one in here)


def _looks_through_all(one: Substitution) -> bool:
    programs = {first_program(strip(words).words) for words in one.pipeline} or {one.program}
    return not programs.isdisjoint(_SEARCHES)


def _because(found: list[Verdict], matches: bool | None) -> str:
    if matches is None and len(found) > 1:
        return "depends on which shell it is"
    return found[0].because if found else "not among the processes that the tool looks at"
