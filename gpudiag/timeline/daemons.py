"""Programs that belong to the machine, whatever job runs on it."""

from __future__ import annotations

from gpudiag.timeline.lives import Life

DAEMONS = frozenset(
    {
        "nvidia-persiste", "nvidia-persistenced", "nv-hostengine", "nv-fabricmanager", "nvidia-cuda-mps-control",
        "nvidia-cuda-mps", "nvidia-cuda-mps-server", "Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11",
        "dockerd", "containerd", "containerd-shim", "conmon", "crio", "kubelet", "sshd", "systemd", "slurmd",
        "slurmstepd", "raylet", "dcgm-exporter",
    }
)  # fmt: skip
"""Names of programs that are never killed for their memory. A name shields only a process of root."""


def is_daemon(life: Life) -> bool:
    """By its name, and root's as far as is known."""
    return bool(daemon_name(life)) and life.string("user") in ("root", None)


def daemon_name(life: Life) -> str | None:
    """The name under which it is one of them: its program's, or what nvidia-smi printed where nothing else is known."""
    shown = life.program or (life.booked_name or "").rsplit("/", 1)[-1]
    return shown if shown in DAEMONS else None
