"""Sessions as people paste them: prompts of all kinds or none, several hosts, containers, indents, remarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.evidence import Input, read_input


def session(tmp_path: Path, text: str) -> Input:
    """A transcript with this text."""
    path = tmp_path / "incident.txt"
    path.write_text(text)
    return read_input(path, "I1")


def places(found: Input) -> list[tuple[str | None, str, str | None]]:
    """Command, host and container of each exhibit."""
    return [(exhibit.command, exhibit.host, exhibit.container) for exhibit in found.exhibits]


@pytest.mark.parametrize(
    ("prompt", "host"),
    [
        ("$ ", ""),
        ("# ", ""),
        ("user@gpu-node:~$ ", "gpu-node"),
        ("user@gpu-node:~$", "gpu-node"),
        ("[root@gpu-node ~]# ", "gpu-node"),
        ("(base) root@gpu-node:/work# ", "gpu-node"),
        ("gpu-node:~ # ", "gpu-node"),
        ("[gpu-node ~]$ ", "gpu-node"),
        ("user@gpu-node ~ % ", "gpu-node"),
        ("bash-5.1$ ", ""),
        ("/workspace # ", ""),
        ("➜  ~ ", ""),
        ("➜  repo git:(main) ✗ ", ""),
        ("❯ ", ""),
        ("PS C:\\Users\\user> ", ""),
        ("C:\\Users\\user>", ""),
        ("In [3]: !", ""),
        ("!", ""),
        ("[2026-02-20 19:00:06] root@gpu-node:~# ", "gpu-node"),
        ("19:00:06 root@gpu-node:~# ", "gpu-node"),
        ("Feb 20 19:00:06 root@gpu-node:~# ", "gpu-node"),
        ("\x1b[01;32mroot@gpu-node\x1b[00m:\x1b[01;34m~\x1b[00m# ", "gpu-node"),
        ("^C^Croot@gpu-node:~# ", "gpu-node"),
        ("> user@gpu-node:~$ ", "gpu-node"),
        ("    user@gpu-node:~$ ", "gpu-node"),
    ],
)
def test_prompts(tmp_path: Path, prompt: str, host: str) -> None:
    before = prompt[: len(prompt) - len(prompt.lstrip("> "))]
    found = session(tmp_path, f"{prompt}nvidia-smi -L\r\n{before}GPU 0: X (UUID: GPU-1)\r\n")
    assert [(exhibit.command, exhibit.host, exhibit.text.strip()) for exhibit in found.exhibits] == [
        ("nvidia-smi -L", host, "GPU 0: X (UUID: GPU-1)")
    ]


def test_a_prompt_of_two_lines(tmp_path: Path) -> None:
    found = session(tmp_path, "┌──(root㉿gpu-node)-[~]\n└─# nvidia-smi -L\nGPU 0: X (UUID: GPU-1)\n")
    assert places(found) == [("nvidia-smi -L", "gpu-node", None)]


@pytest.mark.parametrize(
    "line",
    [
        "user@host 50% done",
        "➜ see above",
        "❯ not a command",
        "In [3]: x = 1",
        "C:\\dir>result",
        "/path # remark",
        "! note",
    ],
)
def test_output_that_looks_like_a_prompt(tmp_path: Path, line: str) -> None:
    found = session(tmp_path, f"$ cat notes\n{line}\n$ date\nx\n")
    assert [exhibit.command for exhibit in found.exhibits] == ["cat notes", "date"]


def test_remarks_are_not_commands(tmp_path: Path) -> None:
    found = session(tmp_path, "$ ps -ef\nroot 1\n# then I tried to kill it\n# kill did not help\n$ date\nx\n")
    assert [exhibit.command for exhibit in found.exhibits] == ["ps -ef", "date"]
    assert found.actions == ()
    assert "# then I tried to kill it" in found.exhibits[0].text


def test_a_hash_is_root_s_prompt_after_sudo(tmp_path: Path) -> None:
    found = session(tmp_path, "user@a:~$ sudo -i\n# kill -9 7\n# exit\nuser@a:~$ date\nx\n")
    assert [(action.text, action.host) for action in found.actions] == [("kill -9 7", "a")]


def test_set_x(tmp_path: Path) -> None:
    found = session(tmp_path, "+ pkill -9 -f vllm\n+ sleep 2\n+ nvidia-smi -L\nGPU 0: X (UUID: GPU-1)\n")
    assert [action.text for action in found.actions] == ["pkill -9 -f vllm"]
    assert [exhibit.command for exhibit in found.exhibits] == ["nvidia-smi -L"]


def test_commands_without_any_prompt(tmp_path: Path) -> None:
    text = (
        "nvidia-smi\n+---+\n| x |\n+---+\nkill -9 4711\nnvidia-smi\n+---+\n| y |\n+---+\nkill -9 does not help here\n"
    )
    found = session(tmp_path, text)
    assert [action.text for action in found.actions] == ["kill -9 4711"]
    assert [exhibit.command for exhibit in found.exhibits] == ["nvidia-smi", "nvidia-smi"]


def test_a_container_s_view_is_another_host(tmp_path: Path) -> None:
    found = session(
        tmp_path,
        "root@gpu-node:~# ps -ef\nx\n"
        "root@gpu-node:~# docker exec vllm ps -ef\nx\n"
        "root@gpu-node:~# sudo docker exec -it -u root vllm bash\n"
        "root@5f0c2b7d91aa:/workspace# ps aux\nx\n"
        "root@5f0c2b7d91aa:/workspace# kill -9 1\n"
        "root@5f0c2b7d91aa:/workspace# exit\nexit\n"
        "root@gpu-node:~# ps aux\nx\n",
    )
    assert places(found) == [
        ("ps -ef", "gpu-node", None),
        ("docker exec vllm ps -ef", "gpu-node/vllm", "vllm"),
        ("ps aux", "gpu-node/vllm", "vllm"),
        ("exit", "gpu-node/vllm", "vllm"),
        ("ps aux", "gpu-node", None),
    ]
    assert [(action.text, action.host) for action in found.actions] == [("kill -9 1", "gpu-node/vllm")]
    assert {look.host for look in found.looks} == {"gpu-node", "gpu-node/vllm"}


def test_a_container_is_left_without_a_trace(tmp_path: Path) -> None:
    found = session(
        tmp_path,
        "root@gpu-node:~# docker exec -it vllm bash\n"
        "root@5f0c2b7d91aa:/# ps aux\nx\n"
        "root@gpu-node:~# ps aux\nx\n"
        "root@other:~# ps aux\nx\n",
    )
    assert [host for _, host, _ in places(found)] == ["gpu-node/vllm", "gpu-node", "other"]


def test_a_container_that_could_not_be_entered(tmp_path: Path) -> None:
    text = "$ docker exec -it vllm bash\nError: No such container: vllm\n$ ps aux\nx\n"
    assert places(session(tmp_path, text))[-1] == ("ps aux", "", None)


def test_the_prompt_alone_shows_a_container(tmp_path: Path) -> None:
    assert places(session(tmp_path, "root@3f1c9a5d2b7e:/# ps -ef\nx\n")) == [("ps -ef", "3f1c9a5d2b7e", "3f1c9a5d2b7e")]


@pytest.mark.parametrize(
    ("command", "host", "container"),
    [
        ("kubectl exec -n serving vllm-0 -c main -- ps -ef", "vllm-0", "vllm-0"),
        ("kubectl exec -it pod/vllm-0 -- ps -ef", "vllm-0", "vllm-0"),
        ("ssh root@gpu-node docker exec vllm ps -ef", "gpu-node/vllm", "vllm"),
        ("ssh root@gpu-node 'docker exec vllm ps -ef | grep vllm'", "gpu-node/vllm", "vllm"),
        ("docker compose exec web ps -ef", "login/web", "web"),
        ("sudo podman exec -e A=b web sh -c 'ps -ef'", "login/web", "web"),
        ("ssh -p 22 gpu-node ps -ef", "gpu-node", None),
        ("docker top vllm", "login", None),
        ("docker ps", "login", None),
    ],
)
def test_one_command_elsewhere(tmp_path: Path, command: str, host: str, container: str | None) -> None:
    assert places(session(tmp_path, f"user@login:~$ {command}\nx\n")) == [(command, host, container)]


def test_bare_prompts_behind_ssh(tmp_path: Path) -> None:
    found = session(
        tmp_path,
        "$ ssh gpu-node\n$ ps -ef\nx\n$ kill -9 7\n$ exit\nlogout\nConnection to gpu-node closed.\n$ ps -ef\nx\n",
    )
    assert [host for command, host, _ in places(found) if command == "ps -ef"] == ["gpu-node", ""]
    assert [action.host for action in found.actions] == ["gpu-node"]


def test_a_command_given_to_a_container_is_given_on_the_host(tmp_path: Path) -> None:
    (action,) = session(tmp_path, "root@gpu-node:~# docker exec vllm pkill -9 -f vllm\n").actions
    assert action.host == "gpu-node"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("$ ssh 10.0.0.5\nroot@gpu-node:~# ps -ef\nx\nroot@gpu-node:~# exit\n$ ssh 10.0.0.5 ps -ef\nx\n", {"10.0.0.5"}),
        ("root@gpu-node:~# ps -ef\nx\n$ ssh gpu-node.example.org ps -ef\nx\n", {"gpu-node"}),
        ("root@a.example.org:~# ps -ef\nx\nroot@a.example.net:~# ps -ef\nx\n", {"a.example.org", "a.example.net"}),
        ("$ ssh 10.0.0.5 ps -ef\nx\n$ ssh 10.0.0.6 ps -ef\nx\n", {"10.0.0.5", "10.0.0.6"}),
    ],
)
def test_one_name_for_one_host(tmp_path: Path, text: str, hosts: set[str]) -> None:
    found = session(tmp_path, text)
    assert {exhibit.host for exhibit in found.exhibits if exhibit.command != "exit"} == hosts
