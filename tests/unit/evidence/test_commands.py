"""What a typed line is about: its host, and whether it kills."""

from __future__ import annotations

import time

import pytest

from gpudiag.evidence.inside import entry
from gpudiag.kill_words import first_kill


@pytest.mark.parametrize(
    "text",
    [
        "kill -9 7", "pkill -9 -f x", "sudo -u bob kill 7", "X=1 pkill x", "fuser -k /dev/nvidia*",
        "fuser -v --kill /x",
        "fuser -kv /dev/nvidia0", "ps | xargs -r -n 1 kill -9", "timeout 5 pkill x",
        "timeout -s KILL 5 /usr/bin/pkill x",
        "for f in a; do kill $(cat $f); done", "ssh h 'pkill x'", "ssh -p 22 h pkill x", "docker exec -it c pkill vllm",
        "docker compose -f x.yml exec -T c pkill vllm", "docker -H ssh://h exec c kill 7", "mpirun -host h pkill x",
        "docker rm -f x", "docker compose down", "sudo systemctl restart vllm", "ray stop --force", "scancel 7",
        "kubectl -n a delete pod x", "tmux kill-session -t a", "nvidia-smi --gpu-reset -i 0", "nvidia-smi -r",
        "su -s /bin/bash nobody -c 'pkill -9 x'", "sleep 30; pkill x", "echo a && killall python3", "kill %1",
    ],
)  # fmt: skip
def test_lines_that_kill(text: str) -> None:
    assert first_kill(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "kill -l", "kill -0 7", "man pkill", "echo kill", "grep kill f", "ssh h 'grep kill f'",
        "cat kill-commands.json",
        "nvidia-smi --query-gpu=memory.used --format=csv -i 0", "fuser -v /dev/nvidia*", "timeout -s KILL 9 nvidia-smi",
        "systemctl is-active x", "docker ps", "kubectl get pods", "dmesg | grep -i kill", "pgrep -f x", "",
    ],
)  # fmt: skip
def test_lines_that_do_not(text: str) -> None:
    assert first_kill(text) is None


@pytest.mark.parametrize(
    ("text", "host", "user"),
    [
        ("ssh h ps", "h", None),
        ("ssh -o StrictHostKeyChecking=no root@gpu-node 'pkill x'", "gpu-node", "root"),
        ("ssh -tt -p22 -i key -l alice h.example 'ps'", "h.example", "alice"),
        ("sudo /usr/bin/ssh -J jump h ps", "h", None),
        ("ssh h 'unclosed", "h", None),
    ],
)
def test_the_host_of_an_ssh_line(text: str, host: str, user: str | None) -> None:
    target = entry(text)
    assert target is not None
    assert (target.host, target.user) == (host, user)


@pytest.mark.parametrize("text", ["ps -ef", "echo ssh h", "ssh", "ssh -V", "ssh localhost ps", "sshd -T"])
def test_lines_that_stay_here(text: str) -> None:
    found = entry(text)
    assert found is None or not found.is_elsewhere


@pytest.mark.parametrize(
    "unit", ["do.", "xargs fuser ", "ssh a ", "-a ", "sudo -a b ", "docker -a b ", "timeout -a 5 ", ";a=b -c d", " "]
)
def test_the_time_is_bounded(unit: str) -> None:
    started = time.process_time()
    assert first_kill(unit * (65536 // len(unit))) is None
    assert time.process_time() - started < 2
