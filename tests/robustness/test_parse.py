"""Every parser, the shell reader, redaction and rule files under inputs that were bred to hurt them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudiag.evidence import Exhibit, Input, LookName
from gpudiag.model import Coverage
from gpudiag.parse import budget, formats, parse
from tests.robustness.fuzzing import FINDINGS, SLOW_S, TARGETS, mutated, run_one, seeds

Tried = Callable[[str, int, str], None]
NUMBERS = {
    "parse": 150,
    "bundle": 150,
    "transcript": 60,
    "log": 60,
    "shell": 50,
    "redact": 300,
    "rule": 200,
    "explain": 6,
}
"""Mutations in CI: always the same ones."""


@pytest.mark.parametrize("name", NUMBERS)
def test_mutations_of_the_fixtures(name: str, tried: Tried) -> None:
    dice, corpus = random.Random(f"gpudiag {name}"), seeds(name)[:80]
    for number in range(NUMBERS[name]):
        data = mutated(dice.choice(corpus), dice.choice(corpus), dice)
        problem = run_one(TARGETS[name], data)
        assert problem is None, f"mutation {number}: {problem}\n{data[:2000]!r}"
    what = {"explain": "the whole way to the outputs", "rule": "rule files", "redact": "redaction"}.get(name, name)
    tried(f"Mutations of fixtures: {what}", NUMBERS[name], f"no exception, none slower than {SLOW_S:.0f} s of CPU")


def test_what_the_fuzzer_once_found(tried: Tried) -> None:
    found = [(path.name.split("-")[0], path.read_bytes()) for path in sorted(FINDINGS.glob("*.bin"))]
    found += [
        ("rule", b"[" + b".".join([b"a"] * 5000) + b"]"),
        ("bundle", b"\x1f\x8b\x08"),
        ("parse", b"\0\0" + b"\n$ " * 9000),
    ]
    for target, data in found:
        assert run_one(TARGETS[target], data) is None, (target, data[:80])
    tried("Inputs that once broke something", len(found), "each is taken well now")


def exhibit(text: str, member: str = "after/ps.txt") -> Input:
    one = Exhibit("I1", member, "", "I1:after", "ps -eo pid,ppid,user,args", None, None, None, 1, text)
    return Input("I1", "x", "directory", True, (one,), (LookName("I1:after", "after", ""),), (), ())


def table(rows: int) -> str:
    lines = (f"{pid:7}       1 root     python3 x{pid}" for pid in range(1, rows + 1))
    return "    PID    PPID USER     COMMAND\n" + "\n".join(lines) + "\n"


def covers(rows: tuple[Coverage, ...]) -> set[tuple[str, bool | None]]:
    return {(row.outcome, row.complete) for row in rows if row.source == "process table"}


def test_a_table_that_is_cut_covers_nothing(monkeypatch: pytest.MonkeyPatch, tried: Tried) -> None:
    text = table(300)
    assert covers(parse([exhibit(text)]).coverage) == {("ok", True)}
    monkeypatch.setattr(formats, "_TEXT_CAP", 3000)
    cut = parse([exhibit(text)])
    assert 50 < len(cut.processes) < 300
    assert covers(cut.coverage) == {("truncated", False)}
    assert [row.pid for row in cut.processes] == list(range(1, len(cut.processes) + 1)), "no half line is read"
    monkeypatch.undo()
    monkeypatch.setattr(budget.Budget, "__init__", _small)
    few = parse([exhibit(text)])
    assert len(few.processes) == 100
    assert covers(few.coverage) == {("truncated", False)}
    assert any("more than" in row.reason for row in few.damage)
    monkeypatch.setattr(budget.Budget, "__init__", _short)
    short = parse([exhibit(text)])
    assert len(short.processes) == 49
    assert covers(short.coverage) == {("truncated", False)}
    tried(
        "Tables longer than is parsed, or than an incident may have lines or rows",
        3,
        "the beginning is used, the table counts as cut: nobody is absent because of it",
    )


def _small(self: budget.Budget) -> None:
    self.lines, self.rows, self.actions, self.holders = 10_000, 100, 5, set()


def _short(self: budget.Budget) -> None:
    self.lines, self.rows, self.actions, self.holders = 50, 1000, 5, set()


def test_too_many_commands_leave_the_newest(tmp_path: Path, tried: Tried) -> None:
    from gpudiag.evidence import read_input

    path = tmp_path / "session.txt"
    path.write_text("".join(f"root@h:~# kill -9 {number}\n" for number in range(1, 1001)))
    parsed = parse([read_input(path, "I1")])
    assert [action.text for action in parsed.actions] == [f"kill -9 {number}" for number in range(701, 1001)]
    assert any("700 more kill commands" in row.reason for row in parsed.damage)
    tried("A session of 1,000 kill commands", 1, "the newest 300 are used, and that is said")


@pytest.mark.parametrize(
    "unit", ["a", "1 ", "[", '{"a":', "\\_ ", "| ", "'", "$(", "\x1b[", "GPU ", "\n$ ", "0, ", "<a>"]
)
def test_long_texts_of_one_piece(unit: str, tried: Tried) -> None:
    text = unit * (300_000 // len(unit))
    begun = time.process_time()
    parse([exhibit(text)])
    parse([exhibit(text, "after/nvml.json")])
    assert time.process_time() - begun < 12
    tried("300 KB of one piece: letters, brackets, quotes, escapes", 1, "below 12 s of CPU each")
