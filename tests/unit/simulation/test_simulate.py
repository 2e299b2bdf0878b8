"""What a command would do: who is hit, who follows, which server is meant, and what cannot be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.report.simulation import Simulation, several_to_json
from gpudiag.simulate import NoSuchServerError
from gpudiag.simulation.choose import Wanted
from tests.unit.simulation.tables import API, VLLM, Row, ask, write

OTHER = (
    Row(600, API.replace("--model m", "--model other"), user="eve"),
    Row(601, "VLLM::EngineCore", ppid=600, group=600, user="eve"),
)
SESSION = (
    Row(300, "sshd: root@pts/0", comm="sshd"),
    Row(301, "-bash", ppid=300),
    Row(700, "/usr/lib/xorg/Xorg :0", comm="Xorg"),
)


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return write(tmp_path, (*VLLM, *SESSION))


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return write(tmp_path, (*VLLM, *OTHER))


def test_the_whole_group_is_clean(server: Path) -> None:
    answer = ask(server, "kill -9 -- -500")
    assert (answer.verdict, answer.hit, answer.survivors) == ("clean", (500, 501, 502, 503), ())
    assert answer.steps[0].exit_code == 0


def test_survivors_have_their_reason(server: Path) -> None:
    answer = ask(server, "pkill -9 -f vllm.entrypoints")
    assert (answer.verdict, answer.hit, answer.survivors) == ("not_clean", (500,), (501, 502, 503))
    reasons = {process.pid: process.because for process in answer.processes}
    assert reasons[502] == "the pattern is not found in its command line"
    assert answer.follows == ()


def test_killing_the_engine_makes_workers_follow_and_not_hit(server: Path) -> None:
    answer = ask(server, "kill -9 501")
    assert answer.survivors == (500, 502, 503)
    assert {follow.pid for follow in answer.follows} == {500, 502, 503}
    assert {follow.certainty for follow in answer.follows} == {"possible"}


@pytest.mark.parametrize(
    ("command", "collateral"),
    [
        ("kill -9 -- -500; pkill -9 sshd", (300,)),
        ("kill -9 -- -500 && killall -9 Xorg", (700,)),
        ("kill -9 -- -500; kill -9 301", (301,)),
    ],
)
def test_sessions_and_desktops_are_collateral(server: Path, command: str, collateral: tuple[int, ...]) -> None:
    answer = ask(server, command)
    assert (answer.verdict, answer.collateral) == ("not_clean", collateral)


def test_a_step_that_fails_stops_what_depends_on_it(server: Path) -> None:
    answer = ask(server, "pkill -9 nobody-is-called-so && kill -9 -- -500")
    assert [step.ran for step in answer.steps] == ["yes", "no"]
    assert "exit code before && is 1" in answer.steps[1].because
    assert answer.hit == ()
    assert ask(server, "pkill -9 nobody-is-called-so || kill -9 -- -500").verdict == "clean"


@pytest.mark.parametrize(
    ("question", "verdict"),
    [
        ({}, "clean"),
        ({"run_by": "bash"}, "clean"),
        ({"run_by": "dash"}, "not_clean"),
        ({"over_ssh": True}, "cannot_be_told"),
    ],
)
def test_the_shell_that_carries_it_decides(server: Path, question: dict[str, object], verdict: str) -> None:
    """bash becomes the last program of its line, dash stays and matches; of sshd's login shell it is not known."""
    answer = ask(server, "pkill -9 -f 'vllm.entrypoints|VLLM::'", **question)
    assert answer.hit == (500, 501, 502, 503)
    assert answer.verdict == verdict
    assert bool(answer.hit_shells) == (verdict == "not_clean")


def test_steps_after_the_own_shell_never_run(server: Path) -> None:
    answer = ask(server, "pkill -9 -f vllm.entrypoints; sleep 1; kill -9 -- -500", over_ssh=True)
    assert [step.ran for step in answer.steps] == ["yes", "no", "no"]
    assert answer.survivors == (501, 502, 503)
    assert answer.hit_shells == ("the remote shell that ran it",)


@pytest.mark.parametrize("command", ["./stop.sh", "python3 cleanup.py", "make stop", "kill -9 $PIDS", "true; ./x"])
def test_what_is_not_understood_cannot_be_told(server: Path, command: str) -> None:
    answer = ask(server, command)
    assert (answer.verdict, answer.hit, answer.survivors) == ("cannot_be_told", (), ())
    assert set(answer.undecided) >= {500, 501, 502, 503}


