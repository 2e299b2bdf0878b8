"""A number that was given out again: who was meant by it, who is whose parent, and who is dead."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.explain import Explanation, explain_fully
from gpudiag.timeline.messages import no_such_process

STAGED = Path(__file__).parents[2] / "fixtures" / "staged"
SERVER, WORKER = 4202, 4203


@pytest.fixture(scope="module")
def recycled() -> Explanation:
    """The server crashed, a stranger got its number, and the number was killed."""
    return explain_fully([STAGED / "recycled-pid.txt"])


def test_the_worker_is_the_child_of_the_one_that_was_there(recycled: Explanation) -> None:
    server, stranger = recycled.incident.census.named("box", SERVER)
    (worker,) = recycled.incident.census.named("box", WORKER)
    assert recycled.incident.kinship.parent(worker) is server
    assert stranger.string("user") == "nobody"


def test_who_gave_the_number_away_is_dead(recycled: Explanation) -> None:
    server, stranger = recycled.incident.census.named("box", SERVER)
    look = recycled.incident.looks[1]
    assert recycled.incident.census.present(server, look) is False
    assert recycled.incident.census.present(stranger, look) is True


def test_the_command_was_aimed_at_the_server_and_not_at_the_stranger(recycled: Explanation) -> None:
    server, stranger = recycled.incident.census.named("box", SERVER)
    assert recycled.incident.aims.is_aimed(server)
    assert not recycled.incident.aims.is_aimed(stranger)
    assert {entry.pid for entry in recycled.report.plan.kill} == {WORKER}


def test_what_the_report_says_of_it(recycled: Explanation) -> None:
    (step,) = recycled.facts["step"]
    assert step["stray_pids"] == [str(SERVER)]
    assert step["stray_how"] == "it had been python3 and was sleep 86400 by then"
    assert next(f.rule for f in recycled.report.findings if f.primary) == "GPD105"


def test_dash_names_no_number() -> None:
    assert no_such_process("dash: 1: kill: No such process\n", (7, 8)) == []
