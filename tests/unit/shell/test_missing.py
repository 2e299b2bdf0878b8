"""What callers say of a program that they cannot find, and which steps never ran for that reason."""

from __future__ import annotations

import pytest

from gpudiag.shell.replay import Observed, Replay, replay
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.world import Caller, Candidate, World

ROOT = Caller("root", 0)
SERVER = Candidate(10, 1, 10, 10, 0, "root", "python", False, "python -m vllm.x", False, "S", 1.0, False)
WORKER = Candidate(12, 10, 10, 10, 0, "root", "VLLM::Worker", False, "VLLM::Worker_TP0", False, "S", 2.0, False)
WORLD = World((SERVER, WORKER), True, {10: frozenset(), 12: frozenset({"/dev/nvidia0"})}, frozenset({12}))


def run(text: str, output: str | None) -> Replay:
    return replay(parse_line(text, how="prompt"), WORLD, ROOT, Observed(None, None, output))


def ran(text: str, output: str | None) -> list[tuple[bool | None, bool]]:
    return [(step.ran, step.ran_proven) for step in run(text, output).steps]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fuser -k /dev/nvidia0", "bash: fuser: command not found"),
        ("fuser -k /dev/nvidia0", "-bash: fuser: command not found"),
        ("/usr/bin/fuser -k /dev/nvidia0", "bash: /usr/bin/fuser: No such file or directory"),
        ("fuser -k /dev/nvidia0", "sh: 1: fuser: not found"),
        ("fuser -k /dev/nvidia0", "/bin/sh: fuser: not found"),
        ("fuser -k /dev/nvidia0", "zsh: command not found: fuser"),
        ("fuser -k /dev/nvidia0", "fish: Unknown command: fuser"),
        ("fuser -k /dev/nvidia0", "Command 'fuser' not found, but can be installed with:\nsudo apt install psmisc"),
        ("sudo fuser -k /dev/nvidia0", "sudo: fuser: command not found"),
        ("sudo fuser -k /dev/nvidia0", "bash: sudo: command not found"),
        ("timeout 5 fuser -k /dev/nvidia0", "timeout: failed to run command ‘fuser’: No such file or directory"),
        ("setsid fuser -k /dev/nvidia0", "setsid: failed to execute fuser: No such file or directory"),
        ("ssh h 'fuser -k /dev/nvidia0'", "bash: line 1: fuser: command not found"),
        ("ssh h 'fuser -k /dev/nvidia0'", "bash: ssh: command not found"),
        ("docker exec c fuser -k /dev/nvidia0", 'OCI runtime exec failed: exec: "fuser": executable file not found'),
        ("docker exec c bash -c 'fuser -k /dev/nvidia0'", "bash: line 1: fuser: command not found"),
        ("docker exec c bash -c 'fuser -k /dev/nvidia0'", 'OCI exec failed: exec: "bash": executable file not found'),
        ("pgrep x | xargs kill -9", "xargs: kill: No such file or directory"),
    ],
)  # fmt: skip
def test_a_step_whose_program_was_not_found_never_ran(text: str, message: str) -> None:
    (step,) = run(text, message + "\n").steps
    assert (step.ran, step.ran_proven, step.exit_code) == (False, True, 127)
    assert step.ran_because.endswith("is not installed")
    assert ran(text, None) == [(True, False)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fuser -k /dev/nvidia0", "sudo: fuser: command not found"),
        ("fuser -k /dev/nvidia0", "bash: lsof: command not found"),
        ("fuser -k /dev/nvidia0", "ls: fuser: No such file or directory"),
        ("fuser -k /dev/nvidia0", "which: no fuser in (/usr/bin)"),
        ("fuser -k /dev/nvidia0", "Specified filename /dev/nvidia0 does not exist."),
        ("kill -9 12", "bash: kill: (12) - No such process"),
        ("kill -9 $(cat kill)", "cat: kill: No such file or directory"),
        ("sudo fuser -k /dev/nvidia0", "bash: fuser: command not found"),
    ],
)
def test_a_message_about_something_else_says_nothing_of_the_step(text: str, message: str) -> None:
    assert ran(text, message + "\n") == [(True, False)]


def test_what_depends_on_it_follows_its_exit_code() -> None:
    said = "bash: fuser: command not found\n"
    assert ran("fuser -k /dev/nvidia0 && kill -9 10", said) == [(False, True), (False, False)]
    assert ran("fuser -k /dev/nvidia0 || kill -9 10", said) == [(False, True), (True, False)]
    assert ran("! fuser -k /dev/nvidia0 && kill -9 10", said) == [(False, True), (True, False)]
    assert ran("set -e; fuser -k /dev/nvidia0; kill -9 10", said)[1:] == [(False, True), (False, False)]


def test_a_program_that_is_missing_in_a_place_is_missing_for_all_steps_there() -> None:
    said = "bash: fuser: command not found\n"
    text = "fuser -k -TERM /dev/nvidia0 2>/dev/null; sleep 1; fuser -k /dev/nvidia0"
    assert ran(text, said) == [(False, False), (True, False), (False, True)]


def test_what_was_installed_on_the_way_may_run() -> None:
    text = "fuser -k /dev/nvidia0 || apt-get install -y psmisc; fuser -k /dev/nvidia0"
    assert [one[0] for one in ran(text, "bash: fuser: command not found\n")] == [False, True, True]


def test_of_several_hosts_it_is_not_known_which_lacks_it() -> None:
    text = "ssh a 'fuser -k /dev/nvidia0'; ssh b 'fuser -k /dev/nvidia0'"
    one = "bash: line 1: fuser: command not found\n"
    assert ran(text, one) == [(None, False), (None, False)]
    assert ran(text, 2 * one) == [(False, True), (False, True)]


@pytest.mark.parametrize("text", ["kill -9 $(fuser /dev/nvidia0)", "fuser /dev/nvidia0 | xargs kill -9"])
def test_a_list_by_a_program_that_is_missing_is_empty(text: str) -> None:
    def hit(output: str | None) -> list[int]:
        selection = run(text, output).steps[0].selection
        assert selection is not None
        return [verdict.pid for verdict in selection.verdicts if verdict.selected]

    assert hit(None) == [12]
    assert hit("bash: fuser: command not found\n") == []
