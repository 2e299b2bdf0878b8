"""Which processes the kill commands were aimed at. Everything else on the host is a bystander.

A command is aimed at what it names and at what that started, not at ancestors, siblings or the rest of a process group:
two servers of one script share a group, and a notebook shares it with the server it started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.device_aims import meant_by_device, takes_by_device
from gpudiag.timeline.families import Family
from gpudiag.timeline.gpus import GpuIndex
from gpudiag.timeline.inside import met_by
from gpudiag.timeline.kinship import Kinship, is_shell
from gpudiag.timeline.lives import LOCAL_ERROR_S, Census, Key, Life
from gpudiag.timeline.recycled import strangers
from gpudiag.timeline.requests import NO_SERVICES, Services, killed_members, meant_by_requests


class NameBook(Protocol):
    """What engines call their servers."""

    def engines_named_by(self, pattern: str, *, ignore_case: bool, against: str) -> frozenset[str]:
        """Engines one of whose server command lines (or comms) the pattern matches."""
        ...


@dataclass(frozen=True)
class Aims:
    """The answer, for the whole incident and step by step."""

    lives: frozenset[Key]
    """Processes that the commands were aimed at; empty where there was no command or it cannot be told."""
    targets: frozenset[str]
    """Ids of their families."""
    by_step: Mapping[str, frozenset[Key]]
    """For each step that kills, the processes it was meant for."""
    by_server: frozenset[str]
    """Families whose server a step picked, named by its PID, or names by its pattern: the root was to die."""
    killed_inside: frozenset[Key] = frozenset()
    """Processes shown to be of a container that a command killed."""

    def is_target(self, family: Family | None) -> bool:
        """The commands were aimed at some of this family."""
        return family is not None and family.id in self.targets

    def is_aimed(self, life: Life) -> bool:
        """The commands were aimed at this process."""
        return life.key in self.lives


def find_aims(
    actions: Sequence[ActionView],
    families: Sequence[Family],
    kinship: Kinship,
    book: NameBook,
    logged_pids: frozenset[int],
    gpus: GpuIndex,
    services: Services = NO_SERVICES,
) -> Aims:
    """Judge every command; a step that takes whoever uses a device is aimed at what the other steps name."""
    met = {action.id: met_by(action, families, services) for action in actions}
    named = {
        action.id: _named_by(action, met[action.id], kinship, book, logged_pids)
        or _requested(action, families, kinship, services)
        for action in actions
    }
    all_named = frozenset[Key]().union(*named.values())
    by_step: dict[str, frozenset[Key]] = {}
    aimed: set[Key] = set()
    for action in actions:
        there = [family for family in met[action.id] if _existed(family, action)]
        aim = named[action.id] or all_named or meant_by_device(action, there, logged_pids, gpus)
        aimed |= aim
        by_step.update({step.id: aim for step in action.steps if step.may_end})
    inside = frozenset(key for action in actions for key in killed_members(action, families, services))
    return Aims(frozenset(aimed), _families_of(aimed, families), by_step, _families_of(all_named, families), inside)


def _families_of(keys: Iterable[Key], families: Sequence[Family]) -> frozenset[str]:
    wanted = set(keys)
    return frozenset(f.id for f in families if any(life.key in wanted for life in f.members))


def _named_by(
    action: ActionView,
    families: Sequence[Family],
    kinship: Kinship,
    book: NameBook,
    logged_pids: frozenset[int],
) -> frozenset[Key]:
    """From the strongest sign to the weakest: a PID written down, a server hit, any process hit, an engine named.

    What survived a SIGKILL was not hit by it, and what the kernel refused is somebody else's: neither is an aim.
    """
    own = [family for family in families if family.host == action.host]
    lives = [life for family in own for life in family.members if _was_there(action, life, kinship.census)]
    steps = [step for step in action.steps if step.may_end and not takes_by_device(step)]
    written = [life for life in lives if any(_is_written(step, life) and not _refused(step, life) for step in steps)]
    written = [life for life in written if not any(_came_later(step, action, life, kinship.census) for step in steps)]
    roots = {family.root.key for family in own if family.root is not None}
    survivors = {life.key for life in lives if any(_survived(step, action, life, kinship.census) for step in steps)}
    hit = [life for life in lives if life.key not in survivors and any(_selects(step, life) for step in steps)]
    # Who names a number means the process that they know under it, not the stranger to whom it was given since.
    other = strangers([*written, *hit], kinship.census, kinship)
    written, hit = ([life for life in picked if life not in other] for picked in (written, hit))
    for picked in (written, [life for life in hit if life.key in roots], hit):
        if picked:
            return _of_one_owner(_with_descendants(picked, lives, kinship), lives, action)
    engines = frozenset[str]().union(*(_engines(step, book) for step in steps))
    fitting = [
        f
        for f in own
        if f.engine in engines
        and _existed(f, action)
        and not _is_survivor(f, survivors)
        and not _of_somebody_else(f, action)
    ]
    named = [life for f in _one_server(_newest(fitting, logged_pids)) for life in f.members if f.role(life) is not None]
    return _of_one_owner(frozenset(life.key for life in named), lives, action)


def _requested(action: ActionView, families: Sequence[Family], kinship: Kinship, services: Services) -> frozenset[Key]:
    """The members of a container or unit that the command asks to stop, and what they started."""
    meant = meant_by_requests(action, families, services)
    lives = [life for family in families if family.host == action.host for life in family.members]
    return _with_descendants([life for life in lives if life.key in meant], lives, kinship)


def _of_somebody_else(family: Family, action: ActionView) -> bool:
    """The caller is neither root nor its owner, so the kernel would refuse the signal."""
    caller = action.caller
    return caller.is_root is False and family.user is not None and family.user != caller.user


def _is_survivor(family: Family, survivors: set[Key]) -> bool:
    return family.root is not None and family.root.key in survivors


def _was_there(action: ActionView, life: Life, census: Census) -> bool:
    """It may have existed when the command ran; a PID that belonged to somebody else before it is a newcomer's."""
    if any(seen.look.position < action.slot for seen in life.sightings.values()):
        return True
    if any(
        seen.look.position < action.slot
        for other in census.named(life.host, life.pid)
        for seen in other.sightings.values()
    ):
        return False
    if life.start_ns is not None and action.action.time_ns is not None:
        return life.start_ns - life.start_error_ns <= action.action.time_ns
    if life.local_start_s is not None and action.action.local_s is not None:
        return life.local_start_s - LOCAL_ERROR_S <= action.action.local_s
    return True


