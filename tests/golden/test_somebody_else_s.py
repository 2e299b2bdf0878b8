"""Sessions in which a hasty reader names a healthy process: each names nobody, or only those that were meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.explain import explain
from gpudiag.report.contract import Report
from tests.golden.pastes import Holder, ps_ef, smi

SERVE = "python3 -m vllm.entrypoints.openai.api_server"
FIRST = [("ann", 4100, 1, "09:00", f"{SERVE} --port 8000"), ("ann", 4150, 4100, "09:00", "VLLM::EngineCore")]
SECOND = [("ann", 4200, 1, "09:00", f"{SERVE} --port 8001"), ("ann", 4250, 4200, "09:00", "VLLM::EngineCore")]
LEFT = [("ann", 4150, 1, "09:00", "VLLM::EngineCore")]
BOTH: list[Holder] = [(0, 4150, "VLLM::EngineCore", 89300), (1, 4250, "VLLM::EngineCore", 89300)]
AT = "ann@box:~$ "


def report(tmp_path: Path, *parts: str) -> Report:
    """The report on a pasted session; each part follows a prompt."""
    path = tmp_path / "session.txt"
    path.write_text("".join(AT + part if part.endswith("\n") else AT + part + "\n" for part in parts))
    return explain([path])


def planned(found: Report) -> set[int]:
    """PIDs to kill."""
    return {entry.pid for entry in found.plan.kill}


def test_a_port_names_one_server(tmp_path: Path) -> None:
    """``fuser -k 8000/tcp`` means who listens there, not whoever uses a device; it prints whom it hit."""
    found = report(
        tmp_path,
        "ps -ef\n" + ps_ef(*FIRST, *SECOND),
        "fuser -k 8000/tcp\n8000/tcp:            4100",
        "ps -ef\n" + ps_ef(*LEFT, *SECOND),
        "nvidia-smi\n" + smi([90000, 90000], BOTH),
    )
    assert planned(found) == {4150}
    assert found.actions[0].steps[0].hit == (4100,)


@pytest.mark.parametrize(
    ("command", "pids"),
    [
        ("kill $(nvidia-smi -i 0 --query-compute-apps=pid --format=csv,noheader)", {4100, 4150}),
        ("kill $(nvidia-smi --id=1 --query-compute-apps=pid --format=csv,noheader)", {4200, 4250}),
        ("kill $(nvidia-smi | awk '$2==0 && $6==\"C\" {print $5}')", {4150}),
        ("fuser -k -TERM /dev/nvidia1", {4250}),
        ("kill $(nvidia-smi -i $G --query-compute-apps=pid --format=csv,noheader)", set[int]()),
        ("kill $(nvidia-smi --query-compute-apps=pid --format=csv,noheader)", {4150, 4250}),
    ],
    ids=["-i 0", "--id=1", "awk on the GPU's column", "one node", "an unknown GPU", "all"],
)
def test_one_gpu_is_not_all(tmp_path: Path, command: str, pids: set[int]) -> None:
    """Nobody on another GPU is planned; a parent may go first where the engine was meant."""
    table = "nvidia-smi\n" + smi([90000, 90000], BOTH)
    found = report(
        tmp_path, "ps -ef\n" + ps_ef(*FIRST, *SECOND), table, command, "ps -ef\n" + ps_ef(*FIRST, *SECOND), table
    )
    allowed = pids | ({4100} if 4150 in pids else set()) | ({4200} if 4250 in pids else set())
    assert planned(found) <= allowed
    assert bool(planned(found)) == bool(pids)


@pytest.mark.parametrize("leader", [3490, 3500], ids=["a script's group", "its own group"])
@pytest.mark.parametrize(
    "child",
    ["VLLM::EngineCore", "/usr/bin/python3 -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)"],
)
def test_a_job_that_a_script_left_in_the_background_is_no_orphan(tmp_path: Path, leader: int, child: str) -> None:
    """PID 1 adopted the job, whose own parent lives: nothing was lost."""
    table = (
        "   PPID     PID    PGID     SID TTY        TPGID STAT   UID   TIME COMMAND\n"
        "      0       1       1       1 ?             -1 Ss       0   0:04 /sbin/init\n"
        "      0       2       0       0 ?             -1 S        0   0:00 [kthreadd]\n"
        f"      1    3500    {leader}    3400 ?             -1 Sl    1000   9:04 python3 batch_infer.py\n"
        f"   3500    3510    {leader}    3400 ?             -1 Sl    1000   9:04 {child}\n"
    )
    found = report(tmp_path, "ps axj\n" + table, "nvidia-smi\n" + smi([90000], [(0, 3510, child.split(" ")[0], 89300)]))
    assert planned(found) == set()


NEW = ("ann", 4150, 3900, "11:30", "python train.py")


@pytest.mark.parametrize(
    ("now", "listed"),
    [(NEW, "python"), (("ann", 4150, 3900, "11:30", "VLLM::EngineCore"), "VLLM::EngineCore")],
    ids=["another program", "another start"],
)
def test_a_number_that_was_given_out_again(tmp_path: Path, now: tuple[str, int, int, str, str], listed: str) -> None:
    """``ps -ef`` shows the start as a time of the day: 09:00 and 11:30 are two processes."""
    found = report(
        tmp_path,
        "ps -ef\n" + ps_ef(*FIRST),
        "kill -9 4100",
        "ps -ef\n" + ps_ef(now),
        "nvidia-smi\n" + smi([90000], [(0, 4150, listed, 89300)]),
    )
    assert planned(found) == set()
    assert "GPD902" in {finding.rule for finding in found.findings}


@pytest.mark.parametrize(("first", "second"), [("09:00", "09:01"), ("23:59", "00:00"), ("09:00", "Feb19")])
def test_one_process_whose_start_ps_rounds_or_dates(tmp_path: Path, first: str, second: str) -> None:
    """ps computes it each time, and shows a date after a day: the survivor is the same process."""
    rows = [(user, pid, parent, first, text) for user, pid, parent, _, text in FIRST]
    found = report(
        tmp_path,
        "ps -ef\n" + ps_ef(*rows),
        "kill -9 4100",
        "ps -ef\n" + ps_ef(("ann", 4150, 1, second, "VLLM::EngineCore")),
        "nvidia-smi\n" + smi([90000], [(0, 4150, "VLLM::EngineCore", 89300)]),
    )
    assert planned(found) == {4150}


def test_a_title_that_became_a_program(tmp_path: Path) -> None:
    """An engine does not take its title back: a day later the number is a training run's."""
    found = report(
        tmp_path,
        "nvidia-smi\n" + smi([90000], [(0, 4150, "VLLM::EngineCore", 89300)], "Thu Feb 19 19:00:06 2026"),
        "kill 4150",
        "nvidia-smi\n" + smi([50000], [(0, 4150, "python", 49300)]),
    )
    assert planned(found) == set()


