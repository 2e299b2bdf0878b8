"""Everything the evidence says about one incident, joined: the ground on which fact tables are built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from gpudiag.model import Citation, ClockPair, Coverage, KernelEvent, KillAction, LogEvent
from gpudiag.parse.parsed import Parsed
from gpudiag.timeline.adoption import adopt_strays
from gpudiag.timeline.aims import Aims, NameBook, find_aims
from gpudiag.timeline.commands import ActionView, StepView, replay_actions
from gpudiag.timeline.coupling import LawBook
from gpudiag.timeline.effects import changed_nothing
from gpudiag.timeline.families import Family, RoleBook, find_families
from gpudiag.timeline.gpus import Gpu, GpuIndex, index_gpus
from gpudiag.timeline.inheritance import Inheritance, inheritances, unlisted_heirs
from gpudiag.timeline.inquiries import note_absent
from gpudiag.timeline.inside import missed_by_all
from gpudiag.timeline.interrupts import interrupt_actions
from gpudiag.timeline.joined import join_looks
from gpudiag.timeline.kinship import Kinship, is_shell
from gpudiag.timeline.ledger import Ledger, close_ledger
from gpudiag.timeline.lives import SIGKILL_BIT, UNKNOWN_GPU, Census, Life, Sighting, take_census
from gpudiag.timeline.log_roles import own_roles
from gpudiag.timeline.order import Look, clock_of, order_looks
from gpudiag.timeline.own_numbers import note_own_numbers
from gpudiag.timeline.reported import reported_bookings
from gpudiag.timeline.requests import Services
from gpudiag.timeline.samples import Figure, Memory, series_bookings
from gpudiag.timeline.supervision import successors
from gpudiag.timeline.trace import Reach, Trace
from gpudiag.timeline.views import View, recorder_of, view_of, whole_tables

_ORIGINS = ("trace", "netlink", "polled")
"""Of a kernel's record, the best first."""


class EngineBook(RoleBook, NameBook, LawBook, Protocol):
    """What the rules stage knows about engines, handed in."""


@dataclass
class Citations:
    """Numbers citations, so that fact tables can carry them as integers."""

    items: list[Citation] = field(default_factory=list[Citation])
    _known: dict[Citation, int] = field(default_factory=dict[Citation, int])

    def add(self, cited: Citation) -> int:
        """Index of a citation, the same for equal ones."""
        if cited not in self._known:
            self._known[cited] = len(self.items)
            self.items.append(cited)
        return self._known[cited]

    def add_all(self, cited: Sequence[Citation]) -> list[int]:
        """Indices of several."""
        return [self.add(item) for item in cited]


