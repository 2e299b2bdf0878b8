"""Short pasted sessions for the timeline's own tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpudiag.explain import Explanation, explain_fully

AUX = "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
EF = "UID          PID    PPID  C STIME TTY          TIME CMD\n"
_FRAME = "+-----------------------------------------+------------------------+----------------------+\n"
_LIST = "+-----------------------------------------------------------------------------------------+\n"

User = str
Booked = Sequence[tuple[int, int, str, int]]
"""(GPU, PID, name, MiB)"""


def aux(*rows: tuple[User, int, str]) -> str:
    """``ps aux``: (user, PID, command line)."""
    return AUX + "".join(
        f"{user:<8} {pid:>7}  0.0  0.1  9000  5000 ?   S    08:01   0:09 {line}\n" for user, pid, line in rows
    )


def ef(*rows: tuple[User, int, int, str]) -> str:
    """``ps -ef``: (user, PID, parent, command line)."""
    return EF + "".join(f"{user:<8} {pid:>7} {ppid:>7}  3 08:01 ?  00:01:20 {line}\n" for user, pid, ppid, line in rows)


def smi(booked: Booked, used: int | None = None) -> str:
    """The table of nvidia-smi; ``used`` where it is not the sum of what is booked."""
    gpus = sorted({gpu for gpu, *_ in booked}) or [0]
    body = ""
    for gpu in gpus:
        mib = used if used is not None else sum(one[3] for one in booked if one[0] == gpu) + 200
        body += (
            f"|   {gpu}  NVIDIA H100 80GB HBM3          On  |   00000000:0{gpu + 1}:00.0 Off |                    0 |\n"
        )
        body += (
            f"| N/A   33C    P0             70W /  700W | {mib:>8}MiB /  81559MiB |      0%      Default |\n{_FRAME}"
        )
    listed = "".join(
        f"|    {gpu}   N/A  N/A {pid:>14}      C   {name:<36}{mib:>8}MiB |\n" for gpu, pid, name, mib in booked
    )
    listed = listed or "|  No running processes found                                                             |\n"
    head = "| NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |\n"
    return f"{_LIST}{head}{_FRAME}{body}\n{_LIST}| Processes: |\n|=====|\n{listed}{_LIST}"


def typed(*commands: tuple[str, str], prompt: str = "u@box:~$ ") -> str:
    """A session: (command, what it printed)."""
    return "".join(f"{prompt}{command}\n{printed}" for command, printed in commands)


def explained(folder: Path, text: str) -> Explanation:
    """The report on a session."""
    path = folder / "session.txt"
    path.write_text(text)
    return explain_fully([path])
