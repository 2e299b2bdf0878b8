"""What is named as missing was not read, or it is said that only a part of it was."""

from __future__ import annotations

from pathlib import Path

from gpudiag.explain import explain

PARTIAL = """$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv
pid, process_name, used_gpu_memory [MiB]
4242, trainer, 4096 MiB
$ nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv
index, memory.used [MiB], memory.total [MiB]
0, 4100 MiB, 97887 MiB
$ ps -o pid,ppid,user,stat,args -p 4242
    PID    PPID USER     STAT COMMAND
   4242    3300 alice    Rl   trainer --steps 9000
"""


def test_a_class_that_was_read_in_part_is_not_said_to_be_absent(tmp_path: Path) -> None:
    session = tmp_path / "session.txt"
    session.write_text(PARTIAL)
    report = explain([session])
    assert {"process table"} <= {source.source for source in report.sources if source.outcome == "ok"}
    collect = next(then for then in report.plan.then if then.kind == "collect")
    assert collect.because == "this evidence lacks: process table (read in part), open handles"
    assert (collect.command or "").count("ps -eo") == 1
    told = next(finding for finding in report.findings if finding.rule == "GPD901")
    assert "Missing: process table (read in part), open handles, kill commands." in told.text


def test_a_class_of_an_earlier_look_is_told_so(tmp_path: Path) -> None:
    for look, names in (("before", ("ps", "apps")), ("after", ("apps",))):
        (tmp_path / look).mkdir()
        for name in names:
            text = "pid, process_name, used_gpu_memory [MiB]\n4242, trainer, 4096 MiB\n"
            table = "    PID    PPID USER     STAT COMMAND\n      1       0 root     Ss   /sbin/init\n"
            command = (
                "ps -eo pid,ppid,user,stat,args"
                if name == "ps"
                else "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"
            )
            time = "2026-03-02T09:00:00Z" if look == "before" else "2026-03-02T09:05:00Z"
            body = table + "   4242       1 alice    Rl   trainer\n" if name == "ps" else text
            (tmp_path / look / f"{name}.txt").write_text(f"# {time} $ {command}\n{body}")
    collect = [then.because for then in explain([tmp_path]).plan.then if then.kind == "collect"]
    assert any("process table (none in the newest look)" in because for because in collect)