@dataclass
class Incident:
    """One incident on one or more hosts."""

    parsed: Parsed
    looks: tuple[Look, ...]
    gpus: GpuIndex
    views: dict[str, View]
    census: Census
    kinship: Kinship
    families: list[Family]
    actions: list[ActionView]
    aims: Aims
    memory: Memory
    inherited: list[Inheritance]
    """In the newest look of each host."""
    ledgers: dict[str, Ledger]
    """By GPU id; only GPUs that have a figure after the last command."""
    traces: dict[str, Trace]
    book: EngineBook
    inherited_before: list[Inheritance]
    """In earlier looks."""
    own_lists: frozenset[str]
    """Ids of looks with a list of compute processes that names every living holder."""
    citations: Citations = field(default_factory=Citations)

    def __post_init__(self) -> None:
        self._family_of = {life.key: family for family in self.families for life in family.members}
        self._effects: dict[str, ActionView | None] = {}
        self._kernel_by_pid: dict[int, list[KernelEvent]] = {}
        self._kernel_by_kind: dict[str, list[KernelEvent]] = {}
        for event in self.parsed.kernel_events:
            self._kernel_by_kind.setdefault(event.kind, []).append(event)
            if event.pid is not None:
                self._kernel_by_pid.setdefault(event.pid, []).append(event)
        self._process_ids = {life.key: f"P{n}" for n, life in enumerate(self._named_lives(), 1)}

    def _named_lives(self) -> list[Life]:
        members = [life for family in self.families for life in family.members]
        return members + [
            life for life in self.census.lives if life.key not in self._family_of and self.is_monitor(life)
        ]

    def was_out_of_reach(self, life: Life) -> bool:
        """Every command on its host was given inside a container, and nothing shows that it is in one of those."""
        return missed_by_all(life, self.actions, self.families, services_of(self.parsed, self.looks))

    def is_monitor(self, life: Life) -> bool:
        """It has devices open in the newest look, maps none and holds nothing: a client of NVML that only looks.

        Such a client has the control device open; who asked for a GPU's own device only does not learn that.
        """
        look = self.newest(life.host)
        seen = life.sightings.get(look.id) if look is not None else None
        if seen is None or self.inherits_from(life) is not None:
            return False
        return "/dev/nvidiactl" in (seen.open or ()) and not seen.mapped and not seen.bookings

    def family_of(self, life: Life) -> Family | None:
        """The family a process belongs to, if it is of interest at all."""
        return self._family_of.get(life.key)

    def process_id(self, life: Life) -> str | None:
        """Report id of a process."""
        return self._process_ids.get(life.key)

    def hosts(self) -> list[str]:
        """Every host that the evidence shows, in order of appearance."""
        names = (
            [look.host for look in self.looks] + [gpu.host for gpu in self.gpus.gpus] + [a.host for a in self.actions]
        )
        logged = (event.host for event in (*self.parsed.log_events, *self.parsed.kernel_events))
        return list(dict.fromkeys(names)) or list(dict.fromkeys(logged))

    def host_id(self, host: str) -> str:
        """Report id of a host."""
        return f"H{self.hosts().index(host) + 1}"

    def container_of(self, host: str) -> str | None:
        """The container whose own processes all looks of this name show; its PIDs mean nothing outside."""
        names = {look.container for look in self.parsed.looks if look.host == host}
        return names.pop() if len(names) == 1 else None

    def run_in(self, host: str) -> str:
        """Where a command with PIDs of these looks has to be given: ``host``, or the container's name."""
        return self.container_of(host) or "host"

    def newest(self, host: str) -> Look | None:
        """The last look at a host."""
        return self.census.newest_look(host)

    def boot_id(self, host: str) -> str | None:
        """Boot id of the kernel that the newest look is of."""
        look = self.newest(host)
        recorder = recorder_of(look, self.parsed.recorders) if look is not None else None
        return recorder.boot_id if recorder is not None else None

    def last_action(self, host: str) -> ActionView | None:
        """The last command on a host."""
        own = [action for action in self.actions if action.host == host]
        return own[-1] if own else None

    def was_without_effect(self, action: ActionView) -> bool:
        """It reached nobody, or was refused."""
        return changed_nothing(action, self.census)

    def last_effect(self, host: str) -> ActionView | None:
        """The last command on a host that may have changed anything."""
        if host not in self._effects:
            own = [action for action in self.actions if action.host == host]
            found = (action for action in reversed(own) if not self.was_without_effect(action))
            self._effects[host] = next(found, None)
        return self._effects[host]

    def log_events(self, host: str) -> list[LogEvent]:
        """What the servers' logs of a host say; a log that names no host is of the only one that there is."""
        alone = len(self.hosts()) == 1
        return [event for event in self.parsed.log_events if event.host == host or (alone and not event.host)]

    def kernel_events(self, *, pid: int | None = None, kind: str | None = None) -> Sequence[KernelEvent]:
        """Kernel messages about a PID, or of one kind, of all hosts."""
        return self._kernel_by_pid.get(pid, ()) if pid is not None else self._kernel_by_kind.get(kind or "", ())

    def alive(self, life: Life) -> bool | None:
        """It lives in the newest look of its host."""
        look = self.newest(life.host)
        return None if look is None else self.census.alive(life, look)

    def present(self, life: Life) -> bool | None:
        """It is in the newest look of its host, if only as a zombie."""
        look = self.newest(life.host)
        return None if look is None else self.census.present(life, look)

    def booked_now(self, life: Life) -> dict[str, float | None]:
        """MiB by GPU that the newest look books on it."""
        look = self.newest(life.host)
        seen = life.sightings.get(look.id) if look is not None else None
        return seen.held() if seen is not None else {}

    @cached_property
    def booked_lives(self) -> dict[tuple[str, str], list[Life]]:
        """Who may be alive and is booked on a GPU by the newest look of its host, by host and GPU."""
        found: dict[tuple[str, str], list[Life]] = {}
        for life in self.census.lives:
            gpus = self.booked_now(life)
            for gpu in gpus if gpus and self.alive(life) is not False else ():
                found.setdefault((life.host, gpu), []).append(life)
        return found

    def list_seen(self, host: str) -> bool:
        """The newest look has a list of compute processes."""
        look = self.newest(host)
        return look is not None and any(is_list(c, look) for c in self.parsed.coverage)

    def device_untold(self, look: Look) -> bool:
        """No list of open device files came with this look, and none of memory, or one that can name nobody there."""
        sources = ("open handles",) if self.is_blind(look) else ("compute processes", "open handles")
        return not any(c.at.look == look.id and c.source in sources and c.outcome == "ok" for c in self.parsed.coverage)

    def is_blind(self, look: Look) -> bool:
        """The driver's list was taken in a container and is empty: there it is so whoever holds the memory."""
        if self.views[look.id].own_namespace is not True or not any(is_list(c, look) for c in self.parsed.coverage):
            return False
        return not any(s.bookings for life in self.census.lives if (s := life.sightings.get(look.id)) is not None)

    def holds_now(self, life: Life) -> float | None:
        """Device memory tied to it in the newest look, an heir's share included; 0 = none, ``None`` = not told."""
        booked = self.booked_now(life)
        if booked:
            figures = [mib for mib in booked.values() if mib is not None]
            return sum(figures) if figures else None
        heir = self.inherits_from(life)
        if heir is not None:
            return self.inherited_share(life) if self.booked_now(heir.dead) else None
        look = self.newest(life.host)
        told = self.list_seen(life.host) and not (look is not None and self.is_blind(look))
        return 0.0 if told or self._has_no_device(life) or self._is_plain_zombie(life) else None

    def _is_plain_zombie(self, life: Life) -> bool:
        """All its threads have ended: such a process holds nothing (measured)."""
        seen = self.seen_now(life)
        return seen is not None and seen.first("state") == "Z" and seen.live_threads == 0

    def seen_now(self, life: Life) -> Sighting | None:
        """What the newest look shows of it. One that is dead stays dead: a zombie of an earlier look counts, too."""
        look = self.newest(life.host)
        if look is None or look.id in life.sightings or not life.sightings:
            return life.sightings.get(look.id) if look is not None else None
        last, effect = list(life.sightings.values())[-1], self.last_effect(life.host)
        stands = self.present(life) is None and (effect is None or last.look.position > effect.slot)
        return last if stands and last.zombie else None

    def _has_no_device(self, life: Life) -> bool:
        """All its descriptors were read and none is of a device: it cannot hold device memory (a zombie hides them)."""
        look = self.newest(life.host)
        seen = life.sightings.get(look.id) if look is not None else None
        return seen is not None and not seen.zombie and seen.open is not None and not seen.open

    def inherited_share(self, life: Life) -> float | None:
        """Memory of the dead that it keeps. Several heirs keep the same memory together: the first one carries it."""
        kept = [item for item in self.inherited if life in item.heirs]
        figures = [
            mib
            for item in kept
            if life is item.heirs[0]
            for mib in self.inherited_mib(item).values()
            if mib is not None
        ]
        return sum(figures) if kept else None

    def inherited_mib(self, item: Inheritance) -> dict[str, float | None]:
        """MiB by GPU that the dead left: what the driver books on it, else what no list accounts for."""
        if item.booked:
            return self.booked_now(item.dead)
        return {
            gpu: entry.mib
            for gpu, ledger in self.ledgers.items()
            for entry in ledger.entries
            if entry.kind == "dead_process" and entry.life is item.dead
        }

    def inherits_from(self, life: Life) -> Inheritance | None:
        """The dead process whose memory it keeps."""
        return next((item for item in self.inherited if life in item.heirs), None)

    def gave_back(self, life: Life) -> Inheritance | None:
        """The dead whose memory it kept in an earlier look, where that came back with its own end."""
        item = next((item for item in self.inherited_before if life in item.heirs and item.booked), None)
        if item is None or self.alive(life) is True or (self.alive(life) is None and not self.kill_delivered(life)[0]):
            return None
        booked = item.dead.sightings[item.look.id].held()
        figures = [
            (newest_figure(self, gpu), mib) for gpu, mib in booked.items() if gpu != UNKNOWN_GPU and mib is not None
        ]
        back = [figure is not None and figure.used_mib < mib / 2 for figure, mib in figures]
        return item if back and all(back) else None

    def kill_delivered(self, life: Life) -> tuple[bool | None, list[Citation]]:
        """SIGKILL was sent to it: a pending mask shows it, a trace does, or a step hit it and it died."""
        for seen in reversed(list(life.sightings.values())):
            pending = seen.first("sig_pending")
            if isinstance(pending, int) and (seen.zombie or pending & SIGKILL_BIT):
                return bool(pending & SIGKILL_BIT), [row.cited for row in seen.rows[:1]]
        for action in self.actions:
            for step in action.steps if action.host == life.host else ():
                if step.replay.signal != 9 or step.replay.ran is False:
                    continue
                if step.sent_to.get(life.pid) is True:
                    return True, step.cites
                verdict = step.verdict(life.pid)
                hit = verdict is not None and verdict.selected is True and verdict.permitted is not False
                hit = hit and life.pid not in step.unreached
                if not hit or step.sent_to.get(life.pid) is False or not self._looked_after(life, action):
                    continue
                if self._dying(life):
                    return True, [action.action.cited]
                if verdict is not None and step.replay.ran and life.pid not in step.unreached:
                    # The kernel takes a permitted SIGKILL for any process that is there: one that lives on is stuck.
                    return (True if verdict.permitted else None), [action.action.cited]
        seen = self.seen_now(life)
        if seen is not None and seen.unkilled:
            return False, []
        if life.key in self.aims.killed_inside:
            return (True if self._dying(life) else None), []
        return (None, []) if self._dying(life) is not False else (False, [])

    def _looked_after(self, life: Life, action: ActionView) -> bool:
        """The process is older than the command, and the newest look is later."""
        look = self.newest(life.host)
        if look is None or look.position < action.slot:
            return False
        sent = action.action.time_ns
        return sent is None or life.start_ns is None or life.start_ns - life.start_error_ns <= sent

    def _dying(self, life: Life) -> bool | None:
        look = self.newest(life.host)
        seen = life.sightings.get(look.id) if look is not None else None
        if seen is not None and seen.zombie:
            return True
        present = self.present(life)
        return None if present is None else not present

    def was_picked(self, life: Life) -> bool:
        """A step of a command picked it: as a trace shows, else as the step's words tell."""
        for action in self.actions:
            for step in action.steps if action.host == life.host else ():
                verdict = step.verdict(life.pid)
                chosen = step.sent_to.get(life.pid, verdict is not None and verdict.selected is True)
                if step.replay.tool is not None and step.replay.ran is not False and chosen:
                    return True
        return False

    def killed_at(self, life: Life) -> int | None:
        """When the SIGKILL that took it was sent."""
        for action in self.actions:
            for step in action.steps if action.host == life.host else ():
                verdict = step.verdict(life.pid)
                hit = step.sent_to.get(life.pid) or (
                    verdict is not None and verdict.selected and verdict.permitted is not False
                )
                if step.replay.signal == 9 and hit and step.replay.ran is not False:
                    return action.action.time_ns
        return None


