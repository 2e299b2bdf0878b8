"""The plan: exactly which processes to end, in which order, and what to leave alone. It is read off the findings."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gpudiag.next_time import find_next_time
from gpudiag.own_stop import kept_pids, own_stops, why_kept
from gpudiag.ranges import number_ranges
from gpudiag.redact.hint import REDACTED
from gpudiag.redact.redactor import Redactor
from gpudiag.report.contract import KeepEntry, KillEntry, Plan, StopFirst, ThenEntry
from gpudiag.rungs import driver_hangs, rungs, stuck_pids
from gpudiag.shell.printable import quoted
from gpudiag.timeline.daemons import daemon_name, is_daemon, is_desktop, is_of_the_machine
from gpudiag.timeline.facts.gap import COLLECT, lacks, missing_sources
from gpudiag.timeline.facts.holder import alive_root, started_again
from gpudiag.timeline.facts.rows import Row
from gpudiag.timeline.families import Family
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.kinship import is_shell
from gpudiag.timeline.leaving import Expected, expectations
from gpudiag.timeline.lives import Key, Life
from gpudiag.timeline.order import SECOND
from gpudiag.timeline.orphans import CHILD_ROLES
from gpudiag.timeline.shortage import shortage_of
from gpudiag.timeline.supervision import Supervision, supervision_of
from gpudiag.verdict import HELD, NOTHING, RELEASING, UNCLEAR, Verdict, is_leaving

MAX_LOOKED_UP = 32
"""PIDs in one command."""
VERIFY = "nvidia-smi --query-gpu=index,memory.used --format=csv"


@dataclass(frozen=True)
class Candidates:
    """Processes picked for the plan, with the reason of each."""

    life: Life
    family: Family
    row: Row
    because: str
    certainty: str
    frees: float | None


def make_plan(incident: Incident, verdict: Verdict, facts: Mapping[str, Sequence[Row]]) -> Plan:
    """Everything that the person has to do, in order."""
    holders = facts["holder"]
    rows = {str(row["process"]): row for row in holders}
    going = [e for e in expectations(incident).values() if e.will_go and e.life.key in verdict.scope]
    own = kept_pids(incident, verdict)
    picked = [
        c
        for c in _choose(incident, verdict, rows)
        if all(e.life is not c.life for e in going) and c.life.pid not in own
    ]
    stop = [
        *_stop_first(incident, verdict),
        *_supervisors(incident, verdict, picked),
        *own_stops(incident, verdict),
        *_sidecars(incident, verdict),
    ]
    stopped = {pid for pid, _ in stop}
    chosen = [c for c in _without_desktop(picked) if c.life.pid not in stopped]
    chosen.sort(key=lambda c: (c.family.id not in incident.aims.targets, c.family.id, _depth(incident, c), c.life.pid))
    waits = tuple(_wait_for(incident, going))
    kill = tuple(_kill_entry(incident, c, order) for order, c in enumerate(chosen, 1))
    following = find_next_time(incident, kill_command)
    return Plan(
        stop_first=tuple(dict.fromkeys(entry for _, entry in stop)),
        kill=kill,
        keep=tuple(_keep(incident, verdict, {entry.pid for entry in kill} | stopped)),
        then=(
            *waits,
            *_then(incident, verdict, bool(kill or stop or waits), rows),
            *rungs(incident, verdict, facts),
        ),
        next_time=following.command,
        no_next_time=following.because_none,
    )


def _choose(incident: Incident, verdict: Verdict, rows: dict[str, Row]) -> Iterator[Candidates]:
    for family in incident.families:
        picked: dict[Key, Candidates] = {}
        for life in family.members:
            row = rows.get(incident.process_id(life) or "")
            if row is None or not _is_problem(incident, verdict, life) or not _may_be_killed(incident, life, row):
                continue
            reason = _holding(incident, life, row)
            if reason is not None:
                picked[life.key] = Candidates(life, family, row, *reason, incident.holds_now(life))
        for holder in list(picked.values()):
            for above in _engine_parents(incident, family, holder.life):
                row = rows.get(incident.process_id(above) or "")
                if row is None or not (above.key in verdict.scope or row["orphaned"] is True):
                    break  # neither aimed at nor left behind: what started the engine is not part of it
                if above.key in picked or not _may_be_killed(incident, above, row):
                    continue
                why = "it started the processes that hold the memory and would keep or start them again"
                picked[above.key] = Candidates(above, family, row, why, "inferred", 0.0)
        yield from picked.values()


def _without_desktop(picked: list[Candidates]) -> list[Candidates]:
    """A display server or compositor, by its name, is left alone beside anything else, though it computes as well.

    By itself it is judged as any other process: nobody hides behind a name.
    """
    others = [candidate for candidate in picked if not is_desktop(candidate.life)]
    return others or picked


def _is_problem(incident: Incident, verdict: Verdict, life: Life) -> bool:
    """It is in scope itself, or keeps the memory of a dead process that is."""
    heir = incident.inherits_from(life)
    return life.key in verdict.scope or (heir is not None and heir.dead.key in verdict.scope)


def _holding(incident: Incident, life: Life, row: Row) -> tuple[str, str] | None:
    """Why this process is tied to the memory; ``None`` if it is not."""
    holds = row["holds_mib"]
    heir = incident.inherits_from(life)
    if heir is not None:
        shown = (
            "an earlier look shows it as its child" if heir.proven else "it is the only kind of process left that can"
        )
        return (
            f"it still has the device files of the dead {heir.dead.pid} open ({shown})",
            "proven" if heir.proven else "inferred",
        )
    if isinstance(holds, float) and holds >= 1 and _is_reported(incident, life):
        return (f"an out-of-memory message names it with {holds:,.0f} MiB", "inferred")
    if isinstance(holds, float) and holds >= 1:
        return (f"the driver books {holds:,.0f} MiB on it", "proven")
    if row["listed"] is True and holds is None:
        return ("the driver lists it as a holder of device memory", "proven")
    if holds is None and row["device_open"] is True and _maps(incident, life):
        return ("it has the devices mapped; no list of memory was taken", "inferred")
    if row["unlisted_orphan"] is True:
        return (
            "it is left of the server that was ended, and memory is in use; no list tells who holds it",
            "inferred",
        )
    return None


def _is_reported(incident: Incident, life: Life) -> bool:
    look = incident.newest(life.host)
    return look is not None and look.id in life.sightings and life.sightings[look.id].reported


def _maps(incident: Incident, life: Life) -> bool:
    look = incident.newest(life.host)
    seen = life.sightings.get(look.id) if look is not None else None
    return seen is not None and bool(seen.mapped)


def _may_be_killed(incident: Incident, life: Life, row: Row) -> bool:
    """Alive, not already killed, not shielded, and not a job that somebody started after the clean-up."""
    if is_leaving(row) or row["kill_delivered"] is not False or shielded(incident, life) or _in_doubt(incident, life):
        return False
    if row["alive_now"] is False or row["other_tenant"] is True or _seen_before_the_end(incident, life.host):
        return False
    if row["zombie"] is True and not (row["live_threads"] and row["kill_delivered"] is False):
        return False
    if row["newer_than_actions"] is True and row["replaces_pid"] is None and incident.inherits_from(life) is None:
        return False
    return row["alive_now"] is True


def _seen_before_the_end(incident: Incident, host: str) -> bool:
    """The newest look is older than the last command: who is left of those it shows, nothing tells."""
    look, last = incident.newest(host), incident.last_effect(host)
    return look is not None and last is not None and last.slot > look.position


def _in_doubt(incident: Incident, life: Life) -> bool:
    """A command later than the newest look may have reached it: what that look shows may be gone."""
    look = incident.newest(life.host)
    later = [a for a in incident.actions if a.host == life.host and look is not None and a.slot > look.position]
    return any((v := step.verdict(life.pid)) is not None and v.selected is not False for a in later for step in a.steps)


def shielded(incident: Incident, life: Life) -> str | None:
    """Why a process is never in the plan, or ``None``."""
    if life.pid == 1:
        return "PID 1: the machine or container lives in it"
    if life.latest("kernel_thread") is True:
        return "a kernel thread"
    if incident.kinship.is_observer(life):
        return "an ancestor of the tool that looked"
    if is_daemon(life):
        return f"{daemon_name(life)} belongs to the system"
    return None


def _engine_parents(incident: Incident, family: Family, life: Life) -> Iterator[Life]:
    """The unbroken line of living ancestors within the family, nearest first.

    It ends at a shell (whoever typed or scripted the start is no part of the engine) and at a client of NVML that only
    looks.
    """
    above = incident.kinship.parent(life)
    while above is not None and incident.family_of(above) is family and incident.alive(above) is True:
        if is_shell(above) or incident.is_monitor(above):
            return
        yield above
        above = incident.kinship.parent(above)


def _depth(incident: Incident, candidate: Candidates) -> int:
    """Distance from the root: parents go first, so that nothing is started again."""
    depth, above = 0, incident.kinship.parent(candidate.life)
    while above is not None and incident.family_of(above) is candidate.family:
        depth, above = depth + 1, incident.kinship.parent(above)
    return depth


def _kill_entry(incident: Incident, candidate: Candidates, order: int) -> KillEntry:
    life = candidate.life
    family = candidate.family
    # An engine whose server is dead comes first in what is left, and is no server: it has nothing to finish.
    root = family.root is life and alive_root(incident, family) is True and family.role(life) not in CHILD_ROLES
    boot_id = incident.boot_id(life.host)
    # A process whose core is being dumped handles no signal any more; SIGKILL ends the dump.
    deaf = candidate.row["zombie"] is True or candidate.row["core_dumping"] is True
    signal = "TERM" if root and not deaf else "KILL"
    return KillEntry(
        process=incident.process_id(life) or "",
        pid=life.pid,
        start_time=rfc3339(life.start_ns),
        start_ticks=life.start_ticks,
        boot_id=boot_id,
        identity="strong" if boot_id is not None and life.start_ticks is not None else "weak",
        name=life.title,
        signal=signal,
        order=order,
        frees_mib=candidate.frees,
        certainty=candidate.certainty,
        because=candidate.because,
        check=still_this_process(incident, life),
        command=kill_command(incident, life, signal),
        run_in=incident.run_in(life.host),
        host=incident.host_id(life.host),
    )


def kill_command(incident: Incident, life: Life, signal: str) -> str:
    """A command that checks, before it kills, that the PID is still this process, and says so if it is not."""
    pid = life.pid
    return f"{still_this_process(incident, life)} && kill -{signal} {pid} || echo '{pid}: not killed' >&2"


def still_this_process(incident: Incident, life: Life) -> str:
    """A shell condition that fails when the PID has gone to another process, or the machine has started anew."""
    checks = [_boot_check(incident, life), identity_check(life)]
    if life.start_ticks is None and (incident.booked_now(life) or incident.inherits_from(life) is not None):
        checks.append(f"ls -l /proc/{life.pid}/task/*/fd 2>/dev/null | grep -q /dev/nvidia")
    return " && ".join(filter(None, checks))


def _boot_check(incident: Incident, life: Life) -> str | None:
    """Start ticks count from boot: after a reboot another process may have the same PID and the same ticks."""
    boot_id = incident.boot_id(life.host)
    if boot_id is None or life.start_ticks is None:
        return None
    return f'[ "$(cat /proc/sys/kernel/random/boot_id)" = {quoted(boot_id)} ]'


def identity_check(life: Life) -> str:
    """The start time where it is known; else the recorded command line, else what nvidia-smi printed of it."""
    pid = life.pid
    if life.start_ticks is not None:
        ticks = f"$(tr '\\n' ' ' </proc/{pid}/stat | sed 's/.*) //' | cut -d' ' -f20)"
        return f'[ "{ticks}" = {life.start_ticks} ]'
    if _last_seen_dead(life) and life.comm:  # a dead leader has no command line left, only its comm
        return f'[ "$(cat /proc/{pid}/comm)" = {quoted(life.comm)} ]'
    # A title fills the rest of its old command line with NULs, so blanks at the end say nothing.
    line = f"\"$(tr '\\0\\n' '  ' </proc/{pid}/cmdline | sed 's/ *$//')\""
    recorded, cut = life.recorded_cmdline
    if recorded:
        return _same_command_line(line, recorded if cut else recorded.rstrip(), cut=cut)
    name = life.booked_name or life.program
    if not name:
        return "false"
    if life.booked_name is None and name == life.comm:  # fuser and lsof print the comm, and no command line
        return f'[ "$(cat /proc/{pid}/comm)" = {quoted(name)} ]'
    if name.startswith("..."):  # nvidia-smi's table keeps the end of a long path
        return f"case {line} in *{quoted(name[3:])}|*{quoted(name[3:] + ' ')}*) :;; *) false;; esac"
    return f"case {line} in {quoted(name)}|{quoted(name + ' ')}*) :;; *) false;; esac"


def _same_command_line(line: str, recorded: str, *, cut: bool) -> str:
    """Compares with what was recorded, except where a secret stood: it goes into no command that is pasted around."""
    pieces = Redactor().row(recorded).split(REDACTED)
    if len(pieces) == 1 and not cut:
        return f"[ {line} = {quoted(recorded)} ]"
    pattern = "*".join(quoted(piece) if piece else "" for piece in pieces)
    return f"case {line} in {pattern}{'*' if cut else ''}) :;; *) false;; esac"


def _last_seen_dead(life: Life) -> bool:
    """Its newest sighting shows a dead leader."""
    return bool(life.sightings) and list(life.sightings.values())[-1].zombie


def rfc3339(time_ns: int | None) -> str | None:
    """A time as the report writes it."""
    if time_ns is None:
        return None
    return datetime.fromtimestamp(time_ns / SECOND, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _stop_first(incident: Incident, verdict: Verdict) -> Iterator[tuple[int, StopFirst]]:
    """What brings the memory back is stopped before anything is killed."""
    done: set[int] = set()
    yield from _batch_jobs(verdict)
    for match in verdict.findings:
        if match.rule_id != "GPD205" or verdict.outcome != HELD:
            continue
        for row in match.rows:
            if isinstance(row["unit"], str) and isinstance(row["pid"], int):
                yield row["pid"], _stop_unit(row["unit"])
                continue
            stop = _stop_what_restarts(incident, row)
            if stop is not None and stop[0] not in done:
                done.add(stop[0])
                yield stop


def _stop_what_restarts(incident: Incident, row: Row) -> tuple[int, StopFirst] | None:
    """The PID that is stopped, and how; ``None`` where the parent is gone, or is never touched."""
    pid = row["launcher_pid"]
    lives = incident.census.named(_host_of(incident, row), pid) if isinstance(pid, int) else []
    living = [life for life in lives if incident.alive(life)]
    if not living:
        return None
    child = next((one for one in incident.census.lives if incident.process_id(one) == row["process"]), None)
    again = started_again(incident, child) if child is not None else None
    watched = supervision_of(again, incident.kinship, incident.book) if again is not None else None
    if watched is not None and (watched.own_command or shielded(incident, watched.parent) is None):
        return _stop_supervised(incident, watched)
    if shielded(incident, living[-1]) is not None:
        return None
    kind = "shell_loop" if is_shell(living[-1]) else "launcher"
    command = kill_command(incident, living[-1], "TERM")
    place = incident.run_in(living[-1].host)
    return living[-1].pid, StopFirst(kind=kind, id=str(living[-1].pid), command=command, run_in=place)


def _supervisors(incident: Incident, verdict: Verdict, picked: Sequence[Candidates]) -> Iterator[tuple[int, StopFirst]]:
    """Parents that would start again what is about to be killed: by their own command, or if it harms nobody else."""
    keys = {candidate.life.key for candidate in picked}
    for candidate in picked:
        watched = supervision_of(candidate.life, incident.kinship, incident.book)
        if watched is None or incident.alive(watched.parent) is not True:
            continue
        if watched.own_command is None:
            parent = watched.parent
            others = [one for one in incident.census.lives if incident.kinship.parent(one) is parent]
            spared = [one for one in others if one.key not in keys and incident.holds_now(one)]
            if shielded(incident, parent) is not None or (spared and parent.key not in verdict.scope):
                continue
        yield _stop_supervised(incident, watched)


def _sidecars(incident: Incident, verdict: Verdict) -> Iterator[tuple[int, StopFirst]]:
    """A sidecar that keeps a dead server's memory and works for nobody else there: its own service starts it anew."""
    matches = [match for match in verdict.findings if match.rule_id == "GPD204" and match.certainty != "possible"]
    rows = [row for match in matches for row in match.rows if verdict.outcome == HELD]
    for row in rows:
        life = next((one for one in incident.census.lives if incident.process_id(one) == row["process"]), None)
        if life is None or not row["holds_mib"] or row["sole_holder"] is not True or incident.alive(life) is not True:
            continue
        if row["role"] != "sidecar":
            continue  # another engine or a job that has it mapped: its owner decides
        if shielded(incident, life) is None:
            command = kill_command(incident, life, "TERM")
            place = incident.run_in(life.host)
            yield life.pid, StopFirst(kind="sidecar", id=str(life.pid), command=command, run_in=place)


