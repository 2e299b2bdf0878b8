"""Whether a server was still starting when the command came that was aimed at it."""

from __future__ import annotations

from gpudiag.model import LogEvent
from gpudiag.timeline.commands import ActionView
from gpudiag.timeline.families import GENERAL, Family
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life

_UNTITLED = "it still ran under the command line with which Python starts any child; its engine gives it a title later"
_UNFINISHED = "the log shows the model being loaded, and no complete start before the command"


class StartUps:
    """What is known of the start of each family's server, computed once."""

    def __init__(self, incident: Incident) -> None:
        self._incident = incident
        self._actions: dict[str, ActionView | None] = {}
        self._loading: dict[str, tuple[bool | None, bool]] = {}
        self._titled: dict[str, bool] = {}

    def columns(self, family: Family, life: Life) -> dict[str, object]:
        """Columns of one process; null where neither a log nor a change of its command line tells."""
        if family.id not in self._actions:
            self._actions[family.id] = _first_action_on(self._incident, family)
        action = self._actions[family.id]
        if action is None:
            return {"starting_then": None, "starting_how": None, "starting_shown": None}
        if self._had_no_title(family, life, action):
            return {"starting_then": True, "starting_how": _UNTITLED, "starting_shown": True}
        if family.id not in self._loading:
            self._loading[family.id] = _was_loading(self._incident, family, action)
        loading, dated = self._loading[family.id]
        return {
            "starting_then": loading,
            "starting_how": _UNFINISHED if loading else None,
            "starting_shown": dated if loading else None,
        }

    def _had_no_title(self, family: Family, life: Life, action: ActionView) -> bool:
        """The last look before the command shows it as a plain spawned child, in a server that titles its processes."""
        before = [
            seen for seen in life.sightings.values() if seen.look.position < action.slot and seen.first("cmdline")
        ]
        line = before[-1].first("cmdline") if before else None
        book = self._incident.book
        if not isinstance(line, str) or book.role_of(None, line) not in {(name, "worker") for name in GENERAL}:
            return False
        if family.id not in self._titled:
            titles = (book.role_of(member.comm, member.cmdline) for member in family.members)
            own = {(family.engine, role) for role in ("engine", "worker")}
            self._titled[family.id] = any(title in own for title in titles)
        return self._titled[family.id]


def _first_action_on(incident: Incident, family: Family) -> ActionView | None:
    """The first command that was aimed at some of the family."""
    members = {life.key for life in family.members}
    own = (action for action in incident.actions if action.host == family.host)
    return next((a for a in own if any(members & incident.aims.by_step.get(s.id, frozenset()) for s in a.steps)), None)


def _was_loading(incident: Incident, family: Family, action: ActionView) -> tuple[bool | None, bool]:
    """Whether it was, and whether a dated line shows that: some servers are told not to print their complete start.

    By the lines of the family's own processes; those without a PID count where there is no other engine.
    """
    engines = [one for one in incident.families if one.host == family.host and one.engine is not None]
    pids: set[int | None] = {*(life.pid for life in family.members), family.root_pid}
    pids |= {None} if engines == [family] else set()
    events = [event for event in incident.log_events(family.host) if event.pid in pids]
    begun = [event for event in events if event.kind == "loading" and not event.picked]
    if not begun:
        return None, False
    first = begun[0]
    done = [one for one in incident.log_events(family.host) if _follows(one, first) and one.pid in {*pids, None}]
    if not done:
        return True, False
    late = _complete_after(done[0], action)
    return late, late is True


def _follows(event: LogEvent, first: LogEvent) -> bool:
    """A complete start that stands further down in the same log."""
    same = (event.cited.input, event.cited.member) == (first.cited.input, first.cited.member)
    return event.kind == "startup_complete" and same and (event.cited.line or 0) > (first.cited.line or 0)


def _complete_after(done: LogEvent, action: ActionView) -> bool | None:
    """Without a time of both, a line that the server wrote stands for a time before its end."""
    if done.time_ns is None or action.earliest_ns is None or action.latest_ns is None:
        return False
    if done.time_ns - done.time_error_ns > action.latest_ns:
        return True
    return False if done.time_ns + done.time_error_ns <= action.earliest_ns else None
