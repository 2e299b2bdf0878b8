"""A command on several lines does in real shells what it does on one, and a part of it does nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpudiag.explain import explain
from gpudiag.report.fold import fold

pytestmark = pytest.mark.oracle

FIXTURES = Path(__file__).parents[1] / "fixtures"
INPUTS = ("h200/selfmatch-orphans", "h200/forked-child-holds", "h200/stopped", "incidents/ghost-workers.txt")
STRONG = (
    """[ "$(cat /proc/sys/kernel/random/boot_id)" = '1111 && x' ] && """
    """[ "$(tr '\\n' ' ' </proc/886/stat | sed 's/.*) //' | cut -d' ' -f20)" = 7078 ] && kill -KILL 886 """
    """|| echo '886: not killed' >&2"""
)
WEAK = (
    """case "$(tr '\\0\\n' '  ' </proc/77/cmdline | sed 's/ *$//')" in 'a && b'|'a && b '*) :;; *) false;; esac && """
    """ls -l /proc/77/task/*/fd 2>/dev/null | grep -q /dev/nvidia && kill -KILL 77 || echo '77: not killed' >&2"""
)
ODD = """[ "$(cat /proc/77/comm)" = "$(printf 'x\\011 || y')" ] && kill -TERM 77 || echo "it's \\" && not" -n '|| -x'"""
KNOWN = (STRONG, WEAK, ODD, f"{STRONG}; {STRONG}", "kill -s KILL -- -422 -450 -451 -452 -453 -454 -455 -456 -457")


@pytest.fixture(params=["dash", "bash"])
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


def commands() -> list[str]:
    """Of the plans of real incidents, and some with what may go wrong."""
    found = list(KNOWN)
    for name in INPUTS:
        plan = explain([FIXTURES / name]).plan
        found += [entry.command for entry in plan.kill] + [then.command for then in plan.then if then.command]
        found += [plan.next_time.command] if plan.next_time is not None else []
    return found


def did(shell: str, text: str, *, passes: bool) -> list[str]:
    """What was called with which arguments, and in which order where that is told; no signal is sent."""
    tools = ("kill", "sleep", "nvidia-smi", "ps", "fuser", "sudo", "systemctl", "pkill", "docker")
    stubs = [f'{name}() {{ echo {name} "$#" "$@" >&2; }}' for name in tools if "-" not in name]
    check = "true" if passes else "false"
    stubs.append(f'test_it() {{ echo checked "$#" "$@" >&2; {check}; }}')
    # The check itself is replaced, so that both ways are gone: its words are told instead.
    asked = text.replace('[ "$(', 'test_it "$(').replace("nvidia-smi", "echo nvidia_smi >&2")
    done = subprocess.run(
        [shell, "-c", "\n".join((*stubs, asked))], capture_output=True, text=True, check=False, timeout=20
    )
    assert "yntax" not in done.stderr, (text, done.stderr)
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


@pytest.mark.parametrize("passes", [True, False])
def test_it_is_one_command_to_a_shell(shell: str, passes: bool) -> None:
    for command in commands():
        whole = did(shell, command, passes=passes)
        for width in (30, 50, 74):
            folded = "\n".join(fold(command, width))
            told = did(shell, folded, passes=passes)
            # A pipeline's parts speak in any order, and a shell names the line of an error.
            clean = [sorted(re.sub(r"line \d+|: \d+: ", "", line) for line in lines) for lines in (told, whole)]
            assert clean[0] == clean[1], folded


def test_no_part_of_it_sends_a_signal_without_its_check(shell: str) -> None:
    """Each line but the first, by itself: a syntax error."""
    for command in (STRONG, WEAK):
        for width in (30, 50, 74):
            lines = fold(command, width)
            assert len(lines) > 1
            for first in range(1, len(lines)):
                part = "\n".join(lines[first:])
                done = subprocess.run([shell, "-n", "-c", part], capture_output=True, text=True, check=False)
                assert done.returncode != 0, part


def test_lines_fit_where_the_command_has_places_for_it() -> None:
    assert [max(map(len, fold(command, 74))) <= 90 for command in (STRONG, WEAK)] == [True, True]
    plain = STRONG.replace("1111 && x", "1111")
    assert max(map(len, fold(plain, 74))) <= 74


@pytest.mark.parametrize(
    "command",
    ["echo `a` && b", "a <<x && b", "a $'x' && b", "(a && b) | c", "a 'x && b", "a # b && c", "a $((1)) && b"],
)
def test_what_is_not_understood_is_left_whole(command: str) -> None:
    long = f"{command} && {'x' * 80}"
    assert fold(long, 40) == (long,)
