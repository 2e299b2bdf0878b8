"""``gpudiag simulate`` from outside: exit codes, formats, standard input, hostile names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpudiag.report.simulation import Simulation
from tests.unit.simulation.tables import VLLM, Row, write

RUN_MAIN = "from gpudiag.cli import main; main()"


def run(*words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN_MAIN, "simulate", *words],
        capture_output=True,
        text=True,
        check=False,
        input=stdin,
    )


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return write(tmp_path, VLLM)


@pytest.mark.parametrize(
    ("command", "code"), [("kill -9 -- -500", 0), ("pkill -9 -f vllm.entrypoints", 10), ("./stop.sh", 11)]
)
def test_the_exit_code_is_the_verdict(server: Path, command: str, code: int) -> None:
    done = run(command, server)
    assert (done.returncode, done.stderr) == (code, "")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["kill 1"], 2, "INPUT"),
        (["kill 1", "/nowhere"], 3, "/nowhere"),
        (["  ", "SERVER"], 2, "there is no command"),
        (["-", "SERVER"], 2, "there is no command"),
        (["kill 1", "SERVER", "--family", "F9"], 2, "no such server; it shows F1"),
        (["kill 1", "SERVER", "--look", "never"], 2, "no look is called"),
        (["kill 1", "SERVER", "--family", "F1", "--pid", "1"], 2, "give one of them"),
        (["kill 1", "SERVER", "--shell", "csh"], 2, "csh"),
        (["x" * 70_000, "SERVER"], 2, "longer than"),
    ],
)
def test_wrong_words_end_with_one_sentence(server: Path, words: list[str], code: int, sentence: str) -> None:
    done = run(*(server if word == "SERVER" else word for word in words))
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_json_is_the_public_object(server: Path) -> None:
    done = run("pkill -9 -f vllm.entrypoints", server, "--format", "json")
    value = json.loads(done.stdout)
    assert value["schema"] == "gpudiag.simulation/1"
    assert value["command"] == "pkill -9 -f vllm.entrypoints"
    assert (value["hit"], value["survivors"], value["collateral"]) == ([500], [501, 502, 503], [])
    assert {"steps", "releases_mib", "leaves_mib", "follows"} <= value.keys()
    assert json.loads(Simulation.model_validate(value).to_json()) == value


def test_the_schema_names_every_field() -> None:
    code = "import sys; sys.argv[1:] = ['schema', 'simulation']; " + RUN_MAIN
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    schema = json.loads(done.stdout)
    assert {"schema", "command", "steps", "hit", "survivors", "collateral", "follows"} <= schema["properties"].keys()


def test_several_commands_are_compared(server: Path) -> None:
    lines = "kill -9 -- -500\n\n# a comment\npkill -9 -f vllm.entrypoints\n./stop.sh\n"
    done = run("-", server, stdin=lines)
    assert done.returncode == 10
    assert done.stdout.startswith("3 commands compared; nothing was run\n")
    assert "leaves alive 501–503" in done.stdout
    values = json.loads(run("-", server, "--format", "json", stdin=lines).stdout)
    assert [value["verdict"] for value in values] == ["clean", "not_clean", "cannot_be_told"]
    assert run("-", server, stdin="kill -9 -- -500\n").returncode == 0
    assert run("-", server, stdin="kill -9 -- -500\n./stop.sh\n").returncode == 11


def test_names_from_the_machine_do_no_harm(tmp_path: Path) -> None:
    evil = Row(504, "VLLM::\x1b[2J\x1b]0;owned\x07‮gnp.exe $(touch owned) `touch owned`", 501, 500, comm="\x1bx")
    done = run("pkill -9 -f vllm.entrypoints; echo \x1b[31m", write(tmp_path, (VLLM[0], evil)))
    assert done.returncode == 10
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f‮]", done.stdout)
    assert "\\x1b[2J" in done.stdout
    assert not list(tmp_path.glob("**/owned"))


def test_nothing_is_run(server: Path, tmp_path: Path) -> None:
    done = run(f"touch {tmp_path}/ran; $(touch {tmp_path}/ran); kill -9 -- -500", server)
    assert done.returncode in (10, 11)
    assert not (tmp_path / "ran").exists()


def test_standard_input_may_be_pasted_from_a_terminal(server: Path) -> None:
    text = "# first\n$ kill -9 500 \\\n   501\n\nkill -9 -- -500\n"
    done = run("-", server, "--format", "json", stdin=text)
    answers = json.loads(done.stdout)
    assert [answer["hit"] for answer in answers] == [[500, 501], [500, 501, 502, 503]]
    assert [answer["command"] for answer in answers] == ["kill -9 500     501", "kill -9 -- -500"]
    assert done.returncode == 10


def test_a_list_of_an_outer_shell_is_shown_as_it_was_written(server: Path) -> None:
    done = run('ssh h "kill -9 $(pgrep -f VLLM::)"', server)
    assert "kill -9 $(pgrep -f VLLM::)" in done.stdout
    assert "\ufffd" not in done.stdout
