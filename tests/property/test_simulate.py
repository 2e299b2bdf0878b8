"""Random process tables: what simulate says is consistent, what is proposed for next time hits the server exactly."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudiag.explain import StatedKill, explain
from gpudiag.report.simulation import Simulation
from gpudiag.report.simulation_text import render
from gpudiag.simulate import Question, simulate
from tests.property.test_shell import TEXTS
from tests.unit.simulation.tables import API, VLLM, Row, write

TITLES = (
    API,
    "VLLM::EngineCore",
    "VLLM::Worker_TP0",
    "VLLM::Worker_TP1",
    "/usr/bin/python3 -c from multiprocessing.spawn import spawn_main; spawn_main()",
    "/usr/bin/python3 -c from multiprocessing.resource_tracker import main;main(3)",
    "bash start.sh",
    "python3 train.py",
    "backup --all",
    "sshd: root@pts/0",
)
PIDS = range(100, 110)
COMMANDS = st.one_of(
    st.sampled_from(
        (
            "pkill -9 -f vllm.entrypoints",
            "pkill -9 -f VLLM::; ./stop.sh",
            "pkill -9 VLLM && kill -9 100 || kill -9 101",
            "killall -9 python3",
            "fuser -k /dev/nvidia*",
            "kill -9 -1",
            "pkill -u root",
        )
    ),
    st.lists(st.sampled_from(PIDS), min_size=1, max_size=4).map(lambda pids: f"kill -9 {' '.join(map(str, pids))}"),
    st.sampled_from(PIDS).map(lambda pid: f"kill -TERM -- -{pid}"),
)
QUESTIONS = st.builds(
    Question, st.sampled_from((None, "bash", "dash")), st.booleans(), st.sampled_from((None, "root", "eve"))
)


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    """Processes with any parents, groups, sessions and owners, older ones first."""
    rows: list[Row] = []
    for pid in draw(st.lists(st.sampled_from(PIDS), min_size=1, max_size=8, unique=True).map(sorted)):
        older = [row.pid for row in rows]
        rows.append(
            Row(
                pid,
                draw(st.sampled_from(TITLES)),
                ppid=draw(st.sampled_from([1, *older])),
                group=draw(st.sampled_from([pid, *older])),
                session=draw(st.sampled_from([pid, *older])),
                user=draw(st.sampled_from(("root", "root", "eve"))),
                stat=draw(st.sampled_from(("S", "S", "S", "Z"))),
            )
        )
    return rows


SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(tables(), COMMANDS, QUESTIONS, st.booleans())
@SLOW
def test_every_process_has_one_part(rows: list[Row], command: str, question: Question, whole: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (answer,) = simulate([command], [write(Path(folder), rows, whole=whole)], question)
    there = {row.pid for row in rows} | {1, 2}
    hit, survivors, collateral = set(answer.hit), set(answer.survivors), set(answer.collateral)
    undecided = set(answer.undecided)
    assert hit | survivors | undecided <= there
    assert collateral <= hit
    assert not hit & (survivors | undecided)
    assert not survivors & undecided
    assert {follow.pid for follow in answer.follows} <= survivors | undecided
    for step in answer.steps:
        assert set(step.collateral) <= set(step.hit) <= hit
        assert not set(step.hit) & set(step.missed)
        assert step.ran == "yes" or not step.hit
    if answer.verdict == "clean":
        assert hit
        assert (survivors, collateral, undecided, answer.outlive) == (set(), set(), set(), ())
        assert (answer.family is not None, whole) == (True, True)
    if survivors or collateral:
        assert answer.verdict == "not_clean"


@given(tables(), COMMANDS)
@SLOW
def test_the_proposal_hits_exactly_what_it_says(rows: list[Row], command: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), rows)
        following = explain([path], [StatedKill(command, None)]).plan.next_time
        if following is None:
            return
        assert following.matches
        assert following.misses == ()
        (answer,) = simulate([following.command], [path], Question(user="root"))
    assert following.command != command
    if "/proc/" in following.command:  # whether its checks pass depends on the machine, so it cannot be told
        assert answer.verdict == "cannot_be_told"
        return
    assert answer.hit == following.matches, following
    assert answer.hit_shells == ()


@given(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=3), QUESTIONS)
@SLOW
def test_any_command_gives_an_answer_that_can_be_shown(commands: list[str], question: Question) -> None:
    with tempfile.TemporaryDirectory() as folder:
        answers = simulate(commands, [write(Path(folder), VLLM)], question)
    assert len(answers) == len(commands)
    for answer in answers:
        assert Simulation.model_validate_json(answer.to_json()) == answer
    shown = render(answers)
    assert all(char.isprintable() or char == "\n" for char in shown)
