"""Pasted sessions, put together of what the tools print."""

from __future__ import annotations

from collections.abc import Sequence

_HEAD = """{when}
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
_GPU = """|   {index}  NVIDIA RTX PRO 6000 Blac...    On  |   00000000:0{bus}:00.0 Off |                    0 |
| 30%   33C    P8             20W /  600W | {used:7d}MiB /  97887MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""
_LIST = """
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
"""
_END = "+-----------------------------------------------------------------------------------------+\n"
NOBODY = "|  No running processes found                                                             |\n"

Holder = tuple[int, int, str, int]
"""GPU, PID, name, MiB; a name that begins with ``G:`` or ``C+G:`` is listed with that type."""


def smi(used: Sequence[int], holders: Sequence[Holder], when: str = "Fri Feb 20 19:00:06 2026") -> str:
    """The table of nvidia-smi: MiB in use on each GPU, and who is listed."""
    gpus = "".join(_GPU.format(index=n, bus=n + 1, used=mib) for n, mib in enumerate(used))
    return _HEAD.format(when=when) + gpus + _LIST + ("".join(map(_row, holders)) or NOBODY) + _END


def _row(holder: Holder) -> str:
    gpu, pid, name, mib = holder
    kind, _, rest = name.partition(":") if name.startswith(("G:", "C+G:")) else ("C", "", name)
    return f"|  {gpu:3d}   N/A  N/A  {pid:15d}    {kind:>3}   {rest[:34]:34s} {mib:6d}MiB |\n"


def ps_ef(*rows: tuple[str, int, int, str, str]) -> str:
    """``ps -ef`` of a machine: user, PID, parent, start, command."""
    base = [("root", 1, 0, "08:00", "/sbin/init"), ("root", 2, 0, "08:00", "[kthreadd]")]
    base.append(("root", 3, 2, "08:00", "[pool_workqueue_release]"))
    lines = [f"{u:10s}{p:7d}{pp:8d}  3 {start:5s} ?        00:01:20 {cmd}\n" for u, p, pp, start, cmd in (*base, *rows)]
    return "UID          PID    PPID  C STIME TTY          TIME CMD\n" + "".join(lines)
