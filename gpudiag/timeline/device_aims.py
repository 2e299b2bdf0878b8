"""Commands that end whoever uses the devices, and whom they mean: ``fuser -k /dev/nvidia*``, ``kill $(nvidia-smi …)``.

They name nobody, so what they are meant for has to be settled: all GPUs or some, every user of those or some, and never
what draws on a screen, which is no job of anybody's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpudiag.shell.lines import Substitution, Word
from gpudiag.shell.tools import fuser
from gpudiag.shell.tools.columns import skips_header
from gpudiag.timeline.commands import ActionView, StepView
from gpudiag.timeline.daemons import draws
from gpudiag.timeline.families import Family
from gpudiag.timeline.gpus import GpuIndex
from gpudiag.timeline.lives import UNKNOWN_GPU, Key, Life
from gpudiag.timeline.requests import uses_gpu

_NODE = re.compile(r"/dev/nvidia(\d{1,3})")
_SHARED_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_MAX_GPUS = 256
_FIRST_OR_LAST = frozenset({"head", "tail", "shuf"})
_BY_LINE_NUMBER = re.compile(r"(?:-[nEe]+ )*\$?\d+(?:,\$?\d*)?[pqd!]|\bNR ?[=<]=? ?\d")
_BY_CELL = re.compile(r"\$\w+ ?(?:[=!]=|[<>~]=?|!~)")
_BY_NUMBER = re.compile(r"(?:-\w+ )*[\^| +*.\\s]*\d[\d| +*.\\s$]*")
"""A pattern of grep that has digits and no letter: the cell of a GPU."""


@dataclass(frozen=True)
class Reach:
    """Which users of the devices a step takes."""

    everybody: bool
    gpus: frozenset[str] = frozenset()
    """Names of the only GPUs that it looks at, as written: index, UUID or bus id."""


def takes_by_device(step: StepView) -> bool:
    """Its victims are whoever uses the devices; a ``fuser`` of a port or of another file says whom it means."""
    if step.replay.tool != "fuser":
        return step.replay.list_from == "nvidia-smi"
    return any(word.template.startswith("/dev/nvidia") or _has_nodes(word) for word in _files(step))


def meant_by_device(
    action: ActionView, families: Sequence[Family], logged_pids: frozenset[int], gpus: GpuIndex
) -> frozenset[Key]:
    """Whom the steps of a command mean that take their victims from the devices.

    The server whose log is part of the evidence; else the caller's own; else whoever owns them all. Several owners and
    no other sign: nobody can be named.
    """
    steps = [step for step in action.steps if step.may_end and takes_by_device(step)]
    reaches = [(step, _reach(step)) for step in steps]
    users = [f for f in families if f.host == action.host and uses_gpu(f)]
    meant = {
        life.key
        for family in users
        for life in family.members
        if not draws(life) and any(_takes(step, reach, life, gpus) for step, reach in reaches)
    }
    chosen = _whose([f for f in users if any(life.key in meant for life in f.members)], action, logged_pids)
    return frozenset(life.key for f in chosen for life in f.members if life.key in meant)


def _whose(users: Sequence[Family], action: ActionView, logged_pids: frozenset[int]) -> Sequence[Family]:
    logged = [f for f in users if any(life.pid in logged_pids for life in f.members)]
    own = [f for f in users if f.user is not None and f.user == action.caller.user]
    return logged or own or (users if len({f.user for f in users}) == 1 else [])


def _takes(step: StepView, reach: Reach, life: Life, gpus: GpuIndex) -> bool:
    """All of a server where all users are meant; else those on the GPUs, or, where that is not known, those picked."""
    if reach.everybody:
        return True
    names = _names(life, gpus) if reach.gpus else None
    if names:
        return bool(names & reach.gpus)
    verdict = step.verdict(life.pid)
    return verdict is not None and verdict.selected is True and life.used_devices


def _names(life: Life, gpus: GpuIndex) -> set[str]:
    """Every name of the GPUs on which the driver ever booked memory on it."""
    held = {gpu for seen in life.sightings.values() for gpu, _ in seen.bookings if gpu != UNKNOWN_GPU}
    found = [gpus.get(gpu) for gpu in held]
    return {str(name) for gpu in found for name in (gpu.index, gpu.uuid, gpu.bus_id) if name is not None}


def _reach(step: StepView) -> Reach:
    if step.replay.tool == "fuser":
        return _reach_of_files(_files(step))
    lists = list(_lists(step))
    if not lists or any(_thins(words) for one in lists for words in one.pipeline[1:]):
        return Reach(everybody=not lists)
    asked = [_asked_gpus(one.pipeline[0]) if one.pipeline else frozenset[str]() for one in lists]
    if any(names is None for names in asked):
        return Reach(everybody=False)
    if not all(asked):
        return Reach(everybody=True)
    return Reach(everybody=False, gpus=frozenset[str]().union(*(names or () for names in asked)))


def _files(step: StepView) -> Sequence[Word]:
    return fuser.asked_for(step.replay.step.words)


def _has_nodes(word: Word) -> bool:
    nodes = [*_SHARED_NODES, *(f"/dev/nvidia{number}" for number in range(_MAX_GPUS))]
    return word.glob and any(fuser.named(node, [word]) for node in nodes)


def _reach_of_files(files: Sequence[Word]) -> Reach:
    """One node is one GPU; a pattern, or a node that every CUDA process has open, means all users."""
    texts = [word.text or "" for word in files if word.template.startswith("/dev/nvidia") or _has_nodes(word)]
    if any(word.glob for word in files) or any(text in _SHARED_NODES for text in texts):
        return Reach(everybody=True)
    nodes = [_NODE.fullmatch(text) for text in texts]
    named = frozenset(node[1] for node in nodes if node is not None)
    return Reach(everybody=False, gpus=named if all(nodes) else frozenset())


def _lists(step: StepView) -> Iterator[Substitution]:
    """The lists that nvidia-smi supplies to the step."""
    fed = step.replay.step.fed_by
    given = [one for word in step.replay.step.words for one in word.substitutions] + ([fed] if fed is not None else [])
    yield from (one for one in given if one.program == "nvidia-smi")


def _asked_gpus(words: Sequence[Word]) -> frozenset[str] | None:
    """The GPUs of ``nvidia-smi -i 0,1``; empty where it is asked about all, ``None`` where it cannot be read."""
    texts = [word.text for word in words[1:]]
    for position, text in enumerate(texts):
        if text is None:
            return None
        option = re.fullmatch(r"(?:-i|--id)=?(.*)", text)
        if option is not None:
            given = option[1] or (texts[position + 1] if position + 1 < len(texts) else None)
            return frozenset(given.split(",")) if given else None
    return frozenset()


def _thins(words: Sequence[Word]) -> bool:
    """``| head -1``, ``| awk '$2 == 0 {…}'``: only some of the users are taken."""
    if not words or skips_header(words):
        return False
    program = (words[0].text or "").rpartition("/")[2]
    text = " ".join(word.template for word in words[1:])
    if program in _FIRST_OR_LAST:
        return True
    if program in ("sed", "awk", "gawk", "mawk"):
        return bool(_BY_LINE_NUMBER.search(text) or (program != "sed" and _BY_CELL.search(text)))
    return program in ("grep", "egrep") and _BY_NUMBER.fullmatch(text) is not None
