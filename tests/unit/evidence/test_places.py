"""Which machine or container each piece of a session is of."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpudiag.evidence import Input, read_input
from gpudiag.evidence.commands import parts
from gpudiag.evidence.inside import entry


def session(tmp_path: Path, text: str) -> Input:
    """A transcript with this text."""
    path = tmp_path / "incident.txt"
    path.write_text(text)
    return read_input(path, "I1")


def hosts(found: Input) -> list[str]:
    """Host of each exhibit."""
    return [exhibit.host for exhibit in found.exhibits]


def given(found: Input) -> list[str]:
    """Host of each action."""
    return [action.host for action in found.actions]


@pytest.mark.parametrize(
    ("text", "host", "door", "container"),
    [
        ("ssh -p 2222 root@a ps", "a", "2222", None),
        ("ssh -p 22 root@a ps", "a", None, None),
        ("ssh a -p2222 ps", "a", "2222", None),
        ("ssh -oPort=2222 a ps", "a", "2222", None),
        ("ssh ssh://bob@a:2222 ps", "a", "2222", None),
        ("ssh x-1@ssh.gpus.example ps", "ssh.gpus.example", "x-1", None),
        ("timeout 5 sshpass -p x ssh a ps", "a", None, None),
        ("srun -w a -n1 ps", "a", None, None),
        ("srun --nodelist a --gres=gpu:1 ps", "a", None, None),
        ("srun --overlap --jobid=7 ps", "Slurm job 7", None, None),
        ("srun -w a --pty bash", "a", None, None),
        ("ansible all -i inv -l a -m shell -a ps", "a", None, None),
        ("pdsh -w a ps", "a", None, None),
        ("clush -bw a ps", "a", None, None),
        ("mpirun -host a -np 1 ps", "a", None, None),
        ("ssh a docker exec c ps", "a", None, "c"),
        ("ssh a 'ssh -p 2222 b ps'", "b", "2222", None),
        ("docker exec -it c ps", None, None, "c"),
        ("docker run --rm --gpus device=1 cuda:12 nvidia-smi", None, None, "cuda:12 (device=1)"),
        ("docker run --rm -it --gpus=all -v /a:/b x/cuda nvidia-smi", None, None, "cuda (all)"),
        ("docker run -e NVIDIA_VISIBLE_DEVICES=1 cuda nvidia-smi", None, None, "cuda (NVIDIA_VISIBLE_DEVICES=1)"),
        ("podman run --device nvidia.com/gpu=1 cuda nvidia-smi", None, None, "cuda (nvidia.com/gpu=1)"),
        ("docker run --entrypoint nvidia-smi cuda", None, None, "cuda"),
    ],
)
def test_where_a_line_leads(text: str, host: str | None, door: str | None, container: str | None) -> None:
    found = entry(text)
    assert found is not None
    assert found.is_elsewhere
    assert (found.host, found.door, found.container) == (host, door, container)


@pytest.mark.parametrize(
    "text",
    [
        "docker run -d --gpus all --name vllm vllm/vllm-openai --model m",
        "docker run --rm --pid=host --gpus all cuda nvidia-smi",
        "docker run",
        "ansible a -m ping",
        "ansible-playbook x.yml",
        "srun",
        "pdsh -w a",
        "ssh 127.0.0.1 ps",
    ],
)
def test_lines_that_stay_here(text: str) -> None:
    found = entry(text)
    assert found is None or not found.is_elsewhere


def test_a_port_is_a_place_whatever_its_prompt_shows(tmp_path: Path) -> None:
    """A container with the network of its host shows the host's name."""
    found = session(
        tmp_path,
        "me@pc:~$ ssh -p 2222 root@a\nroot@a:~# ps -ef\n1\nroot@a:~# exit\n"
        "me@pc:~$ ssh -p 2222 root@a ps -ef\n2\nme@pc:~$ ssh -p 2223 root@a\nroot@a:~# ps -ef\n3\n",
    )
    assert [host for host in hosts(found) if host != "pc"] == ["a:2222", "a:2222", "a:2223"]


def test_a_node_that_no_line_names_is_called_by_its_prompt(tmp_path: Path) -> None:
    text = "me@login:~$ srun --pty bash\nme@a:~$ ps -ef\n1\nme@a:~$ exit\nme@login:~$ ssh a ps -ef\n2\n"
    assert [host for host in hosts(session(tmp_path, text)) if host != "login"] == ["a", "a"]


