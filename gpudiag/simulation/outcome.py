"""The answer about one command, as the public object."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from gpudiag.report import simulation as s
from gpudiag.report.contract import ActionStep, Fate
from gpudiag.shell.carriers import is_shell
from gpudiag.shell.replay import CarrierReplay, StepReplay
from gpudiag.simulation.choose import ASSUMED_USER, Pick
from gpudiag.simulation.command import Asked
from gpudiag.simulation.effect import Effect, Touch
from gpudiag.simulation.follow import Following, followers
from gpudiag.simulation.memory import Memory, Sizes, memory_of
from gpudiag.simulation.scene import Stage, holds
from gpudiag.timeline.facts.carrier import SHELL_NAMES
from gpudiag.timeline.facts.reach import signal_name
from gpudiag.timeline.lives import Life

CLEAN, NOT_CLEAN, UNTOLD = s.VERDICT_VALUES
MAX_SHOWN = 500
"""Processes outside the server that are described one by one; the lists of PIDs are whole."""


@dataclass(frozen=True)
class Parts:
    """Who is hit, who is not, and of whom that cannot be told; PIDs in order."""

    hit: tuple[int, ...]
    survivors: tuple[int, ...]
    collateral: tuple[int, ...]
    undecided: tuple[int, ...]
    outlive: tuple[int, ...]
    """Members hit by what does not end them."""
    shells: tuple[str, ...]
    memory: Memory | None = None
    follows: tuple[Following, ...] = field(default=())


def parts_of(stage: Stage, pick: Pick) -> Parts:
    """Every process of the look put where it belongs; a plain zombie is neither hit by accident nor a survivor."""
    effect = pick.effect
    reached = {pid: effect.reached(pid) for pid in effect.scene.lives}
    living = {pid for pid, life in effect.scene.lives.items() if _may_die(stage, effect, life)}
    hit = {pid for pid, answer in reached.items() if answer is True and (pid in living or pid in pick.members)}
    survivors = {pid for pid in pick.members if reached[pid] is False}
    # What an obscure step may do to the rest of the host is said once, not for each process of it.
    specific = {pid for pid in living if any(touch.reached is None for touch in effect.touches[pid])}
    undecided = {pid for pid in specific | pick.members.keys() if reached[pid] is None}
    outlive = {pid for pid in hit & pick.members.keys() if effect.ends(pid) is False}
    return Parts(
        hit=tuple(sorted(hit)),
        survivors=tuple(sorted(survivors)),
        collateral=tuple(sorted(hit - pick.members.keys())),
        undecided=tuple(sorted(undecided)),
        outlive=tuple(sorted(outlive)),
        shells=tuple(dict.fromkeys(SHELL_NAMES.get(row.carrier.kind, row.carrier.kind) for row in effect.shells)),
    )


def _may_die(stage: Stage, effect: Effect, life: Life) -> bool:
    if life.latest("kernel_thread") is True:
        return False
    return stage.incident.census.alive(life, effect.scene.look) is not False


def own_session_dies(effect: Effect) -> bool:
    """A shell that carries the command is killed; a ``sudo`` or ``timeout`` in front of one step is no loss."""
    return any(_matters(row) for row in effect.shells)


def _matters(row: CarrierReplay) -> bool:
    return is_shell(row.carrier) or row.carrier.kind == "ssh client" or bool(row.later_steps)


def judge(pick: Pick, parts: Parts) -> tuple[str, str]:
    """The verdict, with the reason in a sentence."""
    effect = pick.effect
    bad: list[str] = []
    if parts.survivors:
        bad.append(f"{_count(parts.survivors)} of the server not hit")
    if parts.outlive:
        bad.append(f"{_count(parts.outlive)} hit by a signal that does not end it")
    if parts.collateral:
        bad.append(f"{_count(parts.collateral)} hit that are not of this server")
    again = next((step.stop for step in effect.replay.steps if step.stop is not None and _starts_again(step)), None)
    if again is not None:
        bad.append(f"{again.verb} starts {', '.join(again.names)} again, which takes the memory anew")
    if own_session_dies(effect):
        bad.append(f"it kills {', '.join(parts.shells)}")
    if bad:
        return NOT_CLEAN, "; ".join(bad)
    if effect.obscure:
        return UNTOLD, effect.obscure[0]
    if parts.undecided:
        return UNTOLD, f"whether it hits {_count(parts.undecided)} cannot be told"
    if effect.shells_in_doubt:
        return UNTOLD, "whether it kills the shell that runs it cannot be told"
    if not effect.scene.world.complete:
        return UNTOLD, "the evidence has no table of all processes, so there may be others"
    return CLEAN, "every process of the server is hit, and nobody else"


def _starts_again(step: StepReplay) -> bool:
    """It ends somebody and starts the same anew."""
    selection = step.selection
    restarts = step.stop is not None and step.stop.verb in ("restart", "try-restart")
    return restarts and step.ran is not False and selection is not None and any(v.selected for v in selection.verdicts)


def _count(pids: Sequence[int]) -> str:
    return "1 process" if len(pids) == 1 else f"{len(pids)} processes"


def describe(stage: Stage, asked: Asked, pick: Pick) -> s.Simulation:
    """The whole answer about the command and one server."""
    parts = parts_of(stage, pick)
    follows = followers(stage, pick)
    verdict, because = judge(pick, parts)
    memory = memory_of(stage, pick, *_ends(pick, parts, follows))
    effect = pick.effect
    return s.Simulation(
        command=asked.text,
        steps=tuple(_step(stage, pick, step) for step in effect.replay.steps),
        hit=parts.hit,
        survivors=parts.survivors,
        collateral=parts.collateral,
        releases_mib=_rounded(memory.releases),
        leaves_mib=_rounded(memory.leaves),
        follows=tuple(s.Follow(pid=x.pid, because=x.because, certainty=x.certainty) for x in follows),
        verdict=verdict,
        because=because,
        undecided=parts.undecided,
        undecided_mib=_rounded(memory.undecided),
        outlive=parts.outlive,
        hit_shells=parts.shells,
        family=pick.family.id,
        engine=pick.family.engine,
        root_pid=pick.family.root_pid,
        look=effect.scene.look.name,
        host=effect.scene.look.host or None,
        user=effect.caller.user,
        carried_by=asked.shell or ("ssh" if asked.over_ssh else "prompt"),
        notes=tuple(_notes(pick, parts)),
        processes=tuple(_processes(stage, pick, parts)),
    )


def undecided_server(stage: Stage, asked: Asked, picks: Sequence[Pick]) -> s.Simulation:
    """The answer where it cannot be told which server is meant: whom it hits, and nothing about who should be."""
    carried_by = asked.shell or ("ssh" if asked.over_ssh else "prompt")
    if not picks:
        nobody = "the evidence shows no server or job that holds GPU memory, is of a known engine, or is hit"
        return s.Simulation(command=asked.text, verdict=UNTOLD, because=nobody, carried_by=carried_by)
    effect = picks[0].effect
    living = {pid: life for pid, life in effect.scene.lives.items() if _may_die(stage, effect, life)}
    everybody = replace(picks[0], members=living)
    parts = parts_of(stage, everybody)
    steps = (_step(stage, everybody, step) for step in everybody.effect.replay.steps)
    return s.Simulation(
        command=asked.text,
        steps=tuple(step.model_copy(update={"missed": ()}) for step in steps),
        hit=parts.hit,
        verdict=UNTOLD,
        because="the evidence shows several servers that may be meant; name one with --family or --pid",
        hit_shells=parts.shells,
        look=everybody.scene.look.name,
        host=everybody.scene.look.host or None,
        user=everybody.effect.caller.user,
        carried_by=carried_by,
        notes=tuple(_notes(everybody, parts)),
        servers=tuple(_server(stage, pick) for pick in picks),
    )


def _server(stage: Stage, pick: Pick) -> s.Server:
    hit = set(parts_of(stage, pick).hit)
    return s.Server(
        family=pick.family.id,
        engine=pick.family.engine,
        root_pid=pick.family.root_pid,
        user=pick.family.user,
        members=tuple(sorted(pick.members)),
        holds_mib=_rounded(pick.held),
        hit=tuple(sorted(hit & pick.members.keys())),
    )


def _ends(pick: Pick, parts: Parts, follows: Sequence[Following]) -> tuple[set[int], set[int]]:
    """Members that surely end, and those that may."""
    ends = {pid: pick.effect.ends(pid) for pid in parts.hit if pid in pick.members}
    sure = {pid for pid, answer in ends.items() if answer} | {x.pid for x in follows if x.certainty == "inferred"}
    maybe = {pid for pid, answer in ends.items() if answer is None} | set(parts.undecided) & pick.members.keys()
    return sure, (maybe | {x.pid for x in follows}) - sure


def _rounded(sizes: Sizes) -> dict[str, float | None]:
    return {gpu: None if mib is None else round(mib, 1) for gpu, mib in sizes.items()}


def _step(stage: Stage, pick: Pick, step: StepReplay) -> ActionStep:
    effect = pick.effect
    number = step.step.index
    answers = {pid: touch for pid, all_ in effect.touches.items() for touch in all_ if touch.step == number}
    hit = sorted(pid for pid, touch in answers.items() if touch.reached and _counts(stage, pick, pid))
    missed = sorted(pid for pid in pick.members if pid in answers and answers[pid].reached is False)
    selection = step.selection
    refused = (v.pid for v in selection.verdicts if v.selected and v.permitted is False) if selection else ()
    shells = (row.carrier.kind for row in effect.shells if row.step == number)
    return ActionStep(
        id=_step_id(number),
        text=step.step.text,
        tool=step.tool,
        signal=signal_name(step.signal),
        runs_on=stage.incident.host_id(effect.scene.look.host),
        ran={True: "yes", False: "no", None: "unknown"}[step.ran],
        because=step.ran_because,
        hit=tuple(hit),
        missed=tuple(missed),
        collateral=tuple(pid for pid in hit if pid not in pick.members),
        hit_shells=tuple(dict.fromkeys(SHELL_NAMES.get(kind, kind) for kind in shells)),
        not_permitted=tuple(sorted(pid for pid in refused if pid in effect.scene.lives)) if step.ran else (),
        error=selection.error if selection is not None else None,
        exit_code=step.exit_code if step.ran is not False else None,
    )


def _step_id(number: int) -> str:
    return f"A1.{number + 1}"


def _counts(stage: Stage, pick: Pick, pid: int) -> bool:
    return pid in pick.members or _may_die(stage, pick.effect, pick.effect.scene.lives[pid])


def _notes(pick: Pick, parts: Parts) -> list[str]:
    effect = pick.effect
    notes = [*effect.obscure]
    notes += [
        f"`{step.step.text[:120]}` complains: {'; '.join(step.selection.complaints[:3])}"
        for step in effect.replay.steps
        if step.selection is not None and step.ran is not False and step.selection.complaints
    ]
    if pick.whose == "assumed":
        notes.append(f"who gives the command is not known: taken as {ASSUMED_USER}, --user tells it")
    if pick.whose == "prompt":
        who = effect.caller.user
        notes.append(
            f"commands in the evidence are given by {who}, so this one is taken as theirs; --user names another"
        )
    if not effect.scene.world.complete:
        notes.append("the look has no table of all processes: there may be more of the server, and others that are hit")
    if parts.shells and not own_session_dies(effect):
        notes.append(f"it also ends {', '.join(parts.shells)}, after that has done its work")
    if any(pick.effect.ends(pid) is None for pid in parts.hit):
        notes.append("a process with a handler for the signal ends when and as its handler wants")
    return notes


def _processes(stage: Stage, pick: Pick, parts: Parts) -> list[s.Affected]:
    named = {
        **dict.fromkeys(parts.collateral, "collateral"),
        **dict.fromkeys((pid for pid in parts.hit if pid in pick.members), "hit"),
        **dict.fromkeys(parts.survivors, "survivor"),
        **dict.fromkeys(parts.undecided, "undecided"),
    }
    own = [pid for pid in sorted(named) if pid in pick.members]
    others = [pid for pid in sorted(named) if pid not in pick.members][:MAX_SHOWN]
    return [_affected(stage, pick, pid, named[pid]) for pid in (*own, *others)]


def _affected(stage: Stage, pick: Pick, pid: int, part: str) -> s.Affected:
    effect = pick.effect
    life = effect.scene.lives[pid]
    family = pick.family if pid in pick.members else stage.incident.family_of(life)
    touches = effect.touches[pid]
    return s.Affected(
        pid=pid,
        name=life.title,
        user=life.string("user"),
        role=family.role(life) if family is not None else None,
        family=family.id if family is not None else None,
        part=part,
        because=_reason(effect, touches, part),
        ends=effect.ends(pid) if part in ("hit", "collateral") else None,
        holds_mib=_rounded(holds(effect.scene, [life])),
        fate=tuple(_fate(touch) for touch in touches),
    )


def _fate(touch: Touch) -> Fate:
    reached = {True: "yes", False: "no", None: "unknown"}[touch.reached]
    certainty = "possible" if touch.reached is None else "inferred"
    return Fate(step=_step_id(touch.step), reached=reached, certainty=certainty, because=touch.because)


def _reason(effect: Effect, touches: Collection[Touch], part: str) -> str:
    wanted = {"hit": True, "collateral": True, "survivor": False, "undecided": None}[part]
    found = [touch.because for touch in touches if touch.reached is wanted]
    if found:
        return "; ".join(dict.fromkeys(found))
    return effect.obscure[0] if effect.obscure else "no step of it signals anybody"
