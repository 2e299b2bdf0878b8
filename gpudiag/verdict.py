"""From what the rules found to one answer: the outcome of every GPU, and the primary cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpudiag.rules.engine import Match, RuleResult
from gpudiag.timeline.daemons import draws_only, is_daemon
from gpudiag.timeline.facts.baseline import IDLE_MIB, above_baseline
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.families import Family
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.kinship import is_shell
from gpudiag.timeline.ledger import Entry, Ledger
from gpudiag.timeline.lives import Key, Life
from gpudiag.timeline.takeover import takeovers

_PEERS = "GPD213"
HELD, RELEASING, RELEASED, NOTHING, UNCLEAR = "memory_held", "releasing", "released", "nothing_held", "inconclusive"
LEFTOVER_RULES = frozenset({"GPD201", "GPD202", "GPD203", "GPD205", "GPD207", "GPD208", "GPD210", _PEERS})
"""Rules whose finding says that a process was left behind: its memory is part of the problem, aimed at or not."""
OWN_STOP_RULES = frozenset({"GPD206", "GPD208", "GPD209", "GPD212"})
"""Rules whose finding says that somebody keeps the process alive who has a command of their own to end it."""
NOTICEABLE_MIB = 64.0
DESKTOP_MIB = 2 * IDLE_MIB
"""What all that draws on one GPU may hold together and still be no more than a desktop."""

_STUCK, _RESPAWN, _TIMING, _HOLDER, _MISSED, _SURVIVAL, _ASIDE = range(7)
_OTHER_HOLDERS = frozenset({"GPD202", "GPD203", "GPD204", "GPD206", "GPD207", "GPD208", "GPD209", "GPD212"})


def judgement_order(rule: str) -> tuple[int, str]:
    """Place of a rule in the order of judgement (CAUSES): what tells to do something else comes first."""
    if rule == "GPD205":
        return (_RESPAWN, rule)
    if rule in _OTHER_HOLDERS:
        return (_HOLDER, rule)
    if rule == "GPD304":
        return (_ASIDE, rule)  # somebody's new job: whatever survived beside it matters more
    if rule == "GPD210":
        return (_SURVIVAL, "")  # says more than plain survival: whose memory it is
    if rule == "GPD105":
        return (_MISSED, "GPD103+")  # why the list was wrong says more than that it lacked somebody (GPD104)
    group = {"5": _STUCK, "3": _TIMING, "1": _MISSED, "2": _SURVIVAL}.get(rule[3], _ASIDE)
    return (group, rule)


@dataclass(frozen=True)
class Verdict:
    """The judged incident."""

    outcome: str
    gpu_outcomes: dict[str, str]
    family_outcomes: dict[str, str]
    scope: frozenset[Key]
    """Processes whose memory is the problem: those aimed at, and leftovers of the same owner."""
    findings: tuple[Match, ...]
    """Strongest first; the first is the primary one."""
    primary: str | None
    family_primary: dict[str, str]
    results: tuple[RuleResult, ...]


def judge(incident: Incident, results: Sequence[RuleResult], holders: Sequence[Row]) -> Verdict:
    """Order the findings, pick the primary cause, and say how every GPU stands."""
    matches = [match for result in results for match in result.matches]
    scope = scope_of(incident, matches)
    rows = {str(row["process"]): row for row in holders}
    explained = any(explains_held(match) for match in matches if match.rule_id[3] in "15")
    # Heirs of somebody whom the driver lists no more have no size of their own, and hold what nobody else does.
    explained = explained or any(row["unlisted_orphan"] is True for row in holders)
    explained = explained or any(item.proven and item.heirs for item in incident.inherited)
    moved = _moved_to_others(incident, holders)
    gpu_outcomes = {
        gpu.id: HELD
        if gpu.id in moved
        else _gpu_outcome(incident, incident.ledgers.get(gpu.id), scope, rows, matches, explained)
        for gpu in incident.gpus.gpus
    }
    # A GPU that stands under two names, one of them without a figure, is judged by the other.
    doubles = {
        gpu.id for gpu in incident.gpus.gpus if gpu.id not in incident.ledgers and incident.gpus.is_another_name(gpu)
    }
    outcome = overall(answer for gpu, answer in gpu_outcomes.items() if gpu not in doubles)
    findings = _ordered(matches, _beside_the_point(incident, scope, matches))
    return Verdict(
        outcome=outcome,
        gpu_outcomes=gpu_outcomes,
        family_outcomes={f.id: _family_outcome(incident, f, rows, matches) for f in incident.families},
        scope=scope,
        findings=tuple(findings),
        primary=findings[0].rule_id if findings else None,
        family_primary=_family_primaries(incident, findings),
        results=tuple(results),
    )


def _moved_to_others(incident: Incident, holders: Sequence[Row]) -> frozenset[str]:
    """GPUs on which somebody who was not meant has now what one that a command ended had: held as before."""
    took = {row["process"] for row in holders if row["took_over_mib"] is not None and row["other_tenant"] is not True}
    lives = [life for life in incident.census.lives if incident.process_id(life) in took] if took else []
    return frozenset(item.gpu for life in lives for item in takeovers(incident, life))


def scope_of(incident: Incident, matches: Sequence[Match]) -> frozenset[Key]:
    """What was aimed at, and what was left behind by the same owner (the only owner, where nothing was aimed at)."""
    left = set(_left_behind(incident, matches))
    if incident.aims.lives:
        owners = {f.user for f in incident.families if f.id in incident.aims.targets} - {None}
        # A container's processes run as whom its image says; what ties them is the client that was ended.
        by_client = {life.key for life in _left_behind(incident, matches, frozenset({"GPD208"}))}
        ours = {life.key for life in left if life.string("user") in owners or _of_target(incident, life)} | by_client
        return incident.aims.lives | ours | _successors(incident, matches)
    return frozenset(life.key for life in left) if len({life.string("user") for life in left}) == 1 else frozenset()


def _successors(incident: Incident, matches: Iterable[Match]) -> frozenset[Key]:
    """What took the place of a process that was aimed at, whoever owns it."""
    aimed = {(host, pid) for host, pid, *_ in incident.aims.lives}
    rows = {str(row["process"]): row for match in matches if match.rule_id == "GPD205" for row in match.rows}
    lives = [life for f in incident.families for life in f.members if incident.process_id(life) in rows] if rows else []
    took = {life.key: rows[incident.process_id(life) or ""]["replaces_pid"] for life in lives}
    return frozenset(life.key for life in lives if (life.host, took[life.key]) in aimed)


def _of_target(incident: Incident, life: Life) -> bool:
    """Its owner is not known, and it is of a family that was aimed at."""
    return life.string("user") is None and incident.aims.is_target(incident.family_of(life))


def _left_behind(
    incident: Incident, matches: Iterable[Match], rules: frozenset[str] = LEFTOVER_RULES
) -> Iterator[Life]:
    by_id = {incident.process_id(life): life for family in incident.families for life in family.members}
    for match in matches:
        if match.rule_id not in rules:
            continue
        for row in match.rows:
            life = by_id.get(str(row["process"]))
            # A stopped process may be one that somebody suspended on purpose; with its parent gone it is not.
            stays = match.rule_id == "GPD207" and row["adopted"] is not True
            if life is None or stays or incident.was_out_of_reach(life):
                continue
            if match.rule_id != _PEERS:
                yield life
            elif match.certainty != "possible":
                yield from _with_its_launcher(incident, life)


def _with_its_launcher(incident: Incident, rank: Life) -> Iterator[Life]:
    """A rank whose peer is dead, and what started it within its job: left alone, that would wait or start it again."""
    family = incident.family_of(rank)
    above: Life | None = rank
    while above is not None and incident.family_of(above) is family and not is_shell(above):
        yield above
        above = incident.kinship.parent(above)


def explains_held(match: Match) -> bool:
    """It explains memory that is still held (6xx and 9xx never do), if only an amount that no source states."""
    if match.rule_id[3] in "69":
        return False
    return (match.explains_mib or 0) >= 1 or (match.explains_mib is None and any(map(_holds_unmeasured, match.rows)))


def _holds_unmeasured(row: Row) -> bool:
    """A list names the process without a figure; or no list was taken, and it runs as meant with a device open, or is
    left of a killed server."""
    if row.get("holds_mib", 0.0) is not None:
        return False
    if row.get("listed") is True or row.get("unlisted_orphan") is True:
        return True
    return row.get("keeper_alive") is True and row.get("device_open") is True


def _kept_unlisted(incident: Incident, matches: Sequence[Match], ledger: Ledger) -> bool:
    """No list of memory was taken, and on this host a process with a device open runs as it is meant to."""
    host = incident.host_id(ledger.figure.gpu.host)
    kept = (row for match in matches if match.rule_id in OWN_STOP_RULES for row in match.rows)
    return not ledger.list_seen and any(row["host"] == host and _holds_unmeasured(row) for row in kept)


def _beside_the_point(incident: Incident, scope: frozenset[Key], matches: Sequence[Match]) -> list[Match]:
    """Findings about somebody who keeps memory as he is meant to, where the commands were meant for others."""
    ours = {incident.process_id(life) for life in incident.census.lives if life.key in scope}
    own_stop = [match for match in matches if match.rule_id in OWN_STOP_RULES]
    return [match for match in own_stop if incident.aims.lives and not ours.intersection(match.processes)]


def _ordered(matches: Sequence[Match], beside: Sequence[Match]) -> list[Match]:
    strength = {"proven": 0, "inferred": 1, "possible": 2}
    aside = {"4": 0, "6": 1, "9": 2}
    came_back = {"GPD605": 0}

    def key(match: Match) -> tuple[int, int, int, int, str, float]:
        kind = match.rule_id[3]
        if match in beside:
            tier = 1
        elif explains_held(match) and kind != "4":
            tier = 0
        elif kind in aside:
            tier = 1
        else:
            tier = 2
        place, rule = judgement_order(match.rule_id)
        return (
            tier,
            aside.get(kind, 0),
            place,
            came_back.get(match.rule_id, 1),
            rule,
            strength[match.certainty] - (match.explains_mib or 0) / 1e9,
        )

    ordered = sorted(matches, key=key)
    if ordered and ordered[0].certainty == "possible":
        better = [m for m in ordered if explains_held(m) and m.rule_id[3] != "4" and m.certainty != "possible"]
        if better:
            ordered.remove(better[0])
            ordered.insert(0, better[0])
    return ordered


def _family_primaries(incident: Incident, findings: Sequence[Match]) -> dict[str, str]:
    primaries: dict[str, str] = {}
    for family in incident.families:
        own = [m for m in findings if family.id in m.families]
        if own:
            primaries[family.id] = own[0].rule_id
    return primaries


def is_leaving(row: Row | None) -> bool:
    """SIGKILL reached it, it is dying, and it has not taken longer than a release may take."""
    if row is None or row["kill_delivered"] is not True:
        return False
    if row["zombie"] is True:
        return row["within_expected"] is not False
    # A living process with SIGKILL on it is leaving only as long as that can take; after that it is stuck.
    return row["within_expected"] is True


def _gpu_outcome(
    incident: Incident,
    ledger: Ledger | None,
    scope: frozenset[Key],
    rows: dict[str, Row],
    matches: Sequence[Match],
    explained: bool,
) -> str:
    if ledger is None:
        return UNCLEAR
    owned = [entry for entry in ledger.entries if entry.life is not None and entry.mib >= 1]
    if not above_baseline(ledger):
        owned = [entry for entry in owned if entry.life is None or not is_daemon(entry.life)]
    ours = [entry for entry in owned if _in_scope(entry, scope)]
    if ours:
        leaving = [is_leaving(rows.get(_process(incident, entry))) for entry in ours]
        unheld = [entry for entry in ours if entry.kind == "dead_process" and not entry.held_by]
        if unheld and len(unheld) == len(ours):
            return HELD if explained else UNCLEAR
        if not all(leaving):
            return HELD
        others = [entry for entry in owned if entry not in ours]
        return RELEASING if all(_somebody_elses(rows.get(_process(incident, entry))) for entry in others) else UNCLEAR
    if not ledger.list_seen and above_baseline(ledger) and _falls_back(matches, ledger.figure.gpu.id):
        return RELEASING
    unowned = not ledger.list_seen or ledger.total("unattributed") >= NOTICEABLE_MIB
    if (unowned and above_baseline(ledger)) or any(entry.kind == "dead_process" for entry in owned):
        return HELD if explained or _kept_unlisted(incident, matches, ledger) else UNCLEAR
    if owned and all(is_leaving(rows.get(_process(incident, entry))) for entry in owned):
        return RELEASING
    owned = _without_desktop(owned)
    foreign = all(_is_foreign(rows.get(_process(incident, entry))) for entry in owned)
    aimed_here = any(host == ledger.figure.gpu.host for host, *_ in incident.aims.lives)
    if owned and not foreign and not aimed_here:
        return HELD if any(incident.alive(_holder(entry)) for entry in owned) else UNCLEAR
    if any(not _somebody_elses(rows.get(_process(incident, entry))) for entry in owned):
        return UNCLEAR
    back = _came_back(matches, ledger.figure.gpu.id) or _fell_to_idle(incident, ledger)
    if back:
        return RELEASED
    # Not shown to be older than the commands, and nothing shows that the memory was ever free: the same job again?
    known = [row for entry in owned if (row := rows.get(_process(incident, entry))) is not None]
    return NOTHING if all(row["alive_before"] or row["other_tenant"] for row in known) else UNCLEAR


def _without_desktop(owned: list[Entry]) -> list[Entry]:
    """What a desktop draws with is always there; more than it ordinarily needs is somebody's memory like any other."""
    drawing = [entry for entry in owned if entry.life is not None and draws_only(entry.life)]
    if sum(entry.mib for entry in drawing) > DESKTOP_MIB:
        return owned
    return [entry for entry in owned if entry not in drawing]


