"""Commands that took effect where the holder is not: a client was hit, or a PID typed in the wrong place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.facts.rows import Row, about
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life

CLIENTS = frozenset({"srun", "ssh", "mpirun", "mpiexec", "prun", "pdsh", "clush", "kubectl", "oc"})
"""Programs whose own process is here while what they started runs on another host."""
_JOB = re.compile(r"(?:\A|\s)--jobid[= ](?P<job>\d{1,10})(?=\s|\Z)")
_STEP_DAEMON = re.compile(r"\Aslurmstepd: \[(?P<job>\d{1,10})[.\]]")
_TEXT_CAP = 8192
_ROWS_CAP = 500


def elsewhere_rows(incident: Incident) -> Iterator[Row]:
    """One row a step and holder that it may have been meant for, elsewhere."""
    count = 0
    for action in incident.actions:
        for step in action.steps:
            if step.replay.tool is None:
                continue
            found = (_through_clients, _by_number, _on_another_host)
            for row in chain.from_iterable(rows(incident, action, step) for rows in found):
                count += 1
                if count <= _ROWS_CAP:
                    yield row


def _through_clients(incident: Incident, action: ActionView, step: StepView) -> Iterator[Row]:
    """What the step reached is the client of something that runs on another host of this evidence."""
    for client in incident.census.lives:
        if client.host != action.host or client_program(client) is None or not _reached(step, client):
            continue
        holders = [
            life
            for family in incident.families
            for life in family.members
            if life.host != action.host and incident.holds_now(life)
        ]
        for life in holders:
            tie, job = _tie(incident, client, life)
            yield _row(incident, action, step, life, tie, job) | {
                "client_pid": client.pid,
                "client_name": client_program(client),
                "client_alive": incident.alive(client),
            }
        if not holders:
            yield {
                "host": incident.host_id(action.host),
                "gpus": [],
                "step": step.id,
                "step_text": step.replay.step.text,
                "client_pid": client.pid,
                "client_name": client_program(client),
                "client_alive": incident.alive(client),
                "job": job_of_client(client),
                "cites": incident.citations.add_all(client.citations()[:1]),
            }


def _reached(step: StepView, client: Life) -> bool:
    verdict = step.verdict(client.pid)
    return verdict is not None and verdict.selected is True and step.replay.ran is not False


def client_program(life: Life) -> str | None:
    """``srun``, ``ssh`` …, where the process is such a client."""
    words = (life.cmdline or "")[:_TEXT_CAP].split(" ", 1)
    program = words[0].rpartition("/")[2] or life.comm
    return program if program in CLIENTS and len(words) > 1 else None


def job_of_client(client: Life) -> str | None:
    """The Slurm job that it names."""
    found = _JOB.search((client.cmdline or "")[:_TEXT_CAP])
    return found["job"] if found and client_program(client) == "srun" else None


def job_of(incident: Incident, life: Life) -> str | None:
    """The Slurm job under whose step daemon the process runs."""
    above: Life | None = life
    while above is not None:
        found = _STEP_DAEMON.match(above.cmdline or "")
        if found:
            return found["job"]
        above = incident.kinship.parent(above)
    return None


def _tie(incident: Incident, client: Life, life: Life) -> tuple[str | None, str | None]:
    """(``job`` or ``host``, job): the same job, or at least the host is named."""
    job = job_of_client(client)
    own = job_of(incident, life)
    if job is not None and own is not None:
        return ("job", job) if own == job else (None, None)
    words = re.split(r"[\s=,@]", (client.cmdline or "")[:_TEXT_CAP])
    return ("host" if life.host and life.host in words else None), job


def _by_number(incident: Incident, action: ActionView, step: StepView) -> Iterator[Row]:
    """The driver's PIDs are those of the host; inside a container the same number is nobody, or somebody else."""
    selection = step.replay.selection
    inside = step.replay.step.container is not None or _typed_inside(incident, action)
    if selection is None or not inside:
        return
    for pid in selection.literal_pids:
        missed = step.replay.step.container is not None or pid in step.absent
        for life in incident.census.named(action.host, pid) if missed else ():
            if incident.booked_now(life):
                yield _row(incident, action, step, life, "number", None)


def _on_another_host(incident: Incident, action: ActionView, step: StepView) -> Iterator[Row]:
    """``kill`` found nobody under a number that another host of this evidence shows, and whose server holds memory."""
    for pid in sorted(step.absent):
        if incident.census.named(action.host, pid):
            continue
        meant = [life for life in incident.census.lives if life.pid == pid and life.host != action.host]
        for life in meant:
            family = incident.family_of(life)
            members = family.members if family is not None else (life,)
            for holder in members:
                if incident.booked_now(holder) and not incident.was_picked(life) and not incident.was_picked(holder):
                    yield _row(incident, action, step, holder, "number", None)


def _typed_inside(incident: Incident, action: ActionView) -> bool:
    """The looks of this host were taken in a PID namespace of their own."""
    look = incident.newest(action.host)
    return look is not None and incident.views[look.id].own_namespace is True


def _row(
    incident: Incident, action: ActionView, step: StepView, life: Life, tie: str | None, job: str | None
) -> dict[str, object]:
    return about(incident, life) | {
        "step": step.id,
        "step_text": step.replay.step.text,
        "given_on": action.host,
        "holder_on": life.host,
        "tie": tie,
        "job": job,
        "cites": incident.citations.add_all([action.action.cited, *life.citations()[:2]]),
    }
