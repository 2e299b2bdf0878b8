"""Who keeps a process alive as it is meant to: a container, an engine's pool, a service. And how that is ended.

What a control group, the descent or the keeper's own list shows. A title alone is only a hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudiag.collect.groups import Keepers, named
from gpudiag.model import Citation, Container, Unit
from gpudiag.shell.printable import quoted
from gpudiag.timeline.coupling import MAX_COMMAND_LINE
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.kinship import is_supervisor
from gpudiag.timeline.lives import Life

_SHIM_ID = re.compile(r"(?:^|[\s/])([0-9a-f]{12,64})(?=[\s/.]|\Z)")
_SHIMS = ("containerd-shim", "docker-containerd-shim", "conmon")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:\\-]{0,200}")
_SHORT_ID = 12
_WORDS = re.compile(r"[^a-z0-9]+")
_OTHERS_JOBS = re.compile(
    r"(?:crond?|atd|sshd?|slurmd|docker|containerd|crio|kubelet|podman|gdm3?|lightdm|sddm|display-manager|jupyterhub"
    r"|gitlab-runner|supervisord?|(?:getty|serial-getty|user|sshd)@.*|systemd-.*)\.service"
)
"""Units in whose control group other people's jobs run: to stop the unit would be to stop them all."""


@dataclass(frozen=True)
class Custody:
    """A keeper and what it keeps alive."""

    kind: str
    """As ``stop_first`` names it."""
    name: str
    """What the keeper calls it: the unit, the container; the engine's kind of pool."""
    command: str | None
    """Its own command that ends it; ``None``: none is known that ends this and nothing else."""
    runs: bool | None
    """The keeper lives, or says that it keeps it; ``None``: nothing shows either."""
    because: str
    cites: tuple[Citation, ...] = ()


def custody_of(incident: Incident, life: Life) -> Custody | None:
    """The nearest keeper; ``None``: nothing shows one."""
    groups = _groups(life)
    shown = _container(incident, life, groups) or _pool(incident, life) or _unit(incident, life, groups)
    return shown or _by_image(incident, life)


def ended_client(incident: Incident, found: Custody) -> Life | None:
    """The command that started this container and is dead: the container does not end with it."""
    if found.kind != "docker":
        return None
    words = {found.name, *_own_image(incident, found)}
    for life in incident.census.lives:
        line = (life.cmdline or "")[:MAX_COMMAND_LINE].split()
        if _starts_container(line) and words & set(line) and incident.alive(life) is False:
            return life
    return None


def _own_image(incident: Incident, found: Custody) -> Iterator[str]:
    """The image, if no other container has it."""
    images = {(row.name, row.id): row.image for row in incident.parsed.containers}
    for names, image in images.items():
        if image is not None and found.name in names and list(images.values()).count(image) == 1:
            yield image


def _starts_container(line: list[str]) -> bool:
    tool = line[0].rsplit("/", 1)[-1] if line else ""
    return tool in ("docker", "podman", "nerdctl") and bool({"run", "start", "exec"} & set(line[1:4]))


def is_told(incident: Incident, life: Life) -> bool:
    """The evidence has what would show a keeper: its control group, its parent, or a list with its PID."""
    return life.latest("cgroup") is not None or incident.kinship.parent(life) is not None


def _groups(life: Life) -> Keepers:
    path = life.string("cgroup")
    return named([f"0::{path}"]) if path else Keepers()


def _container(incident: Incident, life: Life, groups: Keepers) -> Custody | None:
    line = [life, *incident.kinship.ancestors(life)]
    shim = next((above for above in line[1:] if _is_shim(above)), None)
    row = _container_row(incident, life, line, [*groups.containers, *(_ids(shim) if shim is not None else ())])
    if row is None and shim is None and not groups.containers and not groups.pods:
        return None
    kept = "the container's runtime is its ancestor" if shim is not None else "its control group is a container's"
    if groups.pods or (shim is not None and "k8s.io" in (shim.cmdline or "")):
        name = groups.pods[0] if groups.pods else "pod"
        return Custody("kubernetes", name, None, _runs(incident, row, shim), "it runs in a pod")
    ids = [*groups.containers, *(_ids(shim) if shim is not None else ())]
    name = (row.name or row.id if row is not None else None) or (ids[0][:_SHORT_ID] if ids else None)
    if name is None:
        return None
    engine = "podman" if _is_podman(life, shim) else "docker"
    command = f"{engine} stop {quoted(name)}" if _PLAIN_NAME.fullmatch(name) else None
    cites = (row.cited,) if row is not None else ()
    return Custody("docker", name, command, _runs(incident, row, shim), kept if row is None else "listed", cites)


def _is_shim(life: Life) -> bool:
    return (life.program or "").rsplit("/", 1)[-1].startswith(_SHIMS)