def _process(incident: Incident, entry: Entry) -> str:
    return incident.process_id(_holder(entry)) or ""


def _is_foreign(row: Row | None) -> bool:
    return row is not None and row["other_tenant"] is True


def _somebody_elses(row: Row | None) -> bool:
    """Shown to be another user's, a running server's, or a job that was started after the commands."""
    if row is None:
        return False
    # A rank beside one that a command picked is of the job that was meant, though its server runs.
    running = row["root_alive"] is True and row["peer_pid"] is None
    return row["other_tenant"] is True or running or row["newer_than_actions"] is True


def _holder(entry: Entry) -> Life:
    life = entry.held_by[0] if entry.held_by else entry.life
    assert life is not None
    return life


def _in_scope(entry: Entry, scope: frozenset[Key]) -> bool:
    owners = [*entry.held_by, *([entry.life] if entry.life is not None else [])]
    return any(life.key in scope for life in owners)


def _fell_to_idle(incident: Incident, ledger: Ledger) -> bool:
    """An earlier look shows this GPU in use, and now it is idle: whose memory that was need not be known."""
    figures = [incident.memory.at_look(ledger.figure.gpu, look.id) for look in incident.looks]
    highest = max((figure for figure in figures if figure is not None), default=0.0)
    return not above_baseline(ledger) and highest - ledger.figure.used_mib >= IDLE_MIB


