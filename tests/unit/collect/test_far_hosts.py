"""What needs no ssh: names of hosts, options that do not fit, and what is made of a far host's words."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpudiag.bundle.format import Clocks, Start
from gpudiag.bundle.reader import read_contents
from gpudiag.bundle.sinks import Stream
from gpudiag.bundle.writer import BundleWriter
from gpudiag.collect import session
from gpudiag.collect.destination import destinations
from gpudiag.collect.far import MARK, STATUS, Request, Status
from gpudiag.collect.identity import NOBODY, Own
from gpudiag.collect.options import chosen
from gpudiag.collect.session import Call, Session
from gpudiag.collect.telling import say
from gpudiag.collect.zipped import LOADER, single_file
from tests.bundle_kit import pack

# Every character that some login shell may read as more than itself inside of single quotes.
SPECIAL = set("'\\!$`\n\"")


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["node7"], ["node7"]),
        (["root@node7", "node8.example.org"], ["node7", "node8.example.org"]),
        (["ssh://root@node7:2222", "ssh://[fe80::1%25eth0]:22"], ["node7", "fe80_1_25eth0"]),
        (["::1", "10.0.0.7"], ["1", "10.0.0.7"]),
        (["a@node7", "b@node7"], ["a_node7", "b_node7"]),
        (["a_b@n", "a@b_n", "a@n", "a_b@n/"], ["a_b_n", "b_n", "a_n", "a_b_n"]),
    ],
)
def test_hosts(texts: list[str], labels: list[str]) -> None:
    found = destinations(texts)
    assert [host.text for host in found] == texts
    told = [host.label for host in found]
    assert len(set(told)) == len(told)
    assert told == labels or told == [f"{number}-{label}" for number, label in enumerate(labels, start=1)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-oProxyCommand=id",
        "root@-oProxyCommand=id",
        "ssh://-x",
        "a b",
        "a\nb",
        "a;id",
        "$(id)",
        "a'b",
        "a`b",
        "a@b@c@",
    ],
)
def test_what_is_no_host(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        destinations([text])
    with pytest.raises(SystemExit) as end:
        chosen([f"--host={text}"])
    assert end.value.code == 2
    assert "is not a host" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "because"),
    [
        (["--host", "a", "--host", "a"], "given twice"),
        (["--host", "a", "--history", "-"], "leave it out with --host"),
        (["--host", "a", "-o", "-"], "name a directory"),
        (["--host", "a", "--host", "b", "-o", "x.tgz"], "must exist"),
        (["--host", "a", "-o", "taken.tgz"], "exists already"),
        (["--host", "a", "--python", "python3; id"], "not the plain name"),
        (["--host", "a", "--python", "-c"], "expected one argument"),
        (["--host", "a", "--kill", "x", "--at", "yesterday"], "is not a time"),
        (["--python", "python3"], "needs --host"),
        (["--deadline", "9"], "needs --host"),
        (["-o", "-", "--explain"], "--explain needs a file"),
    ],
)
def test_options_that_do_not_fit(
    words: list[str], because: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken.tgz").touch()
    with pytest.raises(SystemExit) as end:
        chosen(words)
    assert end.value.code == 2
    assert because in capsys.readouterr().err


def test_options_travel(tmp_path: Path) -> None:
    words = [
        "--kill=-x $(id) 'y'",
        "--at",
        "2026-02-20T19:00:06Z",
        "--log=/var/log/a b",
        "--interval",
        "1",
        "--no-redact",
    ]
    near = chosen(["--host", "a", "--duration", "7", "-o", str(tmp_path), *words])
    far = chosen(["-o", str(tmp_path / "x"), *near.far_words])
    assert far.recording.kills == near.recording.kills == (("-x $(id) 'y'", "2026-02-20T19:00:06+00:00"),)
    assert far.recording.logs == ("/var/log/a b",)
    assert (far.recording.duration_s, far.recording.interval_s, far.redact) == (7, 1, False)
    assert near.folder == tmp_path
    assert near.mark == "-unredacted"


def test_request_travels() -> None:
    request = Request(("--kill=é\udc80",), Own("boot", "pid:[1]", (3, 4)), 60, "x")
    assert Request.from_json(request.to_json()) == request


def test_callers_elsewhere_are_nobody_here() -> None:
    callers = Own("boot", "pid:[1]", (3, 4))
    assert callers.seen_from(Own("boot", "pid:[1]", (9,))) == (3, 4)
    assert callers.seen_from(Own("boot", "pid:[2]", (9,))) == ()
    assert callers.seen_from(Own("other", "pid:[1]", (9,))) == ()
    assert Own(None, None, (3,)).seen_from(NOBODY) == ()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "null", '{"answered": 1, "holds": "", "seconds": 1.0}', "[" * 100_000, '{"answered": true}']
)
def test_status_that_is_none(text: str) -> None:
    assert Status.from_line(STATUS + text) is None
    assert Status.from_line(text) is None


def test_command_line_needs_no_care_of_a_shell() -> None:
    call = Call(destinations(["root@a"])[0], Path("x"), "python3", 9, may_ask=False, program=lambda pid: b"")
    *before, there = call.argv()
    assert before[-2:] == ["--", "root@a"]
    assert "BatchMode=yes" in before
    assert there == f"python3 -I -c '{LOADER}'"
    assert not SPECIAL & set(LOADER)
    asks = Call(call.destination, Path("x"), "python3", 9, may_ask=True, program=lambda pid: b"")
    assert "BatchMode=yes" not in asks.argv()


class Far:
    """In place of ssh: a program whose words are what a far host says."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / "x.tgz"
        self.said: list[str] = []
        self._folder = folder
        self._patch = monkeypatch

    def ask(self, body: str, deadline_s: float = 60.0) -> session.Result:
        """The body is Python, with ``out`` and ``told`` for its two outputs."""
        import selectors

        code = "import sys, time; out, told = sys.stdout.buffer, sys.stderr.buffer\n" + body
        command = [sys.executable, "-I", "-c", code]
        self._patch.setattr(Call, "argv", lambda call: command)
        call = Call(
            destinations(["a"])[0], self.path, "python3", deadline_s, may_ask=False, program=lambda pid: b"x" * 9
        )
        with selectors.DefaultSelector() as selector:
            running = Session(call, selector, self.said.append)
            while running.result is None:
                for key, _ in selector.select(0.05):
                    if not key.fileobj.closed:  # type: ignore[union-attr]
                        key.data(key.fileobj)
                running.check()
        return running.result


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Far:
    return Far(tmp_path, monkeypatch)


