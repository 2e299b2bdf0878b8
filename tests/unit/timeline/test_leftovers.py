"""Whose the processes are that a killed server left behind, where the tables tell little."""

from __future__ import annotations

from pathlib import Path

from gpudiag.explain import Explanation
from tests.unit.timeline.sessions import aux, ef, explained, smi, typed

MACHINE = (("root", 1, "/sbin/init"), ("root", 2, "[kthreadd]"), ("u", 900, "-bash"))
SERVER = "python3 -m vllm.entrypoints.openai.api_server --model m"
BOOKED = [(0, 4151, "VLLM::Worker_TP0", 70000), (1, 4152, "VLLM::Worker_TP1", 70000)]
WORKERS = (("u", 4151, "VLLM::Worker_TP0"), ("u", 4152, "VLLM::Worker_TP1"))
OTHERS = (("alice", 3000, SERVER), ("alice", 3010, "VLLM::EngineCore"))


def planned(found: Explanation) -> set[int]:
    return {entry.pid for entry in found.report.plan.kill}


def kept(found: Explanation) -> dict[int, str]:
    return {entry.pid: entry.because for entry in found.report.plan.keep}


def test_an_engine_that_only_its_workers_tie_to_the_memory_is_an_orphan(tmp_path: Path) -> None:
    machine = (("root", 1, 0, "/sbin/init"), ("root", 2, 0, "[kthreadd]"))
    left = [("u", 4150, 1, "VLLM::EngineCore"), *((user, pid, 4150, line) for user, pid, line in WORKERS)]
    text = typed(("kill -9 4100", ""), ("ps -ef", ef(*machine, *left)), ("nvidia-smi", smi(BOOKED)))
    assert planned(explained(tmp_path, text)) == {4150, 4151, 4152}


def test_the_children_of_a_containers_first_process_are_no_orphans(tmp_path: Path) -> None:
    rows = [("u", 1, 0, SERVER), ("u", 4150, 1, "VLLM::EngineCore"), *((u, pid, 4150, t) for u, pid, t in WORKERS)]
    text = typed(("kill -9 4100", ""), ("ps -ef", ef(*rows)), ("nvidia-smi", smi(BOOKED)))
    assert planned(explained(tmp_path, text)) == set()


def test_without_parents_one_users_one_server_is_told_from_another_users(tmp_path: Path) -> None:
    own = (("u", 4100, SERVER), ("u", 4150, "VLLM::EngineCore"), *WORKERS)
    booked = [*BOOKED, (2, 3010, "VLLM::EngineCore", 20000)]
    text = typed(
        ("nvidia-smi", smi(booked)),
        ("ps aux", aux(*MACHINE, *OTHERS, *own)),
        ("pkill -9 -f vllm.entrypoints", ""),
        ("nvidia-smi", smi(booked)),
        ("ps aux", aux(*MACHINE, *OTHERS, *WORKERS)),
    )
    found = explained(tmp_path, text)
    assert planned(found) == {4151, 4152}
    assert "another user (alice)" in kept(found)[3010]


def test_without_parents_two_servers_of_one_user_are_not_told_apart(tmp_path: Path) -> None:
    own = (("u", 4100, SERVER), ("u", 4150, "VLLM::EngineCore"), ("u", 5100, SERVER), ("u", 5150, "VLLM::EngineCore"))
    booked = [(0, 4150, "VLLM::EngineCore", 70000), (1, 5150, "VLLM::EngineCore", 70000)]
    text = typed(
        ("nvidia-smi", smi(booked)),
        ("ps aux", aux(*MACHINE, *OTHERS, *own)),
        ("kill -9 4100", ""),
        ("nvidia-smi", smi(booked)),
        ("ps aux", aux(*MACHINE, *OTHERS, *own[1:])),
    )
    found = explained(tmp_path, text)
    assert planned(found) == set()
    ledger = [entry for gpu in found.report.gpus for entry in gpu.ledger if entry.pid in (4150, 5150)]
    assert {entry.whose for entry in ledger} == {"unknown"}  # of the same user: no other tenant's


def test_the_other_ranks_of_a_killed_one_do_not_belong_to_somebody_else(tmp_path: Path) -> None:
    rows = [("u", 4100, 900, SERVER), ("u", 4150, 4100, "VLLM::EngineCore"), *((u, p, 4150, t) for u, p, t in WORKERS)]
    machine = (("root", 1, 0, "/sbin/init"), ("root", 2, 0, "[kthreadd]"), ("u", 900, 1, "-bash"))
    text = typed(
        ("nvidia-smi", smi(BOOKED)),
        ("ps -ef", ef(*machine, *rows)),
        ("kill -9 4152", ""),
        ("nvidia-smi", smi(BOOKED[:1])),
        ("ps -ef", ef(*machine, *rows[:-1])),
    )
    assert "somebody else" not in explained(tmp_path, text).report.summary