def _stop_supervised(incident: Incident, watched: Supervision) -> tuple[int, StopFirst]:
    """The PID that is stopped, and how."""
    own = watched.own_command
    target = watched.child if own is not None else watched.parent
    command = own if own is not None else kill_command(incident, watched.parent, "TERM")
    place = incident.run_in(target.host)
    return target.pid, StopFirst(kind=watched.law.kind, id=str(target.pid), command=command, run_in=place)


def _batch_jobs(verdict: Verdict) -> Iterator[tuple[int, StopFirst]]:
    """The job whose client was hit is ended by its own batch system, which reaches every node of it."""
    rows = [row for match in verdict.findings if match.rule_id == "GPD110" for row in match.rows]
    jobs = {str(row["job"]): row for row in rows if row["tie"] == "job" and isinstance(row["pid"], int)}
    for job, row in jobs.items():
        command = f"scancel --signal=TERM {shlex.quote(job)}"
        yield int(str(row["pid"])), StopFirst(kind="slurm", id=job, command=command, run_in="host")


def _stop_unit(unit: str) -> StopFirst:
    """All processes of the unit end with it: they need no command of their own."""
    return StopFirst(kind="systemd", id=unit, command=f"sudo systemctl stop -- {shlex.quote(unit)}", run_in="host")