def _ids(shim: Life) -> list[str]:
    return _SHIM_ID.findall(shim.cmdline or "")


def _is_podman(life: Life, shim: Life | None) -> bool:
    return "libpod" in (life.string("cgroup") or "") or (shim is not None and (shim.program or "") == "conmon")


def _container_row(incident: Incident, life: Life, line: list[Life], ids: list[str]) -> Container | None:
    """The newest row about its container: by id, by name of the PIDs in it, or by its first process."""
    pids = {above.pid for above in line}
    own = [row for row in incident.parsed.containers if row.at.host == life.host]
    fitting = [row for row in own if row.main_pid in pids or life.pid in row.pids or _is_one(row.id, ids)]
    return fitting[-1] if fitting else None


def _is_one(identity: str | None, ids: list[str]) -> bool:
    if identity is None or len(identity) < _SHORT_ID:
        return False
    return any(full.startswith(identity) or identity.startswith(full) for full in ids)


def _runs(incident: Incident, row: Container | None, shim: Life | None) -> bool | None:
    status = (row.status or "").lower() if row is not None else ""
    if status:
        return status.startswith(("up", "running"))
    return incident.alive(shim) if shim is not None else None


def _by_image(incident: Incident, life: Life) -> Custody | None:
    """The only container that runs, where its image is of the engine whose only server this is.

    For a process of which no control group and no parent is shown: the head of a session that was started neither from
    a terminal's shell nor by PID 1, as a container's first process is.
    """
    family = incident.family_of(life)
    if family is None or family.engine is None or family.role(life) != "server" or is_told(incident, life):
        return None
    if life.integer("sid") != life.pid or life.integer("ppid") in (None, 0, 1):
        return None
    alike = [f for f in incident.families if f.host == life.host and f.engine == family.engine]
    rows = {(row.id, row.name): row for row in incident.parsed.containers if row.at.host == life.host}
    running = [row for row in rows.values() if _runs(incident, row, None)]
    if len(running) != 1 or alike != [family] or running[0].name is None:
        return None
    row = running[0]
    if family.engine not in _WORDS.split((row.image or "").lower()) or not _PLAIN_NAME.fullmatch(row.name or ""):
        return None
    because = "the only container that runs has an image of its engine"
    return Custody("docker", row.name or "", f"docker stop {quoted(row.name or '')}", True, because, (row.cited,))


def _pool(incident: Incident, life: Life) -> Custody | None:
    for above in incident.kinship.ancestors(life):
        law = incident.book.pool_of(above.comm, above.cmdline)
        if law is not None:
            if incident.alive(above) is not True:
                return None
            cites = tuple(above.citations()[:1])
            return Custody(law.kind, law.name, law.stop, True, law.because, cites)
    law = incident.book.pool_around(life.comm, life.cmdline or life.booked_name)
    look = incident.newest(life.host)
    if law is None or look is None or incident.kinship.parent(life) is not None:
        return None
    if incident.census.sees_everybody(look):
        return None  # its keeper would be there
    return Custody(law.kind, law.name, law.stop, None, law.because)


def _unit(incident: Incident, life: Life, groups: Keepers) -> Custody | None:
    row = _unit_row(incident, life)
    name = row.name if row is not None else next(iter(groups.units), None)
    if name is None or not name.endswith(".service") or _OTHERS_JOBS.fullmatch(name):
        return None
    main = next(_first_of_unit(incident, life, row), None)
    if main is not None and main is not life and (is_supervisor(main) or is_terminal(main)):
        return None  # it starts jobs that are not the unit's own
    command = f"systemctl stop {quoted(name)}" if _PLAIN_NAME.fullmatch(name) else None
    runs = None if row is None or row.active is None else row.active == "active"
    if row is None and main is not None:
        runs = incident.alive(main)
    return Custody(
        "systemd", name, command, runs, f"it belongs to the service {name}", (row.cited,) if row is not None else ()
    )


def is_terminal(life: Life) -> bool:
    """It keeps terminals, in which anybody starts anything."""
    return (life.program or "").lower().startswith(("tmux", "screen"))


def _unit_row(incident: Incident, life: Life) -> Unit | None:
    line = {life.pid, *(above.pid for above in incident.kinship.ancestors(life))} - {1}
    own = [row for row in incident.parsed.units if row.at.host == life.host and row.name is not None]
    fitting = [row for row in own if life.pid in row.pids or row.main_pid in line]
    return fitting[-1] if fitting else None


def _first_of_unit(incident: Incident, life: Life, row: Unit | None) -> Iterator[Life]:
    """The unit's main process, by its own word or by the descent."""
    if row is not None and row.main_pid is not None:
        yield from incident.census.named(life.host, row.main_pid)
    top = life
    for above in incident.kinship.ancestors(life):
        if above.pid == 1:
            yield top
        top = above
