"""Ctrl-C as a command: SIGINT to the job in the foreground, where the evidence tells which processes that was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gpudiag.model import Interrupt, KillAction
from gpudiag.timeline.lives import Census, Life, Sighting
from gpudiag.timeline.order import Look

_NEIGHBOURS = 8
"""Ranks of one launch have PIDs next to each other; a launcher starts a few threads and helpers between them."""
_SAME_SIZE = 0.02
_SHOWN = 160


def interrupt_actions(interrupts: Sequence[Interrupt], census: Census) -> Iterator[KillAction]:
    """One command for each interrupt of which the targets are known; the others tell nothing that could be replayed."""
    for interrupt in interrupts:
        targets = _named(interrupt, census) or _by_command(interrupt, census) or _ranks(interrupt, census)
        if targets:
            yield KillAction(
                host=interrupt.at.host,
                text=f"Ctrl-C, that is SIGINT, to: {interrupt.command[:_SHOWN]}",
                argv=("kill", "-INT", "--", *map(str, targets)),
                how="argv",
                time_ns=None,
                end_ns=None,
                time_error_ns=0,
                after_look=interrupt.at.look,
                user=interrupt.user,
                exit_code=None,
                output=None,
                script_text=None,
                source="transcript",
                cited=interrupt.cited,
            )


def _named(interrupt: Interrupt, census: Census) -> list[int]:
    """The job's own log names its processes."""
    known = [pid for pid in interrupt.pids if census.named(interrupt.at.host, pid)]
    return _with_groups(known, interrupt, census)


def _by_command(interrupt: Interrupt, census: Census) -> list[int]:
    """A process table shows the very command line, of one owner only."""
    own = [life for life in census.lives if life.host == interrupt.at.host and life.cmdline == interrupt.command]
    owners = {life.string("user") for life in own} - {None}
    return _with_groups([life.pid for life in own], interrupt, census) if len(owners) <= 1 else []


def _with_groups(pids: Sequence[int], interrupt: Interrupt, census: Census) -> list[int]:
    """The terminal signals the whole process group: that of a leader stands for all of its job."""
    leaders = {life.pid for pid in pids for life in census.named(interrupt.at.host, pid) if life.integer("pgid") == pid}
    return [-pid if pid in leaders else pid for pid in dict.fromkeys(pids)]


def _ranks(interrupt: Interrupt, census: Census) -> list[int]:
    """Processes of the command's program that can only be the ranks of one launch, some of which the interrupt ended.

    One program, one size, one GPU each, PIDs next to each other, in the look before; and not all of them in the list
    after it.
    """
    before, after = _around(interrupt, census)
    if before is None or after is None:
        return []
    program = interrupt.command.split(" ", 1)[0].rpartition("/")[2]
    alike: dict[str, list[tuple[Life, Sighting]]] = defaultdict(list)
    for life in census.lives:
        seen = life.sightings.get(before.id)
        name = life.booked_name or ""
        booked = life.host == interrupt.at.host and seen is not None and bool(seen.bookings)
        if seen is not None and booked and program and name.rpartition("/")[2] == program:
            alike[name].append((life, seen))
    launches = [group for group in alike.values() if _is_one_launch(group)]
    if len(alike) != 1 or len(launches) != 1:
        return []
    ended = [life for life, _ in launches[0] if after.id not in life.sightings]
    return [life.pid for life, _ in launches[0]] if ended else []


def _around(interrupt: Interrupt, census: Census) -> tuple[Look | None, Look | None]:
    own = [look for look in census.looks if look.host == interrupt.at.host and census.shows_processes(look)]
    place = next((look.position for look in census.looks if look.id == interrupt.at.look), -1)
    before = [look for look in own if look.position <= place]
    after = [look for look in own if look.position > place]
    return (before[-1] if before else None), (after[0] if after else None)


def _is_one_launch(group: Sequence[tuple[Life, Sighting]]) -> bool:
    ordered = sorted(group, key=lambda pair: pair[0].pid)
    sizes = [sum(mib or 0 for mib in seen.held().values()) for _, seen in ordered]
    gpus = [tuple(seen.held()) for _, seen in ordered]
    close = all(other.pid - one.pid <= _NEIGHBOURS for (one, _), (other, _) in pairwise(ordered))
    alone = all(len(names) == 1 for names in gpus) and len(set(gpus)) == len(gpus)
    return (
        len(ordered) > 1 and close and alone and min(sizes) > 0 and max(sizes) - min(sizes) <= _SAME_SIZE * max(sizes)
    )
