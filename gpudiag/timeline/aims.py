"""Which families the kill commands were aimed at. Everything else on the host is a bystander."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.families import Family
from gpudiag.timeline.lives import Life

DEVICE_TOOLS = frozenset({"fuser"})


class NameBook(Protocol):
    """What engines call their servers."""

    def engines_named_by(self, pattern: str, *, ignore_case: bool, against: str) -> frozenset[str]:
        """Engines one of whose server command lines (or comms) the pattern matches."""
        ...


@dataclass(frozen=True)
class Aims:
    """The answer, for the whole incident and step by step."""

    targets: frozenset[str]
    """Ids of the families that the commands were aimed at; empty where there was no command or it cannot be told."""
    by_step: Mapping[str, frozenset[str]]
    """For each step that kills, the families it was meant for."""
    by_server: frozenset[str]
    """Families whose server a step picked, named by its PID, or names by its pattern: the root was to die."""

    def is_target(self, family: Family | None) -> bool:
        """The commands were aimed at this family."""
        return family is not None and family.id in self.targets


def find_aims(
    actions: Sequence[ActionView],
    families: Sequence[Family],
    book: NameBook,
    logged_pids: frozenset[int],
) -> Aims:
    """Judge every command; a step that takes whoever uses a device is aimed at what the other steps name."""
    by_step: dict[str, frozenset[str]] = {}
    named: dict[str, frozenset[str]] = {}
    for action in actions:
        aim = _named_by(action, families, book, logged_pids)
        named[action.id] = aim
    all_named = frozenset[str]().union(*named.values()) if named else frozenset[str]()
    targets: set[str] = set()
    for action in actions:
        aim = named[action.id] or all_named or _device_users(action, families, logged_pids)
        targets |= aim
        for step in action.steps:
            if step.replay.tool is not None:
                by_step[step.id] = aim
    by_server = frozenset[str]().union(*(named[a.id] for a in actions)) if actions else frozenset[str]()
    return Aims(frozenset(targets), by_step, by_server)


def _named_by(
    action: ActionView,
    families: Sequence[Family],
    book: NameBook,
    logged_pids: frozenset[int],
) -> frozenset[str]:
    """From the strongest sign to the weakest: a PID written down, a server hit, any member hit, an engine named."""
    own = [family for family in families if family.host == action.host]
    steps = [step for step in action.steps if step.replay.tool is not None and not _by_device(step)]
    written = {f.id for f in own for step in steps for life in f.members if life.pid in _written(step)}
    if written:
        return frozenset(written)
    servers = {f.id for f in own for step in steps if f.root is not None and _selects(step, f.root)}
    if servers:
        return frozenset(servers)
    hit = {f.id for f in own for step in steps for life in f.members if _selects(step, life)}
    if hit:
        return frozenset(hit)
    engines = frozenset[str]().union(*(_engines(step, book) for step in steps)) if steps else frozenset[str]()
    return _newest([f for f in own if f.engine in engines and _existed(f, action)], logged_pids)


def _by_device(step: StepView) -> bool:
    return step.replay.tool in DEVICE_TOOLS or step.replay.list_from == "nvidia-smi"


def _written(step: StepView) -> frozenset[int]:
    selection = step.replay.selection
    return frozenset(abs(pid) for pid in selection.literal_pids) if selection is not None else frozenset()


def _selects(step: StepView, life: Life) -> bool:
    if step.sent_to.get(life.pid) is True or life.pid in step.refused:
        return True
    verdict = step.verdict(life.pid)
    return verdict is not None and verdict.selected is True


def _engines(step: StepView, book: NameBook) -> frozenset[str]:
    selection = step.replay.selection
    if selection is None or selection.pattern is None or selection.error is not None:
        return frozenset()
    options = [word.text for word in step.replay.step.words if word.text and word.text.startswith("-")]
    ignore_case = any("i" in option for option in options if not option.startswith("--")) or "--ignore-case" in options
    return book.engines_named_by(selection.pattern, ignore_case=ignore_case, against=selection.against or "comm")


def _existed(family: Family, action: ActionView) -> bool:
    start, when = family.first_start_ns, action.action.time_ns
    return start is None or when is None or start <= when + 1_000_000_000


def _newest(families: list[Family], logged_pids: frozenset[int]) -> frozenset[str]:
    """Several servers fit the name: the one whose log is part of the evidence, else the one started last."""
    logged = [f for f in families if any(life.pid in logged_pids for life in f.members)]
    if logged:
        return frozenset(f.id for f in logged)
    dated = [f for f in families if f.first_start_ns is not None]
    if dated:
        return frozenset({max(dated, key=lambda family: family.first_start_ns or 0).id})
    return frozenset(f.id for f in families) if len(families) == 1 else frozenset()


def _device_users(action: ActionView, families: Sequence[Family], logged_pids: frozenset[int]) -> frozenset[str]:
    """``fuser -k /dev/nvidia*`` and the like mean every user of the devices; whose, has to be settled.

    The server whose log is part of the evidence; else the caller's own; else whoever owns them all. Several
    owners and no other sign: nobody can be named.
    """
    if not any(step.replay.tool is not None and _by_device(step) for step in action.steps):
        return frozenset()
    users = [f for f in families if f.host == action.host and _ever_used_devices(f) and _existed(f, action)]
    logged = [f for f in users if any(life.pid in logged_pids for life in f.members)]
    if logged:
        return frozenset(f.id for f in logged)
    own = [f for f in users if f.user is not None and f.user == action.caller.user]
    if own:
        return frozenset(f.id for f in own)
    owners = {f.user for f in users}
    return frozenset(f.id for f in users) if len(owners) == 1 else frozenset()


def _ever_used_devices(family: Family) -> bool:
    return any(seen.bookings or seen.mapped for life in family.members for seen in life.sightings.values())
