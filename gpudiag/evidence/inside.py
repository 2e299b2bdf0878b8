"""Which commands lead somewhere else: into a container, onto another host, into another shell."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Dict, FrozenSet, List, Optional, Sequence, Tuple

from gpudiag.evidence.commands import TEXT_CAP, bare, split_words
from gpudiag.evidence.launchers import Launch, launch

_ENGINES = frozenset({"docker", "podman", "nerdctl", "crictl", "kubectl", "oc", "lxc", "incus"})
_NO_HOST = frozenset({"kubectl", "oc"})
"""Their command line does not name the node that the container runs on."""
_WITH_VALUE: FrozenSet[str] = frozenset(
    ("-e", "-u", "-w", "-n", "-c", "--env", "--user", "--workdir", "--namespace", "--container", "--context", "-H",
     "--host", "--env-file", "--detach-keys", "--kubeconfig", "-f", "--file", "-p", "--project-name", "--cluster",
     "--index")
)  # fmt: skip
_SCOPES = {
    "-n": "namespace", "--namespace": "namespace", "-c": "container", "--container": "container",
    "--context": "context", "--kubeconfig": "kubeconfig", "--cluster": "cluster", "-H": "engine", "--host": "engine",
    "-p": "project", "--project-name": "project", "-f": "file", "--file": "file", "--index": "index",
}  # fmt: skip
"""Options that say where a container's name counts."""
_RUN_FLAGS = frozenset(
    ("--rm", "--privileged", "--init", "--detach", "--interactive", "--tty", "--publish-all", "--read-only", "--quiet",
     "--no-healthcheck", "--oom-kill-disable", "--no-deps", "--service-ports", "--build", "--no-TTY", "--replace")
)  # fmt: skip
"""Long options of ``docker run`` without a value, and of ``docker compose run``; all others have one."""
_RUN_LETTERS = frozenset("ditPqT")
_LOOKS = frozenset({"nvidia-smi", "ps", "pgrep", "fuser", "lsof", "top", "nvtop", "nvitop", "gpustat", "ls", "cat"})
"""What is run in a container of its own only to look; others may be a server whose log is the host's business."""
_RUNS = frozenset({"docker", "podman", "nerdctl"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh", "fish"})
_CONTAINER_NAME = re.compile(r"[0-9a-f]{12}\Z")
_DEPTH_CAP = 4
"""Machines that a line may lead through."""
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Entry:
    """Where a command line leads."""

    container: Optional[str]
    """Name as it was given; ``None`` for another host or shell."""
    host: Optional[str]
    """The machine that it names; ``None`` = the one where the command was given, or see ``unnamed``."""
    host_known: bool
    """False for a pod: on which node it runs is not said."""
    stays: bool
    """An interactive shell: the following prompts are in there."""
    user: Optional[str] = None
    """Who it is there, where the line says so."""
    door: Optional[str] = None
    """As in ``Launch``: the place is behind this port of the host, not the host itself."""
    unnamed: bool = False
    """Another machine, and the line does not say which."""
    scope: str = ""
    """Where the container's name counts, as the line says: namespace, project, context."""
    via: Optional[str] = None
    """The jump host behind which the name of the host counts."""
    called: Optional[str] = None
    """As in ``Launch``."""
    many: bool = False
    """Its output may be of several machines, each part under a machine's name."""

    @property
    def is_elsewhere(self) -> bool:
        """What it runs is in another PID namespace, or may be."""
        return self.container is not None or self.host is not None or self.unnamed


def entry(text: str) -> Optional[Entry]:
    """Where the command line leads, ``None`` if nowhere else."""
    return _entry(bare(split_words(text[:TEXT_CAP])), _DEPTH_CAP)


def _entry(words: List[str], depth: int) -> Optional[Entry]:
    program = words[0].rpartition("/")[2] if words else ""
    if program in _ENGINES:
        return _container(program, words[1:])
    if program == "nsenter":
        return _nsenter(words[1:])
    launched = launch(words)
    if launched is not None:
        return _launched(launched, depth)
    if program in ("su", "screen", "tmux") or program in _SHELLS:
        return Entry(None, None, True, True) if _no_command(program, words[1:]) else None
    return None


def sudo_shell(text: str) -> bool:
    """``sudo -i``, ``sudo -s``, ``sudo su -``: the following prompts are root's, on the same host."""
    words = split_words(text[:TEXT_CAP])
    if not words or words[0] != "sudo":
        return False
    options = [word for word in words[1:] if word.startswith("-")]
    rest = [word for word in words[1:] if not word.startswith("-")]
    return (not rest and any(word in ("-i", "-s") for word in options)) or rest[:1] in (["su"], ["bash"], ["sh"])


def leaves(text: str) -> bool:
    """The command ends the shell that it is given to."""
    return text.strip().rstrip(";") in ("exit", "logout", "^D", "exit 0")


def is_this_machine(host: str) -> bool:
    """``ssh localhost``: where the command is given."""
    return host in _THIS_MACHINE


def is_container_name(host: str) -> bool:
    """Twelve hexadecimal digits: the host name that docker gives to a container."""
    return bool(_CONTAINER_NAME.match(host)) and not host.isdigit()


def _container(program: str, words: Sequence[str]) -> Optional[Entry]:
    """Name and whether it is an interactive shell, of ``docker exec -it NAME bash``."""
    position = _skip_options(words, 0)
    if program == "docker" and words[position : position + 1] in (["compose"], ["container"]):
        position = _skip_options(words, position + 1)
    verb = list(words[position : position + 1])
    if verb == ["run"] and program in _RUNS:
        made = _run(list(words[position + 1 :]))
        return None if made is None else Entry(made[0], None, True, made[1], scope=_scope(words[:position]))
    if verb != ["exec"]:
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
    name = name.rpartition("/")[2] if program in _NO_HOST else name
    scope = _scope(words[: len(words) - len(command)])
    return Entry(name, None, program not in _NO_HOST, shell, scope=scope)


def _scope(words: Sequence[str]) -> str:
    """Two pods of one name in two namespaces are two; so are two containers of one name on two engines."""
    found: Dict[str, str] = {}
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in _SCOPES and (equals or position + 1 < len(words)):
            found[_SCOPES[name]] = value if equals else words[position + 1]
    return ", ".join(found[kind] for kind in sorted(found))


def _nsenter(words: Sequence[str]) -> Optional[Entry]:
    """Into the PID namespace of a process other than the first."""
    letters = "".join(word[1:] for word in words if re.match(r"-[a-zA-Z]", word))
    enters = set(letters) & {"p", "a"} or any(re.match(r"--(?:pid|all)\b", word) for word in words)
    target = re.search(r"(?:^|\s)(?:-\w{0,12}t\s?|--target[ =])(\d{1,10})\b", " ".join(words)[:TEXT_CAP])
    if not enters or target is None or target[1] == "1":
        return None
    stays = (words[-1] if words else "").rpartition("/")[2] in _SHELLS
    return Entry(f"namespace of {target[1]}", None, True, stays)


def _run(words: List[str]) -> Optional[Tuple[str, bool]]:
    """A container that is made for one look: ``docker run --rm --gpus device=1 cuda nvidia-smi``.

    It has PIDs of its own and numbers its GPUs anew, so it is a place of its own, called by its image and its GPUs.
    """
    given, rest = _run_options(words)
    if not rest:
        return None
    command = [given["--entrypoint"], *rest[1:]] if given.get("--entrypoint") else rest[1:]
    inner = command[0].rpartition("/")[2] if command else ""
    if inner not in _LOOKS and inner not in _SHELLS:
        return None
    gpus = (
        given.get("--gpus")
        or given.get("--device")
        or next((value for value in given.values() if value.startswith("NVIDIA_VISIBLE_DEVICES=")), "")
    )
    if given.get("--pid") == "host" and gpus in ("", "all"):
        return None
    image = rest[0].rpartition("/")[2]
    name = given.get("--name") or (f"{image} ({gpus})" if gpus else image)
    return name, inner in _SHELLS and _no_command(inner, command[1:])


def _run_options(words: List[str]) -> Tuple[Dict[str, str], List[str]]:
    """Options with their values, the last of each name; and the image with what follows it."""
    given: Dict[str, str] = {}
    position = 0
    while position < len(words) and words[position].startswith("-"):
        name, equals, value = words[position].partition("=")
        position += 1
        flag = name in _RUN_FLAGS or (not name.startswith("--") and set(name[1:]) <= _RUN_LETTERS)
        attached = not name.startswith("--") and not flag and len(name) > 2 and name[1] not in _RUN_LETTERS
        if not equals and not flag and not attached and position < len(words):
            value, position = words[position], position + 1
        given[f"{name} {len(given)}" if name in ("-e", "--env") else name] = value
    return given, words[position:]


def _skip_options(words: Sequence[str], position: int) -> int:
    while position < len(words) and words[position].startswith("-") and words[position] != "--":
        position += 2 if words[position] in _WITH_VALUE else 1
    return position


def _launched(found: Launch, depth: int) -> Entry:
    host = found.hosts[0] if found.hosts else None
    if host is not None and is_this_machine(host) and found.door is None:
        host = None
    command = [word for word in found.words if word not in ("-t", "-tt")]
    words = bare(split_words(command[0][:TEXT_CAP]) if len(command) == 1 else command)
    inner = _entry(words, depth - 1) if depth else None
    deeper = inner if inner is not None and inner.is_elsewhere else None
    stays = not command or (inner is not None and inner.stays)
    unnamed = not found.hosts
    called = found.called if host is not None else None
    here = Entry(
        container=None,
        host=host,
        host_known=not unnamed,
        stays=stays,
        user=found.user,
        door=found.door,
        unnamed=unnamed,
        via=found.via,
        called=called,
        many=found.many,
    )
    if deeper is None:
        return here
    if deeper.container is not None and deeper.host is None:
        known = deeper.host_known and not unnamed
        return replace(here, container=deeper.container, scope=deeper.scope, host_known=known)
    # Through one host to another: the last one counts.
    return replace(deeper, many=found.many)


def _no_command(program: str, words: Sequence[str]) -> bool:
    """A shell that reads what is typed; ``su`` may name a user."""
    if any(re.fullmatch(r"-[a-z]{0,6}c|--command\S*", word) for word in words):
        return False
    return program == "su" or all(word.startswith("-") for word in words)
