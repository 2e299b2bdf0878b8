"""Incidents staged on a real GPU and collected only after the act, with the tool's own collector."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from gpudiag.bundle.format import Clocks
from gpudiag.evidence import read_input
from gpudiag.explain import explain, explain_parsed
from gpudiag.parse import parse
from tests.bundle_kit import NOBODY, pack_capture
from tests.golden.expectations import FIXTURES

COLLECTED = FIXTURES / "collected"


class Truth(NamedTuple):
    """What was staged, as its script printed it."""

    outcome: str
    rules: frozenset[str]
    kill: frozenset[int]
    optional: frozenset[int] = frozenset()


def truth(outcome: str, rules: tuple[str, ...], *kill: int, optional: tuple[int, ...] = ()) -> Truth:
    return Truth(outcome, frozenset(rules), frozenset(kill), frozenset(optional))


TRUTH = {
    # kill -9 of the API server 425: its engine 429 and workers 430, 431 live on.
    "survivors": truth("memory_held", ("GPD201",), 429, 430, 431),
    # 514 forked 540 after CUDA was up, then 514 was killed: no list names 540.
    "forked": truth("memory_held", ("GPD202",), 540),
    # Worker 577 stopped, then the API server killed; 576 is the engine.
    "stopped": truth("memory_held", ("GPD207",), 577, optional=(576,)),
    # The whole family killed with 24 GiB pinned, looked at 0.3 s later, and after 8 s.
    "teardown": truth("releasing", ("GPD301",)),
    "teardown-done": truth("nothing_held", ()),
    # The main thread of 865 left, another one lives.
    "zombie": truth("memory_held", ("GPD203",), 865),
    # As survivors, beside the job 1008 of another user.
    "seconduser": truth("memory_held", ("GPD201",), 1042, 1043, 1044),
    # kill -ABRT of 1267 with 24 GiB in memory: the kernel writes its core.
    "core-dump": truth("memory_held", ("GPD303",), 1267),
    # pkill -9 -f vllm.entrypoints hit the API server 1759: engine 1763 and eight workers on one GPU live on.
    "eight-workers": truth("memory_held", ("GPD201",), *range(1763, 1772)),
    # fuser ran one second after the start of 1115: nobody had a device open yet.
    "tooearly": truth("memory_held", ("GPD302",), 1119, 1120, optional=(1115, 1117, 1118)),
    # The same, with a time that may be off by a minute: the collector began three seconds later, which bounds it.
    "tooearly-at": truth("memory_held", ("GPD302",), 1160, 1161, optional=(1156, 1158, 1159)),
    # 1364 was dying in the first look; in the second one the loop 1362 has started 1425.
    "respawn-dying": truth("memory_held", ("GPD205",), 1425),
    # pkill -9 -f, stated, hit the API server 474; engine and workers live on beside the job 449 of another user.
    # Whether the line went to a shell that pkill found, too, nobody has told.
    "beside-a-job": truth("memory_held", ("GPD201", "GPD102", "GPD602"), *range(476, 481)),
    # The same through `gpudiag run`, whose trace shows that the shell died and fuser never ran.
    "run-selfmatch": truth("memory_held", ("GPD201", "GPD101", "GPD102", "GPD602"), *range(638, 643)),
    # kill -9 of the API server 964 through `gpudiag run`.
    "run-orphans": truth("memory_held", ("GPD201", "GPD602"), *range(966, 971)),
    # kill -9 of worker 469 alone: its server 463, engine 465 and the three other ranks live on.
    "one-rank": truth("memory_held", ("GPD213",), 463, 465, 466, 467, 468),
    # Each line below through `gpudiag run`. pkill -9 -f from a script file hit 553 and not the script's own shell.
    "run-script": truth("memory_held", ("GPD101", "GPD201"), *range(557, 560)),
    # kill -9 $(nvidia-smi …) of both workers: the engine and the server live and hold nothing.
    "run-list": truth("released", ("GPD605",)),
    # The whole family with 16 GiB pinned; the run waited until it was gone.
    "run-pinned": truth("released", ("GPD605",)),
    # 451 forked 460 after CUDA was up, then 451 was killed.
    "run-forked": truth("memory_held", ("GPD202",), 460),
    # The loop 546 started 592 in place of the killed 548.
    "run-respawn": truth("memory_held", ("GPD205",), 592),
    # fuser -k nine seconds before the workers opened a device.
    "run-tooearly": truth("memory_held", ("GPD302",), 649, 650, optional=(645, 648)),
    # bash -c 'pkill -9 -f …; sleep 3; echo never', seen by nobody but a flight recorder, and looked at afterwards only.
    "ring": truth("memory_held", ("GPD101", "GPD102", "GPD201"), 466, 467, 468),
    # TERM to everybody: server and engine die, the workers ignore it; three of them wait in a collective.
    "hung": truth("memory_held", ("GPD107", "GPD201"), *range(1112, 1116)),
    # The same loop, looked at once only: whether 1425 is a successor or a job of its own, nothing shows.
    "respawn-at": truth("memory_held", ()),
}


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_collected_after_the_act(name: str) -> None:
    expected = TRUTH[name]
    report = explain([COLLECTED / name])
    planned = {entry.pid for entry in report.plan.kill}
    assert report.outcome == expected.outcome
    assert expected.rules <= {finding.rule for finding in report.findings}
    assert expected.kill <= planned <= expected.kill | expected.optional


def test_an_unpacked_bundle_gives_the_report_of_the_packed_one(tmp_path: Path) -> None:
    start = NOBODY._replace(host="node-1", clocks=Clocks(1_796_082_543_000_000_000, 10**12, 10**12), pids=(1, 2))
    bundle = pack_capture(COLLECTED / "survivors", tmp_path / "b.tgz", start)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    with tarfile.open(bundle) as archive:
        archive.extractall(folder, filter="data")
    packed, unpacked = explain([bundle]), explain([folder])
    assert [entry.pid for entry in packed.plan.kill] == [429, 430, 431]
    assert [host.name for host in packed.hosts] == ["node-1"]
    assert unpacked.to_json().replace(str(folder), str(bundle)) == packed.to_json()


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_every_mib_has_an_owner(name: str) -> None:
    """Except while a process leaves whose pinned memory nobody recorded: that bound is not known."""
    for gpu in explain([COLLECTED / name]).gpus:
        loose = [entry.mib or 0 for entry in gpu.ledger if entry.kind == "unattributed"]
        assert not loose or name == "teardown"


def test_a_loop_whose_kill_has_no_time_is_not_called_free() -> None:
    """916 was killed before the first look, 965 is its successor: nothing shows who started 916."""
    report = explain([COLLECTED / "respawn"])
    assert report.outcome == "inconclusive"
    assert report.plan.kill == ()


def test_a_process_that_dumps_its_core_is_not_asked_to_end() -> None:
    """It handles no signal any more, and SIGKILL ends the dump."""
    assert [entry.signal for entry in explain([COLLECTED / "core-dump"]).plan.kill] == ["KILL"]


def test_the_loop_that_starts_it_again_is_stopped_first() -> None:
    report = explain([COLLECTED / "respawn-dying"])
    assert [(entry.kind, "1362" in (entry.command or "")) for entry in report.plan.stop_first] == [("shell_loop", True)]
    assert [f.certainty for f in report.findings if f.rule == "GPD205"] == ["inferred"]


def test_a_command_told_to_the_collector_precedes_its_looks() -> None:
    """Whatever the errors of the two times: the order is known."""
    assert "GPD903" not in {finding.rule for finding in explain([COLLECTED / "tooearly-at"]).findings}


def test_the_fixtures_are_all_tested() -> None:
    assert {path.name for path in Path(COLLECTED).iterdir()} == {*TRUTH, "respawn"}


def test_the_scan_reaches_threads_of_dead_leaders() -> None:
    """What the collector says of its own reach counts; without that, a zombie with threads leaves a doubt."""
    inputs = [read_input(COLLECTED / "zombie", "I1")]
    parsed = parse(inputs)
    said = [row for row in parsed.coverage if row.source == "open handles" and row.complete and not row.names_missing]
    assert said
    others = replace(parsed, coverage=tuple(row for row in parsed.coverage if row not in said))
    found = [explain_parsed(inputs, rows).facts["gpu"][0]["handles_complete"] for rows in (parsed, others)]
    assert found == [True, False]