def _host_of(incident: Incident, row: Row) -> str:
    return next(host for host in incident.hosts() if incident.host_id(host) == row["host"])


def _keep(incident: Incident, verdict: Verdict, planned: set[int]) -> Iterator[KeepEntry]:
    kept = why_kept(incident, verdict)
    recording = {pid for recorder in incident.parsed.recorders for pid in recorder.pids}
    for life in incident.census.lives:
        process = incident.process_id(life)
        if process is None or life.pid in planned or incident.alive(life) is not True:
            continue
        if life.born_ppid in recording:
            continue  # what the collector itself started has ended with it
        family = incident.family_of(life)
        because = shielded(incident, life)
        if incident.is_monitor(life):
            because = "it has the devices open to read figures and holds no device memory"
        elif because is None and life.pid in kept:
            because = kept[life.pid]
        elif because is None and is_desktop(life) and incident.holds_now(life):
            because = f"{life.program} is the desktop of its user, by its name, and would take the session with it"
        elif because is None and family is not None and life.key not in verdict.scope and incident.holds_now(life):
            stuck = life.pid in stuck_pids(verdict)
            because = "stuck inside the kernel: a signal changes nothing" if stuck else _why_kept(incident, family)
        if because is not None:
            yield KeepEntry(process=process, pid=life.pid, name=life.title, because=because)


