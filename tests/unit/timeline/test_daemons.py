"""Programs of the machine: by name and by what they do."""

from __future__ import annotations

import pytest

from gpudiag.model import Booking, GpuRef
from gpudiag.timeline.daemons import draws_only, is_daemon
from gpudiag.timeline.lives import Life, Sighting
from gpudiag.timeline.order import Look
from tests.unit.timeline.rows import CITED, NOW, at, process

LOOK = Look("after", "after", "box", 0, NOW, NOW)


def _life(user: str | None, comm: str, mib: float | None = None, kind: str = "compute") -> Life:
    booked = [("g", Booking(at("after"), GpuRef(index=0), 7, mib, comm, None, kind, CITED))] if mib else []
    seen = Sighting(LOOK, 7, [process("after", 7, user=user, comm=comm, cmdline=comm)], [], booked)
    return Life("box", 7, {"after": seen}, None, 0, None, 1)


@pytest.mark.parametrize(
    ("user", "comm", "mib", "kind", "expected"),
    [
        ("root", "nvidia-persistenced", None, "compute", True),
        ("ana", "nvidia-persistenced", None, "compute", False),
        ("ana", "gnome-shell", 300, "graphics", True),
        ("ana", "gnome-shell", 9000, "compute", False),
        ("ana", "nvidia-cuda-mps-server", 30, "compute", True),
        ("ana", "nvidia-cuda-mps-server", 9000, "compute", False),
        ("root", "python3", 9000, "compute", False),
    ],
)
def test_a_name_alone_hides_nobody(user: str, comm: str, mib: float | None, kind: str, expected: bool) -> None:
    assert is_daemon(_life(user, comm, mib, kind)) is expected


def test_who_only_draws_is_of_the_desktop() -> None:
    assert draws_only(_life("ana", "firefox", 200, "graphics"))
    assert not draws_only(_life("ana", "blender", 200, "compute"))
    assert not draws_only(_life("ana", "firefox"))
