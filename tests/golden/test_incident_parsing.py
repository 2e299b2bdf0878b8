"""What stands in each transcript, counted by a reader and not by the parser.

``processes`` are rows that show a process (a thread's row is none), each output for itself; of ``fuser -v`` each PID
once. ``gpus`` are rows with a memory figure or a non-value in its place, ``bookings`` rows that name a PID on a GPU,
``handles`` pairs of PID and device file, an open descriptor and a mapping counted apart. ``other`` is what shows a
container, unit, job, GPU name or kernel stack. ``unknown`` are lines that no parser need know: the least and the most,
where logs, which others learn to read, may be among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gpudiag.evidence import read_input
from gpudiag.evidence.prompts import clean_lines, typed_commands
from gpudiag.parse import Parsed, parse

TRANSCRIPTS = Path(__file__).parents[1] / "fixtures" / "transcripts"


@dataclass(frozen=True)
class Truth:
    """The true numbers of one transcript."""

    commands: int
    kills: int
    processes: int = 0
    gpus: int = 0
    bookings: int = 0
    handles: int = 0
    other: int = 0
    unknown: tuple[int, int] = (0, 0)


TRUTH = {
    "a100-dead-pid-thin": Truth(5, 1, gpus=1, bookings=1),
    "bench-pkill-python": Truth(6, 1, processes=2, gpus=2),
    "ci-25-dead-pids": Truth(2, 0, bookings=25, unknown=(1, 1)),
    "container-zombies-no-init": Truth(6, 1, processes=5, gpus=2, unknown=(2, 2)),
    "dcgm-exporter-kill-xid119": Truth(5, 1, processes=1, unknown=(0, 2)),
    "docker-pidns-2016": Truth(3, 0, processes=3, gpus=1, bookings=1),
    "docker-restart-pid1-zombie": Truth(3, 1, processes=1, other=1, unknown=(1, 1)),
    "docker-rm-two-workers": Truth(4, 1, bookings=4, unknown=(1, 1)),
    "dynamo-trtllm-own-pgid": Truth(5, 1, processes=5, gpus=1, bookings=1),
    "enginecore-uvm-spin": Truth(5, 1, processes=3, bookings=1, other=1),
    "fastchat-heartbeat": Truth(2, 0, bookings=1, unknown=(0, 8)),
    "fuser-names-container": Truth(5, 0, processes=5, gpus=1, handles=4, other=1),
    "gb10-enginecore-left": Truth(5, 1, processes=1, gpus=1, bookings=1, unknown=(0, 1)),
    "ghost-workers": Truth(3, 1, gpus=8, bookings=8),
    "htop-in-container-440": Truth(3, 0, processes=2, gpus=1, unknown=(3, 3)),
    "jupyter-empty-cache-thin": Truth(2, 0, gpus=1),
    "k80-nvsmi-in-D": Truth(5, 2, processes=6),
    "lmcache-keeps-kv": Truth(6, 1, processes=1, gpus=8, bookings=4, unknown=(2, 3)),
    "mig-apply-nvidia-drm": Truth(4, 0, gpus=4),
    "mig-no-rights": Truth(5, 1, gpus=1, other=1),
    "mps-ddp-interrupt": Truth(4, 0, processes=3, gpus=1, bookings=2, unknown=(0, 1)),
    "mps-server-27mb": Truth(4, 0, gpus=1, bookings=1),
    "npu-pkill-lowercase": Truth(4, 1, processes=7),
    "nvml-lock-after-clean-exit": Truth(5, 0, processes=3, unknown=(1, 6)),
    "nvtop-dead-pid-fuser": Truth(3, 1, processes=5, bookings=1, handles=24),
    "off-bus-no-xid": Truth(4, 0, processes=1, handles=1, unknown=(0, 5)),
    "ollama-runner-after-kill9": Truth(6, 1, processes=3, gpus=1, bookings=1, unknown=(1, 1)),
    "ollama-systemd-respawn": Truth(7, 1, processes=5, gpus=1, bookings=1, other=1),
    "orphaned-memory": Truth(3, 1, gpus=8),
    "paddleocr-fuser-frees": Truth(7, 2, processes=4, gpus=2, bookings=1, handles=20),
    "pai-nvsmi-silent": Truth(5, 1, processes=10),
    "ps-state-z-hides-threads": Truth(4, 1, processes=3, bookings=1),
    "ray-2017-k80-thin": Truth(2, 0, gpus=4),
    "ray-tune-ctrl-c": Truth(3, 0, processes=2, bookings=1, unknown=(0, 1)),
    "reset-refused-persistence": Truth(4, 1, processes=1, gpus=1, handles=1),
    "rootkit-hidden-pid": Truth(7, 1, gpus=1, bookings=1, unknown=(1, 1)),
    "rtxpro-requires-reset": Truth(5, 1, gpus=2, other=2),
    "selfmatch-http-server": Truth(4, 1, unknown=(1, 1)),
    "seven-gpus-util-ghost": Truth(3, 0, gpus=8, unknown=(1, 1)),
    "sglang-ci-not-idle": Truth(3, 0, unknown=(0, 3)),
    "sglang-ci-other-uid": Truth(4, 1, processes=2, gpus=3, bookings=2, unknown=(1, 1)),
    "sglang-dp-slurm-survivors": Truth(5, 1, processes=4, gpus=4, bookings=4),
    "sglang-gb300-reparented": Truth(5, 1, processes=6, bookings=4, unknown=(0, 1)),
    "shard-pidfile-gone": Truth(6, 1, processes=2, gpus=1, bookings=2, unknown=(1, 1)),
    "sighup-closed-shell": Truth(5, 0, processes=3, bookings=1, unknown=(1, 1)),
    "slurm-epilog-idx": Truth(4, 0, gpus=8, unknown=(3, 4)),
    "slurm-pt-data-workers": Truth(9, 1, processes=128, gpus=8, bookings=7, handles=126, unknown=(5, 7)),
    "smg-oom-names-holder": Truth(3, 0, processes=1, unknown=(0, 5)),
    "suspend-xid13-container": Truth(5, 0, processes=1, bookings=1, other=1),
    "t4-gsp-256mb": Truth(1, 0, gpus=1),
    "term-hit-srun-client": Truth(6, 1, processes=5, bookings=2, other=1, unknown=(0, 0)),
    "titanx-384-thin": Truth(3, 1, gpus=1, unknown=(0, 2)),
    "torch-defunct-thin": Truth(5, 2, processes=2, gpus=4),
    "torchrun-uvm-mutex": Truth(4, 1, processes=2, bookings=1, unknown=(0, 6)),
    "triton-pt-main-thread": Truth(6, 2, processes=3, bookings=2),
    "ucx-importer-other-node": Truth(6, 2, processes=1, gpus=2),
    "vime-pkill-comm": Truth(5, 1, processes=4, gpus=1, bookings=1),
    "vllm-profiling-assert": Truth(2, 0, gpus=1, unknown=(0, 2)),
    "wsl-trainer-falling": Truth(5, 1, processes=2, gpus=3),
    "wsl2-na": Truth(2, 0, gpus=1, bookings=2),
    "yolox-one-rank-left": Truth(3, 0, gpus=4, bookings=3, unknown=(1, 3)),
}


def _unknown_lines(found: Parsed) -> int:
    """The sum over the rows that say how many lines were not understood."""
    because = [str(row.because) for row in found.coverage if row.source == "text"]
    return sum(int(text.partition(": ")[2].split(" ", 1)[0]) for text in because)


def test_every_transcript_was_counted() -> None:
    assert {path.stem for path in TRANSCRIPTS.glob("*.txt")} == set(TRUTH)


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_what_is_there_is_found(name: str) -> None:
    path = TRANSCRIPTS / f"{name}.txt"
    truth = TRUTH[name]
    evidence = read_input(path, "I1")
    found = parse([evidence])
    other = (found.containers, found.units, found.jobs, found.pods, found.listeners, found.stacks, found.gpu_names)
    assert (
        Truth(
            commands=sum(1 for _ in typed_commands(clean_lines(path.read_text()), captured=False)),
            kills=len(found.actions),
            processes=len(found.processes),
            gpus=len(found.samples),
            bookings=len(found.bookings),
            handles=len(found.handles),
            other=sum(map(len, other)),
            unknown=truth.unknown,
        )
        == truth
    )
    least, most = truth.unknown
    assert least <= _unknown_lines(found) <= most


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_no_line_is_damage_but_what_a_tool_said_of_a_gpu(name: str) -> None:
    found = parse([read_input(TRANSCRIPTS / f"{name}.txt", "I1")])
    assert [row.reason for row in found.damage] == []
