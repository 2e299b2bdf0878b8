"""Commands that have something else stop a server: container engines, Kubernetes, Slurm, Ray, systemd, tmux.

Whom they end depends on what that other program keeps, not on the process table; the step is named, not evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpudiag.shell.lines import Word
from gpudiag.shell.signals import HUP, KILL, TERM, number_of
from gpudiag.shell.wrappers import option_value, options_end

_ENGINES = ("docker", "podman", "nerdctl", "crictl")
_CONTAINER = {"kill": KILL, "stop": TERM, "restart": TERM, "rm": KILL, "down": TERM}
_UNIT = {"stop": TERM, "restart": TERM, "kill": TERM, "try-restart": TERM}
_Options = tuple[str, tuple[str, ...]]
_ENGINE: _Options = ("stnHc", ("signal", "time", "timeout", "host", "context", "file", "project-name", "filter"))
_COMPOSE: _Options = ("fpstH", _ENGINE[1])
_KUBECTL: _Options = ("fnl", ("namespace", "filename", "selector", "grace-period", "context", "kubeconfig", "timeout"))
_SYSTEMCTL: _Options = ("stHM", ("signal", "kill-who", "kill-whom", "type", "host", "machine", "job-mode"))
_SCANCEL: _Options = ("unpstAqRwM", ("user", "name", "partition", "signal", "state", "account", "qos", "nodelist"))
_TMUX: _Options = ("tLSf", ())
_SMI: _Options = ("i", ("id",))
"""Options that take a value, short and long."""


@dataclass(frozen=True)
class Stop:
    """What such a command asks for."""

    kind: str
    """``container``, ``pod``, ``job``, ``ray``, ``unit``, ``session`` or ``gpu``."""
    verb: str
    """As written: ``rm``, ``restart``."""
    names: tuple[str, ...]
    """What it names; empty where it names nothing (``ray stop``) or where that cannot be read."""
    names_known: bool
    """Every name stands in the command itself."""
    signal: int | None
    """The first signal sent, where that is known."""


def stop_of(words: Sequence[Word]) -> Stop | None:
    """What the command stops through another program; ``None`` for any other command."""
    program = (words[0].text or "").rsplit("/", 1)[-1] if words else ""
    rest = tuple(words[1:])
    if program in _ENGINES:
        compose = any(word.text == "compose" for word in rest)
        options = _COMPOSE if compose else _ENGINE
        return _verb(rest, "container", _CONTAINER, options, skip=("container", "compose", "pod"))
    if program == "docker-compose":
        return _verb(rest, "container", _CONTAINER, _COMPOSE)
    if program in ("kubectl", "oc"):
        return _verb(rest, "pod", {"delete": TERM}, _KUBECTL)
    if program in ("systemctl", "service", "supervisorctl"):
        return _verb(rest, "unit", _UNIT | {"shutdown": TERM}, _SYSTEMCTL, name_first=program == "service")
    if program in ("scancel", "qdel", "bkill"):
        return _named("job", program, rest, None, _SCANCEL)
    if program == "ray":
        return _verb(rest, "ray", {"stop": TERM}, ("", ()))
    if program == "tmux":
        verbs: tuple[str, ...] = ("kill-session", "kill-server", "kill-window", "kill-pane")
        return _verb(rest, "session", dict.fromkeys(verbs, HUP), _TMUX)
    if program == "nvidia-smi" and any(word.text in ("--gpu-reset", "-r") for word in rest):
        return _named("gpu", "reset", rest, None, _SMI)
    return None


def _verb(
    words: tuple[Word, ...],
    kind: str,
    verbs: Mapping[str, int],
    options: _Options,
    *,
    skip: tuple[str, ...] = (),
    name_first: bool = False,
) -> Stop | None:
    """Options may stand before the verb and behind it."""
    while words:
        words = words[options_end((words[0], *words), *options) - 1 :]
        if not words:
            return None
        text = words[0].text or ""
        if text in verbs:
            return _named(kind, text, words[1:], verbs[text], options)
        last = words[-1].text or ""
        if name_first and len(words) == 2 and last in verbs:
            return _named(kind, last, words[:1], verbs[last], options)
        if text not in skip:
            return None
        words = words[1:]
    return None


def _named(kind: str, verb: str, words: tuple[Word, ...], signal: int | None, options: _Options) -> Stop:
    names: list[Word] = []
    given: list[Word] = []
    while words:
        end = options_end((words[0], *words), *options) - 1
        given += words[:end]
        names += words[end : end + 1]
        words = words[end + 1 :]
    chosen = option_value(tuple(given), ("-s", "--signal"))
    signal = signal if chosen is None else number_of(chosen)
    known = tuple(word.text for word in names if word.text is not None)
    return Stop(kind, verb, known, len(known) == len(names), signal)
