"""The fate ledger: every step of every kill command against every process it could concern."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.model import Citation
from gpudiag.shell.scopes import scopes
from gpudiag.shell.selection import Verdict
from gpudiag.shell.signals import ends_by_default
from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.device_aims import takes_by_device
from gpudiag.timeline.facts.mistaken import mistaken_words
from gpudiag.timeline.facts.rows import Row, about
from gpudiag.timeline.families import Family
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import SIGKILL_BIT, Key, Life
from gpudiag.timeline.order import SECOND
from gpudiag.timeline.orphans import is_orphan
from gpudiag.timeline.presence import alive_then

SIGNALS = {
    1: "HUP",
    2: "INT",
    3: "QUIT",
    6: "ABRT",
    9: "KILL",
    10: "USR1",
    12: "USR2",
    15: "TERM",
    18: "CONT",
    19: "STOP",
}
KILL = 9
START_UP_S = 60
"""Within this time of its start a server may still be loading libraries and have no device open."""


def reach_rows(incident: Incident) -> Iterator[Row]:
    """Rows for every killing step × every member of every family on its host, and PIDs the tool itself named."""
    for action in incident.actions:
        for step in action.steps:
            if step.replay.tool is None:
                continue
            known: set[int] = set()
            for family in incident.families:
                if family.host != action.host:
                    continue
                for life in family.members:
                    known.add(life.pid)
                    if (row := _row(incident, action, step, family, life)) is not None:
                        yield row
            for pid in sorted(step.refused - known):
                yield _unrecorded(incident, action, step, pid)
    yield from mistaken_words(incident)


def _row(
    incident: Incident, action: ActionView, step: StepView, family: Family, life: Life
) -> dict[str, object] | None:
    verdict = step.verdict(life.pid)
    selected = selects(step, life)
    aimed = incident.aims.by_step.get(step.id, frozenset())
    then = alive_then(incident, action, life)
    if then is False and selected is not True:
        return None
    selection = step.replay.selection
    fatal = signal_fatal(step.replay.signal, life)
    delivered, proven, proof = delivery(incident, step, life, selected)
    return about(incident, life) | {
        "step": step.id,
        "step_text": step.replay.step.text,
        "tool": step.replay.tool,
        "signal": signal_name(step.replay.signal),
        "pattern": selection.pattern if selection is not None else None,
        "matched_against": verdict.text if verdict is not None else None,
        "matcher": step.replay.list_from or step.replay.tool,
        "text_from": _text_from(life, selection.against if selection is not None else None),
        "ran": step.replay.ran,
        "ran_proven": step.replay.ran_proven or bool(step.traced),
        "alive_then": then,
        "meant": is_meant(step, life, aimed, selected),
        "selected": selected,
        "permitted": False if life.pid in step.refused else (verdict.permitted if verdict is not None else None),
        "blind": verdict.blind if verdict is not None else None,
        "signal_fatal": fatal,
        "device_open_then": device_open_then(incident, action, step, life),
        "young_then": young_then(action, life),
        "list_from": step.replay.list_from,
        "delivered": delivered,
        "delivered_proven": proven,
        "died": _died(incident, action, life),
        "other_family": life.key not in aimed if aimed else None,
        "wanted": _wanted(incident, action, family, life, aimed),
        "device_tie": device_tie(family, life),
        "scope": ", ".join(scopes(step.replay.step)) or None,
        "orphaned": is_orphan(incident, family, life),
        "missed_mib": incident.holds_now(life),
        "cites": incident.citations.add_all([action.action.cited, *proof, *life.citations()[:2]]),
    }


def _unrecorded(incident: Incident, action: ActionView, step: StepView, pid: int) -> Row:
    """The tool said that it may not signal this PID; nothing else is recorded about the process."""
    return {
        "host": incident.host_id(action.host),
        "pid": pid,
        "step": step.id,
        "step_text": step.replay.step.text,
        "tool": step.replay.tool,
        "signal": signal_name(step.replay.signal),
        "ran": True,
        "ran_proven": True,
        "alive_then": True,
        "meant": True,
        "selected": True,
        "permitted": False,
        "delivered": False,
        "delivered_proven": True,
        "gpus": [],
        "cites": incident.citations.add_all([action.action.cited]),
    }


def signal_name(number: int | None) -> str | None:
    """KILL for 9."""
    return None if number is None else SIGNALS.get(number, str(number))


def selects(step: StepView, life: Life) -> bool | None:
    """The step picks this process: as the kernel recorded it, as the tool said, or by the tool's semantics."""
    if life.pid in step.refused or life.pid in step.failed:
        return True
    if life.pid in step.sent_to:
        return step.sent_to[life.pid]
    if life.pid in step.absent or _found_nobody(step):
        return False
    verdict: Verdict | None = step.verdict(life.pid)
    if verdict is not None:
        return verdict.selected
    selection = step.replay.selection
    if selection is None:
        return None
    if selection.error is not None:
        return False
    return True if life.pid in selection.literal_pids else None


def is_meant(step: StepView, life: Life, aimed: frozenset[Key], selected: bool | None) -> bool | None:
    """The step was meant for this process."""
    if not step.may_end:
        return False
    if life.key in aimed:
        return True
    if takes_by_device(step):
        return False if aimed else None
    return False if aimed else (True if selected else None)


