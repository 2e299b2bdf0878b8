"""Output whose command was not copied, before the first prompt of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.evidence import Input, read_input
from gpudiag.parse import parse

TABLE = """Fri Feb 20 19:00:06 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |
|   0  NVIDIA RTX PRO 6000 Blac...    On  |   00000000:01:00.0 Off |                    0 |
| 30%   33C    P8             20W /  600W |   90000MiB /  97887MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
PS = "USER         PID TTY      STAT START   TIME COMMAND\nu 7 ? S 08:00 0:00 VLLM::Worker_TP0\n"
PROMPTS = ["u@box:~$ ", "$ ", "[u@box ~]$ ", "(base) u@box:~$ ", "❯ "]


def session(tmp_path: Path, text: str) -> Input:
    path = tmp_path / "incident.txt"
    path.write_text(text)
    return read_input(path, "I1")


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_table_above_the_first_prompt_is_read_with_what_is_below(tmp_path: Path, prompt: str) -> None:
    found = session(tmp_path, f"It hangs, see below.\n\n{TABLE}{prompt}ps aux\n{PS}")
    assert [(e.look, e.command, e.first_line) for e in found.exhibits] == [
        ("I1:look-1", "", 3),
        ("I1:look-1", "ps aux", 10),
    ]
    parsed = parse([found])
    assert [sample.used_mib for sample in parsed.samples] == [90000]
    assert [row.pid for row in parsed.processes] == [7]
    assert {sample.at.host for sample in parsed.samples} == {row.at.host for row in parsed.processes}


@pytest.mark.parametrize(("first", "shown"), [("nvidia-smi", TABLE), ("ps aux", PS)])
def test_the_same_question_again_is_another_look(tmp_path: Path, first: str, shown: str) -> None:
    found = session(tmp_path, f"{shown}u@box:~$ {first}\n{shown}")
    assert [exhibit.look for exhibit in found.exhibits] == ["I1:look-1", "I1:look-2"]


def test_a_kill_ends_the_look_before_it(tmp_path: Path) -> None:
    found = session(tmp_path, f"{TABLE}u@box:~$ pkill -9 -f vllm\nu@box:~$ ps aux\n{PS}")
    assert [exhibit.look for exhibit in found.exhibits] == ["I1:look-1", "I1:look-2"]
    assert found.actions[0].after_look == "I1:look-1"


def test_prose_above_the_first_prompt_is_no_exhibit(tmp_path: Path) -> None:
    text = "Hello,\nthe name, as you see: it is gone | not free.\nI ran ps and nvidia-smi:\n"
    assert len(session(tmp_path, f"{text}u@box:~$ ps aux\n{PS}").exhibits) == 1
