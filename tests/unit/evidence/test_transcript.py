"""Pasted terminal sessions, single captured outputs, and files of one format."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from gpudiag.evidence import Input, Unreadable, files, read_input, transcript
from gpudiag.parse import parse

FIXTURES = Path(__file__).parents[2] / "fixtures"


def session(tmp_path: Path, text: str, name: str = "incident.txt") -> Input:
    """A transcript with this text."""
    path = tmp_path / name
    path.write_text(text)
    return read_input(path, "I1")


def shown(found: Input) -> list[tuple[str | None, str | None, str]]:
    """Look, command and output of each exhibit."""
    return [(exhibit.look, exhibit.command, exhibit.text) for exhibit in found.exhibits]


def test_ghost_workers() -> None:
    found = read_input(FIXTURES / "incidents" / "ghost-workers.txt", "I1")
    assert [(look.id, look.host) for look in found.looks] == [("I1:look-1", "gpu-node")]
    assert [(exhibit.host, exhibit.user, exhibit.look) for exhibit in found.exhibits] == [
        ("gpu-node", "root", "I1:look-1")
    ] * 2
    (action,) = found.actions
    assert action.text.startswith("ssh -o StrictHostKeyChecking=no root@gpu-node 'pkill -9 -f")
    assert (action.how, action.source, action.after_look, action.output) == ("prompt", "transcript", None, "")
    assert action.cited.line == 1


def test_a_kill_command_ends_a_look_and_its_output_opens_the_next(tmp_path: Path) -> None:
    found = session(
        tmp_path,
        "root@a:~# nvidia-smi\nold\nroot@a:~# kill -9 7; nvidia-smi\nnew\nroot@a:/x y# ps -ef\nafter\n",
    )
    assert shown(found) == [
        ("I1:look-1", "nvidia-smi", "old"),
        ("I1:look-2", "kill -9 7; nvidia-smi", "new"),
        ("I1:look-2", "ps -ef", "after\n"),
    ]
    (action,) = found.actions
    assert (action.after_look, action.output, action.user, action.host) == ("I1:look-1", "new", "root", "a")
    assert [exhibit.first_line for exhibit in found.exhibits] == [2, 4, 6]


def test_a_query_before_the_kill_in_one_line_shows_the_look_before(tmp_path: Path) -> None:
    found = session(tmp_path, "$ pgrep -ax importer; pkill -x importer\n7 importer\n$ ps -ef\nx\n")
    assert [exhibit.look for exhibit in found.exhibits] == ["I1:look-1", "I1:look-2"]
    assert [action.after_look for action in found.actions] == ["I1:look-1"]


def test_a_query_typed_again_opens_a_look(tmp_path: Path) -> None:
    found = session(tmp_path, "$ nvidia-smi\n1\n$ ps -ef\n2\n$ sleep 5; nvidia-smi\n3\n$ ps -ef\n4\n")
    assert [exhibit.look for exhibit in found.exhibits] == ["I1:look-1", "I1:look-1", "I1:look-2", "I1:look-2"]


def test_two_kills_in_a_row_follow_the_same_look(tmp_path: Path) -> None:
    found = session(tmp_path, "$ ps -ef\nx\n$ kill 7\n$ sleep 9\n$ pkill -9 python\n$ ps -ef\ny\n")
    assert [action.after_look for action in found.actions] == ["I1:look-1", "I1:look-1"]
    assert [look.name for look in found.looks] == ["look-1", "look-2"]


def test_a_query_without_output_is_evidence_and_a_silent_kill_is_not(tmp_path: Path) -> None:
    found = session(tmp_path, "$ kill -9 $(nvidia-smi --query-compute-apps=pid)\n$ nvidia-smi -L\n$ sleep 3\n")
    assert shown(found) == [("I1:look-1", "nvidia-smi -L", "")]


def test_looks_are_of_one_host(tmp_path: Path) -> None:
    found = session(tmp_path, "u@a:~$ ps -ef\n1\nu@a:~$ ssh -p 22 root@b 'ps -ef'\n2\nu@a:~$ free\n3\n")
    assert [(exhibit.host, exhibit.user, exhibit.look) for exhibit in found.exhibits] == [
        ("a", "u", "I1:look-1"),
        ("b", "root", "I1:look-2"),
        ("a", "u", "I1:look-1"),
    ]


@pytest.mark.parametrize(
    "prompt",
    [
        "$ ", "# ", "u@h:~$ ", "u@h:/# ", "(venv) u@h:~/a b$ ", "(base) (venv) $ ", "[u@h ~]$ ",
        "bash-5.1$ ", "sh-4.4# ",
        "[2026-11-30T12:00:00Z] $ ", "12:00:00 u@h:~# ", "u@h ~ % ", "\x1b[01;32mu@h\x1b[00m:\x1b[01;34m~\x1b[00m$ ",
    ],
)  # fmt: skip
def test_prompts(tmp_path: Path, prompt: str) -> None:
    found = session(tmp_path, f"{prompt}ps -ef\nout\n{prompt}kill 7\n")
    assert [exhibit.command for exhibit in found.exhibits] == ["ps -ef"]
    assert [action.text for action in found.actions] == ["kill 7"]


@pytest.mark.parametrize(
    "line", ["# gpu         pid  type", "# Idx           #   C/G", "#", "$5 a month", "50% done", "root@l40s", "a # b"]
)
def test_output_that_looks_like_a_prompt(tmp_path: Path, line: str) -> None:
    found = session(tmp_path, f"$ nvidia-smi pmon\n{line}\nrest\n")
    assert shown(found) == [("I1:look-1", "nvidia-smi pmon", f"{line}\nrest\n")]


@pytest.mark.parametrize(
    ("first", "time_ns", "error_ns"),
    [
        ("[2026-11-30T12:00:00Z] $ kill 7", 1_796_040_000_000_000_000, 0),
        ("2026-11-30 12:00:00.5 +0100 $ kill 7", 1_796_036_400_500_000_000, 0),
        ("2026-11-30 12:00:00 $ kill 7", 1_796_040_000_000_000_000, 14 * 3600 * 10**9),
        ("12:00:00 $ kill 7", None, 0),
        ("$ date; kill 7\nMon Nov 30 12:00:00 UTC 2026", 1_796_040_000_000_000_000, 0),
        ("$ date; kill 7\nMon Nov 30 12:00:00 EST 2026", 1_796_040_000_000_000_000, 14 * 3600 * 10**9),
        ("$ date; kill 7\nno date", None, 0),
    ],
)
def test_times_of_actions(tmp_path: Path, first: str, time_ns: int | None, error_ns: int) -> None:
    (action,) = session(tmp_path, first + "\n").actions
    assert (action.time_ns, action.time_error_ns) == (time_ns, error_ns)


def test_a_printed_exit_code_belongs_to_the_command_before(tmp_path: Path) -> None:
    found = session(tmp_path, "$ pkill -9 vllm\n$ echo $?\n1\n$ timeout 9 nvidia-smi\n$ echo $?\n124\n")
    assert [action.exit_code for action in found.actions] == [1]
    assert [(exhibit.command, exhibit.exit_code) for exhibit in found.exhibits] == [("timeout 9 nvidia-smi", 124)]


def test_a_command_may_span_lines(tmp_path: Path) -> None:
    found = session(tmp_path, "$ ssh h 'pkill \\\n> -9 x;\n> fuser -k /dev/nvidia0'\nout\n$ ps \\\n  -ef\nrows\n")
    assert [action.text for action in found.actions] == ["ssh h 'pkill -9 x;\nfuser -k /dev/nvidia0'"]
    assert [(exhibit.command, exhibit.first_line) for exhibit in found.exhibits] == [
        ("ssh h 'pkill -9 x;\nfuser -k /dev/nvidia0'", 4),
        ("ps   -ef", 7),
    ]


def test_a_single_capture_of_a_kill_command() -> None:
    found = read_input(FIXTURES / "h200" / "views" / "nobodykill.txt", "I1")
    (action,) = found.actions
    assert (action.exit_code, action.how, action.user) == (137, "prompt", None)
    assert action.output is not None
    assert action.output.rstrip().endswith("Killed")
    assert "stderr" not in action.output
    (exhibit,) = found.exhibits
    assert (exhibit.exit_code, exhibit.first_line) == (137, 3)


def test_captures_one_after_the_other(tmp_path: Path) -> None:
    found = session(
        tmp_path, "# 2026-11-30T12:00:00Z $ ps -ef\n# rc=0\n$ not a prompt here\n# $ nvidia-smi\n# rc=9\nx\n"
    )
    assert [(item.command, item.time_ns, item.exit_code, item.first_line, item.text) for item in found.exhibits] == [
        ("ps -ef", 1_796_040_000_000_000_000, 0, 3, "$ not a prompt here"),
        ("nvidia-smi", None, 9, 6, "x\n"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "look"), [("server.log", "(Worker_TP0 pid=7) x\n", None), ("nvml.json", "{}\n", "I1:look-1")]
)
def test_a_file_without_prompts_is_one_exhibit(tmp_path: Path, name: str, text: str, look: str | None) -> None:
    assert shown(session(tmp_path, text, name)) == [(look, None, text)]


def test_an_unreadable_path_is_named(tmp_path: Path) -> None:
    for name, content in (("shot.png", b"\x89PNG\r\n"), ("empty.txt", b"\n \n"), ("a.expect.json", b"{}")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Unreadable, match=name):
            read_input(tmp_path / name, "I1")
    with pytest.raises(Unreadable, match="does not exist"):
        read_input(tmp_path / "nowhere", "I1")


LOG_LINE = "(APIServer pid=44) INFO 11-30 19:57:36 [loggers.py:335] Engine 000: Avg prompt throughput: 0.0 tokens/s\n"
LOGS = {
    "vllm": LOG_LINE + "  File x.py\n",
    "kernel": "[  123.456789] NVRM: Xid (PCI:0000:41:00): 45, pid=1\n",
    "journal": "Nov 30 19:57:36 node vllm[7]: x\n",
    "docker": '{"log":"INFO x","stream":"stderr","time":"2026-11-30T19:57:36Z"}\n',
    "compose": "vllm-1  | INFO 11-30 19:57:36 x\n",
}
HEADER = "# 2026-11-30T20:00:00Z $ docker logs x\n# rc=0\n"


@pytest.fixture
def low_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log is long and a file is cut at a thousand bytes."""
    monkeypatch.setattr(files, "LONG_LOG", 1000)
    monkeypatch.setattr(transcript, "FILE_CAP", 1000)
    monkeypatch.setattr(transcript, "read_text", partial(files.read_text, cap=1000))