@pytest.mark.parametrize("signal", ["0", "CONT", "SIGWINCH", "STOP", "28"])
@pytest.mark.parametrize("tool", ["pkill -{} -f vllm.entrypoints", "kill -{} 4100", "kill -s {} 4100"])
def test_a_signal_that_ends_nobody_aims_at_nobody(tmp_path: Path, signal: str, tool: str) -> None:
    """A question, and a wake-up, are no attempt to stop the server."""
    table = "nvidia-smi\n" + smi([90000], [(0, 4150, "VLLM::EngineCore", 89300)])
    found = report(tmp_path, "ps -ef\n" + ps_ef(*FIRST), tool.format(signal), "ps -ef\n" + ps_ef(*FIRST), table)
    assert planned(found) == set()
    assert "GPD101" not in {finding.rule for finding in found.findings}


@pytest.mark.parametrize(
    "said",
    [
        "bash: kill: (4100) - Die Operation ist nicht erlaubt",
        "-bash: kill: (4100) - 不允许的操作",
        "kill: (4100): Opération non permise",
    ],
)
def test_a_failure_in_another_language_is_a_failure(tmp_path: Path, said: str) -> None:
    """The shell prints a line about a PID only where the signal did not go through."""
    found = report(
        tmp_path,
        "ps -ef\n" + ps_ef(*FIRST),
        "kill -9 4100\n" + said,
        "nvidia-smi\n" + smi([90000], [(0, 4150, "VLLM::EngineCore", 89300)]),
    )
    assert planned(found) == set()
    assert "GPD201" not in {finding.rule for finding in found.findings}


