"""The host: what decides how its tools behave and what its ``/proc`` shows, as lines ``key: value``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

from gpudiag.collect.ask import Answer, ask
from gpudiag.collect.hidden import own_hidepid
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Out

_TOOL_S = 0.5
_VERSIONS = (
    ("procps", ("pkill", "--version")),
    ("psmisc", ("killall", "--version")),
    ("fuser", ("fuser", "--version")),
    ("bash", ("bash", "--version")),
    ("dash", ("dpkg-query", "-W", "-f", "${Version}", "dash")),
    ("systemd", ("systemctl", "--version")),
)
"""Their semantics differ from version to version."""
_FILES = (
    ("core_pattern", "sys/kernel/core_pattern"),
    ("boot_id", "sys/kernel/random/boot_id"),
    ("uptime_s", "uptime"),
    ("dmesg_restrict", "sys/kernel/dmesg_restrict"),
    ("ptrace_scope", "sys/kernel/yama/ptrace_scope"),
    ("pid_max", "sys/kernel/pid_max"),
    ("nvidia_module", "driver/nvidia/version"),
)
_NAMESPACES = ("pid", "mnt", "user", "net", "cgroup", "ipc", "uts")
_CONTAINER_FILES = (("docker", "/.dockerenv"), ("podman", "/run/.containerenv"))
_CAP = 4096


def produce(machine: Machine, out: Out) -> None:
    """``host.txt``."""
    for key, value in facts(machine, out.started):
        out.line(f"{key}: {value}")


def facts(machine: Machine, started: Callable[[int], None]) -> Iterator[tuple[str, str]]:
    """Everything that can be read; what cannot be is left out."""
    yield "kernel", os.uname().release
    yield "machine", os.uname().machine
    yield "libc", _libc()
    yield "shell_sh", os.path.realpath("/bin/sh")
    yield "timezone", time.strftime("%Z %z")
    for clock, number in (("wall", 0), ("monotonic", 1), ("boottime", 7)):
        yield f"clock_{clock}_ns", str(time.clock_gettime_ns(number))
    for key, name in _FILES:
        text = _read(f"{machine.proc}/{name}")
        if text:
            yield key, text.split()[0] if key == "uptime_s" else text.split("\n")[0]
    yield from _views(machine)
    # All at once: each costs a few milliseconds.
    asked = [(key, ask(machine, argv, _TOOL_S, started, Answer())) for key, argv in _VERSIONS if machine.tool(argv[0])]
    for key, lines in asked:
        first = [line.strip() for line in lines][:1]
        if first and first[0]:
            yield f"version_{key}", first[0][:200]


def _libc() -> str:
    """``glibc 2.36``; a C library that does not know the question is another one (musl)."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    except (OSError, ValueError):
        return "unknown"


def _views(machine: Machine) -> Iterator[tuple[str, str]]:
    """What of the machine this process can see."""
    hidden = own_hidepid(machine.proc)
    if hidden is not None:
        yield "hidepid", hidden
    for name in _NAMESPACES:
        try:
            yield f"namespace_{name}", os.readlink(f"{machine.proc}/self/ns/{name}")  # noqa: PTH115
        except OSError:
            continue
    for name, path in _CONTAINER_FILES:
        if os.path.exists(path):  # noqa: PTH110
            yield "container_hint", f"{name} ({path})"
    group = _read(f"{machine.proc}/self/cgroup")
    if group:
        yield "own_cgroup", group.split("\n")[-1]
    if "container" in os.environ:
        yield "container_hint", "environment"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        yield "container_hint", "kubernetes"


def _read(path: str, size: int = _CAP) -> str | None:
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            return file.read(size).strip()
    except OSError:
        return None