def is_list(coverage: Coverage, look: Look) -> bool:
    """The look has a list of compute processes."""
    return coverage.at.look == look.id and coverage.source == "compute processes" and coverage.outcome == "ok"


def build_incident(parsed: Parsed, book: EngineBook) -> Incident:
    """Join parsed rows into one incident."""
    parsed = join_looks(parsed)
    places = [row.at for rows in (parsed.samples, parsed.bookings, parsed.processes, parsed.coverage) for row in rows]
    looks = order_looks(parsed.looks, places)
    parsed = replace(parsed, bookings=(*parsed.bookings, *reported_bookings(parsed, looks)))
    gpus = index_gpus(parsed.samples, parsed.bookings, parsed.gpu_names)
    contained = {name.id for name in parsed.looks if name.container is not None}
    views = {
        look.id: view_of(look, parsed.processes, parsed.coverage, parsed.recorders, in_container=look.id in contained)
        for look in looks
    }
    clock = clock_of(parsed.clocks, parsed.processes)
    limited = {look_id for look_id, view in views.items() if view.limited}
    by_root = {look_id for look_id, view in views.items() if view.user == "root" and not view.limited}
    whole = whole_tables(parsed.processes, parsed.coverage)
    apart = frozenset(look_id for look_id, view in views.items() if view.own_namespace)
    # Whichever namespace it is: what a whole table of it lacks is not in it.
    inside = frozenset(
        look_id for look_id, view in views.items() if view.own_namespace is not False and not view.hidden
    )
    inside &= whole
    census = take_census(
        looks,
        parsed.processes,
        parsed.handles,
        parsed.bookings,
        parsed.coverage,
        gpus,
        clock,
        limited,
        by_root,
        whole,
        inside,
        apart,
    )
    parsed = replace(parsed, roles=own_roles(parsed.roles, census))
    note_absent(census, parsed.inquiries)
    note_own_numbers(census, parsed.actions)
    kinship = Kinship(census, {look_id: view.observers for look_id, view in views.items()})
    traces = _traces(parsed, looks, views, parsed.clocks)
    listed = frozenset(look.id for look in looks if any(is_list(c, look) for c in parsed.coverage))
    dated = [action for action in parsed.actions if not is_undated(action)]
    dated += interrupt_actions(parsed.interrupts, census)
    libraries = {fact.at.host: fact.value for fact in parsed.facts if fact.name == "libc"}
    series, files = series_bookings(parsed.bookings), parsed.pid_files
    actions = replay_actions(
        dated, census, views, series, traces, listed, libraries, files=files, printouts=parsed.printouts
    )
    log_roles = {role.pid: role.role for role in parsed.roles}
    hit = [life for life in census.lives if _hit_by_any(life, actions)]
    adopted = adopt_strays(census, kinship, actions, hit)
    if adopted:  # their server was there before the commands, and so were they
        actions = replay_actions(
            dated, census, views, series, traces, listed, libraries, adopted, files, parsed.printouts
        )
    whole_lists = {c.at.look for c in parsed.coverage if c.source == "compute processes" and c.complete is not False}
    own_lists = frozenset(
        look.id
        for look in looks
        if look.id in listed and look.id in whole_lists and views[look.id].own_namespace is not True
    )
    heirs = _heirs(census, kinship, own_lists, _searched_by_root(parsed))
    families = _families(census, kinship, actions, heirs, book, log_roles, (), ())
    aims = find_aims(actions, families, kinship, book, frozenset(log_roles), gpus, services_of(parsed, looks))
    memory = Memory(parsed.samples, gpus, looks)
    inherited = [item for item in heirs if item.look is census.newest_look(item.look.host)]
    incident = Incident(
        parsed,
        looks,
        gpus,
        views,
        census,
        kinship,
        families,
        actions,
        aims,
        memory,
        inherited,
        {},
        traces,
        book,
        [item for item in heirs if item not in inherited],
        own_lists,
    )
    incident.ledgers = _ledgers(incident)
    incident.inherited = _with_memory(incident)
    return incident