def _falls_back(matches: Sequence[Match], gpu: str) -> bool:
    """No list names a holder, and the figure of this GPU falls after a SIGKILL that reached its process."""
    shown = [row for match in matches if match.rule_id == "GPD301" for row in match.rows]
    return any(row.get("falling") is True and gpu in (row.get("falling_gpus") or ()) for row in shown)


def _came_back(matches: Sequence[Match], gpu: str) -> bool:
    return any(match.rule_id == "GPD605" and gpu in match.gpus for match in matches)


def _family_outcome(incident: Incident, family: Family, rows: dict[str, Row], matches: Sequence[Match]) -> str:
    holders = [life for life in family.members if (incident.holds_now(life) or 0) >= 1]
    if holders:
        leaving = all(is_leaving(rows.get(incident.process_id(life) or "")) for life in holders)
        return RELEASING if leaving else HELD
    if any(match.rule_id == "GPD605" and family.id in match.families for match in matches):
        return RELEASED
    known = all(incident.holds_now(life) is not None for life in family.members)
    return NOTHING if known else UNCLEAR


def overall(outcomes: Iterable[str]) -> str:
    """One word for all GPUs: what needs action first."""
    seen = set(outcomes)
    for outcome in (HELD, RELEASING, UNCLEAR, RELEASED):
        if outcome in seen:
            return outcome
    return NOTHING if seen else UNCLEAR
