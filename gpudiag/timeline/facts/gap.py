"""Classes of evidence that the newest look lacks, and the one command that gets each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudiag.timeline.facts.baseline import above_baseline
from gpudiag.timeline.facts.gpu import handles_complete
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.shortage import shortage_of

COLLECT = {
    "gpu memory": "nvidia-smi --query-gpu=index,uuid,memory.total,memory.reserved,memory.used --format=csv",
    "compute processes": "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv",
    "process table": "ps -eo pid,ppid,pgid,sid,user:20,stat,lstart,etimes,nlwp,wchan:24,comm,args",
    "open handles": "sudo fuser -v /dev/nvidia*",
    "kill commands": "gpudiag explain INPUT --kill 'THE COMMAND' --at TIME",
}
NEEDED_FOR = {
    "gpu memory": ["GPD301", "GPD502", "GPD504", "GPD601", "GPD604", "GPD605"],
    "compute processes": ["GPD101", "GPD201", "GPD202", "GPD401", "GPD402"],
    "process table": ["GPD201", "GPD202", "GPD203", "GPD210", "GPD501", "GPD902"],
    "open handles": ["GPD202", "GPD503", "GPD505"],
    "kill commands": ["GPD101", "GPD102"],
}


def gap_rows(incident: Incident, cause_found: bool) -> Iterator[Row]:
    """One row a host and missing class."""
    for host in incident.hosts():
        held = memory_held(incident, host)
        for source in missing_sources(incident, host):
            yield {
                "host": incident.host_id(host),
                "gpus": [],
                "source": source,
                "lacks": lacks(incident, host, source),
                "needed_for": NEEDED_FOR[source],
                "collect": COLLECT[source],
                "memory_held": held,
                "cause_found": cause_found,
                "cites": [],
            }


def missing_sources(incident: Incident, host: str) -> Sequence[str]:
    """What is missing on one host, the most telling first."""
    look = incident.newest(host)
    missing: list[str] = []
    if not any(incident.gpus.get(gpu).host == host for gpu in incident.ledgers):
        missing.append("gpu memory")
    if not incident.list_seen(host):
        missing.append("compute processes")
    if look is None or not incident.census.sees_everybody(look):
        missing.append("process table")
    if look is None or handles_complete(incident, look) is None:
        missing.append("open handles")
    if incident.last_action(host) is None:
        missing.append("kill commands")
    return missing


def lacks(incident: Incident, host: str, source: str) -> str:
    """The missing class in words: of what was read in part, or only before, a reader would think that it is there."""
    look = incident.newest(host)
    read = [seen for seen in incident.parsed.coverage if seen.at.host == host and seen.source == source]
    looks = {seen.at.look for seen in read if seen.outcome in ("ok", "truncated")}
    if not looks or look is None:
        return source
    return f"{source} (read in part)" if look.id in looks else f"{source} (none in the newest look)"


def memory_held(incident: Incident, host: str) -> bool | None:
    """Some GPU of the host is above its idle level, or a start failed for lack of memory; ``None`` without either."""
    if shortage_of(incident, host) is not None:
        return True
    own = [ledger for gpu, ledger in incident.ledgers.items() if incident.gpus.get(gpu).host == host]
    return any(above_baseline(ledger) for ledger in own) if own else None
