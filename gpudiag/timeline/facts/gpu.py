"""What the newest figure of each GPU leaves to explain, and how much of the host the look could see."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.timeline.facts.baseline import above_baseline
from gpudiag.timeline.facts.holder import kill_age, within_expected
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.facts.told import told_columns
from gpudiag.timeline.facts.unlisted import is_unlisted_orphan
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.ledger import Ledger
from gpudiag.timeline.lives import NOT_FOUND, Life
from gpudiag.timeline.order import Look
from gpudiag.timeline.samples import driver_bound_mib, expected_release_s


def gpu_rows(incident: Incident) -> Iterator[Row]:
    """One row a GPU; without a figure after the last command everything in it is null."""
    for gpu in incident.gpus.gpus:
        ledger, look = incident.ledgers.get(gpu.id), incident.newest(gpu.host)
        if ledger is None or look is None:
            yield {"host": incident.host_id(gpu.host), "gpus": [gpu.id], **told_columns(incident, gpu)}
        else:
            yield _row(incident, gpu.id, gpu.host, look, ledger) | told_columns(incident, gpu, ledger.figure.cited)


def _row(incident: Incident, gpu_id: str, host: str, look: Look, ledger: Ledger) -> dict[str, object]:
    view = incident.views[look.id]
    used = ledger.figure.used_mib
    booked = ledger.booked_mib
    seen = ledger.list_seen
    return {
        "host": incident.host_id(host),
        "gpus": [gpu_id],
        "used_mib": used,
        "booked_mib": booked if seen else None,
        "unattributed_mib": ledger.total("unattributed") if seen else None,
        "driver_bound_mib": driver_bound_mib(used, sum(e.life is not None for e in ledger.entries), 0.0),
        "above_baseline": above_baseline(ledger),
        "list_seen": seen,
        "list_complete": seen,
        "listed_pids_absent": _listed_absent(incident, look, host) if seen else None,
        "list_empty": (not _listed(incident, look, host)) if seen else None,
        "own_namespace": view.own_namespace,
        "left_inside": _left_inside(incident, host),
        "proc_hidden": view.hidden,
        "as_root": None if view.user is None else view.user == "root",
        "handles_complete": handles_complete(incident, look),
        "open_by_count": _open_by(incident, look),
        "explained": _is_explained(ledger) if seen else None,
        "releasing": _is_releasing(incident, ledger),
        "action_seen": incident.last_action(host) is not None,
    }


def _is_releasing(incident: Incident, ledger: Ledger) -> bool:
    """SIGKILL has reached one to whom memory is booked there, and it is not shown to take longer than a release may."""
    lives = [entry.life for entry in ledger.entries if entry.life is not None]
    return any(_leaves_in_time(incident, life) for life in lives)


def _leaves_in_time(incident: Incident, life: Life) -> bool:
    if incident.kill_delivered(life)[0] is not True:
        return False
    in_time = within_expected(kill_age(incident, life), expected_release_s(life.integer("rss_shmem_kib")))
    seen = incident.seen_now(life)
    # Who is alive with SIGKILL on it may be stuck; a zombie is on its way as long as nothing shows that it is late.
    return in_time is not False if seen is not None and seen.zombie else in_time is True


def _left_inside(incident: Incident, host: str) -> bool:
    own = [family for family in incident.families if family.host == host]
    return any(is_unlisted_orphan(incident, family, life) for family in own for life in family.members)


def _is_explained(ledger: Ledger) -> bool:
    """Nothing is left over; what is booked on a dead PID is explained by whoever keeps it, and by nobody else."""
    unheld = [entry for entry in ledger.entries if entry.kind == "dead_process" and not entry.held_by]
    return ledger.total("unattributed") == 0 and not unheld


def _listed(incident: Incident, look: Look, host: str) -> list[int]:
    return [
        life.pid
        for life in incident.census.lives
        if life.host == host and look.id in life.sightings and life.sightings[look.id].bookings
    ]


def _listed_absent(incident: Incident, look: Look, host: str) -> bool | None:
    answers: list[bool | None] = []
    for life in incident.census.lives:
        seen = life.sightings.get(look.id)
        if life.host != host or seen is None or not seen.bookings:
            continue
        if any(row.name_missing == NOT_FOUND for _, row in seen.bookings) or incident.census.lacks(look, life):
            answers.append(True)
        present = incident.census.present(life, look)
        answers.append(None if present is None else not present)
    if any(answers):
        return True
    return None if any(answer is None for answer in answers) else False


def handles_complete(incident: Incident, look: Look) -> bool | None:
    """All descriptors of all threads were read, as root: raw ``/proc`` files do that, ``fuser`` leaves zombies out.

    A scan that says that it reached everything has looked into the threads of dead leaders, too.
    """
    rows = [c for c in incident.parsed.coverage if c.at.look == look.id and c.source == "open handles"]
    if not any(row.outcome == "ok" for row in rows):
        return None
    view = incident.views[look.id]
    if view.limited or view.user not in ("root", None):
        return False
    if any(row.outcome == "ok" and row.complete and row.as_root and not row.names_missing for row in rows):
        return True
    by_threads = any(row.text_from == "proc" and row.at.look == look.id for row in incident.parsed.processes)
    return by_threads and view.user == "root" and not _unread_zombies(incident, look)


def _unread_zombies(incident: Incident, look: Look) -> bool:
    """A zombie leader with live threads hides its descriptors from ``/proc/PID/fd``."""
    return any(
        seen.zombie and (seen.live_threads is None or seen.live_threads > 0)
        for life in incident.census.lives
        if (seen := life.sightings.get(look.id)) is not None
    )


def _open_by(incident: Incident, look: Look) -> int | None:
    counted = [life.sightings[look.id] for life in incident.census.lives if look.id in life.sightings]
    if not any(seen.listed_by for seen in counted):
        return None
    return sum(bool(seen.mapped) for seen in counted)