def test_a_sure_hit_elsewhere_decides_despite_a_step_that_is_not_understood(server: Path) -> None:
    assert ask(server, "kill -9 300; pkill -9 -f VLLM; ./stop.sh").verdict == "not_clean"
    assert ask(server, "kill -9 -- -500; ./stop.sh").verdict == "cannot_be_told"


def test_a_step_that_ends_nobody_leaves_all(server: Path) -> None:
    for command in ("ps aux | grep vllm", "sleep 3; nvidia-smi", "kill -0 500", "systemctl status vllm"):
        answer = ask(server, command)
        assert (answer.verdict, answer.hit, len(answer.survivors)) == ("not_clean", (), 4), command


def test_another_user_may_not_signal_them(server: Path) -> None:
    answer = ask(server, "kill -9 -- -500", user="eve")
    assert (answer.hit, answer.survivors) == ((), (500, 501, 502, 503))
    assert answer.steps[0].not_permitted == (500, 501, 502, 503)


def test_a_pattern_over_two_tenants_means_the_callers_own(two: Path) -> None:
    answer = ask(two, "pkill -9 -f vllm.entrypoints")
    assert (answer.root_pid, answer.hit, answer.collateral) == (500, (500, 600), (600,))
    answer = ask(two, "pkill -9 -f vllm.entrypoints", user="eve")
    assert (answer.root_pid, answer.hit, answer.collateral) == (600, (600,), ())


def test_it_is_said_if_it_cannot_be_told_which_server_is_meant(tmp_path: Path) -> None:
    mine = tuple(Row(row.pid, row.args, row.ppid, row.group, user="root") for row in OTHER)
    folder = write(tmp_path, (*VLLM, *mine))
    answer = ask(folder, "pkill -9 -f VLLM::")
    assert (answer.verdict, answer.family) == ("cannot_be_told", None)
    assert {server.root_pid: server.hit for server in answer.servers} == {500: (501, 502, 503), 600: (601,)}
    for wanted in (Wanted(pid=601), Wanted(family=answer.servers[1].family)):
        assert ask(folder, "pkill -9 -f VLLM::", wanted=wanted).collateral == (501, 502, 503)
    with pytest.raises(NoSuchServerError, match=r"F1 \(root PID 500\), F2 \(root PID 600\)"):
        ask(folder, "pkill -9 x", wanted=Wanted(pid=4242))


def test_what_hits_only_something_else_is_never_clean(server: Path) -> None:
    answer = ask(server, "kill -9 300")
    assert (answer.verdict, answer.family, answer.hit) == ("cannot_be_told", None, (300,))
    assert ask(server, "kill -9 300", wanted=Wanted(pid=500)).verdict == "not_clean"


def test_a_job_of_no_known_engine_is_what_the_command_hits(tmp_path: Path) -> None:
    rows = (Row(50, "train --all"), Row(51, "train --rank 0", 50, 50), *SESSION)
    answer = ask(write(tmp_path, rows), "kill -9 51")
    assert (answer.root_pid, answer.hit, answer.survivors) == (50, (51,), (50,))
    named = ask(tmp_path, "sleep 1", wanted=Wanted(pid=51))
    assert (named.root_pid, named.hit, named.survivors) == (50, (), (50, 51))


def test_a_common_parent_ties_two_servers_only_if_it_is_no_more_than_hit(tmp_path: Path) -> None:
    starter = Row(400, "/usr/bin/python3 start_all.py")
    rows = (starter, *(Row(r.pid, r.args, 400 if r.ppid == 1 else r.ppid, r.group) for r in (*VLLM, *OTHER)))
    answer = ask(write(tmp_path, rows), "pkill -9 -f 'python3|VLLM'", wanted=Wanted(pid=500))
    assert answer.survivors == ()
    assert answer.collateral == (400, 600, 601)


def test_a_part_of_a_table_proves_nothing_about_others(tmp_path: Path) -> None:
    answer = ask(write(tmp_path, VLLM[:2], whole=False), "kill -9 500 501")
    assert (answer.verdict, answer.hit) == ("cannot_be_told", (500, 501))
    assert "no table of all processes" in answer.because