def signal_fatal(signal: int | None, life: Life) -> bool | None:
    """The signal ends this process. A handler may or may not, so a caught signal tells nothing."""
    if signal is None:
        return None
    if signal == KILL:
        return True
    if not ends_by_default(signal):
        return False
    masks = [life.integer(name) for name in ("sig_ignored", "sig_blocked", "sig_caught")]
    if any(mask is None for mask in masks):
        return None
    ignored, blocked, caught = (bool((mask or 0) >> (signal - 1) & 1) for mask in masks)
    if ignored or blocked:
        return False
    return None if caught else True


def young_then(action: ActionView, life: Life) -> bool | None:
    """It had started at most ``START_UP_S`` before the command, at any of the times that the errors leave, or later."""
    if life.start_ns is None or action.earliest_ns is None or action.latest_ns is None:
        return None
    if action.latest_ns - life.start_ns + life.start_error_ns <= START_UP_S * SECOND:
        return True
    return None if action.earliest_ns - life.start_ns - life.start_error_ns <= START_UP_S * SECOND else False


def device_open_then(incident: Incident, action: ActionView, step: StepView, life: Life) -> bool | None:
    """It had a device file open when the step ran.

    A root's ``fuser`` that found nobody says so for everyone, and one that sends SIGKILL for everyone who lives on.
    """
    base = action.world_look
    seen = life.sightings.get(base.id) if base is not None else None
    if seen is not None and seen.open:
        return True
    if action.caller.is_root and _found_nobody(step):
        return False
    if seen is not None and seen.bookings:
        return True
    if seen is not None and seen.open is not None:
        return False
    return False if _spared_by_fuser(incident, action, step, life) else None


def _spared_by_fuser(incident: Incident, action: ActionView, step: StepView, life: Life) -> bool:
    """Root's ``fuser -k`` kills whoever has the files open; who lives on, and is not stuck in the kernel, had not."""
    look = incident.newest(life.host)
    seen = life.sightings.get(look.id) if look is not None else None
    if seen is None or look is None or look.position < action.slot or incident.alive(life) is not True:
        return False
    ran = step.replay.tool == "fuser" and step.replay.signal == KILL and step.replay.ran is True
    pending = seen.first("sig_pending")
    state = seen.first("state")
    stuck = state in (None, "D", "Z") or bool(isinstance(pending, int) and pending & SIGKILL_BIT)
    return ran and not stuck and action.caller.is_root is True and step.replay.step.container is None


def _found_nobody(step: StepView) -> bool:
    """``fuser`` ends with status 1 if nobody it may look at has any of the files open."""
    return step.replay.tool == "fuser" and step.printed_status == 1


def delivery(
    incident: Incident, step: StepView, life: Life, selected: bool | None
) -> tuple[bool | None, bool, list[Citation]]:
    """Whether the signal reached the process, whether that is shown (not only deduced), and by what."""
    if life.pid in step.refused:
        return False, True, step.cites
    if life.pid in step.failed:
        return False, True, []
    if life.pid in step.sent_to:
        return step.sent_to[life.pid], True, step.cites[:4]
    verdict = step.verdict(life.pid)
    if step.replay.ran is False or selected is False:
        return False, False, []
    if selected is None or verdict is None or verdict.permitted is False:
        return (False, False, []) if verdict is not None and verdict.permitted is False else (None, False, [])
    alive = incident.alive(life)
    if alive is False:
        return True, False, life.citations()[:1]
    if step.replay.signal == KILL:
        delivered, proof = incident.kill_delivered(life)
        return (True, True, proof) if delivered else (None, False, [])
    return True, False, []


def _died(incident: Incident, action: ActionView, life: Life) -> bool | None:
    """It is dead in a look that was taken after the command."""
    look = incident.newest(life.host)
    if look is None or look.position < action.slot:
        return None
    alive = incident.alive(life)
    return None if alive is None else not alive


def _wanted(incident: Incident, action: ActionView, family: Family, life: Life, aimed: frozenset[Key]) -> bool | None:
    """Part of something that the command was not meant for, and that runs on or ran until the command."""
    if not aimed:
        return None
    if life.key in aimed:
        return False
    if family.root is not None and incident.alive(family.root) is True:
        return True
    return _ran_until(action, life) and not any(device_tie(family, member) for member in family.members)


def _ran_until(action: ActionView, life: Life) -> bool:
    """The look before the command shows it alive."""
    base = action.world_look
    seen = life.sightings.get(base.id) if base is not None else None
    return seen is not None and seen.in_table and not seen.zombie


def device_tie(family: Family, life: Life) -> bool | None:
    """Something ties it to device memory: a booking, a mapped device, or what an engine calls its own.

    A root that is called a server only because it has children is not tied: that is true of any launcher.
    """
    if life.used_devices:
        return True
    if family.engine is not None and family.role(life) is not None:
        return True
    return False if any(seen.open is not None and not seen.open for seen in life.sightings.values()) else None


def _text_from(life: Life, against: str | None) -> str | None:
    seen = next((s for s in life.sightings.values() if s.rows or s.bookings), None)
    if seen is None:
        return None
    rows = [row for s in life.sightings.values() for row in s.rows if row.text_from != "fuser"]
    if against == "comm" and rows and not any(row.comm for row in rows):
        return "args"  # the comm was taken from the program's name
    best = min((row.text_from for row in rows), key=["proc", "ps"].index, default=None)
    return best or "nvidia-smi"
