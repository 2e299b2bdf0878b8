"""Names of programs that people type. Where a prompt is no more than one character, only these make it a command."""

from __future__ import annotations

import re
from typing import FrozenSet

KNOWN: FrozenSet[str] = frozenset(
    {
        "alias", "apt", "apt-get", "awk", "bash", "bg", "cat", "cd", "chmod", "chown", "clear", "cp", "crictl",
        "curl", "cut", "date", "dcgmi", "df", "diff", "dmesg", "dnf", "docker", "du", "echo", "egrep", "env",
        "exit", "export", "fg", "find", "free", "fuser", "git", "gpustat", "grep", "head", "history",
        "hostname", "htop", "id", "ip", "jobs", "journalctl", "kill", "killall", "kubectl", "less", "ls",
        "lsmod", "lsof", "lspci", "make", "man", "mkdir", "modprobe", "mount", "mpirun", "mv", "nerdctl",
        "netstat", "nohup", "nproc", "nsenter", "nvidia-smi", "nvitop", "nvtop", "oc", "ollama", "passwd",
        "pgrep", "pip", "pip3", "pkill", "podman", "ps", "pstree", "pwd", "python", "python3", "ray",
        "readlink", "reboot", "rm", "rmmod", "rocm-smi", "sacct", "salloc", "sbatch", "scancel", "scontrol",
        "sed", "service", "setsid", "sh", "sinfo", "skill", "sleep", "sort", "source", "squeue", "srun", "ss",
        "ssh", "strace", "su", "sudo", "systemctl", "systemd-cgls", "tail", "tee", "test", "time", "timeout",
        "tmux", "top", "torchrun", "touch", "tty", "uname", "uniq", "unset", "uptime", "vim", "vllm", "w",
        "watch", "wc", "wget", "which", "who", "whoami", "xargs",
    }
)  # fmt: skip
_FIRST = re.compile(r"(?:\w{1,60}=\S{0,200}\s+){0,5}(?P<word>[^\s;|&]{1,200})")


def starts_with_program(text: str) -> bool:
    """The first word is a program that people type, or a path to one."""
    match = _FIRST.match(text)
    if match is None:
        return False
    word = match["word"]
    return (
        word in KNOWN
        or (word.startswith(("/", "./", "~/")) and len(word) > 2)
        or word in ("for", "while", "if", "until")
    )
