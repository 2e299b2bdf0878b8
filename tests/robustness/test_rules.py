"""Rule packs from outside: they read, reach, run and exhaust nothing, and what is wrong has a file and a line."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpudiag.cli import EXIT_USAGE, app
from gpudiag.explain import Pack, explain
from gpudiag.rules.files import MAX_FILE_BYTES, MAX_FILES, RulesError
from gpudiag.rules.loader import MAX_PACK, load_pack

Tried = Callable[[str, int, str], None]
FIXTURES = Path(__file__).parents[1] / "fixtures"
INCIDENT = FIXTURES / "h200" / "selfmatch-orphans"
RULE = """
id = "GPD700"
slug = "house-rule"
title = "A step missed a process that holds memory"
since = "0.1.0"
maturity = "preview"
table = "reach"
group_by = ["step"]
fires = [
  { column = "holds_mib", op = "gt", value = 0 },
  { column = "selected", op = "is", value = false },
]
proven = []
text = "PID {pids} was missed"
settled_by = "look"
[doc]
what_it_is = "w"
how_told_apart = "h"
what_to_do = "d"
known_gaps = ["g"]
[[case]]
name = "fires"
expect = "fires"
input = "h200/selfmatch-orphans"
"""


def pack(directory: Path, *texts: str) -> Path:
    directory.mkdir(exist_ok=True)
    for number, text in enumerate(texts):
        (directory / f"rule-{number}.toml").write_text(text, encoding="utf-8")
    return directory


def test_a_pack_adds_a_finding_and_changes_nothing_else(tmp_path: Path, tried: Tried) -> None:
    directory = pack(tmp_path / "p", RULE)
    plain = explain([INCIDENT])
    told = explain([INCIDENT], pack=Pack(load_pack(directory), directory))
    assert [finding.rule for finding in told.findings if finding.rule not in {f.rule for f in plain.findings}] == [
        "GPD700"
    ]
    assert told.findings[0] == plain.findings[0]
    assert (told.outcome, told.plan) == (plain.outcome, plain.plan)
    assert told.tool.rules_digest != plain.tool.rules_digest
    listed = CliRunner().invoke(app, ["rules", "list", "--rules", str(directory)])
    assert "GPD700  preview   A step missed" in listed.output
    tested = CliRunner().invoke(app, ["rules", "test", "--rules", str(directory), "--fixtures", str(FIXTURES)])
    assert "ok      GPD700  fires" in tested.output
    tried("A pack with one rule of its own", 1, "one more finding; outcome, plan and main cause stay as they are")


BROKEN = {
    "no TOML": (RULE + "\nx = = 3", 26),
    "an unknown field": (RULE.replace('text = "PID', 'run = "id"\ntext = "PID'), 14),
    "an operator that is none": (RULE.replace('op = "gt"', 'op = "exec"'), 10),
    "a column that is none": (RULE.replace('"selected"', '"__class__"'), 11),
    "a table that is none": (RULE.replace('"reach"', '"/etc/passwd"'), 7),
    "SQL in place of a column": (RULE.replace('"selected"', "\"* from read_csv('/etc/passwd')\""), 11),
    "a format specification": (RULE.replace("{pids}", "{pids.__class__}"), 14),
    "a placeholder that is none": (RULE.replace("{pids}", "{environ}"), 14),
    "a text that is too long": (RULE.replace("{pids}", "x" * 500), 14),
    "a terminal's escape": (RULE.replace('"look"', '"\\u001b]0;owned\\u0007"'), 15),
    "bidi signs": (RULE.replace('"look"', '"\\u202e"'), 15),
    "a key with an escape": (RULE + '"\\u001b[31m" = 3', 21),
    "an id of the catalogue": (RULE.replace("GPD700", "GPD101"), None),
    "a table that is filled later": (
        RULE.replace('"reach"', '"gap"').replace('"selected"', '"cause_found"')
        .replace('"holds_mib", op = "gt", value = 0', '"memory_held", op = "is", value = true'), None),
    "a case outside the fixtures": (RULE.replace('input = "h200/selfmatch-orphans"', 'input = "../../../etc"'), 21),
    "a case with an absolute path": (RULE.replace('input = "h200/selfmatch-orphans"', 'input = "/etc"'), 21),
    "globs through everything": (RULE + 'without = ["**/**/**/**/**/*"]', 21),
    "deep nesting": (RULE + "x = " + "[" * 3000 + "]" * 3000, None),
    "deep tables": (RULE + "[" + ".".join("a" * 5000) + "]", None),
    "a number of ten thousand digits": (RULE.replace("value = 0", "value = " + "9" * 10_000), None),
    "a condition with a thousand values": (
        RULE.replace('op = "gt", value = 0', 'op = "in", value = [' + "1, " * 1000 + "1]"), 10),
    "a file that is too large": (RULE + "#" * MAX_FILE_BYTES, None),
    "bytes that are no text": ("\udcff", None),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_has_a_file_and_a_line(kind: str, tmp_path: Path, tried: Tried) -> None:
    text, line = BROKEN[kind]
    directory = tmp_path / "p"
    directory.mkdir()
    (directory / "rule-0.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    begun = time.process_time()
    ran = CliRunner().invoke(app, ["explain", str(INCIDENT), "--rules", str(directory)])
    assert time.process_time() - begun < 2
    assert ran.exit_code == EXIT_USAGE, ran.output
    (sentence,) = ran.output.splitlines()
    assert sentence.isprintable()
    assert len(sentence) < 900
    if line is not None:
        assert f"rule-0.toml:{line}:" in sentence or f"(at line {line}," in sentence, sentence
    else:
        assert "rule-0.toml" in sentence, sentence
    tried("Rule files that are wrong", 1, "one sentence each, with file and line; exit code 2; under 2 s of CPU")


def test_what_is_no_file_of_the_pack_is_not_read(tmp_path: Path, tried: Tried) -> None:
    link = pack(tmp_path / "link")
    (link / "x.toml").symlink_to("/etc/passwd")
    pipe = pack(tmp_path / "pipe", RULE)
    subprocess.run(["mkfifo", str(pipe / "y.toml")], check=True)
    many = pack(tmp_path / "many", *[RULE] * (MAX_PACK + 1))
    more = pack(tmp_path / "more", *["x"] * (MAX_FILES + 1))
    cases = {link: "is a link", many: "at most", more: "at most", tmp_path / "none": "cannot be listed"}
    cases[pack(tmp_path / "empty")] = "no rule"
    cases[pack(tmp_path / "twice", RULE, RULE)] = "is taken by"
    for directory, says in cases.items():
        with pytest.raises(RulesError, match=says):
            load_pack(directory)
    assert [rule.id for rule in load_pack(pipe)] == ["GPD700"]
    tried("Links, pipes, too many files, the same id twice", len(cases) + 1, "refused, or passed over (a pipe)")


GUARDED = """
import sys
def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "os.exec", "os.posix_spawn", "os.system"):
        raise RuntimeError(event)
    if event == "subprocess.Popen" and "regex_child" not in str(arguments[1]):
        raise RuntimeError(event)
    if event == "open" and "w" in str(arguments[1] or ""):
        raise RuntimeError(f"writes {arguments[0]}")
