"""Signs that a killed process is still on its way out, beside its state: falling memory, pinned caches, core dumps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpudiag.model import LogEvent
from gpudiag.timeline.commands import StepView
from gpudiag.timeline.facts.baseline import above_baseline
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life, Sighting

NOTICEABLE_MIB = 64.0
LONG_S = 45.0
"""Longer than any release that was measured (26 s with 243 GB of pinned memory)."""
_DUMPING = ("do_coredump", "dump_emit", "dump_user_range", "elf_core_dump", "coredump_wait", "wait_for_dump_helpers")
"""Kernel functions of a core dump, as ``wchan`` shows them."""


@dataclass
class HostSigns:
    """What holds for all killed processes of a host, computed once."""

    incident: Incident
    _falling: dict[str, dict[str, bool]] = field(default_factory=lambda: dict[str, dict[str, bool]]())

    def falling(self, host: str) -> dict[str, bool]:
        """By GPU that is still in use: its figure fell from each look after the command to the next."""
        if host not in self._falling:
            self._falling[host] = _falling(self.incident, host)
        return self._falling[host]


def dying_columns(signs: HostSigns, life: Life, seen: Sighting | None, delivered: bool | None) -> dict[str, object]:
    """Columns of one process."""
    incident = signs.incident
    plain = seen is not None and seen.zombie and seen.live_threads == 0
    late = (slept_s(incident, life) or 0) >= LONG_S and not any(signs.falling(life.host).values())
    wchan = seen.first("wchan") if seen is not None else None
    dumping = seen.first("core_dumping") if seen is not None else None
    falling = signs.falling(life.host) if delivered and not plain else {}
    return {
        "may_hold_mib": _unlisted(incident, life.host) if delivered and not plain and not late else 0.0,
        "falling": any(falling.values()) if falling else None,
        "falling_gpus": [gpu for gpu, falls in falling.items() if falls],
        "host_cache": _host_cache(incident, life.host) if delivered else None,
        "core_dumping": dumping if isinstance(dumping, bool) else True if wchan in _DUMPING else None,
    }


def ended_by_log(incident: Incident) -> Iterator[Row]:
    """A process that only a log knows: it was killed, and afterwards memory was in use that nobody is listed for."""
    for host in incident.hosts():
        look = incident.newest(host)
        for event in incident.log_events(host):
            lives = incident.census.named(host, event.pid or 0)
            known = any(incident.family_of(life) is not None for life in lives)
            if not event.fatal or event.pid is None or known or look is None:
                continue
            later = _still_in_use(incident, host, event)
            unlisted = later.mib if later is not None else None
            if unlisted is None or _somebody_listed(incident, host):
                continue
            yield {
                "host": incident.host_id(host),
                "pid": event.pid,
                "name": event.role,
                "gpus": [],
                "kill_delivered": True,
                "kill_age_s": later.waited_s if later is not None else None,
                "may_hold_mib": unlisted,
                "host_cache": _host_cache(incident, host),
                "cites": incident.citations.add_all([event.cited, *([later.cited] if later is not None else [])]),
            }
            return


def _still_in_use(incident: Incident, host: str, killed: LogEvent) -> LogEvent | None:
    """A later line of the same text says that memory was in use after a wait."""
    for event in incident.log_events(host):
        same = event.cited.input == killed.cited.input and event.cited.member == killed.cited.member
        if event.kind == "still_in_use" and same and (event.cited.line or 0) > (killed.cited.line or 0):
            return event
    return None


def _somebody_listed(incident: Incident, host: str) -> bool:
    return any(incident.booked_now(life) for life in incident.census.lives if life.host == host)


def _unlisted(incident: Incident, host: str) -> float | None:
    """Memory in use above the idle level that no process list was taken for; 0 where there is a list."""
    own = [book for gpu, book in incident.ledgers.items() if incident.gpus.get(gpu).host == host]
    if not own:
        return None
    return sum(book.figure.used_mib for book in own if not book.list_seen and above_baseline(book))


def _falling(incident: Incident, host: str) -> dict[str, bool]:
    """By GPU that is still in use: the figure fell from each look after the command to the next."""
    last = incident.last_effect(host)
    answers: dict[str, bool] = {}
    for gpu, book in incident.ledgers.items():
        if last is None or incident.gpus.get(gpu).host != host or not above_baseline(book):
            continue
        figures = incident.memory.figures_after(incident.gpus.get(gpu), last.slot)
        if len(figures) > 1:
            steps = [later - earlier for earlier, later in itertools.pairwise(figures)]
            answers[gpu] = all(step <= 0 for step in steps) and steps[-1] <= -NOTICEABLE_MIB
    return answers


def _host_cache(incident: Incident, host: str) -> bool | None:
    """A server log says that the server keeps a cache in pinned host memory."""
    return True if any(event.kind == "host_cache" for event in incident.log_events(host)) else None


def slept_s(incident: Incident, life: Life) -> float | None:
    """Without times: how long the command itself waited after its SIGKILL, so at least this long."""
    for action in reversed(incident.actions):
        hit = [n for n, step in enumerate(action.steps) if step.replay.signal == 9 and _picks(step, life)]
        if action.host == life.host and hit:
            return sum(_sleep_s(step) for step in action.steps[hit[-1] + 1 :]) or None
    return None


def _picks(step: StepView, life: Life) -> bool:
    verdict = step.verdict(life.pid)
    return verdict is not None and verdict.selected is True


def _sleep_s(step: StepView) -> float:
    words = [word.text or "" for word in step.replay.step.words]
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)s?", words[1]) if len(words) == 2 and words[0] == "sleep" else None
    return float(match[1]) if match and step.replay.ran is not False else 0.0
