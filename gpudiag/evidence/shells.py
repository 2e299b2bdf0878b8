"""Where each prompt of a session is: on which host, in which container.

PIDs of a container's own view must never meet the host's, so a container gets a host name of its own:
``gpu-node/NAME``, or ``NAME`` alone where the evidence does not tell the node. What answers at another port than sshd's
usual one may be a container, too: ``gpu-node:2222``. A machine that a line does not name (``srun nvidia-smi``) is
another one each time: nothing says that it is the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from gpudiag.evidence.destinations import Section, is_mixed, killed_in, opened_by, sections, seen_in
from gpudiag.evidence.inside import Entry, is_container_name, is_this_machine, leaves, sudo_shell
from gpudiag.evidence.prompts import Typed

_CLOSED = re.compile(r"^(?:Connection to \S{1,253} closed|Shared connection to \S{1,253} closed|logout$)", re.MULTILINE)
_REFUSED = re.compile(
    r"No such container|is not running|not found|[Cc]onnection (?:refused|timed out)|Permission denied"
    r"|Could not resolve|[Nn]o route to host|OCI runtime|Error",
)
_DEPTH_CAP = 16
_NAMES_CAP = 500
_NUMERIC = re.compile(r"[\d.:]+\Z")
Who = Tuple[Optional[str], Optional[str]]


@dataclass(frozen=True)
class Where:
    """The place that a command's output shows."""

    host: str
    container: Optional[str]


NOWHERE = Where("", None)
"""The evidence names no host."""


@dataclass(frozen=True)
class Line:
    """Where one typed line was given, and where its commands took effect."""

    killed: Tuple[Tuple[str, Optional[str]], ...]
    """Hosts on which its kill commands took effect, each with what the line calls it; empty if it has none."""
    shown: Where
    """What its output shows."""
    user: Optional[str]
    """Who looked there."""
    parts: Tuple[Tuple[Where, Section], ...]
    """The output cut by the machines that printed it; empty where it is of one place."""
    mixed: bool
    """The output is of several places, and nothing tells which line is of which."""


@dataclass
class _Frame:
    """A shell that was entered."""

    where: Where
    outer: Who
    """The prompt at which it was entered."""
    same_place: bool
    """Another user's shell on the same host."""
    fixed: bool
    """A container, or what may be one: its prompts may show the name of the host."""
    unnamed: bool
    """Only its prompts tell which machine it is."""
    inner: Optional[Who] = None
    """The first prompt in it."""


