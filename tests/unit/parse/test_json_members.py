"""``nvml.json``, ``nvml-series.json``, ``proc.json``, ``kill-commands.json`` and ``trace-clock.json``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gpudiag.evidence import LookName
from gpudiag.parse import Parsed, parse
from tests.unit.parse.exhibits import H200, capture, evidence, exhibit, parsed

NOW = "2026-11-30T12:00:00.5+00:00"
NOW_NS = 1_796_040_000_500_000_000


def member(name: str, value: object, cut: int | None = None) -> Parsed:
    """What becomes of one JSON file, perhaps cut."""
    return parse([evidence(exhibit(json.dumps(value, indent=1)[:cut], member=name, time_ns=None, first_line=1))])


def sample(pid: int, used: int) -> dict[str, object]:
    """One moment of NVML."""
    gpu = {
        "index": 0,
        "used": used,
        "total": 2**37,
        "Compute": [[pid, used]],
        "Graphics": [],
        "MPSCompute": [[9, None]],
    }
    return {"t": NOW, "s": 0.25, "gpus": [gpu]}


def test_nvml_counts_bytes_and_the_reserve() -> None:
    found = member("after/nvml.json", sample(699, 2**30))
    (row,) = found.samples
    assert (row.used_mib, row.total_mib, row.used_includes_reserve, row.busy_s) == (1024.0, 131072.0, True, 0.25)
    assert row.at.time_ns == NOW_NS
    assert [(b.pid, b.mib, b.kind, b.name) for b in found.bookings] == [
        (699, 1024.0, "compute", None),
        (9, None, "mps", None),
    ]
    assert {(row.source, row.complete) for row in found.coverage} == {("gpu memory", True), ("compute processes", True)}


def test_a_size_that_nvml_does_not_know_is_unknown() -> None:
    found = member("after/nvml.json", sample(699, 2**64 - 1))
    assert found.bookings[0].mib is None


def test_a_series_that_was_torn_keeps_its_whole_moments() -> None:
    series = [sample(699, 2**30), sample(700, 2**31), sample(701, 2**32)]
    whole = json.dumps(series, indent=1)
    found = member("nvml-series.json", series, whole.index("701"))
    assert [row.used_mib for row in found.samples] == [1024.0, 2048.0]
    assert len(found.damage) == 1
    assert {row.complete for row in found.coverage} == {False}


def test_citations_in_json_name_the_line() -> None:
    found = capture("selfmatch-orphans")
    for name in ("before/nvml.json", "nvml-series.json"):
        lines = (H200 / "selfmatch-orphans" / name).read_text().split("\n")
        cited = [(row.pid, row.cited) for row in found.bookings if row.cited.member == name]
        assert cited
        for pid, citation in cited:
            assert citation.line is not None
            assert lines[citation.line - 1].strip().rstrip(",") == str(pid)


def test_what_proc_tells_of_a_zombie_leader() -> None:
    found = capture("zombie-leader")
    (zombie,) = [row for row in found.processes if row.pid == 1410 and row.text_from == "proc"]
    assert (zombie.state, zombie.threads, zombie.cmdline, zombie.comm) == ("Z", 19, "", "python3")
    assert (zombie.start_ticks, zombie.ppid, zombie.uid, zombie.user) == (15079, 816, 0, "root")
    assert zombie.cgroup == "/user.slice/user-0.slice/session-1.scope"
    assert zombie.ns_pids == (1410,)
    assert not [row for row in found.handles if row.pid == 1410]


def test_handles_of_proc_tell_fd_from_map() -> None:
    found = capture("zombie-leader")
    how = {(row.path, row.how) for row in found.handles if row.pid == 699 and row.cited.member == "after/proc.json"}
    assert {("/dev/nvidia0", "fd"), ("/dev/nvidia0", "map"), ("/dev/nvidia-caps/nvidia-cap1", "fd")} <= how


STATUS = (
    "Name:\tw\nState:\tT (stopped)\nPPid:\t1\nUid:\t1000\t0\t0\t0\nThreads:\t3\nSigPnd:\t0000000000000100\n"
    "ShdPnd:\t0000000000004000\nSigBlk:\t0\nSigIgn:\t0000000001001000\nSigCgt:\t2\n"
    "RssShmem:\t  67108864 kB\nKthread:\t0\n"
)


def test_the_texts_of_proc() -> None:
    record = {
        "7": {
            "stat": "7 (a) b) T 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4711 0 0\n",
            "status": STATUS,
            "cmdline": "python\0-c\0\0x y\0\0\0",
            "cgroup": "1:cpu:/old\n0::/a.slice\n",
            "wchan": "0",
        }
    }
    (row,) = member("after/proc.json", record).processes
    assert row.cmdline == "python -c  x y"
    assert (row.comm, row.state, row.start_ticks, row.uid, row.user) == ("a) b", "T", 4711, 1000, None)
    assert (row.sig_pending, row.sig_ignored, row.sig_caught) == (0x4100, 0x1001000, 2)
    assert (row.rss_shmem_kib, row.kernel_thread, row.wchan, row.cgroup) == (67108864, False, None, "/a.slice")
    assert row.core_dumping is None


def test_threads_are_counted_where_status_is_missing() -> None:
    dead, live = "9 (t) Z 1 1 1 0\n", "10 (t) S 1 1 1 0\n"
    record = {"9": {"stat": dead, "tasks": {"9": dead, "10": live, "11": live, "12": dead}}}
    assert member("after/proc.json", record).processes[0].threads == 2


def test_proc_json_is_not_the_whole_table() -> None:
    found = member("after/proc.json", {"7": {"comm": "a", "nvidia_fds": {}}})
    assert [(row.source, row.complete) for row in found.coverage] == [("process table", False), ("open handles", None)]


def test_a_record_without_descriptors_says_nothing_about_handles() -> None:
    found = member("after/proc.json", {"7": {"comm": "a"}})
    assert [row.source for row in found.coverage] == ["process table"]


def test_an_argument_vector_is_no_shell_text() -> None:
    found = member("kill-commands.json", [{"argv": ["kill", "-9", 7, 8], "t0": NOW, "t1": None, "rc": -9}])
    (action,) = found.actions
    assert (action.how, action.argv, action.text) == ("argv", ("kill", "-9", "7", "8"), "kill -9 7 8")
    assert (action.time_ns, action.end_ns, action.exit_code, action.output) == (NOW_NS, None, -9, None)
    assert action.source == "recorded"


def test_a_command_text_was_given_to_some_shell() -> None:
    record = {"cmd": "bash stop.sh", "rc": 0, "out": "a\n", "err": "b\n", "user": "nobody", "script_text": "pkill x\n"}
    (action,) = member("kill-commands.json", [record]).actions
    assert (action.how, action.argv, action.text) == ("shell", None, "bash stop.sh")
    assert (action.output, action.user, action.script_text) == ("a\nb\n", "nobody", "pkill x\n")


def test_a_named_shell_makes_an_argument_vector() -> None:
    (action,) = member("kill-commands.json", [{"cmd": "pkill x", "shell": ["bash", "-c"]}]).actions
    assert (action.how, action.argv) == ("argv", ("bash", "-c", "pkill x"))


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("forked-child-killed", "I1:before"),
        ("selfmatch-orphans", "I1:before"),
        ("traced-selfmatch", "I1:before"),
        ("script-orphans", None),
    ],
)
def test_recorded_commands_stand_between_the_looks(name: str, after: str | None) -> None:
    assert [action.after_look for action in capture(name).actions] == [after]


def test_the_clock_pair() -> None:
    (pair,) = member("trace-clock.json", {"boot": 151.5, "mono": 151.5, "wall": 1796067995.25}).clocks
    assert (pair.boot_s, pair.wall_ns) == (151.5, 1_796_067_995_250_000_000)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([sample(1, 5)], "samples"),
        ([{"cmd": "pkill x"}], "actions"),
        ({"boot": 1.0, "wall": 2.0}, "clocks"),
        ({"7": {"comm": "a"}}, "processes"),
    ],
)
def test_content_tells_what_an_oddly_named_file_is(value: object, field: str) -> None:
    found = parse([evidence(exhibit(json.dumps(value), member="after/copy-of-something"))])
    assert len(getattr(found, field)) == 1


def test_unknown_json_is_damage() -> None:
    found = parsed('{"title": "dashboard"}', member="after/grafana.json")
    assert [row.member for row in found.damage] == ["after/grafana.json"]


def test_copies_of_proc_files() -> None:
    found = parse(
        [
            evidence(
                exhibit("44 (python) S 1 44 44 0\n", member="after/proc/44/stat", first_line=1),
                exhibit("python\0-m\0vllm\0", member="after/proc/44/cmdline", first_line=1),
                exhibit("45 (b) S 44 44 44 0\n", member="after/proc/45/stat", first_line=1),
            )
        ]
    )
    assert [(row.pid, row.ppid, row.cmdline, row.text_from) for row in found.processes] == [
        (44, 1, "python -m vllm", "proc"),
        (45, 44, None, "proc"),
    ]
    assert [(row.source, row.complete) for row in found.coverage] == [("process table", False)]
    assert found.damage == ()


def test_a_gathered_command_says_where_it_is_from_and_how_exact_its_time_is() -> None:
    records = [
        {"cmd": "pkill x", "t0": NOW, "t1": None, "rc": None, "user": "a", "source": "history", "time_error_s": 1.0},
        {"argv": ["pkill", "x"], "t0": NOW, "source": "audit", "time_error_s": 0.01},
        {"cmd": "pkill x", "t0": NOW, "source": "a rumour", "time_error_s": -3},
    ]
    found = member("kill-commands.json", records)
    assert [(action.source, action.how, action.time_error_ns) for action in found.actions] == [
        ("history", "prompt", 1_000_000_000), ("audit", "argv", 10_000_000), ("recorded", "shell", 0),
    ]  # fmt: skip
    assert [action.exit_code for action in found.actions] == [None, None, None]
    assert [(row.source, row.complete) for row in found.coverage] == [("kill commands", None)]


@pytest.mark.parametrize(("source", "after"), [("history", None), ("stated", None), ("recorded", "I1:one")])
def test_a_gathered_command_without_a_time_is_not_placed_between_looks(source: str, after: str | None) -> None:
    looks = (LookName("I1:one", "one", ""), LookName("I1:two", "two", ""))
    record = [{"cmd": "pkill x", "t0": None, "source": source, "time_error_s": None}]
    text = exhibit(json.dumps(record), member="kill-commands.json")
    (action,) = parse([replace(evidence(text), looks=looks)]).actions
    assert (action.time_ns, action.time_error_ns, action.after_look) == (None, 0, after)


def test_the_host_of_a_bundle() -> None:
    found = parsed("libc: glibc 2.36\nhidepid: 2\nno fact\npid 44 SLURM_JOB_ID: 77\n", member="host.txt")
    assert [(fact.name, fact.value) for fact in found.facts] == [
        ("libc", "glibc 2.36"), ("hidepid", "2"), ("pid 44 SLURM_JOB_ID", "77"),
    ]  # fmt: skip
    assert found.damage == ()


def test_sizes_of_a_divided_gpu_come_from_its_parts() -> None:
    gpu = {
        "index": 0,
        "used": None,
        "Compute": [[7, None], [8, 2**20], [9, 2**20], [9, 2**21]],
        "mig_devices": [
            {"uuid": "MIG-a", "Compute": [[7, 2**30], [8, 2**30]]},
            {"uuid": "MIG-b", "Compute": [[5, 2**30], "torn", [None]]},
        ],
    }
    found = member("after/nvml.json", {"t": NOW, "gpus": [gpu]})
    assert {row.pid: row.mib for row in found.bookings} == {7: 1024.0, 8: 1.0, 9: 3.0, 5: 1024.0}
    assert [row.mig_uuids for row in found.gpu_names] == [("MIG-a", "MIG-b")]
    assert found.samples[0].used_mib is None


def test_accounting_that_makes_no_sense_is_unknown() -> None:
    rows = [[41, 2**64 - 1, -5, 3, False], [42, 2**30, 2**70, 3, None], [0, 1, 1, 1, True], "x", [43]]
    found = member("after/nvml.json", {"t": NOW, "gpus": [{"index": 0, "used": 1, "accounted": rows}]})
    assert [(row.pid, row.peak_mib, row.start_ns, row.end_ns, row.running) for row in found.accounted] == [
        (41, None, None, None, False),
        (42, 1024.0, None, None, None),
        (43, None, None, None, None),
    ]
