"""Where each prompt of a session is: on which host, in which container.

PIDs of a container's own view must never meet the host's, so a container gets a host name of its own:
``gpu-node/NAME``, or ``NAME`` alone where the evidence does not tell the node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from gpudiag.evidence.inside import Entry, entry, is_container_name, leaves, sudo_shell
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


@dataclass
class _Frame:
    """A shell that was entered."""

    where: Where
    outer: Who
    """The prompt at which it was entered."""
    same_place: bool
    """Another user's shell on the same host."""
    inner: Optional[Who] = None
    """The first prompt in it."""


class Shells:
    """Follows a session through ``ssh``, ``docker exec`` and ``exit``."""

    def __init__(self) -> None:
        self._frames: List[_Frame] = []
        self._names: Dict[str, str] = {}
        """What a host was called, to the name that it is given here."""

    def name(self, host: str) -> str:
        """One name for one host: its short name and its full one, and the address behind which a prompt showed it."""
        if host in self._names:
            return self._names[host]
        short = host.partition(".")[0]
        odd = len(self._names) > _NAMES_CAP or _NUMERIC.match(host)
        known = None if odd else next((n for n in self._names if _same(n, host, short)), None)
        self._names[host] = self._names[known] if known is not None else host
        return self._names[host]

    def place(self, typed: Typed) -> Tuple[Where, Where]:
        """Where the prompt is, and what the output shows; shells that are opened or left count from the next one on."""
        here = self._here(typed)
        found = entry(typed.command)
        shown = self._inside(here, found)
        failed = bool(_REFUSED.search(typed.text[:2000]))
        closed = bool(_CLOSED.search(typed.text))
        opens = (found is not None and found.stays) or sudo_shell(typed.command)
        if leaves(typed.command) or (closed and not (found is not None and found.host)):
            if self._frames:
                self._frames.pop()
        elif opens and not failed and not closed and len(self._frames) < _DEPTH_CAP:
            self._frames.append(_Frame(shown, (typed.user, typed.host), shown == here))
        return here, shown

    def _here(self, typed: Typed) -> Where:
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
        if frame.where.container is None and not frame.same_place and target not in (host, ""):
            self._names.setdefault(host, self._names.get(target, target))

    def _at(self, frame: _Frame, host: str) -> Where:
        if frame.where.container is not None or frame.same_place:
            return frame.where
        return self._named(host)

    def _named(self, host: Optional[str]) -> Where:
        if host is None:
            return Where("", None)
        return Where(self.name(host), host if is_container_name(host) else None)

    def _inside(self, here: Where, found: Optional[Entry]) -> Where:
        if found is None or (found.container is None and found.host is None):
            return here
        host = self.name(found.host) if found.host is not None else here.host
        if found.container is None:
            return Where(host, None)
        named = f"{host}/{found.container}" if host and found.host_known else found.container
        return Where(named, found.container)


def _same(known: str, host: str, short: str) -> bool:
    """``gpu-node`` and ``gpu-node.example.org``; two full names are two hosts."""
    if _NUMERIC.match(known) or known.partition(".")[0] != short:
        return False
    return "." not in known or "." not in host