def services_of(parsed: Parsed, looks: Sequence[Look]) -> Services:
    """What the evidence lists of containers and units."""
    return Services(parsed.containers, parsed.units, parsed.coverage, {look.id: look.position for look in looks})


def _searched_by_root(parsed: Parsed) -> frozenset[str]:
    """Looks in which root asked who has the devices open: nobody else sees the files of other people's processes."""
    rows = (c for c in parsed.coverage if c.source == "open handles" and c.outcome == "ok")
    return frozenset(c.at.look for c in rows if c.as_root is True and c.at.look is not None)


def _heirs(census: Census, kinship: Kinship, own_lists: frozenset[str], searched: frozenset[str]) -> list[Inheritance]:
    """Who keeps the memory of the dead, look by look.

    ``own_lists``: looks whose list names every living holder. ``searched``: looks in which all open files are seen.
    """
    found: list[Inheritance] = []
    for look in census.looks:
        booked = inheritances(census, kinship, look, whole=look.id in own_lists & searched)
        for item in booked:
            if item.heirs:
                census.note_absent(look.id, item.dead)
        found += booked
        if look.id in own_lists:
            found += unlisted_heirs(census, kinship, look)
    return found


def _with_memory(incident: Incident) -> list[Inheritance]:
    """Those whose dead left memory; open files alone, on a GPU that is idle, are nobody's concern."""
    entries = [entry for ledger in incident.ledgers.values() for entry in ledger.entries]
    kept = {heir.key for entry in entries if entry.kind == "dead_process" for heir in entry.held_by}
    return [item for item in incident.inherited if item.booked or any(heir.key in kept for heir in item.heirs)]


