"""Joins and shares that the outputs draw from."""

from __future__ import annotations

from gpudiag.report.contract import Fate, Gpu, Host, KillEntry, LedgerEntry, Plan, ProcessRef
from gpudiag.report.view import MAX_DEPTH, SHARE_WORDS, View, shares
from tests.unit.report import sample


def _gpu(**fields: object) -> Gpu:
    return Gpu.model_validate({"id": "g", "host": "H1", "outcome": "memory_held", **fields})


def test_shares_add_up_to_the_total() -> None:
    parts = shares(sample.selfmatch().gpus[0])
    assert {share.key: share.mib for share in parts} == {
        "family": 35208,
        "older_family": 42180,
        "driver": 71,
        "reserve": 616,
        "free": 143771 - 77459 - 616,
    }


def test_unknown_sizes_make_no_share() -> None:
    assert shares(_gpu(used_mib=5)) == ()
    assert shares(_gpu(total_mib=5)) == ()
    assert shares(_gpu(total_mib=0, used_mib=0)) == ()


def test_what_the_ledger_does_not_size_is_in_use_all_the_same() -> None:
    ledger = [LedgerEntry(kind="process", whose="family", pid=7, mib=None)]
    parts = {share.key: share.mib for share in shares(_gpu(total_mib=100, used_mib=60, ledger=ledger))}
    assert parts == {"unsplit": 60, "free": 40}


def test_kinds_of_a_later_version_have_a_share() -> None:
    ledger = [LedgerEntry(kind="process", whose="a_friend", mib=10)]
    assert shares(_gpu(total_mib=100, used_mib=10, ledger=ledger))[0].key in SHARE_WORDS


def test_a_tree_draws_every_member_once() -> None:
    view = View(sample.selfmatch())
    rows = [(member.process.pid, member.depth) for member in view.members(view.report.families[0])]
    assert rows == [(884, 0), (886, 0), (887, 1), (888, 1), (889, 1), (890, 1)]


def test_parents_that_name_each_other_end() -> None:
    view = View(sample.hostile())
    assert sorted(member.process.pid for member in view.members(view.report.families[0])) == [7, 8]


def test_a_deep_tree_is_drawn_to_a_depth() -> None:
    base = sample.selfmatch()
    chain = tuple(
        base.processes[1].model_copy(update={"id": f"P{pid}", "pid": pid, "parent_pid": pid - 1})
        for pid in range(1, 3000)
    )
    family = base.families[0].model_copy(update={"members": tuple(process.id for process in chain)})
    members = View(base.model_copy(update={"processes": chain})).members(family)
    assert len(members) == len(chain)
    assert max(member.depth for member in members) == MAX_DEPTH


def test_a_reused_pid_hides_nobody() -> None:
    base = sample.selfmatch()
    twin = base.processes[1].model_copy(update={"id": "P886b", "start_ticks": 9})
    family = base.families[0].model_copy(update={"members": (*base.families[0].members, "P886b")})
    members = View(base.model_copy(update={"processes": (*base.processes, twin)})).members(family)
    assert [member.process.id for member in members if member.process.pid == 886] == ["P886", "P886b"]


def _kill(order: int, pid: int, command: str, run_in: str = "host") -> KillEntry:
    return KillEntry(
        process=f"P{pid}", pid=pid, identity="strong", signal="KILL", order=order, certainty="proven",
        check="true",
        command=command, run_in=run_in, host="H1",
    )  # fmt: skip


def test_kills_keep_their_order_and_are_cut_where_the_place_changes() -> None:
    kills = (_kill(3, 9, "c"), _kill(1, 7, "a", "container x"), _kill(2, 8, "b"), _kill(4, 10, "c"))
    view = View(sample.selfmatch().model_copy(update={"plan": Plan(kill=kills)}))
    groups = view.kill_groups()
    assert [(group.run_in, [entry.pid for entry in group.entries]) for group in groups] == [
        ("container x", [7]),
        ("host", [8, 9, 10]),
    ]
    assert groups[1].commands == ("b", "c")


def test_the_kill_line_never_takes_unknown_for_nothing() -> None:
    assert View(sample.ghost_workers()).kill_line().endswith("How much that frees is not known.")
    assert View(sample.selfmatch()).kill_line().endswith("698–700, 886–890. That frees 77,388 MiB.")
    assert View(sample.empty()).kill_line() == "This report names no process to kill."


def test_gaps_name_sources_and_damage() -> None:
    assert [(gap.what, gap.how) for gap in View(sample.selfmatch()).evidence_gaps()] == [("kernel log (I1)", "denied")]
    assert len(View(sample.hostile()).evidence_gaps()) == 3


def test_what_happened_to_like_processes_is_told_once() -> None:
    base = sample.selfmatch()

    def missed(process: ProcessRef) -> ProcessRef:
        reason = f"the pattern x does not match {process.cmdline}"
        fate = (Fate(step="A1.1", reached="no", certainty="proven", because=reason),)
        return process.model_copy(update={"fate": fate})

    processes = tuple(missed(process) if process.role == "worker" else process for process in base.processes)
    view = View(base.model_copy(update={"processes": processes}))
    first, second = (view.fates(family) for family in view.report.families)
    told = "A1.1: not reached (proven): the pattern x does not match its command line"
    assert ("887–890", told) in first
    assert ("699, 700", told) in second
    assert [pids for pids, reason in first if reason.startswith("A1.3")] == ["886"]


def test_a_reason_of_one_process_names_it() -> None:
    base = sample.selfmatch()
    fate = (Fate(step="A1.1", reached="no", certainty="proven", because="x does not match VLLM::Worker_TP0"),)
    processes = tuple(p.model_copy(update={"fate": fate if p.pid == 887 else ()}) for p in base.processes)
    view = View(base.model_copy(update={"processes": processes}))
    assert view.fates(base.families[0]) == (("887", "A1.1: not reached (proven): x does not match VLLM::Worker_TP0"),)


def test_where_and_when_is_told_as_far_as_it_is_known() -> None:
    assert View(sample.selfmatch()).setting() == "gpu-node, 2026-11-30 19:40:13 UTC, driver 590.48.01, CUDA 13.1"
    assert View(sample.ghost_workers()).setting() == "gpu-node"
    assert View(sample.empty()).setting() == ""


def test_gpus_are_named_together_by_host() -> None:
    base = sample.selfmatch()
    hosts = tuple(Host(id=f"H{n}", name=f"node{n}") for n in (1, 2))
    gpus = tuple(_gpu(id=f"g{host}{n}", host=f"H{host}", index=n) for host in (1, 2) for n in range(3))
    view = View(base.model_copy(update={"hosts": hosts, "gpus": gpus}))
    assert view.gpu_names(gpus) == "node1 GPU 0–2, node2 GPU 0–2"
    assert view.gpu_names((_gpu(id="GPU-5e1f"),)) == "GPU-5e1f"


def test_a_gpu_that_the_evidence_does_not_tell_apart_has_no_made_up_name() -> None:
    base = sample.selfmatch()
    view = View(base.model_copy(update={"gpus": (_gpu(id="node1/gpu?"),)}))
    assert view.gpu_name("node1/gpu?") == view.gpu_name("?") == "GPU not known"


def test_pid_1_is_not_called_dead() -> None:
    """It is the parent now of whom a dead process had started."""
    report = sample.selfmatch()
    orphan = next(process for process in report.processes if process.parent_pid == 1)
    facts = View(report).process_facts
    assert "took it over from a dead one" in facts(orphan.model_copy(update={"parent_alive": False}))
    assert facts(orphan.model_copy(update={"parent_alive": None})).endswith("parent 1")