def test_two_nodes_that_no_line_names_may_be_two(tmp_path: Path) -> None:
    found = session(tmp_path, "$ srun ps -ef\n1\n$ srun ps -ef\n2\n$ ps -ef\n3\n")
    assert len(set(hosts(found))) == 3


def test_a_variable_may_have_become_another_host(tmp_path: Path) -> None:
    text = "me@pc:~$ ssh $N\nme@a:~$ ps -ef\n1\nme@a:~$ exit\nme@pc:~$ ssh $N\nme@b:~$ ps -ef\n2\n"
    assert [host for host in hosts(session(tmp_path, text)) if host != "pc"] == ["a", "b"]


def test_what_ansible_brings_is_of_the_host_above_it(tmp_path: Path) -> None:
    found = session(
        tmp_path,
        "$ ansible gpus -m shell -a 'pkill -9 x; ps -ef'\nb | CHANGED | rc=0 >>\nrow b\n"
        "a | FAILED | rc=1 >>\nrow a\nlocalhost | SUCCESS | rc=0 >>\nrow here\n",
    )
    shown = [(exhibit.host, exhibit.text.strip(), exhibit.first_line, exhibit.exit_code) for exhibit in found.exhibits]
    assert shown == [("b", "row b", 3, 0), ("a", "row a", 5, 1), ("", "row here", 7, 0)]
    assert [(a.host, (a.output or "").strip(), a.exit_code) for a in found.actions] == [
        ("b", "row b", 0),
        ("a", "row a", 1),
        ("", "row here", 0),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "$ pdsh -w a,b ps -ef\na: 1\nb: 2\n",
        "$ clush -bw a,b ps -ef\n------\na\n------\n1\n------\nb\n------\n2\n",
        "$ pdsh -w a,b ps -ef | dshbak -c\n------\na\n------\n1\n------\nb\n------\n2\n",
        '$ for h in a b; do echo "== $h"; ssh root@$h ps -ef; done\n== a\n1\n== b\n2\n',
    ],
)
def test_lines_of_several_machines_are_parted(tmp_path: Path, text: str) -> None:
    found = session(tmp_path, text)
    assert [(exhibit.host, exhibit.text.strip()) for exhibit in found.exhibits] == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize(
    "command",
    ["for h in a b; do ssh $h ps -ef; done", "ssh a ps -ef; ssh b ps -ef", "ps -ef; ssh b ps -ef",
     "srun -w 'n[1-2]' ps -ef", "mpirun -H a,b ps -ef", "pdsh -N -w a,b ps -ef",
     "while read h; do ssh $h ps; done < f"],
)  # fmt: skip
def test_lines_that_nobody_can_part_are_not_read(tmp_path: Path, command: str) -> None:
    found = session(tmp_path, f"$ {command}\n1\n2\n")
    assert found.exhibits == ()
    assert [damage.line for damage in found.damage] == [2]


@pytest.mark.parametrize(
    ("command", "host"),
    [
        ("ssh a pgrep x | xargs kill -9", ""),
        ("ssh a 'pgrep x | xargs kill -9'", "a"),
        ("kill -9 7; ssh a ps", ""),
        ("ssh a ps; ssh b kill -9 7", "b"),
        ("cd x && ssh a kill -9 7", "a"),
        ("ssh a 'bash -s' <<< 'x; kill -9 7'", "a"),
        ("echo 'kill -9 7' | ssh a sh", "a"),
        ("kill -9 $(ssh a cat pid)", ""),
        ("ssh a 'true" + ";true" * 5000 + "; kill -9 7'", "a"),
    ],
)
def test_where_a_kill_takes_effect(tmp_path: Path, command: str, host: str) -> None:
    assert given(session(tmp_path, f"$ {command}\n")) == [host]


def test_a_loop_kills_on_every_host(tmp_path: Path) -> None:
    assert given(session(tmp_path, "$ for h in a b; do ssh $h pkill -9 x; done\n")) == ["a", "b"]


@pytest.mark.parametrize("unit", ["a;", "(", "$(", "'", "ssh ", "ssh a ", "<<", "`;", "a|", "for a in b; do "])
def test_the_time_is_bounded(tmp_path: Path, unit: str) -> None:
    started = time.process_time()
    session(tmp_path, "$ pkill x; " + unit * (60_000 // len(unit)) + "\nx\n")
    assert len(parts(unit * 2000)) <= 2000 * len(unit)
    assert time.process_time() - started < 2
