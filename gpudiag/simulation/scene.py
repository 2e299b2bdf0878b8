"""The look that a command is replayed on, and the servers that it shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpudiag.rules.book import Book
from gpudiag.rules.engines import Engine
from gpudiag.shell.keepers import ControlGroups
from gpudiag.shell.world import World
from gpudiag.simulation.server import server_part
from gpudiag.timeline.commands import world_of
from gpudiag.timeline.families import Family
from gpudiag.timeline.incident import Incident, families_with, is_list
from gpudiag.timeline.lives import Key, Life
from gpudiag.timeline.order import Look
from gpudiag.timeline.printouts import printed_at
from gpudiag.timeline.views import recorder_of

MAX_LOOKS = 12
"""Looks of an incident that are searched for a server which no other sign points to."""


@dataclass(frozen=True)
class Stage:
    """An incident with the knowledge about engines."""

    incident: Incident
    engines: tuple[Engine, ...]
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Whose prompt each look was typed at: ``ubuntu@host:~$``. A ``sudo`` in the line changes nobody's prompt."""

    @cached_property
    def book(self) -> Book:
        """Titles and names of all engines."""
        return Book(self.engines)

    def engine(self, name: str | None) -> Engine | None:
        """An engine by name."""
        return next((engine for engine in self.engines if engine.name == name), None)

    @cached_property
    def heads(self) -> tuple[Life, ...]:
        """Launchers that put their children into groups of their own: what they started belongs to them."""
        apart = {engine.name for engine in self.engines if engine.children_own_session}
        roles = ((life, self.book.role_of(life.comm, life.cmdline)) for life in self.incident.census.lives)
        return tuple(life for life, role in roles if role is not None and role[0] in apart and role[1] == "launcher")

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """Every server or job of interest."""
        return tuple(families_with(self.incident, self.book, self.heads, ()))

    @cached_property
    def _members(self) -> frozenset[Key]:
        return frozenset(life.key for family in self.families for life in family.members)

    def families_for(self, named: Sequence[Life], hit: Sequence[Life]) -> tuple[Family, ...]:
        """As ``families``, with those that a command hits; a process named by its PID is the head of what it started.

        One that a pattern hits is no head: it may be a login shell or a scheduler, which started unrelated things.
        """
        heads = [*self.heads, *(life for life in named if life.pid != 1)]
        if len(heads) == len(self.heads) and self._members.issuperset(life.key for life in hit):
            return self.families
        return tuple(families_with(self.incident, self.book, heads, hit))


@dataclass(frozen=True)
class Scene:
    """The processes of one look, as a command finds them."""

    look: Look
    world: World
    lives: dict[int, Life]
    """By PID."""
    user: str | None
    """Who took the look."""
    groups: ControlGroups


def scene_of(incident: Incident, look: Look) -> Scene:
    """The processes of a look without those that only the looking put there."""
    view = incident.views[look.id]
    listed = frozenset({look.id} if any(is_list(c, look) for c in incident.parsed.coverage) else ())
    passing = frozenset(
        life.pid for life in incident.census.lives if life.host == look.host and _ends_with_the_look(incident, life)
    )
    # Who could not be seen from where the look was taken (another PID namespace) cannot be reached from there either.
    world = world_of(look, incident.census, listed, passing, complete=view.hidden is False)
    printed = printed_at(incident.parsed.printouts, incident.looks, look, look.position + 0.5)
    recorder = recorder_of(look, incident.parsed.recorders)
    world = replace(world, printouts=printed, boot_id=recorder.boot_id if recorder is not None else None)
    there = {process.pid for process in world.processes}
    lives: dict[int, Life] = {}
    for life in incident.census.lives:
        if life.host == look.host and life.pid in there and (life.pid not in lives or look.id in life.sightings):
            lives[life.pid] = life
    groups = _control_groups(incident, look, lives)
    return Scene(look, replace(world, keepers=groups), lives, view.user, groups)


