"""Processes followed through the looks: rows of several sources joined, several looks tied into one life."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gpudiag.model import Booking, Citation, Coverage, Handle, Process
from gpudiag.shell.tools.common import COMM_BYTES
from gpudiag.timeline.gpus import GpuIndex
from gpudiag.timeline.identity import lost_its_title, starts_differ
from gpudiag.timeline.order import SECOND, TICKS_PER_SECOND, Clock, Look

SIGKILL_BIT = 1 << 8
UNKNOWN_GPU = "?"
"""A list of ``pid,name`` alone does not say on which of several GPUs a process holds memory."""
NOT_FOUND = "[Not Found]"
"""nvidia-smi's name for a PID that is not in ``/proc``: the process is dead, or outside the reader's namespace."""
NO_DATA = "[No data]"
"""nvidia-smi's name for a process that is exiting, or whose leader is a zombie (measured)."""
_SOURCE_RANK = {"proc": 0, "ps": 1, "fuser": 2}
_START_TOLERANCE_NS = 3 * SECOND
LOCAL_ERROR_S = 2
"""How far two readings of one start on the host's clock may differ."""


Key = tuple[str, int, "int | None", int]
"""Identity of a life: host, PID, start ticks, and which of several lives with this PID it is."""


@dataclass(eq=False)
class Sighting:
    """What one look shows of one PID."""

    look: Look
    pid: int
    rows: list[Process] = field(default_factory=list[Process])
    handles: list[Handle] = field(default_factory=list[Handle])
    bookings: list[tuple[str, Booking]] = field(default_factory=list["tuple[str, Booking]"])
    """(GPU id, row)"""
    listed_by: set[str] = field(default_factory=set[str])
    """Sources of handles that cover this process: it is known which devices it has open."""

    def first(self, attribute: str) -> object | None:
        """The best source's value for an attribute: ``/proc`` before ``ps`` before ``fuser``."""
        for row in self.rows:
            value = getattr(row, attribute)
            if value is not None and value != ():
                return value
        return None

    @property
    def in_table(self) -> bool:
        """Some process table of this look has it (``fuser`` counts: it lists the living)."""
        return bool(self.rows)

    @property
    def zombie(self) -> bool:
        """Its leader is a zombie (threads may still live), or nvidia-smi found it without a command line: exiting."""
        state = self.first("state")
        return state in ("Z", "X") if state is not None else self.name_missing == NO_DATA

    @property
    def name_missing(self) -> str | None:
        """The non-value in place of its name in a list of nvidia-smi."""
        return next((row.name_missing for _, row in self.bookings if row.name_missing is not None), None)

    @property
    def texts(self) -> tuple[str | None, ...]:
        """The command line or title, as each source of this look has it."""
        return (*(row.cmdline for row in self.rows), *(row.name for _, row in self.bookings))

    @property
    def reported(self) -> bool:
        """Only a server's out-of-memory message ties it to memory; the driver's own list was not taken."""
        return bool(self.bookings) and all(row.kind == "reported" for _, row in self.bookings)

    @property
    def live_threads(self) -> int | None:
        """Threads besides a zombie leader that still live; ``None`` where the count was not recorded."""
        threads = self.first("threads")
        return max(0, threads - 1) if isinstance(threads, int) else None

    @property
    def unkilled(self) -> bool:
        """A thread of it sleeps as usual or is stopped: no SIGKILL is on its way, which would have woken it."""
        return any(row.sleeping_threads for row in self.rows)

    @property
    def mapped(self) -> frozenset[str] | None:
        """Device files it has mapped; ``None`` where no source looked. A CUDA user maps, an NVML client does not."""
        if not self.listed_by:
            return None
        return frozenset(handle.path for handle in self.handles if handle.how == "map")

    @property
    def open(self) -> frozenset[str] | None:
        """Device files it has open or mapped; ``None`` where no source looked."""
        if not self.listed_by:
            return None
        return frozenset(handle.path for handle in self.handles)

    def held(self) -> dict[str, float | None]:
        """MiB that the driver books on it, by GPU; ``None`` for a row without a figure."""
        figures: dict[str, float | None] = {}
        placed = [(gpu, row) for gpu, row in self.bookings if gpu != UNKNOWN_GPU]
        for gpu, row in placed or self.bookings:
            if row.mib is not None and figures.get(gpu) is None:
                figures[gpu] = row.mib
            else:
                figures.setdefault(gpu, row.mib)
        return figures