def _families(
    census: Census,
    kinship: Kinship,
    actions: Sequence[ActionView],
    heirs: Sequence[Inheritance],
    book: EngineBook,
    log_roles: dict[int, str],
    parents: Sequence[Life],
    others: Sequence[Life],
) -> list[Family]:
    hit = [life for life in census.lives if _hit_by_any(life, actions)]
    heads = {life.key for life in parents if not is_shell(life)}
    started = [life for life in census.lives if (above := kinship.parent(life)) is not None and above.key in heads]
    seeds = [life for life in census.lives if _of_interest(life, book, log_roles)] + hit + [*parents, *others, *started]
    seeds += [later for life in hit for later in successors(life, census, kinship, book)]
    return find_families(census, kinship, seeds, [*hit, *parents], heirs, book, log_roles)


def families_with(
    incident: Incident, book: EngineBook, parents: Sequence[Life], others: Sequence[Life]
) -> list[Family]:
    """The incident's families and those of ``others``.

    Each of ``parents`` (no shell, not PID 1) is the head of what it started. Ids are those of the incident; a family
    that it does not have gets the next free one.
    """
    heirs = _heirs(incident.census, incident.kinship, incident.own_lists, _searched_by_root(incident.parsed))
    log_roles = {role.pid: role.role for role in incident.parsed.roles}
    found = _families(incident.census, incident.kinship, incident.actions, heirs, book, log_roles, parents, others)
    free = len(incident.families)
    for family in found:
        known = [old.id for life in family.members if (old := incident.family_of(life)) is not None]
        free += not known
        family.id = known[0] if known else f"F{free}"
    return found


