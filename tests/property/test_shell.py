"""Hostile and odd text: parsing and replaying always give an answer, and the dialect is pgrep's."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudiag.shell import plain
from gpudiag.shell.quoting import literal
from gpudiag.shell.regex import RegexError, match
from gpudiag.shell.replay import Observed, replay
from gpudiag.shell.syntax import command_names, parse_line, simple_commands
from gpudiag.shell.world import Caller, Candidate, World

SHELL_WORDS = """
    pkill killall kill fuser ssh sudo su bash sh -c -9 -f -k -- -x -u root -1 $( ) ` " ' ; && || | & < > << EOF
    $P ${P} P= P=a xargs pgrep ps grep for in do done if then fi { } ( f() f eval exec while read * {a,b} {1..9} \\ #
    ! [ ]] 1234 /dev/nvidia0 nvidia-smi --query-compute-apps=pid timeout docker exit set -e trap é
"""
PIECES = st.sampled_from([*SHELL_WORDS.split(), "\n", "\x00", "\x1b[31m", "\ud800", ""])
TEXTS = st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=25).map(" ".join), st.lists(PIECES).map("".join))
PROCESS = Candidate(7, 1, 7, 7, 0, "root", "python", False, "python -m server", False, "S", 1.0, False)
WORLD = World((PROCESS,), True, {7: frozenset({"/dev/nvidia0"})}, frozenset({7}))


@given(TEXTS, st.sampled_from(["argv", "shell", "prompt"]), st.none() | TEXTS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_text_gives_a_consistent_line(text: str, how: str, script: str | None) -> None:
    line = parse_line(text, how=how, script_text=script)
    assert [step.index for step in line.steps] == list(range(len(line.steps)))
    assert [carrier.index for carrier in line.carriers] == list(range(len(line.carriers)))
    for step in line.steps:
        assert 0 <= step.carrier < len(line.carriers)
        assert step.words
    for carrier in line.carriers:
        assert carrier.parent is None or carrier.parent < carrier.index
    assert all(isinstance(argument, str) for argv in simple_commands(text) for argument in argv)
    assert all(command_names(text))


@given(TEXTS, st.sampled_from([None, 0, 1, 137, 255, -9]), st.none() | st.text(max_size=30))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_line_replays(text: str, code: int | None, output: str | None) -> None:
    result = replay(parse_line(text, how="shell"), WORLD, Caller("root", 0), Observed(code, 0.1, output))
    assert len(result.steps) == len(result.line.steps)
    for one in result.steps:
        assert one.ran_because
        assert not (one.ran is None and one.ran_proven)
        assert one.selection is None or [verdict.pid for verdict in one.selection.verdicts] == [7]


NESTS = {
    "$(echo ": ")",
    '"$(echo ': ')"',
    "<(cat ": ")",
    "$(ps | awk ": ")",
    "( ": " )",
    "{ ": "; }",
    "if true; then ": "; fi",
    "if ": "; then x; fi",
    "while true; do ": "; done",
    "for i in a b; do ": "; done",
    "case a in a) ": ";; esac",
    "! ": "",
    "bash -c ": "",
    "ssh h ": "",
    "sudo ": "",
    "eval ": "",
    "docker exec c ": "",
    "${a:-": "}",
    "{a,": "}",
}
"""How each kind of nesting opens and closes."""


@given(st.lists(st.tuples(st.sampled_from(sorted(NESTS)), st.integers(1, 300)), min_size=1, max_size=3), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_however_deep_commands_stand_in_each_other_there_is_an_answer(nests: list[tuple[str, int]], cut: bool) -> None:
    text = "kill " + "".join(opening * depth for opening, depth in nests) + "pkill -9 x"
    text += "" if cut else "".join(NESTS[opening] * depth for opening, depth in reversed(nests))
    line = parse_line(text, how="prompt")
    result = replay(line, WORLD, Caller("root", 0), Observed(None, None, None))
    assert len(result.steps) == len(line.steps) <= 512
    assert all(isinstance(argument, str) for argv in simple_commands(text) for argument in argv)


@given(st.lists(st.text(alphabet="ab $*?\"'\\\n;|&<>#~{},", max_size=12), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_quoted_words_come_back(values: list[str]) -> None:
    text = " ".join(["x", *("'" + value.replace("'", "'\\''") + "'" for value in values)])
    (step,) = parse_line(text, how="prompt").steps
    assert [word.text for word in step.words[1:]] == [literal(value).text for value in values]


PATTERN_PARTS = st.sampled_from(
    ["a", "b", ".", "^", "$", "|", "*", "+", "?", "(", ")", "[ab]", "[^a]", "\\<", "\\d", "{2}"]
)


@pytest.fixture(scope="module")
def sleeper() -> Iterator[tuple[int, str]]:
    """A process with a known command line, and that line as pgrep sees it."""
    if shutil.which("pgrep") is None or not Path("/bin/sleep").exists():
        pytest.skip("pgrep is not installed: the dialect cannot be compared")
    process = subprocess.Popen(["ab-d aab", "99"], executable="/bin/sleep")
    line = Path(f"/proc/{process.pid}/cmdline")
    while not line.read_bytes().startswith(b"ab-d"):
        time.sleep(0.01)
    yield process.pid, "ab-d aab 99"
    process.kill()
    process.wait()


@given(pattern=st.lists(PATTERN_PARTS, min_size=1, max_size=6).map("".join), whole=st.booleans())
@settings(max_examples=60, deadline=None)
def test_patterns_agree_with_the_real_pgrep(sleeper: tuple[int, str], pattern: str, whole: bool) -> None:
    pid, text = sleeper
    command = ["pgrep", "-f", *(["-x"] if whole else []), "--", pattern]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    result = match(pattern, [text], whole=whole)
    if isinstance(result, RegexError):
        assert (done.returncode, result.kind) == (2, "invalid")
    else:
        assert result == [str(pid) in done.stdout.split()]


PLAIN_PARTS = st.sampled_from(
    [*"abAB. ^$:/-_=,@%#&;<>!'\"`~0", "[ab]", "[^a]", "[v]", "\\.", "\\[", "\\(", "\\|", "\\$", "\\^"]
)
PLAIN_TEXTS = st.lists(st.text(alphabet="abAB. ^$:/-_=,@%#&;<>!'\"`~0v[]()|\\é", max_size=20), min_size=1, max_size=8)


@given(
    pattern=st.lists(PLAIN_PARTS, max_size=7).map("".join), texts=PLAIN_TEXTS, whole=st.booleans(), ignore=st.booleans()
)
@settings(max_examples=300, deadline=None)
def test_a_plain_pattern_means_the_same_to_the_c_library(
    pattern: str, texts: list[str], whole: bool, ignore: bool
) -> None:
    simple = plain.compiled(pattern, ignore_case=ignore, whole=whole)
    if simple is None:
        return
    # A group around it makes the library evaluate the same pattern.
    assert [simple(text) for text in texts] == match(f"({pattern}|{pattern})", texts, whole=whole, ignore_case=ignore)