sys.addaudithook(audit)
from gpudiag.cli import main
main()
"""


def test_a_pack_runs_nothing_and_reaches_nothing(tmp_path: Path, tried: Tried) -> None:
    words = [
        "$(touch owned)",
        "`touch owned`",
        "{{ cycler.__init__ }}",
        "{% for x in range(10**9) %}",
        "%n",
        "../../etc",
    ]
    rules = [
        RULE.replace("GPD700", f"GPD{700 + number}")
        .replace("house-rule", f"house-rule-{number}")
        .replace('"look"', f'"""{word}"""')
        .replace('title = "A', f'title = "{word} A')
        for number, word in enumerate(words)
    ]
    directory = pack(tmp_path / "p", *rules)
    done = subprocess.run(
        [sys.executable, "-c", GUARDED, "explain", str(INCIDENT), "--rules", str(directory), "--format", "html"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 10, done.stderr[-2000:]
    assert "GPD705" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p"]
    tried(
        "Texts of a rule that a shell or a template engine would run",
        len(words),
        "shown as they are; no file written, no process but the regex helper, no socket",
    )


def test_a_full_pack_costs_bounded_time(tmp_path: Path, tried: Tried) -> None:
    rules = [
        RULE.replace("GPD700", f"GPD{700 + number}").replace("house-rule", f"house-rule-{number}")
        for number in range(MAX_PACK)
    ]
    directory = pack(tmp_path / "p", *rules)
    begun = time.process_time()
    report = explain([INCIDENT], pack=Pack(load_pack(directory), directory))
    spent = time.process_time() - begun
    assert len([finding for finding in report.findings if finding.rule.startswith(("GPD7", "GPD8"))]) >= MAX_PACK
    assert spent < 30
    tried("A pack as large as a pack may be", MAX_PACK, f"all asked in {spent:.0f} s of CPU at most 30")


def test_no_socket_in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    directory = pack(tmp_path / "p", RULE)
    explain([INCIDENT], pack=Pack(load_pack(directory), directory))
