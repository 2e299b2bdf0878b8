"""What is wrong with a set of engine files is said in one sentence each."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.rules.engine_lint import lint_engines
from gpudiag.rules.lint import main

ENGINE = """
name = "mine"
versions = "1"
server_cmdlines = ["mine serve"]
server_comms = ["mine"]
children_own_session = false
death_coupling = ["none"]
stop_command = "mine stop"
[[title]]
role = "worker"
title = 'mine::w[0-9]*'
examples = ["mine::w1"]
source = "here"
"""


def test_the_shipped_set_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint_engines() == ()
    assert main() == 0
    assert capsys.readouterr().out == ""


def test_a_finished_engine_is_clean(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(ENGINE)
    assert lint_engines(tmp_path) == ()


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("other.toml", ENGINE, "other.toml: the file should be named mine.toml."),
        ("mine.toml", "nonsense", "mine.toml"),
        (
            "mine.toml",
            f'{ENGINE}[[coupling]]\nended = "engine"\nleave = ["rest"]\ncertainty = "inferred"\nbecause = "x"\n',
            "coupling: no title and no child has the role engine.",
        ),
        (
            "mine.toml",
            f'{ENGINE}[[coupling]]\nended = "worker"\nthrough = "engine"\nleave = ["rest"]\ncertainty = "inferred"\n'
            'because = "x"\n',
            "coupling: no title and no child has the role engine.",
        ),
        ("mine.toml", f'{ENGINE}[[child]]\nof = "engine"\nrole = "worker"\n', "child: no title"),
        (
            "mine.toml",
            f'{ENGINE}[[restart]]\nby = "helper"\nwithin_s = 1\nkind = "launcher"\nbecause = "x"\n',
            "restart: no title",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, file: str, text: str, says: str) -> None:
    (tmp_path / file).write_text(text)
    assert any(says in problem for problem in lint_engines(tmp_path))


def test_a_title_that_another_engine_takes_is_reported(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(ENGINE)
    (tmp_path / "yours.toml").write_text(ENGINE.replace('"mine"', '"yours"', 1))
    (problem,) = lint_engines(tmp_path)
    assert problem == "yours.toml: title: 'mine::w1' is recognised as mine worker, not as yours worker."


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(ENGINE)
    (tmp_path / "b.toml").write_text(ENGINE)
    assert "b.toml: name: mine is taken by a.toml." in lint_engines(tmp_path)
