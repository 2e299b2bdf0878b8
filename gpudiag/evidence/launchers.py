"""Programs that give a command to another machine, and which machines their command line names.

Option letters are those of OpenSSH 9.6, Slurm 23.11, ansible-core 2.16, pdsh 2.34 and clustershell 1.9.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Callable, Container, Dict, List, Optional, Sequence, Tuple

_SSH_WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"
_SRUN_WITH_VALUE = "AaBbCcDdEeGgiJLMmNnopPqrSTtWwx"
_SRUN_FLAGS = frozenset(
    ("--pty", "--overlap", "--exclusive", "--label", "--unbuffered", "--no-kill", "--quiet", "--verbose", "--test-only",
     "--immediate", "--hold", "--oversubscribe", "--disable-status", "--multi-prog", "--kill-on-bad-exit",
     "--spread-job", "--overcommit", "--contiguous", "--preserve-env", "--propagate", "--exact", "--interactive",
     "--use-min-nodes")
)  # fmt: skip
_ANSIBLE_WITH_VALUE = "aBcefiIlmMPtTu"
_ANSIBLE_FLAGS = frozenset(
    ("--become", "--check", "--diff", "--one-line", "--ask-pass", "--ask-become-pass", "--list-hosts", "--verbose")
)
_FAN_WITH_VALUE = {"pdsh": "wxglftuR", "clush": "wxgXfotulmO"}
_FAN_FLAGS = frozenset(("--all", "--quiet", "--verbose", "--gather", "--dshbak", "--nostdin", "--diff"))
_SSH_PORT = re.compile(r"port[= ](\d{1,5})\Z", re.IGNORECASE)
_URL = re.compile(r"ssh://(?P<target>[^/]+?)(?::(?P<port>\d{1,5}))?/?\Z")
_MPI_HOSTS = frozenset(("-H", "-host", "--host", "-hosts", "--hosts", "--hostfile", "-hostfile", "-f"))
_USUAL_PORT = "22"
_GATEWAY = re.compile(r"ssh\d{0,3}\.")
"""A host name that begins so is the door to many containers: which one, the user name or the port says."""


@dataclass(frozen=True)
class Launch:
    """One command line of such a program."""

    hosts: Tuple[str, ...]
    """The names given; one that is a range or a group (``node[1-4]``, ``all``) stands as it was written. Empty where
    the line names none: which machine it is then is for a scheduler to say."""
    user: Optional[str]
    door: Optional[str]
    """What tells the place apart from others behind the same name: a port of sshd, a gateway's user."""
    words: Tuple[str, ...]
    """The command; empty for a shell."""
    called: Optional[str]
    """The machine as the line calls it, with an unusual port: ``node1:2222``."""
    via: Optional[str]
    """The jump host that it goes through."""
    many: bool
    """It can answer for several machines, perhaps each part of the output under a machine's name."""


def launch(words: Sequence[str]) -> Optional[Launch]:
    """What a command line gives to another machine; ``None`` if it is of no such program, or asks for nothing."""
    program = words[0].rpartition("/")[2] if words else ""
    reader = _READERS.get(program)
    return reader(program, list(words[1:])) if reader is not None else None


def _ssh(_: str, words: List[str]) -> Optional[Launch]:
    options, rest = _options(words, _SSH_WITH_VALUE, ())
    if not rest:
        return None
    later, command = _options(rest[1:], _SSH_WITH_VALUE, ())
    options += later
    url = _URL.match(rest[0])
    target = url["target"] if url else rest[0]
    name, at, host = target.rpartition("@")
    user = name if at else next((value for option, value in options if option == "-l"), None)
    port = url["port"] if url else None
    for option, value in options:
        found = value if option == "-p" else _port(value) if option == "-o" else None
        port = port or found
    door = None if port == _USUAL_PORT else port
    via = next((value for option, value in options if option == "-J"), None)
    called = f"{host}:{door}" if door else host
    if user is not None and _GATEWAY.match(host):
        door = f"{user}:{door}" if door else user
    return Launch((host,), user, door, tuple(command), called, via, False) if host else None


def _port(option: Optional[str]) -> Optional[str]:
    found = _SSH_PORT.match(option or "")
    return found[1] if found else None


def _srun(_: str, words: List[str]) -> Optional[Launch]:
    options, command = _options(words, _SRUN_WITH_VALUE, _SRUN_FLAGS)
    given = dict(options)
    nodes = given.get("-w") or given.get("--nodelist")
    job = given.get("--jobid")
    host = nodes or (f"Slurm job {job}" if job else None)
    return Launch((host,) if host else (), None, None, tuple(command), None, None, True) if command else None


def _ansible(_: str, words: List[str]) -> Optional[Launch]:
    options: List[Tuple[str, Optional[str]]] = []
    operands: List[str] = []
    left = words
    while left:
        found, left = _options(left, _ANSIBLE_WITH_VALUE, _ANSIBLE_FLAGS)
        options += found
        operands += left[:1]
        left = left[1:]
    given = dict(options)
    text = given.get("-a") or given.get("--args")
    if len(operands) != 1 or text is None:
        return None
    limit = given.get("-l") or given.get("--limit")
    user = given.get("-u") or given.get("--user")
    return Launch((limit or operands[0],), user, None, (text,), operands[0], None, True)


def _mpirun(_: str, words: List[str]) -> Optional[Launch]:
    """Only one that names machines; without, the ranks are here or wherever a scheduler put them."""
    place = next((n for n, word in enumerate(words) if word in _MPI_HOSTS), None)
    if place is None or place + 2 >= len(words):
        return None
    hosts = words[place + 1].split(":")[0] if words[place] not in ("--hostfile", "-hostfile", "-f") else ""
    return Launch((hosts,) if hosts else (), None, None, tuple(words[place + 2 :]), None, None, True)


def _fan(program: str, words: List[str]) -> Optional[Launch]:
    options, command = _options(words, _FAN_WITH_VALUE[program], _FAN_FLAGS)
    given = dict(options)
    nodes = given.get("-w") or given.get("--nodes") or given.get("-g") or given.get("--group") or "all"
    return Launch((nodes,), given.get("-l"), None, tuple(command), nodes, None, True) if command else None


def _options(
    words: Sequence[str], with_value: str, flags: Container[str]
) -> Tuple[List[Tuple[str, Optional[str]]], List[str]]:
    """The options that stand first, each with its value, and the words behind them.

    A long option takes the next word as its value, unless it has one behind ``=`` or is one of ``flags``.
    """
    found: List[Tuple[str, Optional[str]]] = []
    position = 0
    while position < len(words) and words[position].startswith("-") and len(words[position]) > 1:
        word = words[position]
        position += 1
        if word == "--":
            break
        following = words[position] if position < len(words) else None
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            takes_next = not equals and name not in flags
            found.append((name, value if equals else following if takes_next else None))
        else:
            letters = next((n for n, letter in enumerate(word[1:], 1) if letter in with_value), None)
            takes_next = letters == len(word) - 1
            if letters is not None:
                found.append(("-" + word[letters], following if takes_next else word[letters + 1 :].lstrip("=")))
        position += 1 if takes_next else 0
    return found, list(words[position:])


_READERS: Dict[str, Callable[[str, List[str]], Optional[Launch]]] = {
    "ssh": _ssh,
    "srun": _srun,
    "ansible": _ansible,
    "mpirun": _mpirun,
    "mpiexec": _mpirun,
    "pdsh": _fan,
    "clush": _fan,
}