class Shells:
    """Follows a session through ``ssh``, ``docker exec`` and ``exit``."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._frames: List[_Frame] = []
        self._names: Dict[str, str] = {}
        """What a host was called, to the name that it is given here."""
        self._scopes: Dict[str, str] = {}
        """Where the name of a container, or of a host behind a jump host, counted when it was met first."""
        self._unnamed = 0
        """Number of the line, for a machine that it does not name."""

    def name(self, host: str) -> str:
        """One name for one host: its short name and its full one, and the address behind which a prompt showed it."""
        if host in self._names:
            return self._names[host]
        short = host.partition(".")[0]
        odd = len(self._names) > _NAMES_CAP or _NUMERIC.match(host)
        known = None if odd else next((n for n in self._names if _same(n, host, short)), None)
        self._names[host] = self._names[known] if known is not None else host
        return self._names[host]

    def shown_by(self, command: str) -> Where:
        """What the output of a command shows that was not typed at a prompt."""
        self._unnamed += 1
        return self._inside(NOWHERE, seen_in(command).entry)

    def host_of(self, command: str) -> str:
        """The machine on which it looked, inside a container or not."""
        return self._given(NOWHERE, seen_in(command).entry).host

    def line(self, typed: Typed, kills: bool) -> Line:
        """The places of one typed line; shells that are opened or left count from the next one on."""
        here = self.here(typed)
        self._unnamed += 1
        seen = seen_in(typed.command)
        shown = self._inside(here, seen.entry)
        parts = tuple((self._part(here, part.host), part) for part in sections(seen, typed.output))
        user = _user_of(seen.entry, None if shown.container and shown.host != typed.host else typed.user)
        line = Line(
            self._killed(typed, here, parts) if kills else (),
            shown,
            user,
            parts,
            not parts and is_mixed(seen, typed.output),
        )
        self._follow(typed, here)
        return line

    def _killed(
        self, typed: Typed, here: Where, parts: Sequence[Tuple[Where, Section]]
    ) -> Tuple[Tuple[str, Optional[str]], ...]:
        found = killed_in(typed.command)
        if parts and len(found) == 1 and found[0] is not None and found[0].many:
            return tuple((where.host, found[0].called) for where, _ in parts)
        given = [(self._given(here, one).host, one.called if one is not None else None) for one in found]
        return tuple(dict(given).items())

    def _follow(self, typed: Typed, here: Where) -> None:
        found = opened_by(typed.command)
        failed = bool(_REFUSED.search(typed.text[:2000]))
        closed = bool(_CLOSED.search(typed.text))
        opens = (found is not None and found.stays) or sudo_shell(typed.command)
        if leaves(typed.command) or (closed and not (found is not None and found.host)):
            if self._frames:
                self._frames.pop()
        elif opens and not failed and not closed and len(self._frames) < _DEPTH_CAP:
            where = self._inside(here, found)
            fixed = where.container is not None or (found is not None and found.door is not None)
            unnamed = found is not None and (found.unnamed or "$" in (found.host or ""))
            self._frames.append(_Frame(where, (typed.user, typed.host), where == here, fixed, unnamed))

    def here(self, typed: Typed) -> Where:
        """Where the prompt is."""
        who: Who = (typed.user, typed.host)
        while self._frames:
            frame = self._frames[-1]
            if typed.host is None:
                return frame.where
            if frame.inner is None:
                frame.inner = who
                self._learn(frame, typed.host)
            if who == frame.inner or (frame.same_place and typed.host == frame.outer[1] and who != frame.outer):
                return self._at(frame, typed.host)
            if who == frame.outer:
                # The shell was left without a trace of it: a pasted session often lacks the Ctrl-D.
                self._frames.pop()
                continue
            break
        return self._named(typed.host)

    def _learn(self, frame: _Frame, host: str) -> None:
        """The prompt behind ssh shows what the host calls itself."""
        target = frame.where.host
        if frame.fixed or frame.same_place:
            return
        if frame.unnamed:
            frame.where = self._named(host)
        elif target not in (host, ""):
            self._names.setdefault(host, self._names.get(target, target))

    def _at(self, frame: _Frame, host: str) -> Where:
        if frame.fixed or frame.same_place:
            return frame.where
        return self._named(host)

    def _named(self, host: Optional[str]) -> Where:
        if host is None:
            return NOWHERE
        return Where(self.name(host), host if is_container_name(host) else None)

    def _part(self, here: Where, host: str) -> Where:
        return here if is_this_machine(host) else Where(self.name(host), None)

    def _inside(self, here: Where, found: Optional[Entry]) -> Where:
        if found is None or not found.is_elsewhere:
            return here
        host = self._given(here, found).host
        if found.container is None:
            return Where(host, None)
        name = f"{host}/{found.container}" if host and found.host_known else found.container
        # The first of a name keeps it bare.
        bare = self._scopes.setdefault(name, found.scope) == found.scope
        return Where(name if bare else f"{name} ({found.scope or 'no option'})", found.container)

    def _given(self, here: Where, found: Optional[Entry]) -> Where:
        """The client of a container runs on the host: it is there that the command was given."""
        if found is not None and found.unnamed:
            return Where(f"unnamed node {self._session}-{self._unnamed}", None)
        if found is None or found.host is None:
            return here
        host = here.host if here.host and is_this_machine(found.host) else self.name(found.host)
        if found.via is not None and self._scopes.setdefault(host, found.via) != found.via:
            host = f"{host} (through {found.via})"
        return Where(host if found.door is None else f"{host}:{found.door}", None)


def _user_of(found: Optional[Entry], typed: Optional[str]) -> Optional[str]:
    """Who the command runs as; another machine may log in as anybody."""
    return found.user if found is not None and (found.host is not None or found.unnamed) else typed


def _same(known: str, host: str, short: str) -> bool:
    """``gpu-node`` and ``gpu-node.example.org``; two full names are two hosts."""
    if _NUMERIC.match(known) or known.partition(".")[0] != short:
        return False
    return "." not in known or "." not in host
