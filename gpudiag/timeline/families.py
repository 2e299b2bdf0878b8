"""Which processes belong to one server or job, decided by process group, session and descent.

Names are not asked: a title gives a role (engine, worker), never a membership, so renaming every process
changes no family. A family outlives its root; that is what this module is for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from gpudiag.timeline.inheritance import Inheritance
from gpudiag.timeline.kinship import Kinship, is_shell, is_supervisor
from gpudiag.timeline.lives import Census, Key, Life

GENERAL = frozenset({"python", "dataloader"})
"""Engine files of Python's and torch's own machinery: any program's children look like that, so a narrower word beats
them."""
UNLIKE = 1.5
"""Ratio of the memory of two processes above which they are hardly ranks of one server."""
FAR_APART = 20_000
"""PIDs between two processes that are hardly started by one server."""


class RoleBook(Protocol):
    """What engines call their processes (data of the rules stage, handed in)."""

    def role_of(self, comm: str | None, cmdline: str | None) -> tuple[str, str] | None:
        """(engine, role) that a title or command line shows."""
        ...

    def title_of(self, engine: str, role: str) -> str | None:
        """The title that an engine gives to a role."""
        ...

    def child_role(self, engine: str, parent_role: str) -> str | None:
        """What the children of a role are in that engine, whatever they are called."""
        ...

    def is_one_job(self, comm: str | None, cmdline: str | None) -> bool:
        """It is a launcher whose children are one job, also in process groups of their own."""
        ...

    def role_in_log(self, role: str) -> tuple[str, str] | None:
        """(engine, role) for a role as a server log prints it."""
        ...


@dataclass
class Family:
    """The processes of one server or job."""

    id: str
    host: str
    root_pid: int | None
    """PID of the process that started the rest; ``None`` where only names tie the members together."""
    members: list[Life]
    root: Life | None
    """The root, where some look shows it."""
    roles: dict[Key, str] = field(default_factory=dict[Key, str])
    engine: str | None = None
    parent_title: str | None = None
    """What the engine calls the process that starts its workers."""

    @property
    def first_start_ns(self) -> int | None:
        """When its oldest member with a known start began."""
        return min((life.start_ns for life in self.members if life.start_ns is not None), default=None)

    @cached_property
    def user(self) -> str | None:
        """Its owner, if all members with a known user agree."""
        users = {life.string("user") for life in self.members} - {None}
        return users.pop() if len(users) == 1 else None

    def role(self, life: Life) -> str | None:
        """The role of a member, where its title or a log tells."""
        return self.roles.get(life.key)


def find_families(
    census: Census,
    kinship: Kinship,
    seeds: Iterable[Life],
    hit: Iterable[Life],
    heirs: Sequence[Inheritance],
    book: RoleBook,
    log_roles: Mapping[int, str],
) -> list[Family]:
    """Families of all seeds: processes that hold or held memory, have devices mapped, were hit, or have a role."""
    wanted = {life.key for life in seeds}
    groups: dict[tuple[str, str, object], list[Life]] = defaultdict(list)
    for life in census.lives:
        if life.latest("kernel_thread") is True or life.pid == 1 or kinship.is_observer(life):
            continue
        groups[_group_key(life, kinship, book)].append(life)
    _split_ambiguous(groups, book)
    kept = {key: lives for key, lives in groups.items() if any(life.key in wanted for life in lives)}
    _add_children_of_one_job(kept, groups, kinship, book)
    _merge_by_killed_parent(kept, groups, kinship, {life.key for life in hit})
    _merge_heirs(kept, heirs)
    ordered = sorted(kept.items(), key=lambda item: (item[1][0].host, min(life.pid for life in item[1])))
    return [_family(f"F{n}", key, lives, book, log_roles, kinship) for n, (key, lives) in enumerate(ordered, 1)]


def _group_key(life: Life, kinship: Kinship, book: RoleBook) -> tuple[str, str, object]:
    pgid = life.integer("pgid")
    if pgid is None:
        return _key_without_group(life, kinship, book)
    if kinship.shares_group_with_observer(life):
        return (life.host, "descent", kinship.root_in_group(life).key)
    return (life.host, "group", pgid)


def _key_without_group(life: Life, kinship: Kinship, book: RoleBook) -> tuple[str, str, object]:
    """No group is known: those who descend from one process belong together.

    Where no parent is known either (a list of nvidia-smi), the engine's titles are all there is.
    """
    top = kinship.root_by_descent(life)
    if top is not life or kinship.has_children_without_group(life):
        return (life.host, "descent", top.key)
    role = book.role_of(life.comm, life.cmdline or life.booked_name)
    return (life.host, "engine", role[0]) if role is not None else (life.host, "alone", life.key)


def _split_ambiguous(groups: dict[tuple[str, str, object], list[Life]], book: RoleBook) -> None:
    """Two processes with one title in one look are of two servers; who else belongs to which is not known.

    The processes of two users are of two servers in any case: each user's are judged by themselves.
    """
    for key in [key for key in groups if key[1] == "engine"]:
        by_user: dict[str | None, list[Life]] = defaultdict(list)
        for life in groups[key]:
            by_user[life.string("user")].append(life)
        users = by_user.keys() - {None}
        if len(users) < 2 and not _is_ambiguous(groups[key], book):
            continue
        del groups[key]
        for user, lives in by_user.items():
            if user is not None and len(by_user) > 1 and not _is_ambiguous(lives, book):
                groups[(key[0], "engine", (key[2], user))] = lives
            else:
                groups.update({(life.host, "alone", life.key): [life] for life in lives})


def _is_ambiguous(lives: Sequence[Life], book: RoleBook) -> bool:
    titles = [(look, life.title) for life in lives for look in life.sightings]
    return len(set(titles)) < len(titles) or _are_unlike(lives) or _are_of_two_levels(lives, book)


def _are_of_two_levels(lives: Sequence[Life], book: RoleBook) -> bool:
    """An engine that has workers leaves the devices to them: one with memory beside workers is another server's."""
    holders = [life for life in lives if any(seen.bookings for seen in life.sightings.values())]
    found = [book.role_of(life.comm, life.cmdline or life.booked_name) for life in holders]
    return {"engine", "worker"} <= {role for _, role in filter(None, found)}