@dataclass(eq=False)
class Life:
    """One process from its start to its end, as far as the looks show it.

    Its names are asked for once every sighting is in: they are worked out once, for walks over all its relatives.
    """

    host: str
    pid: int
    sightings: dict[str, Sighting]
    """By look id."""
    start_ns: int | None
    start_error_ns: int
    start_ticks: int | None
    born_ppid: int | None
    """Parent in the earliest look that shows one: a later 1 only says who adopted it."""

    generation: int = 0
    """How many earlier lives had this PID."""

    told_apart_by: str | None = None
    """What shows that it is not the process that had this PID before: ``user``, ``start``, or only the ``name``."""

    local_start_s: int | None = None
    """Start on the host's own clock, whole seconds (``Process.started_local_s``)."""

    @property
    def used_devices(self) -> bool:
        """Some look books device memory on it, or shows a device that it has mapped."""
        return any(seen.bookings or seen.mapped for seen in self.sightings.values())

    @property
    def key(self) -> Key:
        """Identity within the incident."""
        return (self.host, self.pid, self.start_ticks, self.generation)

    def latest(self, attribute: str) -> object | None:
        """The newest look's value of an attribute."""
        for sighting in reversed(list(self.sightings.values())):
            value = sighting.first(attribute)
            if value is not None and value != "":
                return value
        return None

    def integer(self, attribute: str) -> int | None:
        """As ``latest``, for a number."""
        value = self.latest(attribute)
        return value if isinstance(value, int) else None

    def string(self, attribute: str) -> str | None:
        """As ``latest``, for a text."""
        value = self.latest(attribute)
        return value if isinstance(value, str) else None

    @cached_property
    def cmdline(self) -> str | None:
        """Its command line, from a look in which it still had one."""
        return self.string("cmdline")

    @cached_property
    def comm(self) -> str | None:
        """Its comm; a version that no column cut is preferred."""
        for sighting in reversed(list(self.sightings.values())):
            for row in sighting.rows:
                if row.comm and not row.comm_cut:
                    return row.comm
        return self.string("comm")

    @property
    def recorded_cmdline(self) -> tuple[str | None, bool]:
        """The command line as a process table shows it, and whether that table may have cut it."""
        for seen in reversed(list(self.sightings.values())):
            for row in seen.rows:
                if row.cmdline:
                    return row.cmdline, row.cmdline_cut
        return None, False

    @property
    def booked_name(self) -> str | None:
        """The name that nvidia-smi printed for it."""
        for sighting in reversed(list(self.sightings.values())):
            for _, row in sighting.bookings:
                if row.name:
                    return row.name
        return None

    @property
    def title(self) -> str | None:
        """What people call it: the title or program that ps and nvidia-smi show."""
        line = self.cmdline
        if line and not line.startswith(("/", "python", "bash ", "sh ")):
            return line[:120]
        return self.booked_name or self.program

    @cached_property
    def program(self) -> str | None:
        """Its comm where no column cut it, else the base name of what it was started as."""
        if self.comm is not None and not self._comm_cut:
            return self.comm
        line = self.cmdline
        return line.split(" ", 1)[0].rsplit("/", 1)[-1] if line else self.comm

    @property
    def _comm_cut(self) -> bool:
        return all(row.comm_cut for seen in self.sightings.values() for row in seen.rows if row.comm)

    def citations(self) -> list[Citation]:
        """Rows of its newest sighting, one a source."""
        for sighting in reversed(list(self.sightings.values())):
            found = [row.cited for row in sighting.rows[:2]] + [row.cited for _, row in sighting.bookings[:1]]
            if found:
                return found
        return []


