"""``watch.jsonl``: what a flight recorder saw while nobody looked: states of the machine right before something ended.

The lines tell changes. Of the moments at which the state is worth a look of its own there are two kinds: right before a
command that is known with its time, and right before processes that had a GPU, or that had started one, ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpudiag.evidence.exhibit import Exhibit, LookName
from gpudiag.model import Citation, Damage, Ending, KillAction, Recorder
from gpudiag.parse.parsed import Row
from gpudiag.parse.ring_looks import look_rows, sample_rows
from gpudiag.parse.ring_state import Line, State, Told, lines_of, same_machine
from gpudiag.parse.source import QUOTE_CAP, Segment, place_of

MEMBER = "watch.jsonl"
_SECOND = 1_000_000_000
_EPISODE_NS = 10 * _SECOND
"""Ends that are no further apart belong together."""
_EPISODES, _ACTIONS = 2, 4
"""The newest ones of which there is a look."""
_TEXT_CAP = 16 << 20
_ENDINGS_CAP = 20_000
_SAMPLES_CAP = 20_000
_DAMAGE_CAP = 20
_ANCESTORS = 16
_DEAD = ("Z", "X")


class Recalled(NamedTuple):
    """What one ring gives."""

    looks: tuple[LookName, ...]
    rows: tuple[Row, ...]
    observers: tuple[int, ...]
    """The recorder's processes."""


NOTHING = Recalled((), (), ())


def is_ring(exhibit: Exhibit) -> bool:
    """The exhibit is a flight recorder's ring."""
    return exhibit.member.rpartition("/")[2] == MEMBER


def recall(exhibit: Exhibit, recorder: Recorder | None, actions: Sequence[KillAction]) -> Recalled:
    """``actions``: the commands that are known from elsewhere."""
    text = exhibit.text
    damage: list[Damage] = []
    if len(text) > _TEXT_CAP:
        # The end is what matters; it begins in the middle of changes, so that nothing is known of those before.
        text = text[text.index("\n", len(text) - _TEXT_CAP) + 1 :]
        damage.append(Damage(exhibit.input, exhibit.member, None, f"only the last {_TEXT_CAP >> 20} MiB were parsed"))
    first = exhibit.first_line + exhibit.text[: len(exhibit.text) - len(text)].count("\n")
    segment = Segment(exhibit, place_of(exhibit), first - exhibit.first_line, tuple(text.split("\n")), None)
    past = _Past(segment)
    for line in lines_of(segment, damage):
        past.take(line)
    if not same_machine(past.state, recorder):
        reason = "not used: it is of another boot or of another PID namespace than the looks"
        return Recalled((), (*damage[:_DAMAGE_CAP], Damage(exhibit.input, exhibit.member, None, reason)), ())
    moments = past.moments(actions)
    names = tuple(
        LookName(f"{exhibit.input}:watch-{number}", f"watch-{number}", exhibit.host, recalled=True)
        for number in range(1, len(moments) + 1)
    )
    rows: list[Row] = [*damage[:_DAMAGE_CAP], *past.endings.values()]
    rows += sample_rows(segment, past.samples)
    rows += _looked(segment, dict(zip(moments, names, strict=True)))
    return Recalled(names, tuple(rows), past.observers(exhibit.time_ns))


