"""Whose text is recorded: the one script that a command runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudiag.collect.script_text import script_text

TEXT = "#!/bin/bash\npkill -f vllm\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clean.sh").write_text(TEXT)
    (tmp_path / "clean.sh").chmod(0o755)
    (tmp_path / "other.sh").write_text("true\n")
    (tmp_path / "tool").write_text("#!/usr/bin/python3\n")
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "bash clean.sh",
        "/bin/sh -e ./clean.sh --now",
        "./clean.sh; sleep 3",
        "sudo nohup ./clean.sh",
        "A=1 bash clean.sh && echo done",
        ". ./clean.sh",
    ],
)
def test_a_script(line: str) -> None:
    assert script_text(line, ()) == TEXT


@pytest.mark.parametrize(
    "line",
    [
        "pkill -f clean.sh",
        "bash clean.sh; bash other.sh",
        "cd sub && bash clean.sh",
        "bash -c 'bash clean.sh'",
        "./tool",
        "bash missing.sh",
        "bash 'clean.sh",
        "sudo -u me bash clean.sh",
        "",
    ],
)
def test_no_script_or_not_for_certain(line: str) -> None:
    assert script_text(line, ()) is None


def test_words_are_a_program(folder: Path) -> None:
    assert script_text("", ["bash", "clean.sh"]) == TEXT
    assert script_text("", ["pkill", "clean.sh"]) is None


def test_what_is_no_text_of_a_bearable_length(folder: Path) -> None:
    (folder / "clean.sh").write_bytes(b"true\n" * 100_000)
    assert script_text("bash clean.sh", ()) is None
    (folder / "clean.sh").write_bytes(b"\0ELF")
    assert script_text("bash clean.sh", ()) is None
    (folder / "clean.sh").unlink()
    os.mkfifo(folder / "clean.sh")
    assert script_text("bash clean.sh", ()) is None
    assert script_text("./clean.sh", ()) is None
