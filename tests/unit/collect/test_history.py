"""Shell history: which lines, with which times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudiag.collect.history import Home, homes, of_homes, of_lines, of_pipe
from gpudiag.collect.issued import Issued
from gpudiag.kill_words import may_kill

PASSWD = """root:x:0:0:root:/root:/bin/bash
alice:x:1000:1000::/home/alice:/bin/zsh
bob:x:1001:1001::/home/bob:/bin/bash
broken:x
nohome:x:1002:1002:::/bin/sh
"""


def lines(text: str) -> list[bytes]:
    return text.encode().split(b"\n")


def seen(found: list[Issued]) -> list[tuple[str, float | None]]:
    return [(item.text, item.time_s) for item in found]


@pytest.mark.parametrize(
    "text",
    [
        "pkill -9 -f vllm", "sudo fuser -k /dev/nvidia*", "kill -9 884 886", "docker restart vllm", "ray stop",
        "systemctl --user stop vllm", "supervisorctl -c /etc/s.conf restart all", "kubectl delete pod x",
        "nvidia-smi | grep python | awk '{print $5}' | xargs -r sudo kill -9", "pdsh -a pkill -9 python",
        "for p in $(pgrep vllm); do kill $p; done", "tmux kill-session -t vllm", "nvidia-smi --gpu-reset -i 0",
        "screen -S x -X quit", "service vllm stop", "nerdctl rm -f x", "qdel 77", "sudo reboot",
        "parallel-ssh -h f kill -9 7",
        "ssh node 'pkill -f x'", "python -c 'import os; os.kill(884, 9)'",
    ],
)  # fmt: skip
def test_lines_with_a_word_that_stops(text: str) -> None:
    assert may_kill(text)


@pytest.mark.parametrize(
    "text",
    [
        "man pkill", "git commit -m 'kill the switch'", "grep kill notes", "ls", "kill -l", "kill -0 884",
        "vim kill.sh",
        "export TOKEN=abc", "nvidia-smi", "fuser -v /dev/nvidia0", "docker ps", "systemctl status vllm",
        "apt install psmisc",
        "echo pkill", "", "cat /run/x.pid",
    ],
)  # fmt: skip
def test_other_lines_stay_on_the_machine(text: str) -> None:
    assert not may_kill(text)


def test_bash_without_times_claims_none() -> None:
    found = list(of_lines(lines("ls\npkill -f a\nexport TOKEN=x\nkill -9 7\n"), "bash", "bob"))
    assert found == [
        Issued("pkill -f a", "history", None, None, "bob"),
        Issued("kill -9 7", "history", None, None, "bob"),
    ]
    assert found[0].record() == {
        "cmd": "pkill -f a", "t0": None, "t1": None, "rc": None, "user": "bob", "source": "history",
        "time_error_s": None,
    }  # fmt: skip


def test_bash_with_times_joins_the_lines_of_a_command() -> None:
    text = "pkill old\n#1796067995\npkill -f a\n#1796067999\nfor p in 7; do\nkill $p\ndone\n#1796068000\nls\n"
    assert seen(list(of_lines(lines(text), "bash", None))) == [
        ("pkill old", None), ("pkill -f a", 1796067995.0), ("for p in 7; do\nkill $p\ndone", 1796067999.0),
    ]  # fmt: skip


def test_lines_of_a_shell_without_times_behind_those_of_one_with_times() -> None:
    text = "#1796067995\npkill -f a\nkill -9 7\nls\n#1796067999\nssh h 'pkill x\nsleep 3'\npkill b\n"
    assert seen(list(of_lines(lines(text), "bash", None))) == [
        ("pkill -f a", 1796067995.0), ("kill -9 7", None), ("ssh h 'pkill x\nsleep 3'", 1796067999.0),
        ("pkill b", None),
    ]  # fmt: skip


def test_a_file_whose_beginning_is_missing_may_begin_inside_a_command() -> None:
    assert seen(list(of_lines(lines("pkill tail-of-a-line\npkill b"), "bash", None, cut=True))) == [("pkill b", None)]


def test_zsh_with_and_without_times() -> None:
    text = b": 1796067995:0;pkill -f a\\\n b\nkill -9 8\n: 1796067996:3;A=\xc3\x83\x89 pkill z\n: 1796067997:0;ls"
    assert seen(list(of_lines(text.split(b"\n"), "zsh", "alice"))) == [
        ("pkill -f a\n b", 1796067995.0), ("kill -9 8", None), ("A=\u00e9 pkill z", 1796067996.0),
    ]  # fmt: skip


def test_fish() -> None:
    text = "- cmd: pkill -f 'a\\\\b'\n  when: 1796067995\n  paths:\n    - x\n- cmd: ls\n  when: 1\n- cmd: kill 7"
    assert seen(list(of_lines(lines(text), "fish", None))) == [("pkill -f 'a\\b'", 1796067995.0), ("kill 7", None)]


@pytest.mark.parametrize(
    ("line", "text", "seconds"),
    [
        ("  501  pkill -f a", "pkill -f a", None),
        ("  501* pkill -f a", "pkill -f a", None),
        ("  501  2026-11-30 19:00:06 pkill -f a", "pkill -f a", "local"),
        ("  501  [2026-11-30T19:00:06+0000] pkill -f a", "pkill -f a", 1796065206.0),
        ("  501  1796065206 pkill -f a", "pkill -f a", 1796065206.0),
        ("  501  30/11/26 19:00:06 pkill -f a", "pkill -f a", None),
        ("  501  Mon 30 Nov 2026 07:00:06 PM UTC pkill -f a", "pkill -f a", None),
        ("  501  2026-11-30 19:00  pkill -f a", "pkill -f a", "local"),
        ("pkill -f a", "pkill -f a", None),
    ],
)
def test_what_history_prints(line: str, text: str, seconds: float | str | None) -> None:
    (found,) = of_pipe([line], "alice")
    assert (found.text, found.user) == (text, "alice")
    assert found.time_s is not None if seconds == "local" else found.time_s == seconds
    assert (found.error_s is None) == (found.time_s is None)


def test_a_command_of_several_lines_in_the_pipe() -> None:
    found = list(of_pipe(["  1  ls", "  2  for p in 7; do", "kill $p", "done", "  3  pwd"], None))
    assert seen(found) == [("for p in 7; do\nkill $p\ndone", None)]


def test_the_collector_itself_killed_nothing() -> None:
    assert list(of_pipe(["  1  gpudiag collect --kill 'pkill -9 x'"], None)) == []


def test_whose_history_is_read() -> None:
    assert [(home.user, home.own) for home in homes(PASSWD, 1000, None)] == [("alice", True)]
    assert [(home.user, home.own) for home in homes(PASSWD, 0, "alice")] == [
        ("root", True), ("alice", True), ("bob", False),
    ]  # fmt: skip
    assert [home.user for home in homes(PASSWD, 1000, "bob")] == ["alice", "bob"]


def test_the_home_of_the_environment_counts_too() -> None:
    known = homes(PASSWD, 1000, None)
    assert homes(PASSWD, 1000, None, known[0].folder + "/") == known
    assert homes(PASSWD, 1000, None, "/scratch/job") == [*known, Home("alice", "/scratch/job", own=True)]
    assert homes("", 1234, None, "/scratch/job") == [Home("1234", "/scratch/job", own=True)]
    assert homes(PASSWD, 1000, None, "relative") == known


def test_files_of_a_home(tmp_path: Path) -> None:
    (tmp_path / ".bash_history").write_text("pkill -f a\n")
    fish = tmp_path / ".local/share/fish/fish_history"
    fish.parent.mkdir(parents=True)
    fish.write_text("- cmd: pkill b\n  when: 1796067995\n")
    os.mkfifo(tmp_path / ".zsh_history")
    other = tmp_path / "elsewhere"
    other.write_text("pkill c\n")
    problems: list[str] = []
    found = list(of_homes([Home("bob", str(tmp_path), True)], str(other), problems))
    assert sorted(item.text for item in found) == ["pkill -f a", "pkill b", "pkill c"]
    assert [problem.partition(": ")[0] for problem in problems] == [str(tmp_path / ".zsh_history")]


def test_a_link_in_another_users_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("pkill -f a\n")
    (tmp_path / ".bash_history").symlink_to(tmp_path / "secret")
    assert len(list(of_homes([Home("me", str(tmp_path), True)]))) == 1
    problems: list[str] = []
    assert list(of_homes([Home("bob", str(tmp_path), False)], None, problems)) == []
    assert len(problems) == 1