class _Past:
    """What is learnt from one way through all lines."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self.state = State()
        self.endings: dict[tuple[int, int], Ending] = {}
        """By PID and start ticks; the oldest ones are forgotten."""
        self.samples: deque[Line] = deque(maxlen=_SAMPLES_CAP)
        self._begun: Line | None = None
        """The newest beginning of a segment."""
        self._ticks: list[int] = []
        self._offsets: dict[int, int] = {}
        """Of the lines of the ticks."""
        self._of_interest: list[tuple[int, int]] = []
        """(earliest time, latest time) of ends."""

    def take(self, line: Line) -> None:
        """One line, in their order."""
        ended = self._ended(line)
        interesting = ended is not None and (self.state.had_memory(ended) or self._interesting(ended.pid))
        vanished = self.state.take(line)
        if line.kind == "ring":
            self._begun = line
        if line.kind == "tick" and line.time_ns is not None and self.state.complete:
            # Where the wall clock was set back, what it had shown before is no order any more.
            while self._ticks and self._ticks[-1] >= line.time_ns:
                self._offsets.pop(self._ticks.pop())
            self._ticks.append(line.time_ns)
            self._offsets[line.time_ns] = line.offset
        elif line.kind == "gpu":
            self.samples.append(line)
        if ended is not None:
            self._end(line, ended.pid, ended.start, interesting)
        for pid, start, held in vanished:
            self._end(self._begun or line, pid, start, held)

    def _ended(self, line: Line) -> Told | None:
        """Whose end the line tells: a process is gone, or a zombie from now on."""
        known = self.state.processes.get(line.integer("pid") or 0) if line.kind in ("gone", "proc") else None
        if known is None or known.start != line.integer("start"):
            return None
        return known if line.kind == "gone" or line.values.get("state") in _DEAD else None

    def observers(self, read_ns: int | None) -> tuple[int, ...]:
        """The recorder's processes, if it still ran when the ring was read: else their PIDs may be others' by now."""
        last = self._ticks[-1] if self._ticks else 0
        runs = read_ns is None or read_ns - last <= _EPISODE_NS
        return tuple(sorted(self.state.observers)) if runs else ()

    def moments(self, actions: Sequence[KillAction]) -> list[int]:
        """Offsets of the ticks whose state is worth a look, in order."""
        given = sorted(action.time_ns - action.time_error_ns for action in actions if action.time_ns is not None)
        found = [tick for time in given if (tick := self._tick_before(time)) is not None][-_ACTIONS:]
        episodes: list[tuple[int, int]] = []
        for first, last in sorted(self._of_interest):
            if episodes and first - episodes[-1][1] <= _EPISODE_NS:
                episodes[-1] = (episodes[-1][0], max(last, episodes[-1][1]))
            else:
                episodes.append((first, last))
        for first, _ in episodes[-_EPISODES:]:
            tick = self._tick_before(first)
            if tick is not None and not any(0 <= first - other <= _EPISODE_NS for other in found):
                found.append(tick)
        return [self._offsets[tick] for tick in sorted(set(found))]

    def _tick_before(self, time_ns: int) -> int | None:
        """The last complete list of processes that is no younger."""
        low, high = 0, len(self._ticks)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._ticks[middle] <= time_ns else (low, middle)
        # Long before the instant nothing is known of it: the recorder did not run.
        if low == 0 or (low == len(self._ticks) and time_ns - self._ticks[-1] > _EPISODE_NS):
            return None
        return self._ticks[low - 1]

    def _interesting(self, pid: int) -> bool:
        """It has a GPU, or a process that has one descends from it."""
        holders = self.state.holders()
        if pid in holders:
            return True
        for holder in holders:
            one = self.state.processes.get(holder)
            for _ in range(_ANCESTORS):
                if one is None or one.pid <= 1:
                    break
                if one.pid == pid:
                    return True
                one = self.state.processes.get(one.born_ppid or 0)
        return False

    def _end(self, line: Line, pid: int, start: int, interesting: bool) -> None:
        if line.time_ns is None:
            return
        exact = line.values.get("exact") is True
        seen = line.seen_ns
        last = seen if seen is not None else self._ticks[-1] if self._ticks else line.time_ns
        error = 0 if exact else max(0, line.time_ns - last)
        if (pid, start) in self.endings and not exact:
            return  # It was a zombie until now.
        if interesting:
            self._of_interest.append((line.time_ns - error, line.time_ns))
        self.endings[pid, start] = Ending(
            host=self._segment.exhibit.host,
            pid=pid,
            start_ticks=start,
            time_ns=line.time_ns,
            time_error_ns=error,
            signal=line.integer("signal"),
            exit_code=line.integer("code"),
            cited=cite(self._segment, line),
        )
        if len(self.endings) > _ENDINGS_CAP:
            del self.endings[next(iter(self.endings))]


def cite(segment: Segment, line: Line) -> Citation:
    """The line."""
    number = segment.exhibit.first_line + segment.start + line.offset
    return Citation(segment.exhibit.input, segment.exhibit.member, number, segment.lines[line.offset][:QUOTE_CAP])


def _looked(segment: Segment, moments: Mapping[int, LookName]) -> Iterator[Row]:
    """The states at these moments, from a second way through the lines."""
    state = State()
    for line in lines_of(segment, []):
        state.take(line)
        name = moments.get(line.offset)
        if name is not None:
            yield from look_rows(segment, state, name.id, line)