def is_undated(action: KillAction) -> bool:
    """A line of a history or log without a time may be months old: it counts only once somebody states it."""
    return action.time_ns is None and action.source in ("history", "sudo_log", "audit")


def _traces(
    parsed: Parsed, looks: Sequence[Look], views: dict[str, View], clocks: Sequence[ClockPair]
) -> dict[str, Trace]:
    """The best record there is. It is of the host that the looks are of; all but the last kind speak of the initial PID
    namespace."""
    hosts = {look.host for look in looks}
    origin = next((name for name in _ORIGINS if any(event.origin == name for event in parsed.trace)), None)
    if origin is None or len(hosts) != 1:
        return {}
    source = "kernel trace" if origin == "trace" else "process events"
    # Whoever looked through /proc saw the PIDs that the looks show.
    same = origin == "polled" or any(views[look.id].own_namespace is False for look in looks)
    whole = all(row.outcome == "ok" and row.complete is not False for row in parsed.coverage if row.source == source)
    events = [event for event in parsed.trace if event.origin == origin]
    return {hosts.pop(): Trace(events, clock_of(clocks, ()), Reach(same, whole, signals=origin == "trace"))}


def _hit_by_any(life: Life, actions: Sequence[ActionView]) -> bool:
    return any(action.host == life.host and _hit(step, life) for action in actions for step in action.steps)


def _hit(step: StepView, life: Life) -> bool:
    if step.replay.tool is None:
        return False
    if life.pid in step.refused or step.sent_to.get(life.pid) is True:
        return True
    verdict = step.verdict(life.pid)
    return verdict is not None and verdict.selected is True and step.replay.ran is not False


def _of_interest(life: Life, book: RoleBook, log_roles: dict[int, str]) -> bool:
    if life.pid in log_roles:
        return True
    if life.used_devices:
        return True
    return book.role_of(life.comm, life.cmdline) is not None


def _ledgers(incident: Incident) -> dict[str, Ledger]:
    pinned = {life.key: life.integer("rss_shmem_kib") for life in incident.census.lives}
    ledgers: dict[str, Ledger] = {}
    for gpu in incident.gpus.gpus:
        look = incident.newest(gpu.host)
        figure = newest_figure(incident, gpu.id)
        if look is None:
            continue
        figure = figure if figure is not None else _listed_figure(incident, gpu, look)
        if figure is None:
            continue
        seen = incident.list_seen(gpu.host)
        ledgers[gpu.id] = close_ledger(figure, look, incident.census, incident.inherited, seen, pinned)
    return ledgers


def _listed_figure(incident: Incident, gpu: Gpu, look: Look) -> Figure | None:
    """Without a figure of the GPU, a list that was taken after the last command still shows at least its own sum."""
    last = incident.last_effect(gpu.host)
    if last is not None and look.position < last.slot:
        return None
    seen = [life.sightings[look.id] for life in incident.census.lives if look.id in life.sightings]
    rows = [(row, mib) for s in seen for own, row in s.bookings if own == gpu.id and (mib := row.mib) is not None]
    if not rows:
        return None
    figures = [figure for s in seen if (figure := s.held().get(gpu.id)) is not None]
    return Figure(gpu, look.id, look.end_ns, sum(figures), True, rows[0][0].cited, whole=False)


def newest_figure(incident: Incident, gpu_id: str) -> Figure | None:
    """The newest figure of a GPU that is later than the last command on its host."""
    gpu = incident.gpus.get(gpu_id)
    last = incident.last_effect(gpu.host)
    if last is None:
        return incident.memory.newest(gpu, -1.0, None)
    return incident.memory.newest(gpu, last.slot, last.action.end_ns or last.action.time_ns)
