"""Whom the stop of a unit, a container or a job reaches: those that its control group or its keeper's list holds.

A stop sends SIGTERM first and SIGKILL to whoever is left; what it comes to is SIGKILL. Containers end with their first
process, whichever signal that was, if it ends that one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gpudiag.shell.keepers import ControlGroups
from gpudiag.shell.lines import Word
from gpudiag.shell.selection import Selection, Verdict
from gpudiag.shell.signals import KILL
from gpudiag.shell.tools.common import any_of, cmdline_text, comm_text, permitted, same_user
from gpudiag.shell.tools.stops import Stop
from gpudiag.shell.world import Caller, Candidate, World

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:\\-]{0,200}")
_RAY_NAMES = ("raylet", "plasma_store", "ray::", "gcs_server")
_RAY_ARGUMENTS = (
    "monitor.py", "ray.util.client.server", "default_worker.py", "setup_worker.py", "log_monitor.py", "reporter.py",
    "io.ray.runtime.runner.worker.DefaultWorker", "dashboard/agent.py", "dashboard/dashboard.py",
    "runtime_env/agent/main.py", "ray_process_reaper.py",
)  # fmt: skip
"""What ``ray stop`` looks for on the whole host, whoever started it (Ray 2.60, ``_private/constants.py``)."""
_Inside = Callable[[Candidate], bool | None]


def select(stop: Stop, words: Sequence[Word], world: World, caller: Caller) -> Selection | None:
    """``None`` where nobody here is told whom it ends: another program keeps that."""
    groups = world.keepers
    if groups is None or not stop.names_known:
        return None
    options = [word.text or "" for word in words[1:] if word.template.startswith("-")]
    if stop.kind == "ray":
        return _ray(world, caller)
    if stop.kind == "job" and stop.verb == "scancel":
        return _jobs(stop, words, groups, world, caller)
    if not stop.names or not all(_PLAIN_NAME.fullmatch(name) for name in stop.names):
        return None
    if stop.kind == "unit" and (words[0].text or "").rpartition("/")[2] in ("systemctl", "service"):
        return _units(stop, options, groups, world, caller)
    if stop.kind == "container" and not any(word.text in ("compose", "pod", "down") for word in words):
        return _containers(stop, options, groups, world, caller)
    return None


def _units(stop: Stop, options: Sequence[str], groups: ControlGroups, world: World, caller: Caller) -> Selection | None:
    names = [name if "." in name else f"{name}.service" for name in stop.names]
    if any(re.match(r"--kill-wh|-H|-M|--host|--machine", option) for option in options):
        return None
    signal = stop.signal if stop.verb == "kill" else KILL
    if "--user" in options:
        may = _own(world, caller)
        return _reaching(
            lambda p: _any(names, lambda n: groups.in_user_unit(p.pid, n, caller.uid)), world, may, signal, names
        )
    return _reaching(
        lambda p: _any(names, lambda n: groups.in_unit(p.pid, n)), world, _as_root(world, caller), signal, names
    )


def _containers(
    stop: Stop, options: Sequence[str], groups: ControlGroups, world: World, caller: Caller
) -> Selection | None:
    names = list(stop.names)
    if stop.verb == "rm" and not any(re.match(r"--force|-[a-z]*f", option) for option in options):
        error = "a container that runs is not removed without -f"
        return Selection(tuple(Verdict(p.pid, False, None, None, error) for p in world.processes), None, error=error)
    if stop.verb == "kill" and stop.signal != KILL:
        # Only its first process gets it.
        mains = {groups.main.get(groups.id_of(name) or "") for name in names}
        inside: _Inside = lambda p: _first(groups, names, mains, p)  # noqa: E731
    else:
        inside = lambda p: _any(names, lambda n: groups.in_container(p.pid, n))  # noqa: E731
    signal = stop.signal if stop.verb == "kill" else KILL
    return _reaching(inside, world, _as_root(world, caller), signal, names)


def _first(groups: ControlGroups, names: Sequence[str], mains: set[int | None], process: Candidate) -> bool | None:
    if process.pid in mains:
        return True
    inside = _any(names, lambda name: groups.in_container(process.pid, name))
    return False if None not in mains else (None if inside is not False else False)


def _jobs(stop: Stop, words: Sequence[Word], groups: ControlGroups, world: World, caller: Caller) -> Selection | None:
    texts = [word.text or "" for word in words[1:]]
    by_user = re.fullmatch(r"(?:-u ?|--user=?)(\S+)", " ".join(texts)) if not stop.names else None
    if by_user is None and not (stop.names and all(name.isdecimal() for name in stop.names)):
        return None

    def inside(process: Candidate) -> bool | None:
        if process.pid not in groups.paths:
            return None
        job = groups.job_of(process.pid)
        if job is None:
            return False
        if by_user is not None:
            return None if process.user is None else process.user == by_user[1]
        return job in stop.names

    shown = [by_user[1]] if by_user is not None else list(stop.names)
    return _reaching(inside, world, _own(world, caller), stop.signal or KILL, shown)


def _ray(world: World, caller: Caller) -> Selection:
    verdicts: list[Verdict] = []
    for process in world.processes:
        name, line = comm_text(process), cmdline_text(process)
        by_name = None if name is None else any(text in name for text in _RAY_NAMES)
        by_line = None if line is None else any(text in line for text in _RAY_ARGUMENTS)
        because = {
            True: "ray stop looks for its name",
            False: "ray stop does not look for its name",
            None: "not recorded",
        }
        hit = any_of((by_name, by_line))
        verdicts.append(Verdict(process.pid, hit, permitted(caller, process), None, because[hit], line))
    return Selection(tuple(verdicts), KILL)


def _reaching(
    inside: _Inside, world: World, may: dict[int, bool | None], signal: int | None, names: Sequence[str]
) -> Selection:
    verdicts: list[Verdict] = []
    for process in world.processes:
        answer = inside(process)
        verb = {True: "is in", False: "is not in", None: "is not recorded to be in or outside"}[answer]
        verdicts.append(Verdict(process.pid, answer, may[process.pid], None, f"it {verb} {', '.join(names)}"))
    return Selection(tuple(verdicts), signal)


def _as_root(world: World, caller: Caller) -> dict[int, bool | None]:
    """Whoever may ask the keeper may stop anything; others than root may be allowed by its own rules."""
    return dict.fromkeys((process.pid for process in world.processes), True if caller.is_root else None)


def _own(world: World, caller: Caller) -> dict[int, bool | None]:
    return {process.pid: any_of((caller.is_root, same_user(caller, process))) for process in world.processes}


def _any(names: Sequence[str], contains: Callable[[str], bool | None]) -> bool | None:
    return any_of(contains(name) for name in names)