def _control_groups(incident: Incident, look: Look, lives: dict[int, Life]) -> ControlGroups:
    paths = {pid: path for pid, life in lives.items() if (path := life.string("cgroup")) is not None}
    units = [unit for unit in incident.parsed.units if unit.at.host == look.host and unit.name is not None]
    boxes = [box for box in incident.parsed.containers if box.at.host == look.host and box.id is not None]
    return ControlGroups(
        paths,
        {unit.name: frozenset(unit.pids) for unit in units if unit.name and unit.pids},
        {name: box.id[:12] for box in boxes if box.id for name in (box.name, box.id[:12]) if name},
        {box.id[:12]: frozenset(box.pids) for box in boxes if box.id and box.pids},
        {unit.name: unit.main_pid for unit in units if unit.name and unit.main_pid}
        | {box.id[:12]: box.main_pid for box in boxes if box.id and box.main_pid},
    )


def _ends_with_the_look(incident: Incident, life: Life) -> bool:
    """The ``ps`` that printed a table, and the tool that looked: its command line may hold the very kill pattern."""
    return life.program == "ps" or (incident.kinship.is_observer(life) and "gpudiag" in (life.cmdline or ""))


def server_look(incident: Incident, family: Family) -> Look | None:
    """The newest look that still has the server: whole if there is such a look, else its root, else some member."""
    looks = [look for look in incident.looks if look.host == family.host]
    census = incident.census
    living = [{life.key for life in family.members if census.alive(life, look) is True} for look in looks]
    by_key = {life.key: life for life in family.members}
    root = family.root.key if family.root is not None else None
    with_root = [n for n, keys in enumerate(living) if root in keys]
    whole = [
        n
        for n in with_root
        if not any(_is_loss(family, by_key[key]) for key in set[Key]().union(*living[:n]) - living[n])
    ]
    for found in (whole, with_root, [n for n, keys in enumerate(living) if keys]):
        if found:
            return looks[found[-1]]
    seen = [look for look in looks if any(_not_gone(incident, life, look) for life in family.members)]
    return seen[-1] if seen else None


def _is_loss(family: Family, life: Life) -> bool:
    """The end of this member is no everyday event: a helper without a role (a compiler, a probe) comes and goes."""
    used_gpu = life.used_devices
    return used_gpu or family.engine is None or family.role(life) is not None


def _not_gone(incident: Incident, life: Life, look: Look) -> bool:
    return look.id in life.sightings and incident.census.alive(life, look) is not False


def members_in(incident: Incident, scene: Scene, family: Family, aimed: Collection[Key]) -> dict[int, Life]:
    """Processes of the server that live in the look, or that nothing shows to be dead there."""
    server = server_part(incident, family, aimed)
    return {
        pid: life
        for pid, life in scene.lives.items()
        if life.key in server and incident.census.alive(life, scene.look) is not False
    }


def holds(scene: Scene, lives: Iterable[Life]) -> dict[str, float | None]:
    """MiB by GPU that the look books on the processes; ``None`` where a figure is missing."""
    total: dict[str, float | None] = {}
    for life in lives:
        seen = life.sightings.get(scene.look.id)
        for gpu, mib in (seen.held() if seen is not None else {}).items():
            before = total.get(gpu, 0.0)
            total[gpu] = None if mib is None or before is None else before + mib
    return total


def looks_to_judge(incident: Incident, families: Sequence[Family], name: str | None) -> tuple[Look, ...]:
    """Looks of that name; without one every look that is the newest of some server, and the newest ones, newest first.

    A server that nothing but the command points to may be gone in the newest.
    """
    if name is not None:
        return tuple(look for look in incident.looks if look.name == name)
    known = {look.id for family in families if (look := server_look(incident, family)) is not None}
    chosen = [n for n, look in enumerate(incident.looks) if look.id in known or n >= len(incident.looks) - MAX_LOOKS]
    return tuple(incident.looks[n] for n in reversed(chosen))