class Census:
    """All lives, and what each look can say about who was there."""

    def __init__(
        self,
        looks: Sequence[Look],
        lives: Sequence[Life],
        complete: Mapping[str, bool],
        limited: set[str],
        inside: frozenset[str] = frozenset(),
        apart: frozenset[str] = frozenset(),
    ):
        self.looks = tuple(looks)
        self.lives = tuple(lives)
        self._complete = dict(complete)
        self._limited = limited
        """Looks whose reader could not see every process: another PID namespace, or hidepid."""
        self._shown = {look_id for life in lives for look_id in life.sightings}
        self._absent: set[tuple[str, Key]] = set()
        self._own: set[tuple[str, int]] = set()
        self._hosts: set[str] = set()
        self._missing: set[tuple[str, str, int]] = set()
        """(look, host, PID) that a look was asked for."""
        self._by_pid: dict[tuple[str, int], list[Life]] = defaultdict(list)
        for life in lives:
            self._by_pid[(life.host, life.pid)].append(life)
        self._apart = apart
        self._namespaces = {look.id: self._first_process(look) for look in looks if look.id in inside}

    def named(self, host: str, pid: int) -> list[Life]:
        """Every life that had this PID, oldest first."""
        return self._by_pid.get((host, pid), [])

    def newest_look(self, host: str) -> Look | None:
        """The last look at a host."""
        own = [look for look in self.looks if look.host == host]
        return own[-1] if own else None

    def shows_processes(self, look: Look) -> bool:
        """The look has at least one process; one that asked for figures only says nothing about who was there."""
        return look.id in self._shown

    def note_absent(self, look_id: str, life: Life) -> None:
        """The look asked for this process: unless a table of it shows the process, it was not there."""
        self._absent.add((look_id, life.key))

    def note_own(self, host: str, pid: int) -> None:
        """The number is one of the reader's own PID namespace."""
        self._own.add((host, pid))

    def note_host(self, host: str) -> None:
        """The machine answered as a host, no container: its numbers are those of the driver."""
        self._hosts.add(host)

    def has_drivers_number(self, life: Life) -> bool:
        """The number under which the driver lists it is the one that it has in the reader's PID namespace."""
        return (life.host, life.pid) in self._own or life.host in self._hosts

    def note_missing(self, look_id: str, host: str, pid: int) -> None:
        """The look asked for this PID: unless a table of it shows one, no process had it."""
        self._missing.add((look_id, host, pid))

    def _was_missed(self, life: Life, look: Look) -> bool:
        if look.id in self._apart and not any(seen.in_table for seen in life.sightings.values()):
            return False  # the driver's number is the host's: in a namespace of its own nobody is expected to have it
        return (look.id, life.key) in self._absent or (look.id, life.host, life.pid) in self._missing

    def sees_everybody(self, look: Look) -> bool:
        """The look has a process table of all processes, read where all can be seen."""
        return self._complete.get(look.id, False) and look.id not in self._limited

    def lacks(self, look: Look, life: Life) -> bool:
        """The look's table has all processes of the reader's PID namespace, and not this number."""
        seen = life.sightings.get(look.id)
        return self._complete.get(look.id, False) and look.id in self._apart and not (seen and seen.in_table)

    def is_apart(self, look: Look) -> bool:
        """The look is known to be of a PID namespace other than the host's."""
        return look.id in self._apart

    def _first_process(self, look: Look) -> tuple[Key, str | None] | None:
        """What a PID namespace of its own is known by: its PID 1, as far as its start is known."""
        first = next((life for life in self.named(look.host, 1) if look.id in life.sightings), None)
        if first is None or first.start_ns is None:
            return None
        cmdline = first.sightings[look.id].first("cmdline")
        return first.key, cmdline if isinstance(cmdline, str) else None

    def covers(self, look: Look, life: Life) -> bool:
        """A process that the look does not show was not there.

        The look sees everybody; or it has all processes of a PID namespace of its own, and another look into that same
        namespace shows this one. What runs outside the namespace it cannot tell.
        """
        if self.sees_everybody(look):
            return True
        own = self._namespaces.get(look.id)
        return own is not None and any(
            self._namespaces.get(seen.look.id) == own for seen in life.sightings.values() if seen.in_table
        )

    def present(self, life: Life, look: Look) -> bool | None:
        """Whether the process (a zombie counts) was there at that look; ``None`` = the look does not tell."""
        sighting = life.sightings.get(look.id)
        if sighting is not None and sighting.in_table:
            return True
        if self.covers(look, life) or self._gave_its_number_away(life, look):
            return False
        if sighting is not None and any(row.name is not None for _, row in sighting.bookings):
            # nvidia-smi reads the name from /proc when it prints it.
            return True
        if self._was_missed(life, look):
            return False
        if sighting is None:
            return None
        if sighting.name_missing == NO_DATA:
            return True
        return False if sighting.name_missing == NOT_FOUND and look.id not in self._limited else None

    def _gave_its_number_away(self, life: Life, look: Look) -> bool:
        """A table of the look shows a later process with its PID."""
        later = (other for other in self.named(life.host, life.pid) if other.generation > life.generation)
        return any((seen := other.sightings.get(look.id)) is not None and seen.in_table for other in later)

    def alive(self, life: Life, look: Look) -> bool | None:
        """As ``present``, but a plain zombie is dead, then and ever after; a zombie leader with live threads is not."""
        there = self.present(life, look)
        if there is None and self._was_dead_before(life, look):
            return False
        if there is not True:
            return there
        sighting = life.sightings[look.id]
        if not sighting.zombie:
            return True
        return None if sighting.live_threads is None else sighting.live_threads > 0

    def _was_dead_before(self, life: Life, look: Look) -> bool:
        before = (life.sightings.get(earlier.id) for earlier in self.looks[: self.looks.index(look)])
        return any(seen is not None and seen.zombie and seen.live_threads == 0 for seen in before)

    def pid_alive(self, host: str, pid: int, look: Look) -> bool | None:
        """Whether any process with this PID lives at that look."""
        answers = [self.alive(life, look) for life in self.named(host, pid)]
        if any(answer is True for answer in answers):
            return True
        if answers and any(answer is None for answer in answers):
            return None
        return False if answers or self.sees_everybody(look) or (look.id, host, pid) in self._missing else None


