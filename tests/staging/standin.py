"""A server of vLLM's process shape that holds real device memory: API server, engine, one worker a rank.

Nothing in it watches for its parent's death and the workers ignore SIGTERM, which is the fault that is staged. Ranks
are spread over the GPUs that there are. With a GPU for each rank NCCL is initialised between them, else gloo.
"""

# torch and setproctitle are on the machine with the GPUs only.
# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

PORT = "29577"


def main() -> None:
    """What ``python3 -m vllm.entrypoints.openai.api_server`` runs; it never ends by itself."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensor-parallel-size", type=int, default=8)
    parser.add_argument("--gib", type=float, default=60)
    parser.add_argument("--pinned", type=float, default=0, help="GiB of host memory that each rank pins")
    parser.add_argument("--absent-rank", type=int, default=-1, help="never comes to the collective, so the others hang")
    parser.add_argument("--ready", type=Path, required=True, help="written when everybody holds its memory")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    context.Process(target=_engine, args=(options, ready)).start()
    if ready.wait(300):
        print("INFO:     Application startup complete.", flush=True)
        options.ready.write_text(str(os.getpid()))
    _wait()


def _engine(options: argparse.Namespace, ready: Any) -> None:
    import setproctitle

    setproctitle.setproctitle("VLLM::EngineCore")
    context = multiprocessing.get_context("spawn")
    holding = [context.Event() for _ in range(options.tensor_parallel_size)]
    for rank, event in enumerate(holding):
        context.Process(target=_worker, args=(options, rank, event)).start()
    for event in holding:
        event.wait(300)
    ready.set()
    _wait()


def _worker(options: argparse.Namespace, rank: int, holding: Any) -> None:
    import setproctitle
    import torch

    setproctitle.setproctitle(f"VLLM::Worker_TP{rank}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    count = torch.cuda.device_count()
    device = f"cuda:{rank % count}"
    torch.cuda.set_device(device)
    ranks = options.tensor_parallel_size
    nccl = ranks <= count
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT)
    torch.distributed.init_process_group("nccl" if nccl else "gloo", rank=rank, world_size=ranks)
    held = torch.ones(int(options.gib * 2**30), dtype=torch.uint8, device=device)
    pinned = torch.empty(int(options.pinned * 2**30), dtype=torch.uint8, pin_memory=True)
    beat = torch.ones(1, device=device if nccl else "cpu")
    torch.distributed.all_reduce(beat)
    torch.cuda.synchronize()
    print(f"(Worker_TP{rank} pid={os.getpid()}) INFO holding {held.numel() >> 30} GiB on {device}", flush=True)
    holding.set()
    if options.absent_rank >= 0 and rank != options.absent_rank:
        torch.distributed.all_reduce(beat)
        torch.cuda.synchronize()
    del pinned
    _wait()


def _wait() -> None:
    while True:
        time.sleep(1)
