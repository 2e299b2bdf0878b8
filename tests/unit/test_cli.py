"""The command line from outside: words in, text and exit code out."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import gpudiag
from gpudiag.evidence import Unreadable, standard_input
from gpudiag.report.contract import Report

ROOT = Path(__file__).parents[2]
HELD = ROOT / "tests" / "fixtures" / "h200" / "selfmatch-orphans"
IDLE = ROOT / "tests" / "fixtures" / "h200" / "idle"
RELEASING = ROOT / "tests" / "fixtures" / "h200" / "teardown-pinned-40g"
RUN_MAIN = "from gpudiag.cli import main; main()"


def run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN_MAIN, *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def one_sentence(stderr: str) -> bool:
    return bool(re.fullmatch(r"gpudiag: [^\n]+\.\n", stderr))


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"gpudiag {gpudiag.__version__}\n")


def test_help_names_every_command_in_plain_text() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert done.stdout.isascii()
    for command in ("explain", "simulate", "rules", "schema"):
        assert re.search(rf"^  {command} ", done.stdout, re.MULTILINE)


def test_help_imports_no_stage() -> None:
    slow = {
        "polars",
        "pydantic",
        "jinja2",
        "rich",
        "tree_sitter",
        "gpudiag.explain",
        "gpudiag.simulation",
        "gpudiag.report",
    }
    report = f"print({slow!r} & sys.modules.keys(), file=sys.stderr)"
    code = f"import atexit, sys; atexit.register(lambda: {report}); {RUN_MAIN}"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"


@pytest.mark.parametrize(
    ("capture", "code", "outcome"),
    [(HELD, 10, "memory_held"), (IDLE, 0, "nothing_held"), (RELEASING, 12, "releasing")],
)
def test_the_exit_code_is_the_outcome(capture: Path, code: int, outcome: str) -> None:
    done = run("explain", capture, "--format", "json")
    assert done.returncode == code, done.stderr
    assert Report.model_validate(json.loads(done.stdout)).outcome == outcome
    assert done.stderr == ""


def test_nothing_that_decides_is_inconclusive(tmp_path: Path) -> None:
    transcript = tmp_path / "paste.txt"
    transcript.write_text("$ ps -p 4242 -o pid,comm\n    PID COMMAND\n   4242 python3\n", encoding="utf-8")
    assert run("explain", transcript).returncode == 11


@pytest.mark.parametrize(
    ("output_format", "start"),
    [("markdown", "#"), ("html", "<!doctype html>"), ("json", "{")],
)
def test_formats(output_format: str, start: str) -> None:
    done = run("explain", HELD, "--format", output_format)
    assert done.returncode == 10
    assert done.stdout.lower().startswith(start)


def test_piped_text_is_plain() -> None:
    assert "\x1b" not in run("explain", HELD).stdout


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_on_a_terminal_unless_refused(no_color: str, coloured: bool) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-c", RUN_MAIN, "explain", str(IDLE)]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:
            pass  # Linux ends a pseudo-terminal whose other side is closed with EIO.
        os.close(ours)
    assert process.returncode == 0
    assert (b"\x1b[" in shown) is coloured


def test_files_are_written_by_suffix_and_nothing_is_printed(tmp_path: Path) -> None:
    page, ticket = tmp_path / "report.html", tmp_path / "ticket.md"
    done = run("explain", HELD, "-o", page, "-o", ticket)
    assert (done.returncode, done.stdout) == (10, "")
    assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert ticket.read_text(encoding="utf-8").startswith("#")


def test_a_stated_kill_command_becomes_an_action() -> None:
    done = run(
        "explain",
        IDLE,
        "--kill",
        "pkill -9 -f nothing-like-it",
        "--at",
        "2026-02-20T20:00:06+01:00",
        "--format",
        "json",
    )
    actions = [action for action in json.loads(done.stdout)["actions"] if action["source"] == "stated"]
    assert [(action["text"], action["time"][:19]) for action in actions] == [
        ("pkill -9 -f nothing-like-it", "2026-02-20T19:00:06")
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["explain", IDLE, "-o", "report.docx"],
        ["explain", IDLE, "-o", "no-such-directory/report.html"],
        ["explain", IDLE, "--kill", "pkill x", "--at", "yesterday"],
        ["explain", IDLE, "--at", "2026-02-20T19:00:06Z"],
        ["explain", IDLE, "--kill", "a", "--kill", "b", "--at", "2026-02-20T19:00:06Z"],
        ["rules", "show", "GPD999"],
    ],
)
def test_wrong_usage_is_one_sentence_and_2(words: list[str | Path]) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert one_sentence(done.stderr)


@pytest.mark.parametrize("words", [["explain"], ["explain", IDLE, "--format", "pdf"], ["explode"]])
def test_usage_that_typer_refuses_is_2(words: list[str | Path]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.fixture
def unreadable(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "odd \x1b[31m name"
    if request.param == "empty file":
        path.touch()
    elif request.param == "empty directory":
        path.mkdir()
    elif request.param == "picture":
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    return path


@pytest.mark.parametrize("unreadable", ["missing", "empty file", "empty directory", "picture"], indirect=True)
def test_an_input_that_cannot_be_read_is_one_sentence_and_3(unreadable: Path) -> None:
    done = run("explain", unreadable)
    assert (done.returncode, done.stdout) == (3, "")
    assert one_sentence(done.stderr)
    assert "\x1b" not in done.stderr


def test_a_reader_that_leaves_early_does_not_change_the_exit_code() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-c", RUN_MAIN, "explain", str(HELD), "--format", "json"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (10, b"")


def test_a_narrow_locale_still_gets_its_report() -> None:
    done = run("explain", HELD, LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert done.returncode == 10
    assert done.stdout.isascii()


def test_rules_are_listed_and_shown() -> None:
    listed = run("rules", "list").stdout
    assert re.search(r"^GPD101  \w+ +\S", listed, re.MULTILINE)
    shown = run("rules", "show", "gpd101")
    assert shown.returncode == 0
    assert shown.stdout.startswith("GPD101 ")
    assert "Known gaps" in shown.stdout


def test_the_schema_describes_the_public_names() -> None:
    schema = json.loads(run("schema", "report").stdout)
    assert {"schema", "outcome", "plan", "findings", "unknown"} <= schema["properties"].keys()


def test_rules_test_runs_the_cases_of_the_named_rule() -> None:
    done = run("rules", "test", "GPD601", "--fixtures", ROOT / "tests" / "fixtures")
    assert done.returncode == 0, done.stdout
    assert set(re.findall(r"^(\w+) +(GPD\d+)", done.stdout, re.MULTILINE)) == {("ok", "GPD601")}


def test_a_case_without_its_evidence_fails(tmp_path: Path) -> None:
    done = run("rules", "test", "GPD601", "--fixtures", tmp_path)
    assert done.returncode == 1
    assert "FAILED  GPD601" in done.stdout


def test_help_cuts_no_sentence() -> None:
    for words in (("--help",), ("rules", "--help"), ("schema", "--help")):
        shown = run(*words).stdout
        assert max(map(len, shown.splitlines())) <= 80
        assert not re.search(r"^  \S.*\.\.\.$", shown, re.MULTILINE), shown


@pytest.mark.parametrize("words", [(), ("rules",), ("schema",)])
def test_without_a_command_the_help_is_printed(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run(*words, "--help").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("explain", HELD, "--format", "md"), "'md' is not one of 'terminal', 'json', 'markdown', 'html'."),
        (("simulate", "kill 1", HELD, "--shell", "fish"), "'fish' is not one of "),
        (("rules", "columns", "a", "b"), "unexpected extra argument"),
    ],
)
def test_wrong_words_are_told_without_the_words_of_a_library(words: tuple[str | Path, ...], says: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Value error" not in done.stderr


def piped(data: bytes, *words: str | Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN_MAIN, *words], input=data, env=os.environ, capture_output=True, check=False
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_session_and_a_bundle_can_be_piped_in(tmp_path: Path) -> None:
    session = ROOT / "tests" / "fixtures" / "incidents" / "orphaned-memory.txt"
    from_file = json.loads(run("explain", session, "--format", "json").stdout)
    told = json.loads(piped(session.read_bytes(), "explain", "-", "--format", "json").stdout)
    assert told["inputs"][0]["path"] == "standard input"
    assert told["findings"] != []
    for part in ("outcome", "summary", "plan", "processes"):
        assert told[part] == from_file[part]
    archive = tmp_path / "b.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(HELD, "selfmatch-orphans")
    assert piped(archive.read_bytes(), "explain", "-").returncode == 10
    assert piped(archive.read_bytes(), "simulate", "pkill -9 -f VLLM", "-").returncode in (0, 10)


@pytest.mark.parametrize(
    ("data", "words", "code", "says"),
    [
        (b"", ("explain", "-"), 3, "standard input is empty"),
        (b"\x89PNG\r\n", ("explain", "-"), 3, "standard input is a PNG image, not text"),
        (b"hello\n", ("explain", "-", "-"), 2, "read only once"),
        (b"hello\n", ("simulate", "-", "-"), 2, "read only once"),
    ],
)
def test_standard_input_that_is_of_no_use_is_one_sentence(
    data: bytes, words: tuple[str, ...], code: int, says: str
) -> None:
    done = piped(data, *words)
    assert done.returncode == code
    assert one_sentence(done.stderr)
    assert says in done.stderr


def test_standard_input_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_input, "CAP", 100)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x" * 101)))
    with pytest.raises(Unreadable, match="standard input is longer than"), standard_input.spooled():
        pass


def test_rules_test_says_what_an_installed_package_cannot_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "gpudiag", tmp_path / "gpudiag", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "rules", tmp_path / "gpudiag" / "rules_data")
    words = [sys.executable, "-c", RUN_MAIN, "rules", "test", "GPD101"]
    installed = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, cwd=tmp_path, env=installed, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "FAILED" not in done.stdout
    assert "ok      GPD101" in done.stdout
    assert one_sentence(done.stderr)
    assert re.search(r"\d+ cases were not run.*--fixtures", done.stderr)


def test_rules_test_needs_a_directory_of_fixtures() -> None:
    done = run("rules", "test", "GPD601", "--fixtures", ROOT / "README.md")
    assert done.returncode == 3
    assert one_sentence(done.stderr)
    assert "is no directory" in done.stderr


def test_rules_columns_names_the_tables_that_there_are() -> None:
    done = run("rules", "columns", "holder")
    assert done.returncode == 0
    assert "holds_mib" in done.stdout
    wrong = run("rules", "columns", "holders")
    assert wrong.returncode == 2
    assert one_sentence(wrong.stderr)
    assert "carrier, holder, gpu" in wrong.stderr


def test_rules_rows_prints_what_the_evidence_says() -> None:
    done = run("rules", "rows", "holder", HELD)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert {row["pid"] for row in rows} >= {886, 887}
    assert all(value is not None for row in rows for value in row.values())
    for wrong in ("gap", "holders"):
        refused = run("rules", "rows", wrong, HELD)
        assert refused.returncode == 2
        assert one_sentence(refused.stderr)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ex",), {"explain"}),
        (("explain", "--format", ""), {"terminal", "json", "markdown", "html"}),
        (("rules", "show", "GPD60"), {"GPD601", "GPD602", "GPD603", "GPD604", "GPD605"}),
        (("simulate", "--ov"), {"--over"}),
        (("collect", "--q"), {"--quick"}),
        (("collect", "--quick", "--ho"), {"--host"}),
        (("run", "-"), {"-o", "--output", "--settle", "--sample", "--log", "--verify", "--no-explain", "--no-redact"}),
        (("watch", "--"), {"--keep", "--max-size", "--directory"}),
        (("col",), {"collect"}),
    ],
)
def test_bash_completes(tmp_path: Path, words: tuple[str, ...], expected: set[str]) -> None:
    """The real bash, with the function that is installed in it."""
    program = tmp_path / "gpudiag"
    program.write_text(f"#!{sys.executable}\nfrom gpudiag.__main__ import main\nmain()\n")
    program.chmod(0o755)
    found = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    # Which shell it is called by, it would ask the process above: here that is no shell.
    told = {**found, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run([program, "--show-completion", "bash"], env=told, capture_output=True, text=True, check=True)
    script = shown.stdout
    typed = " ".join(f"'{word}'" for word in ("gpudiag", *words))
    function = re.search(r"-F (\S+) gpudiag", script)
    assert function is not None, script
    ask = f"COMP_WORDS=({typed}) COMP_CWORD={len(words)}; {function[1]} gpudiag; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{ask}"],
        env=found,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == expected


def test_the_readme_shows_what_is_printed() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    excerpt = re.search(r"```text\n(.*?)```", readme, re.DOTALL)
    assert excerpt is not None
    printed = run("explain", HELD).stdout
    for part in excerpt[1].split("...\n"):
        assert part in printed, f"README.md: paste anew what ./scripts/try prints; not printed:\n{part}"