@pytest.mark.usefixtures("low_caps")
@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize(("name", "header"), [("server.log", ""), ("pasted.txt", ""), ("logs.txt", HEADER)])
def test_a_log_by_itself_is_left_on_disk_whatever_its_length(tmp_path: Path, kind: str, name: str, header: str) -> None:
    lines = header + LOGS[kind] * 1500
    found = session(tmp_path, lines + "INFO 11-30 19:59:00 EADDRINUSE\n", name)
    (exhibit,) = found.exhibits
    assert (exhibit.path, exhibit.text, found.damage) == (tmp_path / name, "", ())
    assert exhibit.command == ("docker logs x" if header else None)
    assert [event.cited.line for event in parse([found]).log_events] == [lines.count("\n") + 1]


@pytest.mark.usefixtures("low_caps")
def test_the_name_of_a_log_is_enough_where_no_command_was_typed(tmp_path: Path) -> None:
    text = "step 1: loss 0.3\n" * 1000
    assert session(tmp_path, text, "train.log").exhibits[0].path is not None
    assert session(tmp_path, text, "train.txt").exhibits[0].path is None


@pytest.mark.usefixtures("low_caps")
@pytest.mark.parametrize(
    "text",
    [
        "root@a:~# nvidia-smi\n" + LOG_LINE * 1000,
        LOG_LINE * 1000 + "root@a:~# kill -9 44\n$ nvidia-smi\n",
        "# 2026-11-30T20:00:00Z $ docker logs x\n" + LOG_LINE * 1000 + "# 2026-11-30T20:00:00Z $ ps -ef\nx\n",
        LOG_LINE * 10 + "a line of something else\n" * 1000,
        "x" * 5000,
    ],
)
def test_what_is_not_a_log_alone_is_cut_with_a_note(tmp_path: Path, text: str) -> None:
    found = session(tmp_path, text)
    assert all(exhibit.path is None for exhibit in found.exhibits)
    assert [damage.reason for damage in found.damage] == ["longer than 0 MiB: only the beginning was read"]
