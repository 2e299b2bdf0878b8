"""What each look could see at all: whose eyes, which PID namespace, and which processes are the observer's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpudiag.model import Coverage, Process, Recorder
from gpudiag.timeline.order import Look

KTHREADD = 2
"""The first kernel thread. It has PID 2 in the initial PID namespace and is in no other."""
INITS = frozenset({"init", "systemd", "launchd", "openrc-init", "runit", "upstart"})
"""What PID 1 of a machine runs. Another program as PID 1 is what somebody started in a container."""


@dataclass(frozen=True)
class View:
    """The limits of one look."""

    own_namespace: bool | None
    """It was taken in a PID namespace other than the host's; ``None`` also where only the kernel's threads are missing
    from the table, which a filter does as well."""
    hidden: bool | None
    """Only the reader's own processes were visible (``hidepid``, or a filtered table)."""
    user: str | None
    """Who looked."""
    observers: frozenset[int]
    """PIDs of the tool that looked, of its ancestors, and of the children that a recorder says are its own."""

    @property
    def limited(self) -> bool:
        """Absence from the process table proves nothing here."""
        return self.own_namespace is not False or self.hidden is not False


def view_of(
    look: Look,
    processes: Iterable[Process],
    coverage: Iterable[Coverage],
    recorders: Iterable[Recorder] = (),
    *,
    in_container: bool = False,
) -> View:
    """Judge a look by its full process tables and by what its recorder says of itself.

    ``in_container``: the session itself shows that it was taken in one.
    """
    rows = [row for row in processes if row.at.look == look.id]
    tables = look.id in whole_tables(rows, coverage)
    user, observers = _observer(rows)
    recorder = recorder_of(look, recorders)
    if recorder is not None:
        observers |= frozenset(recorder.pids)
        user = user or recorder.user or ("root" if recorder.uid == 0 else None)
    as_root = next((c.as_root for c in coverage if c.at.look == look.id and c.as_root is not None), None)
    if user is None and as_root is not None:
        user = "root" if as_root else None
    if not tables:
        return View(None, None, user, observers)
    listed = {row.pid: row for row in rows if row.text_from in ("ps", "proc")}
    if 1 not in listed:
        return View(None, True, user, observers)
    return View(_is_apart(listed, in_container=in_container), False, user, observers)


def _is_apart(listed: Mapping[int, Process], *, in_container: bool) -> bool | None:
    """The table is of a PID namespace other than the host's."""
    second = listed.get(KTHREADD)
    if second is not None:
        return second.kernel_thread is False
    if in_container or any(row.text_from == "proc" for row in listed.values()):
        return True  # nobody filters what was read from /proc itself
    first = listed[1]
    program = (first.cmdline or first.comm or "").split(" ", 1)[0].rsplit("/", 1)[-1]
    return True if program and program not in INITS and first.comm not in INITS else None


def recorder_of(look: Look, recorders: Iterable[Recorder]) -> Recorder | None:
    """The recorder of the input that the look is of."""
    return next((item for item in recorders if item.cited.input == look.id.partition(":")[0]), None)


def _observer(rows: Sequence[Process]) -> tuple[str | None, frozenset[int]]:
    """The ``ps`` that printed a table is in it: running, and the youngest of those less than a second old."""
    young = [r for r in rows if r.text_from == "ps" and r.state == "R" and r.elapsed_s is not None and r.elapsed_s < 1]
    own = max(young, key=lambda row: row.pid, default=None)
    if own is None:
        own = next(
            (r for r in rows if r.text_from == "ps" and r.state == "R" and (r.cmdline or "").startswith("ps ")), None
        )
    if own is None:
        return None, frozenset()
    parents = {row.pid: row.ppid for row in rows if row.ppid is not None}
    chain: list[int] = []
    pid: int | None = own.pid
    while pid is not None and pid > 0 and pid not in chain:
        chain.append(pid)
        pid = parents.get(pid)
    return own.user, frozenset(chain)


def whole_tables(processes: Iterable[Process], coverage: Iterable[Coverage]) -> set[str]:
    """Looks with a table of all processes: the command says so, or both PID 1 and the kernel's PID 2 are in it."""
    whole = {c.at.look for c in coverage if c.source == "process table" and c.complete and c.at.look is not None}
    listed: dict[str, set[int]] = {}
    for row in processes:
        if row.text_from == "ps" and row.pid <= KTHREADD and row.at.look is not None:
            listed.setdefault(row.at.look, set()).add(row.pid)
    return whole | {look for look, pids in listed.items() if {1, KTHREADD} <= pids}