def _device_kill(folder: Path, command: str, printed: str, state: str = "S") -> Explanation:
    """The whole server, its head killed by a pattern, its workers asked for through their devices; they live on."""
    rows = [("u", 4100, 900, SERVER), ("u", 4150, 4100, "VLLM::EngineCore"), *((u, p, 4150, t) for u, p, t in WORKERS)]
    machine = (("root", 1, 0, "/sbin/init"), ("root", 2, 0, "[kthreadd]"), ("u", 900, 1, "-bash"))
    after = aux(*MACHINE, *WORKERS).replace("?   S ", f"?   {state} ")
    text = typed(
        ("nvidia-smi", smi(BOOKED)),
        ("ps -ef", ef(*machine, *rows)),
        (f"pkill -9 -f vllm.entrypoints; sleep 3; {command}", printed),
        ("nvidia-smi", smi(BOOKED)),
        ("ps aux", after),
    )
    return explained(folder, text)


def test_who_is_not_among_the_pids_that_fuser_printed_and_lives_on_was_not_hit(tmp_path: Path) -> None:
    found = _device_kill(tmp_path, "fuser -k /dev/nvidia*", "")
    assert found.report.actions[0].steps[2].hit == ()
    assert planned(found) == {4151, 4152}


def test_who_was_printed_was_hit(tmp_path: Path) -> None:
    found = _device_kill(tmp_path, "fuser -k /dev/nvidia*", "/dev/nvidia0:         4151m\n")
    assert found.report.actions[0].steps[2].hit == (4151,)
    assert planned(found) == {4152}


def test_silence_says_nothing_where_it_was_asked_for_or_the_process_waits_for_the_device(tmp_path: Path) -> None:
    for command in ("fuser -k /dev/nvidia* >/dev/null", "fuser -sk /dev/nvidia*"):
        assert _device_kill(tmp_path, command, "").report.actions[0].steps[2].hit == (4151, 4152)
    assert _device_kill(tmp_path, "fuser -k /dev/nvidia*", "", "D").report.actions[0].steps[2].hit == (4151, 4152)


def test_a_program_that_was_not_found_hit_nobody(tmp_path: Path) -> None:
    found = _device_kill(tmp_path, "fuser -k /dev/nvidia*", "bash: fuser: command not found\n")
    step = found.report.actions[0].steps[2]
    assert (step.ran, step.hit, step.exit_code) == ("no", (), 127)
    assert "GPD108" in {finding.rule for finding in found.report.findings}
    assert planned(found) == {4151, 4152}


IN_CONTAINER = "root@3f1c9a5d2b7e:/# "


def _in_container(folder: Path, *others: tuple[str, int, int, str]) -> Explanation:
    """A server killed in its container, where the driver's list is empty whoever holds the memory."""
    first = ("root", 1, 0, "/bin/bash")
    left = [("root", 90, 50, "VLLM::EngineCore"), ("root", 91, 90, "VLLM::Worker_TP0")]
    orphans = [("root", 90, 1, "VLLM::EngineCore"), left[1]]
    text = typed(
        ("ps -ef", ef(first, ("root", 50, 1, SERVER), *left, *others)),
        ("kill -9 50", ""),
        ("ps -ef", ef(first, *orphans, *others)),
        ("nvidia-smi", smi([], used=70000)),
        prompt=IN_CONTAINER,
    )
    return explained(folder, text)


def test_what_is_left_in_a_container_is_named_though_the_drivers_list_is_empty(tmp_path: Path) -> None:
    found = _in_container(tmp_path)
    assert {(entry.pid, entry.certainty) for entry in found.report.plan.kill} == {(90, "inferred"), (91, "inferred")}
    assert found.report.findings[0].rule == "GPD201"
    assert {one.certainty for one in found.report.findings if one.rule == "GPD401"} == {"possible"}
    assert "listed as holding" not in found.report.summary


def test_another_server_of_the_container_is_not_named(tmp_path: Path) -> None:
    other = [("root", 60, 1, SERVER + " --port 9"), ("root", 70, 60, "VLLM::EngineCore")]
    assert planned(_in_container(tmp_path, *other)) <= {90, 91}