def _why_kept(incident: Incident, family: Family) -> str:
    owners = {f.user for f in incident.families if f.id in incident.aims.targets} - {None}
    if owners and family.user is not None and family.user not in owners:
        return f"it belongs to another user ({family.user})"
    if alive_root(incident, family) is True and not incident.aims.is_target(family):
        return "it is part of a running job that no command was aimed at"
    if alive_root(incident, family) is True:
        return "a command was meant for another process of its job; whether the job is to end, only its owner can say"
    return "nothing shows that it belongs to what was to be stopped; ask its owner"


def _then(incident: Incident, verdict: Verdict, acts: bool, rows: dict[str, Row]) -> Iterator[ThenEntry]:
    dying = [row for match in verdict.findings if match.rule_id == "GPD301" for row in match.rows]
    leaving = [row for row in rows.values() if is_leaving(row) and (row["holds_mib"] or 0)]
    if leaving or dying:
        yield _wait(leaving or dying, sure=bool(leaving) or verdict.outcome == RELEASING)
    if acts or verdict.outcome in (RELEASING,):
        yield ThenEntry(kind="verify", command=VERIFY, because="only the figure shows that the memory came back")
    yield from _unseen_parents(incident, rows)
    foreign = [match for match in verdict.findings if match.rule_id == "GPD602"]
    if foreign and not acts and verdict.outcome == NOTHING:
        because = "what is in use is another user's: only they can say whether it may end"
        yield ThenEntry(kind="ask_owner", command=None, because=because)
    if not acts and verdict.outcome in (HELD, UNCLEAR) and not leaving:
        yield from _look_again(incident)
        yield from _look_up(incident)
        yield from _collect(incident, answers=not driver_hangs(verdict))
        if _somebody_holds(incident, stuck_pids(verdict)):
            yield ThenEntry(
                kind="ask_owner",
                command=None,
                because="living processes hold the memory, and nothing shows whose to stop",
            )


