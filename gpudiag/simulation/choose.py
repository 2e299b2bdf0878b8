"""Which server a command is judged by, where the evidence shows several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpudiag.model import Citation, KillAction
from gpudiag.simulation.command import Asked, caller_of
from gpudiag.simulation.effect import Effect, effect_of
from gpudiag.simulation.scene import (
    Scene,
    Stage,
    holds,
    looks_to_judge,
    members_in,
    scene_of,
    server_look,
)
from gpudiag.timeline.aims import Aims, find_aims
from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.families import Family
from gpudiag.timeline.lives import Life
from gpudiag.timeline.order import Look

ASSUMED_USER = "root"
"""Who gives the command where neither the person nor the look tells."""
AFTER_ALL = float("inf")


@dataclass(frozen=True)
class Wanted:
    """Which server the person means; nothing is set: the one that the command fits."""

    family: str | None = None
    pid: int | None = None
    look: str | None = None
    """Name of the look whose processes count; ``None``: the newest that still has the server."""


@dataclass(frozen=True, eq=False)
class Pick:
    """A server in the look that it is judged by."""

    family: Family
    effect: Effect
    members: dict[int, Life]
    aimed: bool
    """The command names it, or hits what it names."""
    whose: Literal["stated", "prompt", "look", "assumed"] = "stated"
    """What tells who gives the command: the person, the prompt in the evidence, the look, or nothing."""

    @property
    def scene(self) -> Scene:
        """The look."""
        return self.effect.scene

    @property
    def held(self) -> dict[str, float | None]:
        """Memory of the server, by GPU."""
        return holds(self.scene, self.members.values())

    @property
    def hits(self) -> bool:
        """Some step may signal some of its processes."""
        return any(touch.reached is not False for pid in self.members for touch in self.effect.touches[pid])


def picks_of(stage: Stage, asked: Asked, user: str | None, wanted: Wanted) -> tuple[Pick, ...]:
    """Every server, each in the newest look that still has it (or the named one), and what the command does there."""
    found: list[Pick] = []
    done: set[str] = set()
    for look in looks_to_judge(stage.incident, stage.families, wanted.look):
        scene = scene_of(stage.incident, look)
        prompt = stage.prompts.get(look.id)
        caller = caller_of(user or prompt or scene.user or ASSUMED_USER, scene.world)
        effect = effect_of(asked, scene, caller, stage.book)
        hit = [life for pid, life in scene.lives.items() if effect.reached(pid) is True or pid == wanted.pid]
        named = _named(effect)
        families = stage.families_for(named, hit)
        aims = _aims(stage, effect, families)
        for family in families:
            own = look if wanted.look is not None else _look_of(stage, family, look, named)
            members = members_in(stage.incident, scene, family, aims.lives or stage.incident.aims.lives)
            if members and own is look and family.id not in done:
                done.add(family.id)
                aimed = family.id in aims.targets
                found.append(Pick(family, effect, members, aimed, _whose(user, prompt, scene.user)))
    return tuple(found)


def _whose(user: str | None, prompt: str | None, looked: str | None) -> Literal["stated", "prompt", "look", "assumed"]:
    if user is not None:
        return "stated"
    return "prompt" if prompt is not None else "assumed" if looked is None else "look"


def _look_of(stage: Stage, family: Family, look: Look, named: Sequence[Life]) -> Look | None:
    """The newest look that still has the server; a later one if the command names what was started after that."""
    own = server_look(stage.incident, family)
    keys = {life.key for life in family.members}
    late = own is not None and any(life.key in keys and own.id not in life.sightings for life in named)
    return look if late else own


def choose(stage: Stage, picks: Sequence[Pick], wanted: Wanted) -> tuple[Pick, ...]:
    """The server that is meant: one, or those between which it cannot be told.

    What the person says comes first; then servers that the command is aimed at or hits, if they are known without it.
    Where it hits only something else while such servers are there, nobody can tell. Of several, those that it is aimed
    at are meant; of these, those that hold memory; of these, those that the recorded commands were aimed at.
    """
    if wanted.family is not None:
        return tuple(pick for pick in picks if pick.family.id == wanted.family)
    if wanted.pid is not None:
        return tuple(pick for pick in picks if wanted.pid in pick.members)[:1]
    ids = {family.id for family in stage.families}
    known = [pick for pick in picks if pick.family.id in ids]
    touched = [pick for pick in picks if pick.aimed or pick.hits]
    if touched and known and not any(pick in known for pick in touched):
        return (*touched, *known)
    meant = stage.incident.aims.targets
    chosen = [pick for pick in touched if pick in known] or touched or known or list(picks)
    narrowing: tuple[Callable[[Pick], bool], ...] = (
        lambda pick: pick.aimed,
        lambda pick: any(mib is None or mib >= 1 for mib in pick.held.values()),
        lambda pick: pick.family.id in meant,
    )
    for fits in narrowing:
        if len(chosen) > 1:
            chosen = [pick for pick in chosen if fits(pick)] or chosen
    return tuple(chosen)


def _named(effect: Effect) -> list[Life]:
    """Processes whose PIDs are written in the command."""
    steps = [step for step in effect.replay.steps if step.ran is not False and step.selection is not None]
    pids = {pid for step in steps if step.selection is not None for pid in step.selection.literal_pids}
    return [life for pid in sorted(pids) if (life := effect.scene.lives.get(pid)) is not None]


def _aims(stage: Stage, effect: Effect, families: Sequence[Family]) -> Aims:
    """What the command is aimed at, by the measure for recorded commands."""
    look = effect.scene.look
    action = KillAction(
        host=look.host,
        text=effect.replay.line.text,
        argv=None,
        how="prompt",
        time_ns=None,
        end_ns=None,
        time_error_ns=0,
        after_look=look.id,
        user=effect.caller.user,
        exit_code=None,
        output=None,
        script_text=None,
        source="stated",
        cited=Citation("simulated", "command", None, ""),
    )
    steps = [StepView(str(step.step.index), step) for step in effect.replay.steps if step.ran is not False]
    pids = frozenset(process.pid for process in effect.scene.world.processes)
    # Placed after every look, so that who lives on in reality says nothing about what this command would do.
    view = ActionView("S", action, look.host, AFTER_ALL, effect.caller, effect.replay, steps, look, pids)
    there = [family for family in families if _is_there(stage, effect, family)]
    logged = frozenset(role.pid for role in stage.incident.parsed.roles)
    return find_aims([view], there, stage.incident.kinship, stage.book, logged, stage.incident.gpus)


def _is_there(stage: Stage, effect: Effect, family: Family) -> bool:
    scene = effect.scene
    there = (life for life in family.members if scene.lives.get(life.pid) is life)
    return any(stage.incident.census.alive(life, scene.look) is not False for life in there)