def take_census(
    looks: Sequence[Look],
    processes: Iterable[Process],
    handles: Iterable[Handle],
    bookings: Iterable[Booking],
    coverage: Iterable[Coverage],
    gpus: GpuIndex,
    clock: Clock | None,
    limited: set[str],
    by_root: set[str],
    whole: set[str],
    inside: frozenset[str] = frozenset(),
    apart: frozenset[str] = frozenset(),
) -> Census:
    """Join all rows into sightings and sightings into lives.

    ``inside``: looks with every process of a PID namespace other than the host's; ``apart``: all looks into such a one.
    """
    sightings: dict[tuple[str, int], Sighting] = {}
    by_id = {look.id: look for look in looks}

    def sighting(look_id: str | None, pid: int) -> Sighting | None:
        look = by_id.get(look_id or "")
        return None if look is None else sightings.setdefault((look.id, pid), Sighting(look, pid))

    for row in processes:
        if (seen := sighting(row.at.look, row.pid)) is not None:
            seen.rows.append(row)
            if row.text_from == "fuser":
                seen.listed_by.add(row.cited.member)
    for handle in handles:
        if (seen := sighting(handle.at.look, handle.pid)) is not None:
            seen.handles.append(handle)
            seen.listed_by.add(handle.cited.member)
    for booking in bookings:
        gpu = gpus.of(booking.at.host, booking.gpu)
        if (seen := sighting(booking.at.look, booking.pid)) is not None:
            seen.bookings.append((gpu.id if gpu is not None else UNKNOWN_GPU, booking))
    rows = list(coverage)
    complete = dict.fromkeys(whole, True)
    _mark_covered(sightings.values(), rows, by_root)
    for seen in sightings.values():
        seen.rows.sort(key=lambda row: _SOURCE_RANK.get(row.text_from, 9))
    return Census(looks, _lives(looks, sightings, clock), complete, limited, inside, apart)


def _mark_covered(sightings: Iterable[Sighting], coverage: list[Coverage], by_root: set[str]) -> None:
    """A process without any handle row had its descriptors read where its raw ``/proc`` files were recorded.

    Or where root's ``fuser`` listed everybody who has a device open, and it is not among them.
    """
    handles = [c for c in coverage if c.source == "open handles" and c.outcome == "ok"]
    raw = {c.at.look for c in handles if not c.complete}
    listed = {c.at.look for c in handles if c.complete and (c.as_root or c.at.look in by_root)}
    for seen in sightings:
        if seen.look.id in raw and any(row.text_from == "proc" for row in seen.rows):
            seen.listed_by.add("proc")
        if seen.look.id in listed and seen.rows and not seen.zombie:
            seen.listed_by.add("fuser")