def test_who_came_after_the_gpu_was_idle_is_no_remainder(tmp_path: Path) -> None:
    """The memory came back; then somebody started the next server."""
    found = report(
        tmp_path,
        "nvidia-smi\n" + smi([90000], [(0, 4150, "VLLM::EngineCore", 89300)]),
        "pkill -9 -f vllm.entrypoints",
        "nvidia-smi\n" + smi([4], []),
        "docker compose up -d vllm",
        "nvidia-smi\n" + smi([90000], [(0, 5150, "VLLM::EngineCore", 89300)]),
    )
    assert planned(found) == set()


def test_an_engine_beside_workers_is_another_server_s(tmp_path: Path) -> None:
    """Only titles are known; an engine that has workers holds nothing itself."""
    before: list[Holder] = [
        (0, 4151, "VLLM::Worker_TP0", 89300),
        (1, 4152, "VLLM::Worker_TP1", 89300),
        (2, 6210, "VLLM::EngineCore", 89300),
    ]
    found = report(
        tmp_path,
        "nvidia-smi\n" + smi([90000, 90000, 90000], before),
        "kill -9 4151",
        "nvidia-smi\n" + smi([4, 90000, 90000], before[1:]),
    )
    assert 6210 not in planned(found)


def test_what_draws_on_a_screen_is_no_job(tmp_path: Path) -> None:
    """A browser has a graphics context; a server of models has none."""
    holders: list[Holder] = [
        (0, 1200, "G:/usr/lib/xorg/Xorg", 900),
        (0, 1500, "C+G:/opt/browser/browser", 900),
        (0, 1700, "G:/usr/bin/firefox", 800),
        (0, 1600, "/usr/bin/python3", 9000),
    ]
    table = "nvidia-smi\n" + smi([13000], holders)
    kill = "kill -9 $(nvidia-smi --query-compute-apps=pid --format=csv,noheader)"
    assert planned(report(tmp_path, kill, table)) <= {1600}


def test_a_killed_login_shell_takes_no_job_with_it(tmp_path: Path) -> None:
    """What a shell started is not what its end was meant for, unless it shares the shell's process group."""
    jobs = [*FIRST, ("ann", 5100, 2001, "09:00", "python train.py")]
    before = [("ann", 2001, 1, "08:00", "-bash"), ("ann", 4100, 2001, "09:00", SERVE), FIRST[1], jobs[-1]]
    after = [(user, pid, 1 if parent == 2001 else parent, start, text) for user, pid, parent, start, text in before[1:]]
    found = report(
        tmp_path,
        "ps -ef\n" + ps_ef(*before),
        "kill -9 2001",
        "ps -ef\n" + ps_ef(*after),
        "nvidia-smi\n" + smi([90000, 90000], [(0, 4150, "VLLM::EngineCore", 89300), (1, 5100, "python", 89300)]),
    )
    assert planned(found) == set()


def test_a_notebook_that_nobody_touched_is_not_the_cause(tmp_path: Path) -> None:
    """Its kernel keeps memory as it is meant to; what the command left behind comes first."""
    notebook = [
        ("ann", 3000, 1, "08:00", "/usr/bin/python3 /usr/bin/jupyter-lab"),
        ("ann", 3010, 3000, "08:05", "/usr/bin/python3 -m ipykernel_launcher -f k.json"),
    ]
    found = report(
        tmp_path,
        "ps -ef\n" + ps_ef(*notebook, *FIRST),
        "pkill -9 -f vllm.entrypoints",
        "ps -ef\n" + ps_ef(*notebook, *LEFT),
        "nvidia-smi\n"
        + smi([90000, 2000], [(0, 4150, "VLLM::EngineCore", 89300), (1, 3010, "/usr/bin/python3", 1600)]),
    )
    assert planned(found) == {4150}
    assert next(finding.rule for finding in found.findings if finding.primary) == "GPD101"