def _are_unlike(lives: Sequence[Life]) -> bool:
    """Ranks of one server are started within seconds of each other and hold about the same; two tenants' seldom do."""
    newest = [next((s for s in reversed(list(life.sightings.values())) if s.bookings), None) for life in lives]
    held = [[mib for mib in seen.held().values() if mib] for seen in newest if seen is not None]
    sizes = [sum(figures) for figures in held if figures]
    pids = [life.pid for life in lives]
    apart = max(pids) - min(pids) > FAR_APART
    return apart or (len(sizes) > 1 and max(sizes) > UNLIKE * min(sizes))


def _merge_by_killed_parent(
    groups: dict[tuple[str, str, object], list[Life]],
    everybody: Mapping[tuple[str, str, object], list[Life]],
    kinship: Kinship,
    hit: set[Key],
) -> None:
    """A launcher that gives each child a session of its own (torchrun, mpirun) was hit: its children are its family.

    Only for an ancestor that a kill command hit, and never through a shell: sharing a launcher alone ties nothing.
    """
    of_life = {life.key: key for key, lives in everybody.items() for life in lives}
    for key in sorted(groups, key=str):
        lives = groups.get(key)
        if lives is None or key[1] != "group":
            continue
        leader = next((life for life in lives if life.pid == key[2]), None)
        between = _line_to_hit(leader, kinship, hit) if leader is not None else ()
        if not between:
            continue
        target = of_life.get(between[-1].key)
        if target is None or target == key or target not in groups:
            continue
        for source in dict.fromkeys([key, *(of_life[life.key] for life in between[:-1])]):
            if source != target:
                moved = groups.pop(source, everybody[source])
                groups[target].extend(life for life in moved if life not in groups[target])
                of_life.update({life.key: target for life in moved})


def _line_to_hit(leader: Life, kinship: Kinship, hit: set[Key]) -> tuple[Life, ...]:
    """Ancestors up to the nearest one that was hit, nearest first; empty if a shell or nobody hit is above."""
    line: list[Life] = []
    above = kinship.parent(leader)
    while above is not None and not is_shell(above) and not is_supervisor(above):
        line.append(above)
        if above.key in hit:
            return tuple(line)
        above = kinship.parent(above)
    return ()


