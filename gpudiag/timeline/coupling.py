"""Who leaves by itself, and who stays, once some processes of an engine have ended.

What is known of the engine, applied to its processes. Pure: processes, what befell them, and what is known go in; fates
come out.

A consequence has consequences: a worker's end ends EngineCore, and that the API server.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpudiag.timeline.lives import Key

MAX_COMMAND_LINE = 8192
"""Characters of a head's command line in which an option is looked for."""
MAX_PAIRS = 250_000
"""Ended times living processes up to which anything is said. Real servers have thousands of pairs; evidence may lie."""
MAX_ASKED = 1_000_000
"""Members of jobs up to which a chain of consequences is followed, each counted once for every end in its job."""
_HEADS = frozenset({"server", "launcher"})
PROGRAM = "program"
"""In a law of a launcher: any job that it started, whatever that is."""


class Law(Protocol):
    """One sentence about an engine: *when this ends, those leave* (or stay). Fields: ``rules.engines.CouplingSpec``."""

    @property
    def ended(self) -> str: ...
    @property
    def by(self) -> tuple[str, ...]: ...
    @property
    def through(self) -> str | None: ...
    @property
    def orderly(self) -> bool: ...
    @property
    def leave(self) -> tuple[str, ...]: ...
    @property
    def stay(self) -> tuple[str, ...]: ...
    @property
    def within_s(self) -> float | None: ...
    @property
    def if_idle(self) -> bool: ...
    @property
    def if_init_adopts(self) -> bool: ...
    @property
    def unless_head(self) -> re.Pattern[str] | None: ...
    @property
    def if_log(self) -> re.Pattern[str] | None: ...
    @property
    def certainty(self) -> str: ...
    @property
    def because(self) -> str: ...

    def holds_for(self, version: tuple[int, ...] | None) -> bool | None:
        """Whether it holds for a version; ``None`` if that depends on the version and none is known."""
        ...


class RestartLaw(Protocol):
    """A parent that starts its children again. Fields: ``rules.engines.RestartSpec``."""

    @property
    def within_s(self) -> float: ...
    @property
    def kind(self) -> str: ...
    @property
    def stop(self) -> str | None: ...
    @property
    def because(self) -> str: ...


class PoolLaw(Protocol):
    """A parent that keeps its children alive by design. Fields: ``rules.engines.PoolSpec``."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def stop(self) -> str | None: ...
    @property
    def because(self) -> str: ...


class LawBook(Protocol):
    """Where the laws stand."""

    def laws_of(self, engine: str) -> Sequence[Law]:
        """All laws of an engine, in their order; none for an engine that is not known."""
        ...

    def version_in(self, engine: str, line: str) -> tuple[int, ...] | None:
        """The engine's version, where this line of its log tells it."""
        ...

    def restart_by(self, comm: str | None, cmdline: str | None) -> RestartLaw | None:
        """How a parent of these words starts its children again, if it does."""
        ...

    def pool_of(self, comm: str | None, cmdline: str | None) -> PoolLaw | None:
        """The pool that a parent of these words keeps alive by design."""
        ...

    def pool_around(self, comm: str | None, cmdline: str | None) -> PoolLaw | None:
        """The pool to which a process of these words belongs by its title."""
        ...


@dataclass(frozen=True)
class Member:
    """A process, as far as the laws ask about it."""

    key: Key
    parent: Key | None
    """The process that started it, where that is a member too."""
    job: str
    """Server or job that it belongs to; what is of no job is a job of its own."""
    engine: str | None
    role: str | None
    cmdline: str | None = None
    sleeps: bool | None = None
    """Its state in the look; ``None`` where that was not recorded."""
    child_of_init: bool | None = None
    """PID 1 started it, so PID 1 adopts what it leaves behind."""


@dataclass(frozen=True)
class Ending:
    """What befell a process."""

    signals: frozenset[str] = frozenset()
    """Names of the signals that reached it; empty: it ended by itself, or nobody knows of what."""
    ends: bool | None = True
    """It is dead, or dies of that; ``None`` = it may handle the signal."""


@dataclass(frozen=True)
class Fate:
    """What follows for a process that was not reached itself."""

    leaves: bool
    certainty: str
    """``inferred`` or ``possible``."""
    because: str
    within_s: float | None
    """Seconds after the first cause by which it is gone; ``None`` where no bound is known, or it stays."""
    cause: Key
    """The process that was reached, from which it all follows."""


LawsOf = Callable[[str], Sequence[Law]]
VersionOf = Callable[[str], "tuple[int, ...] | None"]


def fates(
    members: Sequence[Member], endings: Mapping[Key, Ending], laws: LawsOf, version: VersionOf
) -> dict[Key, Fate]:
    """The fate of everybody about whom the engines' laws say something.

    ``laws`` and ``version`` are asked by the engine's name. Who has ended already has no fate; who was only sent a
    signal that it may handle has one if a law speaks of itself. What is nearer to the cause is believed first, and of
    two sentences equally near the surer, then the one that stands first. Beyond ``MAX_PAIRS`` or ``MAX_ASKED``
    nothing is said.
    """
    if len(endings) * len(members) > MAX_PAIRS:
        return {}
    scene = _Scene(members, endings, laws, version)
    found: dict[Key, Fate] = {}
    waiting: deque[tuple[Key, Ending, Fate | None]] = deque(
        (key, ending, None) for key, ending in endings.items() if key in scene.by_key
    )
    asked = 0
    while waiting:
        key, ending, before = waiting.popleft()
        asked += scene.size_of_job(key)
        if asked > MAX_ASKED:
            return {}
        for other, fate in scene.consequences(key, ending, before):
            known = found.get(other)
            doomed = other in endings and endings[other].ends is True
            better = known is None or (known.certainty == "possible" and fate.certainty == "inferred")
            if doomed or not better:
                continue
            found[other] = fate
            if fate.leaves and other != key:
                waiting.append((other, Ending(), fate))
    return found