STATUS_LINE = f'told.write(b\'{STATUS}\' + b\'{{"answered": true, "holds": "much", "seconds": 1.5}}\\n\')'


def whole_bundle(folder: Path) -> Path:
    return pack({"look-1/ps.txt": b"PID\n"}, folder / "sent")


def test_mark_in_two_parts_behind_noise(far: Far, tmp_path: Path) -> None:
    sent = whole_bundle(tmp_path)
    result = far.ask(
        f"out.write(b'Welcome!' + {MARK[:9]!r}); out.flush(); time.sleep(0.2)\n"
        f"out.write({MARK[9:]!r} + open({str(sent)!r}, 'rb').read()); {STATUS_LINE}"
    )
    assert (result.written, result.answered, result.words, result.path) == (True, True, "much", far.path)
    assert far.path.read_bytes() == sent.read_bytes()


def test_status_without_a_whole_bundle_is_not_believed(far: Far, tmp_path: Path) -> None:
    sent = whole_bundle(tmp_path)
    result = far.ask(f"out.write({MARK!r} + open({str(sent)!r}, 'rb').read()[:-90]); {STATUS_LINE}")
    assert not result.written
    part = tmp_path / "x.tgz.partial"
    assert result.path == part
    assert "damaged" in result.words or "no end" in result.words
    assert read_contents(part).members[0].name == "look-1/ps.txt"
    assert not far.path.exists()


def test_endless_noise_is_cut_off(far: Far, tmp_path: Path) -> None:
    result = far.ask("while True: out.write(b'y' * 9999)")
    assert (result.written, result.path) == (False, None)
    assert "64 KiB of other output" in result.words
    assert result.seconds < 20


def test_endless_words_are_cut_off(far: Far, tmp_path: Path) -> None:
    result = far.ask("told.write(b'a' * (1 << 22) + b'\\n' + b'line\\n' * 5000); sys.exit(3)")
    assert result.words == "line"
    assert len(far.said) == 301
    assert max(map(len, far.said)) < 600
    assert far.said[-1].endswith("more lines follow and are not shown")


def test_bundle_that_is_too_large(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "FILE_CAP", 1 << 20)
    result = far.ask(f"out.write({MARK!r})\nwhile True: out.write(b'y' * 65536)")
    assert "a bundle of more than 1 MiB" in result.words
    assert result.path is not None
    assert result.path.stat().st_size <= 1 << 20


def test_nothing_is_overwritten(far: Far) -> None:
    far.path.write_text("mine")
    result = far.ask(f"out.write({MARK!r} + b'data'); out.flush(); time.sleep(9)")
    assert "exists already" in result.words
    assert result.path is None
    assert far.path.read_text() == "mine"


def test_far_side_that_heeds_no_signal_is_ended(far: Far) -> None:
    result = far.ask("import signal; signal.signal(15, signal.SIG_IGN); time.sleep(60)", deadline_s=0.5)
    assert result.words == "no end within 0.5 s"
    assert result.seconds < 20


def test_words_of_a_far_host_cannot_write_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[2Jb\r\nc\u202e")
    assert capsys.readouterr().err == "a\\x1b[2Jb\\r\\nc\\u202e\n"


def test_stream_that_breaks_in_a_member_gets_no_further_one(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    bundle = BundleWriter(tmp_path / "-", Start("0"), sink=Stream(writing))
    bundle.source("a.txt").close()
    source, put = bundle.source("b.txt"), bundle._sink.put
    source.write(b"b\n" * 9)

    def interrupted(data: bytes) -> None:
        put(data[:7])
        raise KeyboardInterrupt

    bundle._put = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        source.close()
    bundle._put = put  # type: ignore[method-assign]
    bundle.source("c.txt").close()
    bundle.finish(Clocks())
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        (tmp_path / "x").write_bytes(pipe.read())
    contents = read_contents(tmp_path / "x")
    assert [member.name for member in contents.members] == ["a.txt"]
    assert contents.end is None
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_single_file_is_the_same_for_the_same_sources() -> None:
    text = single_file()
    assert text == single_file()
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 120
