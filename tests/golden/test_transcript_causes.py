"""Transcripts of public reports of which everything that the expectation says holds: causes, plan, what comes then.

``CAUSES`` grows until it holds every name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpudiag.explain import explain

TRANSCRIPTS = Path(__file__).parents[1] / "fixtures" / "transcripts"
CAUSES = frozenset(
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
        "gb10-enginecore-left",
        "ghost-workers",
        "htop-in-container-440",
        "jupyter-empty-cache-thin",
        "k80-nvsmi-in-D",
        "lmcache-keeps-kv",
        "mig-apply-nvidia-drm",
        "mig-no-rights",
        "mps-server-27mb",
        "npu-pkill-lowercase",
        "nvml-lock-after-clean-exit",
        "nvtop-dead-pid-fuser",
        "off-bus-no-xid",
        "ollama-runner-after-kill9",
        "ollama-systemd-respawn",
        "orphaned-memory",
        "pai-nvsmi-silent",
        "ps-state-z-hides-threads",
        "ray-2017-k80-thin",
        "reset-refused-persistence",
        "rootkit-hidden-pid",
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


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_causes_and_plan_are_those_of_the_expectation(name: str) -> None:
    expected: dict[str, Any] = json.loads((TRANSCRIPTS / f"{name}.expect.json").read_text())
    report = explain([TRANSCRIPTS / f"{name}.txt"])
    fired = {finding.rule for finding in report.findings}
    assert report.outcome == expected["outcome"]
    assert set(expected.get("rules_fire", ())) <= fired
    assert not fired & set(expected.get("rules_not", ()))
    planned = {entry.pid for entry in report.plan.kill}
    assert set(expected.get("kill_pids", ())) <= planned
    assert not planned & set(expected.get("never_pids", ()))
    assert set(expected.get("then", ())) <= {entry.kind for entry in report.plan.then}
    assert set(expected.get("stop_first", ())) <= {entry.kind for entry in report.plan.stop_first}