def test_a_plain_zombie_is_no_survivor(tmp_path: Path) -> None:
    dead = Row(504, "[VLLM::Worker_TP] <defunct>", 501, 500, stat="Z", comm="VLLM::Worker_TP")
    answer = ask(write(tmp_path, (*VLLM, dead)), "kill -9 500 501 502 503")
    assert (answer.verdict, answer.survivors) == ("clean", ())


def test_signals_that_do_not_end_it_leave_it(server: Path) -> None:
    answer = ask(server, "kill -STOP -- -500")
    assert (answer.verdict, answer.hit, answer.outlive) == ("not_clean", (500, 501, 502, 503), (500, 501, 502, 503))


def test_its_own_pattern_in_the_tool_that_looked_is_no_hit(tmp_path: Path) -> None:
    looked = Row(900, "ps -eo pid,args vllm.entrypoints", stat="R")
    assert ask(write(tmp_path, (*VLLM, looked)), "pkill -9 -f vllm.entrypoints").collateral == ()


def test_json_reads_back_as_it_was(server: Path) -> None:
    answer = ask(server, "pkill -9 -f vllm.entrypoints")
    assert Simulation.model_validate_json(answer.to_json()) == answer
    assert several_to_json((answer, answer)).count('"schema": "gpudiag.simulation/1"') == 2


def in_script(*rows: Row) -> tuple[Row, ...]:
    """Rows in the process group of one script."""
    return tuple(Row(row.pid, row.args, 400 if row.ppid == 1 else row.ppid, 400, user="root") for row in rows)


def test_what_a_script_started_beside_the_server_is_no_part_of_it(tmp_path: Path) -> None:
    folder = write(tmp_path, (Row(400, "bash start.sh"), *in_script(Row(401, "backup --all"), *VLLM)))
    answer = ask(folder, "kill -9 -- -400")
    assert (answer.verdict, answer.collateral) == ("not_clean", (400, 401))
    assert ask(folder, "kill -9 500 501 502 503").verdict == "clean"


def test_two_servers_of_one_script_are_told_apart_by_the_command(tmp_path: Path) -> None:
    folder = write(tmp_path, (Row(400, "bash start.sh"), *in_script(*VLLM, *OTHER)))
    answer = ask(folder, "kill -9 500 601")
    assert ask(folder, "kill -9 500").survivors == (501, 502, 503)
    assert set(answer.survivors) | set(answer.collateral) >= {501, 502, 503}


def test_a_loop_that_starts_only_the_server_is_part_of_it(tmp_path: Path) -> None:
    folder = write(tmp_path, (Row(400, "bash -c while true; do serve; done"), *in_script(*VLLM)))
    assert ask(folder, "kill -9 500 501 502 503").survivors == (400,)


def test_whatever_is_in_the_group_that_the_server_leads_is_of_it(tmp_path: Path) -> None:
    orphan = Row(504, "helper --of nobody knows", 1, 500)
    answer = ask(write(tmp_path, (*VLLM, orphan)), "kill -9 500 501 502 503")
    assert (answer.verdict, answer.survivors) == ("not_clean", (504,))


PROMPTED = """{who}@gpu-box:~$ sudo nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv
pid, process_name, used_gpu_memory [MiB]
4242, trainer, 4096 MiB
{who}@gpu-box:~$ sudo ps -eo pid,ppid,pgid,sid,user:20,stat,args
    PID    PPID    PGID     SID USER                 STAT COMMAND
      1       0       1       1 root                 Ss   /sbin/init
   4242       1    4242    4242 alice                Rl   trainer --steps 9000
   4400    4300    4400    4300 root                 R+   ps -eo pid,ppid,pgid,sid,user:20,stat,args
"""


@pytest.mark.parametrize(
    ("who", "user", "not_permitted", "told"),
    [
        ("ubuntu", None, True, "given by ubuntu"),
        ("alice", None, False, "given by alice"),
        ("root", None, False, "given by root"),
        ("ubuntu", "alice", False, None),
    ],
)
def test_the_user_of_the_prompt_gives_the_command(
    tmp_path: Path, who: str, user: str | None, not_permitted: bool, told: str | None
) -> None:
    session = tmp_path / "session.txt"
    session.write_text(PROMPTED.format(who=who))
    answer = ask(session, "kill -9 4242", user=user)
    assert (answer.survivors == (4242,)) is not_permitted
    notes = [note for note in answer.notes if "commands in the evidence" in note]
    assert [told in note for note in notes if told] == ([True] if told else [])
    assert len(notes) == (told is not None)