def test_what_nobody_is_booked_for_did_not_come_back(tmp_path: Path) -> None:
    """The list is empty and half of the memory is in use: only the fall counts."""
    workers: list[Holder] = [(0, 4151, "VLLM::Worker_TP0", 89300), (1, 4152, "VLLM::Worker_TP1", 89300)]
    found = report(
        tmp_path,
        "nvidia-smi\n" + smi([90000, 90000], workers),
        "pkill -9 -f VLLM",
        "nvidia-smi\n" + smi([45000, 4], []),
    )
    back = next(finding for finding in found.findings if finding.rule == "GPD605")
    assert back.explains_mib == 45000 + 89300
    assert "booked on nobody" in back.text
    assert found.outcome == "inconclusive"


def test_a_dead_number_is_not_called_living(tmp_path: Path) -> None:
    """nvidia-smi finds no process under it: whether one lives, nothing tells."""
    found = report(
        tmp_path,
        "nvidia-smi\n" + smi([90000], [(0, 4151, "VLLM::Worker_TP0", 89300)]),
        "pkill -9 -f VLLM",
        "nvidia-smi\n" + smi([90000], [(0, 4151, "[Not Found]", 89300)]),
    )
    assert "living" not in found.summary
    assert planned(found) == set()


RANKS: list[Holder] = [(n, 4151 + n, f"VLLM::Worker_TP{n}", 73214) for n in range(4)]
JOB = [
    ("ann", 4100, 3900, "08:01", f"{SERVE} --tensor-parallel-size 4"),
    ("ann", 4150, 4100, "08:01", "VLLM::EngineCore"),
    *(("ann", pid, 4150, "08:01", name) for _, pid, name, _ in RANKS),
]


@pytest.mark.parametrize("looks", [True, False], ids=["booked before", "only ps before"])
def test_the_ranks_beside_a_killed_one_hold_memory(tmp_path: Path, looks: bool) -> None:
    """Their server runs, but it is the one that was meant: neither released nor somebody else's."""
    before = ["nvidia-smi\n" + smi([74000] * 4, RANKS)] if looks else []
    left = [row for row in JOB if row[1] != 4152]
    found = report(
        tmp_path,
        *before,
        "ps -ef\n" + ps_ef(*JOB),
        "kill -9 4152",
        "ps -ef\n" + ps_ef(*left),
        "nvidia-smi\n" + smi([74000, 7, 74000, 74000], [row for row in RANKS if row[1] != 4152]),
    )
    assert found.outcome == "memory_held"
    assert next(finding.rule for finding in found.findings if finding.primary) == "GPD213"
    assert [entry.pid for entry in found.plan.kill] == [4100, 4150, 4151, 4153, 4154]


def test_another_server_s_ranks_are_left_alone(tmp_path: Path) -> None:
    """One rank of the first server was killed; the second runs on."""
    second = [("ann", 5100, 3900, "08:01", f"{SERVE} --port 8001"), ("ann", 5150, 5100, "08:01", "VLLM::EngineCore")]
    holders = [*RANKS, (4, 5150, "VLLM::EngineCore", 73214)]
    found = report(
        tmp_path,
        "nvidia-smi\n" + smi([74000] * 5, holders),
        "ps -ef\n" + ps_ef(*JOB, *second),
        "kill -9 4152",
        "ps -ef\n" + ps_ef(*(row for row in JOB if row[1] != 4152), *second),
        "nvidia-smi\n" + smi([74000, 7, 74000, 74000, 74000], [row for row in holders if row[1] != 4152]),
    )
    assert not {5100, 5150} & planned(found)
