"""Which commands lead somewhere else: into a container, onto another host, into another shell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import FrozenSet, List, Optional, Sequence, Tuple

from gpudiag.evidence.commands import split_words

_ENGINES = frozenset({"docker", "podman", "nerdctl", "crictl", "kubectl", "oc", "lxc", "incus"})
_NO_HOST = frozenset({"kubectl", "oc"})
"""Their command line does not name the node that the container runs on."""
_WITH_VALUE: FrozenSet[str] = frozenset(
    ("-e", "-u", "-w", "-n", "-c", "--env", "--user", "--workdir", "--namespace", "--container", "--context", "-H",
     "--host", "--env-file", "--detach-keys", "--kubeconfig", "-f", "--file", "-p", "--index")
)  # fmt: skip
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh", "fish"})
_BEFORE = frozenset({"sudo", "time", "nohup", "exec", "command", "env"})
_SSH_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")
_TEXT_CAP = 4096
_CONTAINER_NAME = re.compile(r"[0-9a-f]{12}\Z")


@dataclass(frozen=True)
class Entry:
    """Where a command line leads."""

    container: Optional[str]
    """Name as it was given; ``None`` for another host or shell."""
    host: Optional[str]
    """Target of ssh; ``None`` = the host where the command was given."""
    host_known: bool
    """False for a pod: on which node it runs is not said."""
    stays: bool
    """An interactive shell: the following prompts are in there."""


def entry(text: str) -> Optional[Entry]:
    """Where the command line leads, ``None`` if nowhere else."""
    words = _bare(split_words(text[:_TEXT_CAP]))
    program = words[0].rpartition("/")[2] if words else ""
    if program in _ENGINES:
        found = _container(program, words[1:])
        return None if found is None else Entry(found[0], None, program not in _NO_HOST, found[1])
    if program == "ssh":
        return _ssh(words[1:])
    if program in ("su", "screen", "tmux") or program in _SHELLS:
        return Entry(None, None, True, True) if _no_command(program, words[1:]) else None
    return None


def sudo_shell(text: str) -> bool:
    """``sudo -i``, ``sudo -s``, ``sudo su -``: the following prompts are root's, on the same host."""
    words = split_words(text[:_TEXT_CAP])
    if not words or words[0] != "sudo":
        return False
    options = [word for word in words[1:] if word.startswith("-")]
    rest = [word for word in words[1:] if not word.startswith("-")]
    return (not rest and any(word in ("-i", "-s") for word in options)) or rest[:1] in (["su"], ["bash"], ["sh"])


def leaves(text: str) -> bool:
    """The command ends the shell that it is given to."""
    return text.strip().rstrip(";") in ("exit", "logout", "^D", "exit 0")


def is_container_name(host: str) -> bool:
    """Twelve hexadecimal digits: the host name that docker gives to a container."""
    return bool(_CONTAINER_NAME.match(host)) and not host.isdigit()


def _bare(words: Sequence[str]) -> List[str]:
    left = list(words)
    while left and (left[0] in _BEFORE or re.match(r"\w{1,60}=", left[0])):
        left = left[1:]
        while left and left[0].startswith("-") and len(left[0]) > 1:
            left = left[2:] if left[0] in ("-u", "-g", "-E", "-C") and len(left) > 1 else left[1:]
    return left


def _container(program: str, words: Sequence[str]) -> Optional[Tuple[str, bool]]:
    """Name and whether it is an interactive shell, of ``docker exec -it NAME bash``."""
    position = _skip_options(words, 0)
    if program == "docker" and words[position : position + 1] in (["compose"], ["container"]):
        position = _skip_options(words, position + 1)
    if list(words[position : position + 1]) != ["exec"]:
        return None
    position = _skip_options(words, position + 1)
    if position >= len(words):
        return None
    name = words[position]
    command = list(words[position + 1 :])
    while program in ("kubectl", "oc", "lxc", "incus") and command and command[0].startswith("-"):
        took = 2 if command[0] in _WITH_VALUE else 1
        command = command[took:]
    inner = command[0].rpartition("/")[2] if command else ""
    shell = inner in _SHELLS and _no_command(inner, command[1:])
    return name.rpartition("/")[2] if program in _NO_HOST else name, shell


def _skip_options(words: Sequence[str], position: int) -> int:
    while position < len(words) and words[position].startswith("-") and words[position] != "--":
        position += 2 if words[position] in _WITH_VALUE else 1
    return position


def _ssh(words: Sequence[str]) -> Optional[Entry]:
    position = 0
    while position < len(words) and words[position].startswith("-"):
        option = words[position]
        takes_next = option[-1] in _SSH_WITH_VALUE and (len(option) == 2 or not set(option[1:-1]) & _SSH_WITH_VALUE)
        position += 2 if takes_next else 1
    if position >= len(words):
        return None
    host = words[position].rpartition("@")[2]
    command = [word for word in words[position + 1 :] if word not in ("-t", "-tt")]
    if not command:
        return Entry(None, host, True, True)
    inner = entry(command[0] if len(command) == 1 else " ".join(command))
    if inner is not None and inner.container is not None:
        return Entry(inner.container, host, inner.host_known, inner.stays)
    return Entry(None, host, True, False)


def _no_command(program: str, words: Sequence[str]) -> bool:
    """A shell that reads what is typed; ``su`` may name a user."""
    if any(re.fullmatch(r"-[a-z]{0,6}c|--command\S*", word) for word in words):
        return False
    return program == "su" or all(word.startswith("-") for word in words)