def _wait_for(incident: Incident, going: Sequence[Expected]) -> Iterator[ThenEntry]:
    """Those that leave by themselves, for each reason; one that is known to hold nothing is not waited for."""
    holding = [expected for expected in going if _may_hold(incident, expected.life)]
    for because in dict.fromkeys(expected.fate.because for expected in holding):
        own = [expected for expected in holding if expected.fate.because == because]
        seconds = max(1, math.ceil(max(expected.left_s or 0 for expected in own)))
        pids = number_ranges(sorted(expected.life.pid for expected in own))
        yield ThenEntry(
            kind="wait",
            command=f"sleep {seconds}; {VERIFY}",
            because=f"{pids} should leave without help within {seconds} s: {because}",
        )


def _may_hold(incident: Incident, life: Life) -> bool:
    """It holds memory; or nobody listed the holders, and it is not one of those of an engine that open no device."""
    holds, family = incident.holds_now(life), incident.family_of(life)
    role = family.role(life) if family is not None else None
    return holds > 0 if holds is not None else role not in ("helper", "tracker")


def _unseen_parents(incident: Incident, rows: dict[str, Row]) -> Iterator[ThenEntry]:
    """Workers whose parent no source shows: it holds no device memory, so no list of nvidia-smi ever names it."""
    for family in incident.families:
        shown = [row for row in rows.values() if row["family"] == family.id and row["role"] == "worker"]
        alone = [row for row in shown if row["parent_pid"] is None and row["listed"] is True]
        if family.id not in incident.aims.targets or not alone or family.parent_title is None:
            continue
        pids = ",".join(str(row["pid"]) for row in alone)
        yield ThenEntry(
            kind="collect",
            command=f"ps -o pid,ppid,pgid,stat,args -p {pids}",
            because=(
                f"their parent ({family.parent_title} in {family.engine}) is probably alive as well; it holds no GPU "
                "memory and is not in this evidence, the PPID column names it"
            ),
        )