def _refused(step: StepView, life: Life) -> bool:
    verdict = step.verdict(life.pid)
    return life.pid in step.refused | step.failed or (verdict is not None and verdict.permitted is False)


def _survived(step: StepView, action: ActionView, life: Life, census: Census) -> bool:
    """SIGKILL by the step's own semantics, and alive in a later look: it started later, or was not reached."""
    verdict = step.verdict(life.pid)
    picked = verdict.selected is True if verdict is not None else _is_written(step, life)
    if step.replay.signal != 9 or not picked or step.sent_to.get(life.pid):
        return False
    later = [seen.look for seen in life.sightings.values() if seen.look.position > action.slot]
    # Who waits without being interruptible has the signal and cannot leave: that he is there says nothing.
    waits = bool(later) and life.sightings[later[-1].id].first("state") == "D"
    newest = census.newest_look(life.host)
    return bool(later) and not waits and newest is not None and census.alive(life, newest) is True


def _came_later(step: StepView, action: ActionView, life: Life, census: Census) -> bool:
    """Only looks after a SIGKILL to its number show it, and it lives: the number was given out again.

    When a stated command ran is somebody's word: it may be that of a look before it.
    """
    seen_before = any(seen.look.position < action.slot for seen in life.sightings.values())
    return action.action.source != "stated" and not seen_before and _survived(step, action, life, census)


def _of_one_owner(keys: frozenset[Key], lives: Sequence[Life], action: ActionView) -> frozenset[Key]:
    """A pattern of root's can hit two tenants: the caller's own are meant; else it cannot be told whose."""
    owners = {life.key: life.string("user") for life in lives if life.key in keys}
    known = set(owners.values()) - {None}
    if len(known) <= 1:
        return keys
    caller = action.caller.user
    return frozenset(key for key in keys if owners.get(key) == caller) if caller in known else frozenset()


def _with_descendants(picked: Sequence[Life], lives: Sequence[Life], kinship: Kinship) -> frozenset[Key]:
    """What was picked and what it started; of a shell only the jobs of its own group (tmux starts anything)."""
    keys = {life.key for life in picked}
    shells = {life.key: life.integer("pgid") or 0 for life in picked if is_shell(life)}
    for life in lives:
        above = kinship.parent(life)
        while above is not None and not kinship.is_observer(above):
            if above.key in keys and (above.key not in shells or shells[above.key] == life.integer("pgid")):
                keys.add(life.key)
                break
            above = kinship.parent(above)
    return frozenset(keys)


def _one_server(families: Sequence[Family]) -> Sequence[Family]:
    """Two servers in one process group: the engine's name alone does not say which of them was meant."""
    return [f for f in families if sum(role == "server" for role in f.roles.values()) <= 1]


def _is_written(step: StepView, life: Life) -> bool:
    """Its PID, or its process group with a minus, stands in the command."""
    selection = step.replay.selection
    if selection is None:
        return False
    return life.pid in selection.literal_pids or -(life.integer("pgid") or 0) in {
        p for p in selection.literal_pids if p < 0
    }


def _selects(step: StepView, life: Life) -> bool:
    if life.pid in step.sent_to:
        return step.sent_to[life.pid]
    verdict = step.verdict(life.pid)
    return verdict is not None and verdict.selected is True and not _refused(step, life)


def _engines(step: StepView, book: NameBook) -> frozenset[str]:
    selection = step.replay.selection
    if selection is None or selection.pattern is None or selection.error is not None or step.replay.list_from:
        return frozenset()  # the words of a list's filter are seldom a server's name
    options = [word.text for word in step.replay.step.words if word.text and word.text.startswith("-")]
    ignore_case = any("i" in option for option in options if not option.startswith("--")) or "--ignore-case" in options
    return book.engines_named_by(selection.pattern, ignore_case=ignore_case, against=selection.against or "comm")


def _existed(family: Family, action: ActionView) -> bool:
    start, when = family.first_start_ns, action.action.time_ns
    return start is None or when is None or start <= when + 1_000_000_000


def _newest(families: list[Family], logged_pids: frozenset[int]) -> list[Family]:
    """Several servers fit the name: the one whose log is part of the evidence, else the one started last."""
    logged = [f for f in families if any(life.pid in logged_pids for life in f.members)]
    if logged:
        return logged
    dated = [f for f in families if f.first_start_ns is not None]
    if dated:
        return [max(dated, key=lambda family: family.first_start_ns or 0)]
    return families if len(families) == 1 else []
