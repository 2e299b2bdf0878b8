"""What server logs say, one line of each kind as the servers print it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpudiag.evidence import read_input
from gpudiag.model import LogEvent
from gpudiag.parse import Parsed, parse, server_log
from tests.unit.parse.exhibits import FIXTURES, NOON_NS, evidence, exhibit

ENGINES = FIXTURES / "engines"


def log(text: str) -> Parsed:
    return parse([evidence(exhibit(text, member="server.log", first_line=1))])


def one(line: str) -> LogEvent:
    (event,) = log(line + "\n").log_events
    return event


@pytest.mark.parametrize(
    ("line", "kind", "pid", "role"),
    [
        ("INFO:     Application startup complete.", "startup_complete", None, None),
        ("\x1b[32mINFO\x1b[0m:     Started server process [\x1b[36m44\x1b[0m]", "role", 44, "server"),
        ("INFO:     Started server process [44]", "role", 44, "server"),
        ("(APIServer pid=44) INFO:     Shutting down", "shutdown", 44, "APIServer"),
        ("[2025-04-23 21:31:41 TP2] Scheduler hit an exception: Traceback (most", "death", None, "TP2"),
        ("[2025-04-23 21:31:41] The server is fired up and ready to roll!", "startup_complete", None, None),
        ("[2025-04-23 21:31:42] SIGTERM received. signum=15 frame=None. Draining requests", "shutdown", None, None),
        ("[2025-04-23 21:31:42] kill_process_tree called: parent_pid=812 include_parent=True", "shutdown", 812, None),
        (
            "(EngineCore pid=56) ERROR 01-02 03:04:05 [x.py:1] Worker proc VllmWorker-0 died unexpectedly (exit",
            "death",
            None,
            "VllmWorker-0",
        ),
        (
            "[2026-11-30 21:17:51 +0000] [19] [INFO] Parent changed, shutting down: <Worker 19>",
            "parent_exited",
            19,
            None,
        ),
        ("[2026-11-30 21:17:51 +0000] [18] [ERROR] Worker (pid:19) was sent SIGKILL! Perhaps", "death", 19, None),
        ("INFO:     Child process [20] died", "death", 20, None),
        (
            "W1130 21:10:04.012000 19 torch/x/api.py:753] Received 2 death signal, shutting down workers",
            "shutdown",
            19,
            None,
        ),
        ("  traceback : Signal 9 (SIGKILL) received by PID 22", "death", 22, None),
        ("  traceback : Signal 15 (SIGTERM) received by PID 21", "shutdown", 21, None),
        (
            "RuntimeError: DataLoader worker (pid 911) is killed by signal: Killed. ",
            "death",
            911,
            None,
        ),
        (
            "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
            "address_in_use",
            None,
            None,
        ),
        ("(TrainWorker pid=177, ip=10.0.0.2) Fatal Python error: Aborted", "death", None, None),
        ("(TrainWorker pid=177) Fatal Python error: Aborted", "death", 177, "TrainWorker"),
        ("(APIServer pid=4194305) INFO:     Shutting down", "shutdown", None, "APIServer"),
    ],
)
def test_kinds(line: str, kind: str, pid: int | None, role: str | None) -> None:
    event = one(line)
    assert (event.kind, event.pid, event.role) == (kind, pid, role)


@pytest.mark.parametrize(
    "line",
    [
        "see the page about CUDA memory",
        "INFO:     127.0.0.1:60572 - GET /shutdown HTTP/1.1 200 OK",
        "gtk-Message: Shutting down",
        "exited: model (exit status 0; expected)",
        "Worker proc  died unexpectedly",
        "Signal 9 received by PID 22",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert log(line + "\n").log_events == ()


@pytest.mark.parametrize("fact", server_log.FACTS, ids=lambda fact: f"{fact.kind}: {fact.examples[0]}")
def test_every_fact_knows_its_examples(fact: server_log.Fact) -> None:
    for example in fact.examples:
        assert [event.kind for event in log(f"{example}\n").log_events] == [fact.kind]


def test_a_start_without_memory() -> None:
    event = one(
        "(EngineCore pid=32511) ValueError: Free memory on device cuda:0 (8.88/121.69 GiB) on startup is less than "
        "desired GPU memory utilization (0.85, 103.44 GiB)."
    )
    assert (event.kind, event.pid) == ("low_memory_start", 32511)
    assert (event.free_mib, event.total_mib) == (8.88 * 1024, 121.69 * 1024)


def test_an_out_of_memory_message_names_the_others() -> None:
    text = (
        "(Worker_TP0 pid=70) ERROR 01-02 03:04:05 [w.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to "
        "allocate 224.00 MiB. GPU 0 has a total capacity of 79.19 GiB of which 166.06 MiB is free. Process 6791 has "
        "69.40 GiB memory in use. Process 6800 has 512.00 MiB memory in use. Including non-PyTorch memory, this "
        "process has 9.60 GiB memory in use.\n"
    )
    found = log(text).log_events
    assert [(event.kind, event.pid, event.mib) for event in found] == [
        ("oom", 70, 9.6 * 1024),
        ("memory_in_use", 6791, 69.4 * 1024),
        ("memory_in_use", 6800, 512.0),
    ]
    assert {event.cited.line for event in found} == {1}


WRAPPED = "(Worker_TP0 pid=70) INFO 11-30 21:00:00 [x.py:1] WorkerProc shutting down."


@pytest.mark.parametrize(
    ("line", "time", "error_s"),
    [
        (WRAPPED, "2026-11-30T21:00:00", 14 * 3600),
        (
            '{"log":"' + WRAPPED + r'\n","stream":"stderr","time":"2026-11-30T20:00:00.123456789Z"}',
            "2026-11-30T20:00:00.123",
            0.001,
        ),
        (f"2026-11-30T20:00:00.123456789Z stderr F {WRAPPED}", "2026-11-30T20:00:00.123", 0.001),
        (f"2026-11-30T20:00:00.123456789Z {WRAPPED}", "2026-11-30T20:00:00.123", 0.001),
        (f"vllm-1  | {WRAPPED}", "2026-11-30T21:00:00", 14 * 3600),
        (f"Nov 30 21:00:00 gpu-3 vllm[812]: {WRAPPED}", "2026-11-30T21:00:00", 14 * 3600),
        (f"2026-11-30T21:00:00+0100 gpu-3 vllm[812]: {WRAPPED}", "2026-11-30T20:00:00", 1),
        (f"Nov 30 21:00:00.250000 gpu-3 vllm[812]: {WRAPPED}", "2026-11-30T21:00:00.250", 14 * 3600),
        (f"\x1b[1;36m{WRAPPED.replace(')', ')' + chr(27) + '[0;0m', 1)}", "2026-11-30T21:00:00", 14 * 3600),
    ],
)
def test_wrapping_is_taken_off(line: str, time: str, error_s: float) -> None:
    found = log(line + "\n")
    assert [(row.role, row.pid) for row in found.roles] == [("Worker_TP0", 70)]
    (event,) = found.log_events
    assert (event.kind, event.pid, event.text) == ("shutdown", 70, "[x.py:1] WorkerProc shutting down.")
    assert event.time_ns is not None
    from_epoch = parse_utc(time)
    assert abs(event.time_ns - from_epoch) < 1_000_000
    assert event.time_error_ns == error_s * 1e9


def parse_utc(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000) * 1_000_000


def test_a_stamp_without_a_year_belongs_to_the_last_year_that_is_not_ahead_of_the_evidence() -> None:
    event = one("W1231 23:59:58.000000 19 torch/x/api.py:1] Received 15 death signal, shutting down workers")
    assert event.time_ns == parse_utc("2025-12-31T23:59:58")
    assert parse_utc("2026-12-31T23:59:58") > NOON_NS


def test_without_other_times_it_has_none() -> None:
    text = "INFO 02-29 19:00:06 [shutdown] x\n"
    found = parse([evidence(exhibit(text, member="server.log", time_ns=None))])
    assert [(event.time_ns, event.stamp) for event in found.log_events] == [(None, "02-29 19:00:06")]


def test_older_workers_name_their_rank() -> None:
    found = log("\x1b[1;36m(VllmWorker rank=0 pid=69)\x1b[0;0m INFO 11-30 20:06:14 x\n")
    assert [(row.role, row.pid) for row in found.roles] == [("VllmWorker rank=0", 69)]


@pytest.mark.parametrize(
    ("run", "kinds"),
    [
        ("supervisord-kill9-program", {("role", 19), ("role", 26), ("death", None), ("startup_complete", None)}),
        ("torchrun-kill9-rank", {("death", 23), ("shutdown", 22), ("shutdown", 24)}),
        ("gunicorn-gthread-kill9-master", {("role", 18), ("parent_exited", 19), ("parent_exited", 20)}),
        ("deepspeed-kill9-rank", {("role", 21), ("role", 22), ("death", None)}),
        ("uvicorn-kill9-master", {("role", 18), ("role", 20), ("role", 21)}),
    ],
)
def test_real_logs_of_other_engines(run: str, kinds: set[tuple[str, int | None]]) -> None:
    found = parse([read_input(ENGINES / run, "I1")])
    assert kinds <= {(event.kind, event.pid) for event in found.log_events}
    lines = (ENGINES / run / "server.log").read_text().split("\n")
    for event in found.log_events:
        assert event.cited.line is not None
        assert lines[event.cited.line - 1].startswith(event.cited.quote)


def test_roles_in_prose_are_processes_of_the_run() -> None:
    for run in sorted(path.name for path in ENGINES.iterdir()):
        folder: Path = ENGINES / run
        roles = {event.pid for event in parse([read_input(folder, "I1")]).log_events if event.kind == "role"}
        said = (folder / "truth.json").read_text()
        assert all(f'"{pid}"' in said for pid in roles), run
