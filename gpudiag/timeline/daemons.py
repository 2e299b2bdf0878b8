"""Programs that belong to the machine, whatever job runs on it."""

from __future__ import annotations

from gpudiag.timeline.lives import Life

DESKTOP = frozenset(
    {"Xorg", "X", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "mutter", "compiz", "sway", "plasmashell"}
)
"""Display servers and compositors. They run as whoever is logged in."""
MPS = frozenset({"nvidia-cuda-mps", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"})
"""The CUDA multi-process service. A user may run one of their own."""
DAEMONS = (
    frozenset(
        {
            "nvidia-persiste", "nvidia-persistenced", "nv-hostengine", "nv-fabricmanager", "dockerd", "containerd",
            "containerd-shim", "conmon", "crio", "kubelet", "sshd", "systemd", "slurmd", "slurmstepd", "raylet",
            "dcgm-exporter",
        }
    )
    | DESKTOP
    | MPS
)  # fmt: skip
"""Names of programs that are never killed for their memory. A name shields a process of root, and those that people run
themselves as long as they hold what such a program does."""
MPS_SERVER_MIB = 600.0
"""More than an MPS server itself holds on one GPU (about 30 MiB): the clients' memory is booked on the clients."""


def is_daemon(life: Life) -> bool:
    """By its name, and root's as far as is known; or one that people run themselves and that does no computing."""
    name = daemon_name(life)
    if name is None:
        return False
    if life.string("user") in ("root", None):
        return True
    if name in DESKTOP:
        return not _computes(life)
    return name in MPS and not any((mib or 0) > MPS_SERVER_MIB for mib in _newest_held(life))


def daemon_name(life: Life) -> str | None:
    """The name under which it is one of them: its program's, or what nvidia-smi printed where nothing else is known."""
    shown = life.program or (life.booked_name or "").rsplit("/", 1)[-1]
    return shown if shown in DAEMONS else None


def is_desktop(life: Life) -> bool:
    """A display server or compositor by its name, whoever runs it and whatever else it does."""
    return daemon_name(life) in DESKTOP


def draws_only(life: Life) -> bool:
    """The driver lists it for graphics alone in its newest list: part of a desktop, whatever it is called."""
    kinds = _newest_kinds(life)
    return bool(kinds) and kinds == {"graphics"}


def draws(life: Life) -> bool:
    """It has a graphics context in some look: a browser, a game, a simulator. A server of models has none."""
    return any(row.kind in ("graphics", "both") for seen in life.sightings.values() for _, row in seen.bookings)


def is_of_the_machine(life: Life) -> bool:
    """A daemon or a part of the desktop: no answer to who holds the memory of a job."""
    return is_daemon(life) or draws_only(life)


def _computes(life: Life) -> bool:
    return bool(_newest_kinds(life) & {"compute", "both", "mps"})


def _newest_kinds(life: Life) -> set[str]:
    for seen in reversed(list(life.sightings.values())):
        if seen.bookings:
            return {row.kind for _, row in seen.bookings}
    return set()


def _newest_held(life: Life) -> list[float | None]:
    for seen in reversed(list(life.sightings.values())):
        if seen.bookings:
            return [*seen.held().values()]
    return []
