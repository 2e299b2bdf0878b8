"""Processes that hold device memory now, their state and their ties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from gpudiag.model import Citation
from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.facts.broken import broken_citations, broken_columns
from gpudiag.timeline.facts.custody import custody_citations, custody_columns, keeper_of, mps_servers
from gpudiag.timeline.facts.dying import HostSigns, dying_columns, ended_by_log
from gpudiag.timeline.facts.hidden import hidden_columns, probe_citations
from gpudiag.timeline.facts.importer import client_citations, importer_columns
from gpudiag.timeline.facts.kernel import killed_by_kernel
from gpudiag.timeline.facts.peers import Peers
from gpudiag.timeline.facts.rows import Row, about
from gpudiag.timeline.facts.startup import StartUps
from gpudiag.timeline.facts.unlisted import is_unlisted_orphan
from gpudiag.timeline.families import Family
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.kinship import MAX_DEPTH
from gpudiag.timeline.lives import SIGKILL_BIT, Life
from gpudiag.timeline.order import SECOND
from gpudiag.timeline.orphans import CHILD_ROLES, is_orphan, orphan_is_shown, was_adopted
from gpudiag.timeline.presence import alive_before, newer_than_actions
from gpudiag.timeline.samples import MIN_RELEASE_S, expected_release_s
from gpudiag.timeline.services import service_of
from gpudiag.timeline.supervision import predecessor, supervision_of


def holder_rows(incident: Incident) -> Iterator[Row]:
    """Rows for every process of a family that the newest look shows, or on which it still books memory."""
    signs, peers, starts = HostSigns(incident), Peers(incident), StartUps(incident)
    mps = mps_servers(incident)
    for family in incident.families:
        for life in family.members:
            shown = incident.present(life) is True or incident.seen_now(life) is not None
            told = shown or incident.booked_now(life) or incident.gave_back(life) is not None
            if told or incident.newest(life.host) is None:
                yield (
                    _row(incident, family, life, signs, mps)
                    | peers.columns(family, life)
                    | starts.columns(family, life)
                )
    yield from ended_by_log(incident)
    for host in incident.hosts():
        if incident.last_action(host) is not None and _nobody_listed(incident, host):
            yield {"host": incident.host_id(host), "gpus": [], "cites": []}


def _nobody_listed(incident: Incident, host: str) -> bool:
    """Memory is in use and no source names a single process that could hold it: one row without any value."""
    in_use = any(
        ledger.figure.used_mib >= 1 and not ledger.list_seen
        for gpu, ledger in incident.ledgers.items()
        if incident.gpus.get(gpu).host == host
    )
    return in_use and not any(family.host == host for family in incident.families)


def _row(
    incident: Incident, family: Family, life: Life, signs: HostSigns, mps: Mapping[str, Sequence[Life]]
) -> dict[str, object]:
    seen = incident.seen_now(life)
    delivered, proof = incident.kill_delivered(life)
    if not delivered and (killed := killed_by_kernel(incident, life)):
        delivered, proof = True, killed
    age = kill_age(incident, life) if delivered else None
    expected = expected_release_s(life.integer("rss_shmem_kib"))
    pending = seen.first("sig_pending") if seen is not None else None
    pending_kill = bool(pending & SIGKILL_BIT) if isinstance(pending, int) else None
    zombie = seen.zombie if seen is not None and (seen.first("state") or seen.zombie) else None
    state = seen.first("state") if seen is not None else None
    again = started_again(incident, life)
    replaced = replaces(incident, again) if again is not None else None
    launcher = incident.kinship.parent(again) if again is not None else None
    service = service_of(incident, life)
    gave_back = incident.gave_back(life)
    heir = incident.inherits_from(life) or gave_back
    parent_alive = _parent_alive(incident, life)
    root_alive = alive_root(incident, family)
    keeper = keeper_of(incident, life)
    return about(incident, life) | {
        "held_mib": held_before(incident, life),
        "zombie": zombie,
        "live_threads": seen.live_threads if seen is not None and zombie else None,
        "stopped": state in ("T", "t") if isinstance(state, str) else None,
        "kill_pending": pending_kill if not zombie else None,
        "kill_delivered": delivered,
        "kill_age_s": age,
        "expected_release_s": expected,
        "within_expected": within_expected(age, expected),
        "in_kernel": _in_kernel(state, zombie, pending_kill),
        "parent_pid": seen.first("ppid") if seen is not None else None,
        "parent_alive": parent_alive,
        "root_pid": family.root_pid,
        "root_alive": root_alive,
        "orphaned": is_orphan(incident, family, life),
        "orphan_shown": orphan_is_shown(incident, family, life),
        "adopted": was_adopted(life) if life.integer("ppid") is not None else None,
        "older_family": is_older(incident, family),
        "alive_before": alive_before(incident, life),
        "newer_than_actions": newer_than_actions(incident, life),
        "replaces_pid": replaced.pid if replaced is not None else service.killed_pid if service is not None else None,
        "unit": service.unit if service is not None else None,
        "unit_shown": service.shown if service is not None else None,
        "same_command": _same_command(replaced, life) if replaced is not None else None,
        "launcher_pid": launcher.pid if replaced is not None and launcher is not None else None,
        "launcher_name": launcher.title if replaced is not None and launcher is not None else None,
        "inherits_from": heir.dead.pid if heir is not None else None,
        "kept_until_its_end": gave_back is not None,
        "booked_on": heir.dead.pid if heir is not None and heir.booked else None,
        "inherit_proven": heir.proven if heir is not None else None,
        "device_open": bool(seen.open) if seen is not None and seen.open is not None else None,
        "user": life.string("user"),
        "other_tenant": other_tenant(incident, family, life),
        "start_known": life.start_ns is not None,
        "titled_child": family.role(life) in CHILD_ROLES,
        "server_named": family.id in incident.aims.by_server if incident.actions else None,
        "family_first_pid": min(member.pid for member in family.members),
        "log_role": _log_role(incident, life),
        **dying_columns(signs, life, seen, delivered),
        **importer_columns(incident, family, life),
        **broken_columns(incident, life),
        **hidden_columns(incident, life),
        **custody_columns(incident, life, keeper, mps),
        "unlisted_orphan": is_unlisted_orphan(incident, family, life),
        "cites": incident.citations.add_all(
            [
                *_proof(life, proof),
                *broken_citations(incident, life),
                *probe_citations(incident, life),
                *custody_citations(keeper),
                *client_citations(incident, family, life),
            ]
        ),
    }


def _proof(life: Life, extra: list[Citation]) -> list[Citation]:
    return [*life.citations(), *extra[:3]]


def _in_kernel(state: object, zombie: bool | None, pending: bool | None) -> bool | None:
    if state == "D":
        return True
    if zombie is None and state is None:
        return None
    if zombie:
        return False
    return None if pending is None else pending


def within_expected(age: float | None, expected: float | None) -> bool | None:
    """Not later than twice the expected time and two seconds. A size that is not known can only make it longer."""
    if age is None:
        return None
    if age <= 2 * MIN_RELEASE_S + 2:
        return True
    return None if expected is None else age <= 2 * expected + 2


def kill_age(incident: Incident, life: Life) -> float | None:
    """Seconds from the SIGKILL that took it to the newest look."""
    sent, look = incident.killed_at(life), incident.newest(life.host)
    if sent is None or look is None or look.end_ns is None:
        return None
    return max(0.0, (look.end_ns - sent) / SECOND)


def held_before(incident: Incident, life: Life) -> float | None:
    """Memory booked on it in the last earlier look that has it, or in the sampled series."""
    look = incident.newest(life.host)
    for seen in reversed(list(life.sightings.values())):
        if seen.look is not look and seen.bookings:
            figures = [mib for mib in seen.held().values() if mib is not None]
            return sum(figures) if figures else None
    rows = [b for b in incident.parsed.bookings if b.at.look is None and b.pid == life.pid and b.mib is not None]
    return max((row.mib for row in rows if row.mib is not None), default=None)


def _parent_alive(incident: Incident, life: Life) -> bool | None:
    """The parent that started it is alive; a child that an adopter holds has lost it."""
    look = incident.newest(life.host)
    if look is None:
        return None
    parent = incident.kinship.parent(life)
    if parent is not None:
        return incident.census.alive(parent, look)
    if life.born_ppid is None:
        return None
    return incident.census.pid_alive(life.host, life.born_ppid, look) if life.born_ppid > 1 else None


def alive_root(incident: Incident, family: Family) -> bool | None:
    """The root of the family lives; a group leader that a complete process table lacks is dead."""
    if family.root is not None:
        return incident.alive(family.root)
    look = incident.newest(family.host)
    if family.root_pid is None or look is None:
        return None
    return incident.census.pid_alive(family.host, family.root_pid, look)


def is_older(incident: Incident, family: Family) -> bool | None:
    """An earlier server: not what the commands were aimed at, and started before the newest of those."""
    if family.id in incident.aims.targets:
        return False
    reference = [f for f in incident.families if f.id in incident.aims.targets and f.host == family.host]
    if not reference:
        others = [f for f in incident.families if f is not family and f.host == family.host]
        reference = [f for f in others if any(seen.bookings for m in f.members for seen in m.sightings.values())]
    if not reference:
        return False
    starts = [start for f in reference if (start := f.first_start_ns) is not None]
    own = family.first_start_ns
    return own < max(starts) if starts and own is not None else None


def started_again(incident: Incident, life: Life) -> Life | None:
    """Itself or the nearest ancestor that took the place of one that died: a server that is back has all it starts."""
    for above in (life, *islice(incident.kinship.ancestors(life), MAX_DEPTH)):
        if newer_than_actions(incident, above) is not True:
            return None
        if replaces(incident, above) is not None:
            return above
    return None


def replaces(incident: Incident, life: Life) -> Life | None:
    """An earlier process that died, of the same living loop, with the same command or the same amount of memory."""
    if newer_than_actions(incident, life) is not True or incident.alive(life) is not True:
        return None
    parent = incident.kinship.parent(life)
    if parent is None or parent.pid == 1 or incident.alive(parent) is not True or incident.kinship.is_observer(parent):
        return None
    watched = supervision_of(life, incident.kinship, incident.book)
    if parent.integer("pgid") != life.integer("pgid") and watched is None:
        return None  # an interactive shell or a service manager gives each job a group: a person may have started it
    siblings = [one for one in incident.census.lives if incident.kinship.parent(one) is parent]
    dead = [one for one in siblings if one is not life and incident.present(one) is False]
    gone = [one for one in dead if _same_job(incident, one, life)]
    return predecessor(life, gone, [one for one in siblings if newer_than_actions(incident, one) is True])


def _same_command(earlier: Life, later: Life) -> bool | None:
    return earlier.cmdline == later.cmdline if earlier.cmdline and later.cmdline else None


def _same_job(incident: Incident, earlier: Life, later: Life) -> bool:
    if earlier.cmdline and earlier.cmdline == later.cmdline:
        return True
    before, now = held_before(incident, earlier), incident.holds_now(later)
    return before is not None and now is not None and before > 0 and abs(before - now) <= 0.02 * before


def other_tenant(incident: Incident, family: Family, life: Life) -> bool | None:
    """Another user's job, measured against the owner of what the commands were aimed at.

    What the kernel does not let the caller signal is another user's whatever the command was aimed at. Where that
    cannot be told, the callers are the measure, if none of them is root: what they may not end they did not mean.
    """
    if not_permitted(incident, life):
        return True
    if family.id in incident.aims.targets:
        return False
    owners = {f.user for f in incident.families if f.id in incident.aims.targets and f.user is not None}
    owners = owners or _plain_callers(incident, life.host)
    user = life.string("user")
    if not owners or user is None:
        return None
    return user not in owners


def _plain_callers(incident: Incident, host: str) -> set[str]:
    """Who gave the commands on a host, where all are known and none is root or became somebody else (sudo)."""
    actions = [action for action in incident.actions if action.host == host]
    if not all(_is_plain(action) for action in actions):
        return set()
    return {action.caller.user for action in actions if action.caller.user is not None}


def _is_plain(action: ActionView) -> bool:
    caller = action.caller
    users = {step.replay.step.user for step in action.steps}
    return caller.user is not None and caller.is_root is False and users <= {None, caller.user}


def not_permitted(incident: Incident, life: Life) -> bool:
    """Every command that picks it was given by a user who may not signal it, and none that may."""
    answers: list[bool | None] = []
    for action in incident.actions:
        for step in action.steps:
            verdict = step.verdict(life.pid)
            if action.host != life.host or verdict is None or verdict.selected is not True:
                continue
            own = (action.caller.user, life.string("user"))
            refused = life.pid in step.refused or verdict.permitted is False
            answers.append(refused and None not in own and own[0] != own[1])
    return bool(answers) and all(answers)


def _log_role(incident: Incident, life: Life) -> str | None:
    return next((role.role for role in incident.parsed.roles if role.pid == life.pid), None)