def _lives(looks: Sequence[Look], sightings: Mapping[tuple[str, int], Sighting], clock: Clock | None) -> list[Life]:
    lives: list[Life] = []
    open_lives: dict[tuple[str, int], Life] = {}
    for look in looks:
        for pid in sorted(pid for look_id, pid in sightings if look_id == look.id):
            seen = sightings[(look.id, pid)]
            ticks, start, error = _start(seen, clock)
            life = open_lives.get((look.host, pid))
            local = _local_start(seen)
            apart = _told_apart_by(life, seen, ticks, start, error) if life is not None else None
            if life is None or apart is not None:
                earlier = life.generation + 1 if life is not None else 0
                life = Life(look.host, pid, {}, start, error, ticks, None, earlier, told_apart_by=apart)
                open_lives[(look.host, pid)] = life
                lives.append(life)
            life.sightings[look.id] = seen
            if ticks is not None and life.start_ticks is None:
                life.start_ticks = ticks
            if local is not None and life.local_start_s is None:
                life.local_start_s = local
            if start is not None and (life.start_ns is None or error < life.start_error_ns):
                life.start_ns, life.start_error_ns = start, error
            ppid = seen.first("ppid")
            if life.born_ppid is None and isinstance(ppid, int):
                life.born_ppid = ppid
    return lives


def _start(seen: Sighting, clock: Clock | None) -> tuple[int | None, int | None, int]:
    ticks = seen.first("start_ticks")
    if isinstance(ticks, int) and clock is not None:
        return ticks, clock.at(ticks / TICKS_PER_SECOND), clock.error_ns
    age = next((row for row in seen.rows if row.elapsed_s is not None and row.at.time_ns is not None), None)
    start = None
    if age is not None and age.elapsed_s is not None and age.at.time_ns is not None:
        start = age.at.time_ns - round(age.elapsed_s * SECOND)
    return (ticks if isinstance(ticks, int) else None), start, SECOND


def _local_start(seen: Sighting) -> int | None:
    found = seen.first("started_local_s")
    return found if isinstance(found, int) else None


def _started_apart(one: int | None, other: int | None) -> bool:
    """ps computes the start from the age each time, so it may differ by a second."""
    return one is not None and other is not None and abs(one - other) > LOCAL_ERROR_S


def _told_apart_by(life: Life, seen: Sighting, ticks: int | None, start: int | None, error: int) -> str | None:
    """What shows that the same PID is another process by now (PIDs are re-used): ``user``, ``start`` or ``name``."""
    users = life.string("user"), seen.first("user")
    if None not in users and users[0] != users[1] and not any(str(user).isdigit() for user in users):
        return "user"
    if _started_apart(life.local_start_s, _local_start(seen)):
        return "start"
    if ticks is not None and life.start_ticks is not None:
        return "start" if ticks != life.start_ticks else None
    if start is not None and life.start_ns is not None:
        apart = abs(start - life.start_ns) > _START_TOLERANCE_NS + error + life.start_error_ns
        return "start" if apart else None
    return _contradiction(life, seen)


def _contradiction(life: Life, seen: Sighting) -> str | None:
    """No exact start is known on both sides: what ps shows of it, or the names, cannot be of one process."""
    shown = [start for one in life.sightings.values() if isinstance(start := one.first("start_shown"), str)]
    now = seen.first("start_shown")
    if shown and isinstance(now, str) and starts_differ(shown[-1], now):
        return "start"
    before = [text for text in list(life.sightings.values())[-1].texts if text]
    after = [text for text in seen.texts if text]
    lost = bool(before and after) and all(lost_its_title(one, other) for one in before for other in after)
    return "name" if lost else None


_INTERPRETERS = re.compile(r"(?:python|pypy|perl|ruby|node|java|bash|dash|sh|zsh|php|lua|Rscript)[\d.]*\Z")


def started_comm(cmdline: str | None) -> str | None:
    """The comm of a program that was started by this line: its base name, 15 bytes of it.

    Not of an interpreter's line: a script that is executed itself has the script's name there.
    """
    first = (cmdline or "").split(" ", 1)[0]
    name = first.rsplit("/", 1)[-1]
    if not name or first.startswith(("[", "-")) or "::" in first or _INTERPRETERS.match(name):
        return None
    return name.encode()[:COMM_BYTES].decode("utf-8", "ignore")