class _Scene:
    """The members, and the laws of their engines."""

    def __init__(self, members: Sequence[Member], endings: Mapping[Key, Ending], laws: LawsOf, version: VersionOf):
        self._gone = {key for key, ending in endings.items() if ending.ends is True}
        self.by_key = {member.key: member for member in members}
        self._laws, self._version = laws, version
        self._heads = {member.job: member for member in reversed(members) if member.role in _HEADS}
        self._children: dict[Key, list[Member]] = {}
        self._jobs: dict[str, list[Member]] = {}
        for member in members:
            self._jobs.setdefault(member.job, []).append(member)
            if member.parent is not None:
                self._children.setdefault(member.parent, []).append(member)

    def size_of_job(self, key: Key) -> int:
        """How many members the job of this one has."""
        return len(self._jobs[self.by_key[key].job])

    def consequences(self, key: Key, ending: Ending, before: Fate | None) -> Iterator[tuple[Key, Fate]]:
        """What one end means for others; ``before`` is why it ended, where that was a consequence itself."""
        member = self.by_key[key]
        yield from self._above(member, ending, before)
        if member.engine is None:
            return
        version = self._version(member.engine)
        below = self._below(member)
        for law in self._laws(member.engine):
            holds = law.holds_for(version)
            if holds is False or not self._speaks_of(law, member, ending, before):
                continue
            for other in self._meant(law.leave or law.stay, member, below):
                yield other.key, _fate(law, member, other, ending, before, versioned=holds is True)

    def _above(self, member: Member, ending: Ending, before: Fate | None) -> Iterator[tuple[Key, Fate]]:
        """What is known of a launcher's own life when a program that it started, a job of its own, has ended."""
        above = self.by_key.get(member.parent) if member.parent is not None else None
        if above is None or above.job == member.job or above.engine is None or above.role not in _HEADS:
            return
        version = self._version(above.engine)
        for law in self._laws(above.engine):
            holds = law.holds_for(version)
            if law.ended == PROGRAM and holds is not False and ending.ends is not False and above.key not in self._gone:
                yield above.key, _fate(law, member, above, ending, before, versioned=holds is True)

    def _speaks_of(self, law: Law, member: Member, ending: Ending, before: Fate | None) -> bool:
        below_head = member.role not in _HEADS and member.job in self._heads
        if member.role != law.ended and not (law.ended == "child" and below_head):
            return False
        head = self._heads.get(member.job)
        line = (head.cmdline or "")[:MAX_COMMAND_LINE] if head is not None else ""
        if law.unless_head is not None and law.unless_head.search(line):
            return False
        if law.through is not None and not self._is_there(law.through, member):
            return False
        if law.by:
            # A process that is killed cannot do what it would do on a milder signal.
            return bool(ending.signals & set(law.by)) and ("KILL" not in ending.signals or "KILL" in law.by)
        if law.orderly:
            return before is not None and not ending.signals
        return ending.ends is not False

    def _is_there(self, role: str, member: Member) -> bool:
        return any(
            other.role == role and other.key not in self._gone and other.key != member.key
            for other in self._jobs[member.job]
        )

    def _meant(self, words: tuple[str, ...], member: Member, below: dict[Key, Member]) -> Iterator[Member]:
        job = {other.key: other for other in self._jobs[member.job]}
        for other in (job | below).values():
            if other.key == member.key:
                if "self" in words:
                    yield other
            elif (
                other.role in words
                or ("rest" in words and other.key in job)
                or ("child" in words and other.parent == member.key)
                or ("descendant" in words and other.key in below)
            ):
                yield other
        if "around" in words:
            yield from self._around(member)

    def _around(self, member: Member) -> Iterator[Member]:
        """The parent with its job, and what else the parent started."""
        parent = self.by_key.get(member.parent) if member.parent is not None else None
        if parent is not None and parent.job != member.job:
            yield from self._jobs[parent.job]
            yield from (other for other in self._children[parent.key] if other.key != member.key)

    def _below(self, member: Member) -> dict[Key, Member]:
        found: dict[Key, Member] = {}
        waiting = [member.key]
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child.key not in found and child.key != member.key:
                    found[child.key] = child
                    waiting.append(child.key)
        return found


def _fate(law: Law, member: Member, other: Member, ending: Ending, before: Fate | None, *, versioned: bool) -> Fate:
    sure = (
        law.certainty == "inferred"
        and versioned
        and (ending.ends is not None or bool(law.by))
        and (before is None or before.certainty == "inferred")
        and (not law.if_idle or other.sleeps is True)
        and (not law.if_init_adopts or member.child_of_init is True)
    )
    within = law.within_s
    if before is not None:
        within = None if within is None or before.within_s is None else within + before.within_s
    because = law.because if versioned else f"{law.because}; the engine's version is not known"
    return Fate(
        bool(law.leave), "inferred" if sure else "possible", because, within, before.cause if before else member.key
    )
