"""Who is expected to leave by itself after the recorded commands, and until when; who is known to stay.

``coupling`` knows the engines' laws. Here are the facts that it asks for: who was reached by which signal and when, who
is dead, who is whose child.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.coupling import Ending, Fate, Law, Member, fates
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Key, Life
from gpudiag.timeline.order import SECOND, Look

_SIGNALS = {2: "INT", 9: "KILL", 15: "TERM"}
_SLACK_S = 2.0
"""A loaded machine is slower than the one on which the times were measured."""


@dataclass(frozen=True)
class Expected:
    """What is expected of a process that lives in the newest look of its host."""

    life: Life
    fate: Fate
    cause: Life
    due_ns: int | None
    """When it should be gone at the latest; ``None`` where no bound or no time of the cause is known."""
    left_s: float | None
    """Seconds from the newest look until then; negative: it is overdue."""

    @property
    def will_go(self) -> bool:
        """It leaves by itself, and its time is not over: there is nothing to do but wait."""
        return self.fate.leaves and self.fate.certainty == "inferred" and self.left_s is not None and self.left_s > 0


def expectations(incident: Incident, *, upto: Look | None = None) -> dict[Key, Expected]:
    """Of every living process about which the engines' laws say something.

    ``upto``: what was to be expected when only the looks up to this one were known.
    """
    found: dict[Key, Expected] = {}
    for host in incident.hosts():
        look = upto or incident.newest(host)
        if look is None or look.host != host:
            continue
        befell = reached(incident, host, look)
        endings = {key: ending for key, (ending, _) in befell.items()}
        members = [member_of(incident, life, look) for life in concerned(incident, host, endings)]
        for key, fate in fates_on(incident, host, members, endings).items():
            life, cause = _by_key(incident, host, key), _by_key(incident, host, fate.cause)
            if incident.census.alive(life, look) is True and _was_there(life, cause, befell[fate.cause][1]):
                found[key] = _expected(life, fate, cause, befell[fate.cause][1], look)
    return found


def fates_on(incident: Incident, host: str, members: list[Member], endings: Mapping[Key, Ending]) -> dict[Key, Fate]:
    """``coupling.fates`` with the laws of the engines and the version that the servers' logs tell."""
    texts = [event.text for event in incident.parsed.log_events if event.host in (host, "")]

    def version(engine: str) -> tuple[int, ...] | None:
        """As the server's log tells it; two logs that disagree tell nothing."""
        told = {found for text in texts if (found := incident.book.version_in(engine, text)) is not None}
        return told.pop() if len(told) == 1 else None

    def laws(engine: str) -> list[Law]:
        return list(told_by_log(incident.book.laws_of(engine), texts))

    return fates(members, endings, laws, version)


def told_by_log(laws: Sequence[Law], texts: Sequence[str]) -> Iterator[Law]:
    """Laws that ask for a line of the log hold where it is there; where two of them differ, there are two servers."""
    asked = {law.if_log for law in laws if law.if_log is not None}
    said = {pattern for pattern in asked if any(pattern.search(text) for text in texts)}
    yield from (law for law in laws if law.if_log is None or {law.if_log} == said)


def _by_key(incident: Incident, host: str, key: Key) -> Life:
    return next(life for life in incident.census.named(host, key[1]) if life.key == key)


def _was_there(life: Life, cause: Life, since: int | None) -> bool:
    """It is older than what befell the other: what was started afterwards, say by a supervisor, goes on."""
    if life.sightings.keys() & cause.sightings.keys():
        return True
    return since is not None and life.start_ns is not None and life.start_ns + life.start_error_ns <= since


def _expected(life: Life, fate: Fate, cause: Life, since: int | None, look: Look) -> Expected:
    due = None
    if since is not None and fate.within_s is not None:
        due = since + round((fate.within_s + _SLACK_S) * SECOND)
    left = (due - look.end_ns) / SECOND if due is not None and look.end_ns is not None else None
    return Expected(life, fate, cause, due, left)


def reached(incident: Incident, host: str, look: Look) -> dict[Key, tuple[Ending, int | None]]:
    """What befell each process up to a look, and when."""
    found: dict[Key, tuple[Ending, int | None]] = {}
    for life in incident.census.lives:
        if life.host != host or not any(seen.look.position <= look.position for seen in life.sightings.values()):
            continue
        sent = list(_sent(incident, life, look))
        signals = frozenset(name for name, _ in sent)
        dead = incident.census.alive(life, look) is False
        if sent or dead:
            ends = True if dead or "KILL" in signals else None
            found[life.key] = (Ending(signals, ends), min((at for _, at in sent if at is not None), default=None))
    return found


def _sent(incident: Incident, life: Life, look: Look) -> Iterator[tuple[str, int | None]]:
    for action in incident.actions:
        if action.host != life.host or action.slot > look.position or not _was_seen(life, action):
            continue
        for step in action.steps:
            name = _SIGNALS.get(step.replay.signal or 0)
            if name is not None and _reaches(step, life):
                yield name, action.action.time_ns


def _was_seen(life: Life, action: ActionView) -> bool:
    """An earlier look shows it: of a process that was first seen later, nothing tells that it was there."""
    return any(seen.look.position < action.slot for seen in life.sightings.values())


def _reaches(step: StepView, life: Life) -> bool:
    if step.replay.tool is None or life.pid in step.unreached:
        return False
    if life.pid in step.sent_to:
        return step.sent_to[life.pid]
    verdict = step.verdict(life.pid)
    return (
        step.replay.ran is True and verdict is not None and verdict.selected is True and verdict.permitted is not False
    )


def concerned(incident: Incident, host: str, endings: Mapping[Key, Ending]) -> list[Life]:
    """Families of those that ended and of their parents, and everything that these started."""
    kinship = incident.kinship
    own = [life for life in incident.census.lives if life.host == host and life.pid != 1]
    children: dict[Key, list[Life]] = defaultdict(list)
    for life in own:
        if (parent := kinship.parent(life)) is not None and not kinship.is_observer(parent):
            children[parent.key].append(life)
    ended = [life for life in own if life.key in endings]
    parents = [
        above for life in ended if (above := kinship.parent(life)) is not None and not kinship.is_observer(above)
    ]
    families = {family.id for life in (*ended, *parents) if (family := incident.family_of(life)) is not None}
    waiting = [life for life in own if life.key in endings or _family_id(incident, life) in families]
    chosen = {life.key: life for life in waiting}
    while waiting:
        new = [child for child in children[waiting.pop().key] if child.key not in chosen]
        chosen.update({child.key: child for child in new})
        waiting += new
    return sorted(chosen.values(), key=lambda life: (life.start_ns or 0, life.pid))


def _family_id(incident: Incident, life: Life) -> str | None:
    family = incident.family_of(life)
    return family.id if family is not None else None


def member_of(incident: Incident, life: Life, look: Look) -> Member:
    """A process as the laws ask about it, as far as the looks up to this one show it."""
    family, parent = incident.family_of(life), incident.kinship.parent(life)
    seen = [sighting for sighting in life.sightings.values() if sighting.look.position <= look.position]
    state = seen[-1].first("state") if seen else None
    return Member(
        key=life.key,
        parent=parent.key if parent is not None else None,
        job=family.id if family is not None else f"{life.pid}",
        engine=family.engine if family is not None else None,
        role=family.role(life) if family is not None else None,
        cmdline=life.cmdline,
        sleeps=state in ("S", "I") if isinstance(state, str) else None,
        child_of_init=life.born_ppid == 1 if life.born_ppid is not None else None,
    )
