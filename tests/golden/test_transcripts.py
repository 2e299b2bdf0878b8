"""The transcripts of public reports: nobody is named wrongly, and what is right already stays right.

The full verdicts are not demanded yet; ``RIGHT`` grows until it holds every name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpudiag.explain import explain
from gpudiag.report.contract import Report

TRANSCRIPTS = Path(__file__).parents[1] / "fixtures" / "transcripts"
NAMES = sorted(path.stem for path in TRANSCRIPTS.glob("*.txt"))
RIGHT = frozenset(
    {
        "a100-dead-pid-thin",
        "bench-pkill-python",
        "ci-25-dead-pids",
        "container-zombies-no-init",
        "dcgm-exporter-kill-xid119",
        "docker-pidns-2016",
        "docker-restart-pid1-zombie",
        "dynamo-trtllm-own-pgid",
        "enginecore-uvm-spin",
        "fastchat-heartbeat",
        "fuser-names-container",
        "gb10-enginecore-left",
        "ghost-workers",
        "htop-in-container-440",
        "jupyter-empty-cache-thin",
        "k80-nvsmi-in-D",
        "lmcache-keeps-kv",
        "mig-apply-nvidia-drm",
        "mig-no-rights",
        "mps-ddp-interrupt",
        "mps-server-27mb",
        "npu-pkill-lowercase",
        "nvml-lock-after-clean-exit",
        "nvtop-dead-pid-fuser",
        "off-bus-no-xid",
        "ollama-runner-after-kill9",
        "ollama-systemd-respawn",
        "orphaned-memory",
        "paddleocr-fuser-frees",
        "pai-nvsmi-silent",
        "ray-2017-k80-thin",
        "ray-tune-ctrl-c",
        "reset-refused-persistence",
        "rootkit-hidden-pid",
        "ps-state-z-hides-threads",
        "rtxpro-requires-reset",
        "selfmatch-http-server",
        "seven-gpus-util-ghost",
        "sglang-ci-not-idle",
        "sglang-ci-other-uid",
        "sglang-dp-slurm-survivors",
        "sglang-gb300-reparented",
        "shard-pidfile-gone",
        "sighup-closed-shell",
        "slurm-epilog-idx",
        "smg-oom-names-holder",
        "suspend-xid13-container",
        "t4-gsp-256mb",
        "term-hit-srun-client",
        "titanx-384-thin",
        "torch-defunct-thin",
        "torchrun-uvm-mutex",
        "triton-pt-main-thread",
        "ucx-importer-other-node",
        "vime-pkill-comm",
        "vllm-profiling-assert",
        "wsl-trainer-falling",
        "wsl2-na",
        "yolox-one-rank-left",
    }
)
"""Outcome and the PIDs to kill are those of the expectation."""


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    """Every transcript, explained once."""
    return {name: explain([TRANSCRIPTS / f"{name}.txt"]) for name in NAMES}


def _expected(name: str) -> dict[str, Any]:
    return json.loads((TRANSCRIPTS / f"{name}.expect.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_nobody_is_named_wrongly(name: str, reports: dict[str, Report]) -> None:
    expected = _expected(name)
    planned = {entry.pid for entry in reports[name].plan.kill}
    assert not planned & set(expected.get("never_pids", ()))
    assert planned <= set(expected.get("kill_pids", ())) | set(expected.get("kill_optional", ()))


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_what_is_right_stays_right(name: str, reports: dict[str, Report]) -> None:
    expected, report = _expected(name), reports[name]
    assert report.outcome == expected["outcome"]
    assert set(expected.get("kill_pids", ())) <= {entry.pid for entry in report.plan.kill}


@pytest.mark.parametrize("name", NAMES)
def test_text_that_was_not_understood_is_shown(name: str, reports: dict[str, Report]) -> None:
    """Each place is named once, with the member and the line."""
    shown = [source.because or "" for source in reports[name].sources if source.source == "text"]
    assert len(set(shown)) == len(shown)
    assert all(because.startswith(f"{name}.txt from line ") for because in shown)
