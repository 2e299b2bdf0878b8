"""Inputs without a host name: one machine, unless their GPUs differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpudiag.explain import explain
from tests.golden.scenes import Scene, dead, server


def _write(scene: Scene, folder: Path, uuid: str) -> Path:
    scene.write(folder)
    for file in folder.rglob("*.csv"):
        file.write_text(file.read_text().replace("GPU-5e1f0a00-0000-4000-8000-00000000000a", uuid))
    return folder


def test_a_pid_of_one_machine_is_never_looked_up_on_the_other(tmp_path: Path) -> None:
    ours, theirs = server(1000), [replace(p, user="bob") for p in server(1000)]
    one = _write(Scene(ours, dead(ours, 1000), "kill -9 1000"), tmp_path / "a", "GPU-aaaa")
    other = _write(Scene(theirs, theirs, "true"), tmp_path / "b", "GPU-bbbb")
    (other / "kill-commands.json").unlink()
    for inputs in ([one, other], [other, one]):
        report = explain(inputs)
        planned = {(entry.host, entry.pid) for entry in report.plan.kill}
        assert {pid for _, pid in planned} == {1002, 1003, 1004}
        assert len({host for host, _ in planned}) == 1
        assert len(report.hosts) == 2


def test_two_looks_of_one_machine_stay_together(tmp_path: Path) -> None:
    ours = server(1000)
    one = _write(Scene(ours, [], "true"), tmp_path / "a", "GPU-aaaa")
    (one / "kill-commands.json").unlink()
    other = _write(Scene([], dead(ours, 1000), "kill -9 1000"), tmp_path / "b", "GPU-aaaa")
    assert len(explain([one, other]).hosts) == 1