def _wait(leaving: Sequence[Row], *, sure: bool) -> ThenEntry:
    expected = [row["expected_release_s"] for row in leaving if isinstance(row["expected_release_s"], float)]
    seconds = f"about {max(expected):.0f} s" if expected else "up to half a minute"
    pids = number_ranges(sorted(row["pid"] for row in leaving if isinstance(row["pid"], int)))
    takes = "takes" if sure else "may take"
    return ThenEntry(
        kind="wait",
        command=f"sleep {max(1, round(max(expected))) if expected else 30}; {VERIFY}",
        because=f"SIGKILL has reached {pids}; giving the memory back {takes} {seconds} in all",
    )


def _look_again(incident: Incident) -> Iterator[ThenEntry]:
    if any(_seen_before_the_end(incident, host) for host in incident.hosts()):
        commands = "; ".join(command for source, command in COLLECT.items() if source != "kill commands")
        because = "the newest look is older than the last command: only another look shows what is left"
        yield ThenEntry(kind="collect", command=commands, because=because)


def _look_up(incident: Incident) -> Iterator[ThenEntry]:
    """PIDs that a log names: a number that may have been given out again, so it is looked up and not killed."""
    for host in incident.hosts():
        short = shortage_of(incident, host)
        pids = sorted(short.holders) if short is not None else []
        if pids:
            listed = ",".join(map(str, pids[:MAX_LOOKED_UP]))
            yield ThenEntry(
                kind="collect",
                command=f"ps -o pid,ppid,pgid,sid,user,stat,lstart,args -p {listed}",
                because="a server's out-of-memory message names these PIDs as holders; who they are now, ps says",
            )


def _collect(incident: Incident, *, answers: bool) -> Iterator[ThenEntry]:
    """What is missing; while the driver does not answer, one more query is one more process that hangs."""
    left_out = {"kill commands"} if answers else {"kill commands", "gpu memory", "compute processes"}
    wanted = [(host, s) for host in incident.hosts() for s in missing_sources(incident, host) if s not in left_out]
    if wanted:
        commands = "; ".join(dict.fromkeys(COLLECT[source] for _, source in wanted))
        words = dict.fromkeys(lacks(incident, host, source) for host, source in wanted)
        yield ThenEntry(kind="collect", command=commands, because=f"this evidence lacks: {', '.join(words)}")


def _somebody_holds(incident: Incident, stuck: frozenset[int]) -> bool:
    lives = [entry.life for ledger in incident.ledgers.values() for entry in ledger.entries]
    living = [life for life in lives if life is not None and incident.alive(life) is not False]
    return any(life.pid not in stuck and not is_of_the_machine(life) for life in living)
