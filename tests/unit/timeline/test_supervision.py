"""Own stop commands of supervisors: whatever comes from a command line is quoted."""

from __future__ import annotations

import shlex

import pytest

from gpudiag.timeline.lives import Life, Sighting
from gpudiag.timeline.order import Look
from gpudiag.timeline.supervision import predecessor, stop_command
from tests.unit.timeline.rows import NOW, process

LOOK = Look("L", "L", "box", 0, NOW, NOW)


def life(pid: int, cmdline: str | None) -> Life:
    seen = Sighting(LOOK, pid, [process("L", pid, cmdline=cmdline)])
    return Life("box", pid, {"L": seen}, None, 0, None, 1)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("supervisord -n -c /etc/s.conf", "ctl -c /etc/s.conf stop 26"),
        ("supervisord -n", "ctl stop 26"),
        ("supervisord -c", "ctl stop 26"),
        (None, "ctl stop 26"),
        ("supervisord -c $(reboot)", "ctl -c '$(reboot)' stop 26"),
        ("supervisord -c a;reboot", "ctl -c 'a;reboot' stop 26"),
        ("supervisord -c {child}", "ctl -c '{child}' stop 26"),
        ("supervisord -c 'x", "ctl -c ''\"'\"'x' stop 26"),
    ],
)
def test_options_of_the_supervisor_are_taken_over_quoted(line: str | None, expected: str) -> None:
    found = stop_command("ctl{-c} stop {child}", life(18, line), life(26, "serve"))
    assert found == expected
    assert len(shlex.split(found)) in (3, 5)


def test_a_set_that_is_started_again_stands_for_the_old_one_in_order() -> None:
    old, new = [life(pid, "rank") for pid in (21, 22)], [life(pid, "rank") for pid in (39, 40, 41)]
    stood = [found.pid for one in new if (found := predecessor(one, old, new)) is not None]
    assert stood == [21, 22, 22]
    assert predecessor(new[0], [], new) is None
