"""Commands that have something else stop a server: container engines, Kubernetes, Slurm, Ray, systemd, tmux.

Whom they end depends on what that other program keeps, not on the process table; the step is named, not evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpudiag.shell.lines import Word
from gpudiag.shell.signals import KILL, TERM, number_of
from gpudiag.shell.wrappers import option_value, options_end

_ENGINES = ("docker", "podman", "nerdctl", "crictl")
_CONTAINER = {"kill": KILL, "stop": TERM, "restart": TERM, "rm": KILL, "down": TERM}
_UNIT = {"stop": TERM, "restart": TERM, "kill": TERM, "try-restart": TERM}
_WITH_VALUE = "stnpfHuMclw"
_LONG = (
    "signal",
    "time",
    "timeout",
    "kill-who",
    "namespace",
    "file",
    "host",
    "selector",
    "grace-period",
    "user",
    "name",
)


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
        return _verb(rest, "container", _CONTAINER, skip=("container", "compose", "pod"))
    if program == "docker-compose":
        return _verb(rest, "container", _CONTAINER)
    if program in ("kubectl", "oc"):
        return _verb(rest, "pod", {"delete": TERM})
    if program in ("systemctl", "service", "supervisorctl"):
        return _verb(rest, "unit", _UNIT | {"shutdown": TERM}, name_first=program == "service")
    if program in ("scancel", "qdel", "bkill"):
        return _named("job", program, rest, None)
    if program == "ray":
        return _verb(rest, "ray", {"stop": TERM})
    if program == "tmux":
        return _verb(rest, "session", {"kill-session": 1, "kill-server": 1, "kill-window": 1, "kill-pane": 1})
    if program == "nvidia-smi" and any(word.text in ("--gpu-reset", "-r") for word in rest):
        return _named("gpu", "reset", rest, None)
    return None


def _verb(
    words: tuple[Word, ...],
    kind: str,
    verbs: dict[str, int],
    *,
    skip: tuple[str, ...] = (),
    name_first: bool = False,
) -> Stop | None:
    """Options may stand before the verb and behind it."""
    while words:
        words = words[options_end((words[0], *words), _WITH_VALUE, _LONG) - 1 :]
        if not words:
            return None
        text = words[0].text or ""
        if text in verbs:
            return _named(kind, text, words[1:], verbs[text])
        if name_first and len(words) == 2 and words[1].text in verbs:
            return _named(kind, words[1].text, words[:1], verbs[words[1].text])
        if text not in skip:
            return None
        words = words[1:]
    return None


def _named(kind: str, verb: str, words: tuple[Word, ...], signal: int | None) -> Stop:
    names: list[Word] = []
    options: list[Word] = []
    while words:
        end = options_end((words[0], *words), _WITH_VALUE, _LONG) - 1
        options += words[:end]
        names += words[end : end + 1]
        words = words[end + 1 :]
    chosen = option_value(tuple(options), ("-s", "--signal"))
    signal = signal if chosen is None else number_of(chosen)
    known = tuple(word.text for word in names if word.text is not None)
    return Stop(kind, verb, known, len(known) == len(names), signal)