def _add_children_of_one_job(
    kept: dict[tuple[str, str, object], list[Life]],
    groups: Mapping[tuple[str, str, object], list[Life]],
    kinship: Kinship,
    book: RoleBook,
) -> None:
    """Ranks that lead sessions of their own belong to the launcher that started them.

    The descent ties them; the launcher's own words only say that it starts one job, not anybody's as a notebook server.
    """
    of_life = {life.key: key for key, lives in kept.items() for life in lives}
    for key, lives in groups.items():
        leader = next((life for life in lives if key[1] == "group" and life.pid == key[2]), None)
        parent = kinship.parent(leader) if leader is not None else None
        target = of_life.get(parent.key) if parent is not None else None
        if parent is None or target is None or target == key or not book.is_one_job(parent.comm, parent.cmdline):
            continue
        known = set(kept[target])
        kept[target].extend(life for life in kept.pop(key, lives) if life not in known)
        of_life.update({life.key: target for life in lives})


def _merge_heirs(groups: dict[tuple[str, str, object], list[Life]], heirs: Sequence[Inheritance]) -> None:
    """A dead process and those who keep its memory are one family, also where no look shows the descent."""
    of_life = {life.key: key for key, lives in groups.items() for life in lives}
    for item in heirs:
        target = of_life.get(item.dead.key)
        for heir in item.heirs:
            source = of_life.get(heir.key)
            if target is None or source is None or source == target or target not in groups or source not in groups:
                continue
            groups[source].extend(groups.pop(target))
            of_life.update({life.key: source for life in groups[source]})
            target = source


def _family(
    identity: str,
    key: tuple[str, str, object],
    lives: Sequence[Life],
    book: RoleBook,
    log_roles: Mapping[int, str],
    kinship: Kinship,
) -> Family:
    members = sorted(lives, key=lambda life: (life.start_ns or 0, life.pid))
    root_pid = _root_pid(key, members)
    # The number may have been given out again: the newest process that has it is the one that can be alive.
    root = next((life for life in reversed(members) if life.pid == root_pid), None)
    family = Family(identity, key[0], root_pid, members, root)
    engines: list[str] = []
    for life in members:
        found = book.role_of(life.comm, life.cmdline or life.booked_name)
        if (found is None or found[0] in GENERAL) and life.pid in log_roles:
            found = book.role_in_log(log_roles[life.pid]) or found
        if found is not None:
            engines.append(found[0])
            family.roles[life.key] = found[1]
    engines = [engine for engine in engines if engine not in GENERAL] or engines
    family.engine = max(sorted(set(engines)), key=engines.count) if engines else None
    family.parent_title = book.title_of(family.engine, "engine") if family.engine is not None else None
    _roles_by_position(family, kinship)
    _roles_by_parent(family, kinship, book)
    _adopted_root(family)
    return family


def _adopted_root(family: Family) -> None:
    """The group's leader was never seen and one member is a server by its own words: a script started it and ended."""
    heads = [life for life in family.members if family.role(life) in ("server", "launcher")]
    if family.root is None and len(heads) == 1:
        family.root, family.root_pid = heads[0], heads[0].pid


def _root_pid(key: tuple[str, str, object], members: Sequence[Life]) -> int | None:
    if key[1] == "group" and isinstance(key[2], int):
        return key[2]
    if key[1] == "group" or key[1] == "descent":
        return min(life.pid for life in members)
    return None


def _roles_by_position(family: Family, kinship: Kinship) -> None:
    """The root of a family with children is its server, whatever it is called, unless another says that it is that."""
    if family.root is None or family.root.key in family.roles or "server" in family.roles.values():
        return
    if any(kinship.parent(life) is family.root for life in family.members):
        family.roles[family.root.key] = "server"


def _roles_by_parent(family: Family, kinship: Kinship, book: RoleBook) -> None:
    """A launcher's ranks have the program's own command line; whose children they are tells what they are."""
    if family.engine is None:
        return
    for life in family.members:
        parent = kinship.parent(life)
        above = family.role(parent) if parent is not None else None
        role = book.child_role(family.engine, above) if above is not None else None
        if role is not None:
            family.roles.setdefault(life.key, role)
