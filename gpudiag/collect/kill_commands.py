"""``kill-commands.json``: all that was issued since the machine started, from everywhere where it may be noted down."""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

from gpudiag.collect import audit, history, sudo_log
from gpudiag.collect.ask import Answer, ask
from gpudiag.collect.issued import Issued, merged
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Context, Ended, Out
from gpudiag.collect.tails import tail
from gpudiag.collect.watching import places, taken, witnesses

_LOG_S = 2.0
"""How long a program is asked about one kind of record."""
_PASSWD_CAP = 4 << 20

_ERROR_S = 2.0
"""How far a stated time may be off: reading it, and typing it off by one."""


def produce(context: Context, out: Out) -> None:
    """One record a line. What could not be read is said at the end."""
    problems: list[str] = []
    since = _boot_s(context.machine.proc)
    found = merged(_issued(context, out, problems), since)
    unread = "not read: " + "; ".join(problems)[:500] if problems else ""
    if not found:
        # An empty list would say that nothing was killed, and no history can say that.
        parts = ("no command that kills is in history or in sudo's log", unread, _hint(context))
        raise Ended("absent", "; ".join(part for part in parts if part))
    out.line("[")
    for number, item in enumerate(found):
        out.line(("," if number else "") + json.dumps(item.record()))
    out.line("]")
    if unread:
        raise Ended("ok", unread)


def _hint(context: Context) -> str:
    """Where it may be in spite of that, unless the person has brought it already."""
    if context.history is not None or context.kills:
        return ""
    return history.HINT.format(sudo="sudo " if os.environ.get("SUDO_USER") else "")


def _issued(context: Context, out: Out, problems: list[str]) -> Iterator[Issued]:
    for command, moment in context.kills:
        yield stated(command, moment)
    passwd = _passwd()
    uid, caller = os.geteuid(), os.environ.get("SUDO_USER") or None
    if context.history is not None:
        # Who sits at the shell is who called sudo.
        yield from history.of_pipe(context.history, caller or _name(uid))
    found = history.homes(passwd, uid, caller, os.environ.get("HOME"))
    yield from history.of_homes(found, os.environ.get("HISTFILE"), problems)
    yield from _from_sudo(context.machine, out, problems)
    yield from _from_audit(context.machine, out, problems, passwd)
    yield from _from_ring(context, problems, passwd)


def stated(command: str, moment: str | None) -> Issued:
    """``--kill COMMAND [--at TIME]``, with a time to the second: whoever states that has read it off a clock."""
    return Issued(command, "stated", sudo_log.iso_seconds(moment) if moment else None, _ERROR_S if moment else None)


def _from_sudo(machine: Machine, out: Out, problems: list[str]) -> Iterator[Issued]:
    now = time.time()
    answer = Answer()
    lines = list(ask(machine, sudo_log.JOURNAL, _LOG_S, out.started, answer))
    yield from sudo_log.commands(lines, now)
    if lines:
        return
    for path in sudo_log.FILES:
        try:
            texts = tail(path)[0]
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}")
            continue
        yield from sudo_log.commands((line.decode("utf-8", "replace") for line in texts), now)


def _from_audit(machine: Machine, out: Out, problems: list[str], passwd: str) -> Iterator[Issued]:
    if not machine.root or machine.tool(audit.COMMAND[0]) is None:
        return
    answer = Answer()
    yield from audit.commands(ask(machine, audit.COMMAND, _LOG_S, out.started, answer), _names(passwd))
    if answer.because is not None:
        problems.append(answer.because)


def _from_ring(context: Context, problems: list[str], passwd: str) -> Iterator[Issued]:
    try:
        ring = taken.found(context.machine, places.folders(context.ring, root=context.machine.root))
    except OSError as error:
        problems.append(f"the flight recorder's ring: {error.strerror or error}")
        return
    if ring is not None:
        yield from witnesses.commands(taken.lines(ring), _names(passwd))


def _names(passwd: str) -> dict[int, str]:
    """User names by UID."""
    users = (line.split(":") for line in passwd.split("\n"))
    return {int(fields[2]): fields[0] for fields in users if len(fields) > 6 and fields[2].isdecimal()}


def _name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _passwd() -> str:
    """The file, not the name service: that may ask a server which does not answer."""
    try:
        with Path("/etc/passwd").open(encoding="utf-8", errors="replace") as file:
            return file.read(_PASSWD_CAP)
    except OSError:
        return ""


def _boot_s(proc: str) -> float | None:
    """When the machine started, seconds since the epoch."""
    try:
        with Path(f"{proc}/stat").open(encoding="ascii", errors="replace") as file:
            found = [line.split()[1] for line in file if line.startswith("btime ")]
    except OSError:
        return None
    return float(found[0]) if found and found[0].isdecimal() else None
