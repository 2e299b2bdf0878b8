"""What the table of holders says once."""

from __future__ import annotations

from gpudiag.report import ledger
from gpudiag.report.contract import Gpu, LedgerEntry, Report
from gpudiag.report.view import View
from tests.unit.report import sample


def _report(*entries: LedgerEntry, gpus: int = 1) -> Report:
    return sample.selfmatch().model_copy(
        update={
            "gpus": tuple(
                Gpu(id=f"g{n}", host="H1", index=n, outcome="memory_held", ledger=entries) for n in range(gpus)
            )
        }
    )


def test_what_is_the_same_on_several_gpus_is_one_row() -> None:
    nobody = LedgerEntry(kind="unattributed", whose="unknown", mib=92953, because="no list")
    rows = ledger.rows(View(_report(nobody, gpus=8)))
    assert [(row.gpus, row.size, row.held_by) for row in rows] == [("GPU 0–7", "92,953 MiB each", "nobody named")]


def test_processes_of_one_gpu_stay_apart() -> None:
    rows = ledger.rows(View(sample.selfmatch()))
    assert [row.pids for row in rows] == ["887", "888", "889", "890", "699", "700", ""]


def test_a_dead_holder_names_who_has_it_open() -> None:
    dead = LedgerEntry(kind="dead_process", whose="family", pid=5, mib=6662, held_by=("P887",))
    assert ledger.rows(View(_report(dead)))[0].held_by == "dead process, held open by 887"


def test_a_zombie_that_holds_memory_is_not_called_a_live_process() -> None:
    base = sample.selfmatch()
    zombie = base.processes[2].model_copy(update={"state": "Z"})
    report = base.model_copy(update={"processes": (*base.processes[:2], zombie, *base.processes[3:])})
    held = {row.pids: row.held_by for row in ledger.rows(View(report))}
    assert held["887"] == "zombie, threads left"
    assert held["888"] == "live process"


def test_many_like_processes_are_summed_by_gpu() -> None:
    rows = ledger.rows(View(sample.crowded(gpus=2, workers=40)))
    assert [(row.gpus, row.pids, row.held_by) for row in rows] == [
        ("GPU 0", "20000–20039", "live process, 40 PIDs"),
        ("GPU 1", "20040–20079", "live process, 40 PIDs"),
    ]
    assert rows[0].size == "48,780 MiB"


def test_a_sum_admits_an_unknown_share() -> None:
    entries = tuple(LedgerEntry(kind="process", whose="family", pid=n, mib=None if n else 7) for n in range(100))
    assert ledger.rows(View(_report(*entries)))[0].size == "at least 7 MiB"
