"""Stops by the command of whoever keeps a process alive: a container, a service, an engine's pool, MPS.

A keeper may keep other people's work, too. So its command is given only for what the clean-up was about: processes in
scope; or, where no command was aimed at anything, the one keeper that accounts for every job there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpudiag.report.contract import StopFirst
from gpudiag.timeline.custody import custody_of
from gpudiag.timeline.daemons import is_of_the_machine
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life
from gpudiag.verdict import HELD, OWN_STOP_RULES, Verdict

MPS_RULE = "GPD206"
_EVERY_SERVER = (
    "for server in $(echo get_server_list | nvidia-cuda-mps-control); do "
    'echo "terminate_client $server {pid}" | nvidia-cuda-mps-control; done'
)


def own_stops(incident: Incident, verdict: Verdict) -> Iterator[tuple[int, StopFirst]]:
    """PID of a kept process, and the command that ends it."""
    if verdict.outcome != HELD:
        return
    kept = [*_kept(incident, verdict)]
    meant = [item for item in kept if item[0].key in verdict.scope]
    if not meant and not incident.actions and _is_all_there_is(incident, kept):
        meant = [item for item in kept if item[1] != MPS_RULE or _lost_its_parent(item[0])]
    for life, rule, row in meant:
        stop = _mps(life, row) if rule == MPS_RULE else _by_keeper(incident, life)
        if stop is not None:
            yield life.pid, stop


def kept_pids(incident: Incident, verdict: Verdict) -> frozenset[int]:
    """Whoever is ended by its keeper's own command first, and by its PID only if that failed."""
    return frozenset(life.pid for life, _, _ in _kept(incident, verdict))


def why_kept(incident: Incident, verdict: Verdict) -> Mapping[int, str]:
    """By PID: what keeps it, for those that the plan leaves alone."""
    return {life.pid: _reason(incident, life, rule) for life, rule, _ in _kept(incident, verdict)}


def _kept(incident: Incident, verdict: Verdict) -> Iterator[tuple[Life, str, Row]]:
    by_id = {incident.process_id(life): life for family in incident.families for life in family.members}
    for match in verdict.findings:
        if match.rule_id in OWN_STOP_RULES:
            for row in match.rows:
                life = by_id.get(str(row["process"]))
                if life is not None and not is_of_the_machine(life):
                    yield life, match.rule_id, row


def _is_all_there_is(incident: Incident, kept: Sequence[tuple[Life, str, Row]]) -> bool:
    """One keeper, one owner, and no other process that holds memory or may hold it."""
    keepers = {(str(row["kept_by"]), str(row["kept_as"])) if rule != MPS_RULE else ("mps", "") for _, rule, row in kept}
    owners = {life.string("user") for life, _, _ in kept}
    keys = {life.key for life, _, _ in kept}
    others = [life for life in incident.census.lives if life.key not in keys and _may_hold(incident, life)]
    return len(keepers) == 1 and len(owners) == 1 and not others


def _may_hold(incident: Incident, life: Life) -> bool:
    if is_of_the_machine(life) or incident.alive(life) is False:
        return False
    if incident.booked_now(life):
        return True
    look = incident.newest(life.host)
    seen = life.sightings.get(look.id) if look is not None else None
    return seen is not None and bool(seen.mapped) and not incident.list_seen(life.host)


def _lost_its_parent(life: Life) -> bool:
    return life.integer("ppid") == 1


def _by_keeper(incident: Incident, life: Life) -> StopFirst | None:
    keeper = custody_of(incident, life)
    if keeper is None or keeper.command is None:
        return None
    return StopFirst(kind=keeper.kind, id=keeper.name, command=keeper.command, run_in="host")


def _mps(life: Life, row: Row) -> StopFirst:
    server = row["mps_server_pid"]
    command = (
        f'echo "terminate_client {server} {life.pid}" | nvidia-cuda-mps-control'
        if isinstance(server, int)
        else _EVERY_SERVER.format(pid=life.pid)
    )
    return StopFirst(kind="mps", id=str(life.pid), command=command, run_in="host")


def _reason(incident: Incident, life: Life, rule: str) -> str:
    if rule == MPS_RULE:
        return "a client of the multi-process service: it is ended through nvidia-cuda-mps-control, not by its PID"
    keeper = custody_of(incident, life)
    if keeper is None:
        return "somebody keeps it alive on purpose"
    by = f"; {keeper.command} ends it if it is yours and no longer wanted" if keeper.command is not None else ""
    return f"{keeper.kind} {keeper.name} keeps it as it is meant to{by}"
