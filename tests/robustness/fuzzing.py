"""Inputs bred from the fixtures: a change that reaches new code is bred from further.

``scripts/fuzz`` runs it for as long as it is told; CI replays what it once found (``tests/fixtures/fuzz``) and a fixed
number of mutations. Coverage is that of Python lines, taken with ``sys.monitoring`` where there is one, which costs
next to nothing, and with ``sys.settrace`` on Python 3.11. ``--atheris`` leaves breeding to that fuzzer, where it is
installed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = str(ROOT / "gpudiag")
FIXTURES: Final = ROOT / "tests" / "fixtures"
FINDINGS: Final = FIXTURES / "fuzz"
SEED_CAP: Final = 20_000
"""Bytes of a seed; behind them a fixture repeats itself."""
SEEDS_CAP: Final = 150
SLOW_S: Final = 5.0
"""Seconds of CPU that no input of this size may cost."""

Target = Callable[[bytes], None]
Places = set[tuple[str, int]]


def parse_exhibit(data: bytes) -> None:
    """The first byte picks the member's name, the second the command; the rest is what was printed."""
    from tests.property.test_parse_never_raises import COMMANDS, NAMES, check_citations, evidence

    if len(data) < 2:
        return
    text = data[2:].decode("utf-8", "replace")
    from gpudiag.parse import parse

    found = parse([evidence(text, NAMES[data[0] % len(NAMES)], COMMANDS[data[1] % len(COMMANDS)])])
    check_citations(found, text)


def read_as(name: str) -> Target:
    """A file of this name, read and parsed."""

    def target(data: bytes) -> None:
        from gpudiag.evidence import Unreadable, read_input
        from gpudiag.parse import parse

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            try:
                parse([read_input(path, "I1")])
            except Unreadable as refusal:
                _is_one_sentence(str(refusal))

    return target


def _is_one_sentence(text: str) -> None:
    assert text.endswith(".")
    assert "\n" not in text


def shell_line(data: bytes) -> None:
    """A shell text, parsed and replayed against one process."""
    from gpudiag.shell.replay import Observed, replay
    from gpudiag.shell.syntax import parse_line
    from gpudiag.shell.world import Caller
    from tests.property.test_shell import WORLD

    text = data[:4000].decode("utf-8", "replace")
    for how in ("argv", "shell", "prompt"):
        replay(parse_line(text, how=how), WORLD, Caller("root", 0), Observed(None, 0.1, None))


def redaction(data: bytes) -> None:
    """Redacting twice changes nothing, and lines stay lines."""
    from gpudiag.redact.redactor import Redactor
    from gpudiag.redact.rows import Rows

    text = data.decode("utf-8", "surrogateescape")
    first, second = Rows(Redactor()), Rows(Redactor())
    once = [first.row(line) for line in text.split("\n")]
    assert not any("\n" in line for line in once)
    assert [second.row(line) for line in once] == once
    words = Redactor().argv(text.split("\0"))
    assert Redactor().argv(words) == words


def rule_file(data: bytes) -> None:
    """A rule file is loaded or refused with one sentence."""
    from gpudiag.rules.files import RulesError
    from gpudiag.rules.loader import load_rule

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "GPD700-x.toml"
        path.write_bytes(data)
        try:
            load_rule(path)
        except RulesError as refusal:
            for problem in refusal.problems:
                _is_one_sentence(problem)


def whole_way(data: bytes) -> None:
    """From a pasted text to all outputs."""
    from gpudiag.evidence import Unreadable
    from gpudiag.explain import explain
    from gpudiag.report import html, markdown, terminal

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.txt"
        path.write_bytes(data)
        try:
            report = explain([path])
        except Unreadable:
            return
    for render in (terminal.render, markdown.render, html.render):
        render(report)
    report.to_json()


TARGETS: Final[Mapping[str, Target]] = {
    "parse": parse_exhibit,
    "bundle": read_as("x.tgz"),
    "transcript": read_as("session.txt"),
    "log": read_as("server.log"),
    "shell": shell_line,
    "redact": redaction,
    "rule": rule_file,
    "explain": whole_way,
}


def seeds(target: str) -> list[bytes]:
    """What the fixtures hold of this kind, the smaller ones first."""
    found: list[bytes] = []
    if target == "rule":
        found = [path.read_bytes() for path in sorted((ROOT / "rules").glob("*.toml"))]
    elif target == "bundle":
        found = list(_bundles())
    elif target == "shell":
        texts = b"\n".join(path.read_bytes() for path in sorted(FIXTURES.glob("incidents/*.txt")))
        found = [line for line in texts.split(b"\n") if b"kill" in line or b"fuser" in line]
    else:
        kinds = {"transcript": ("incidents/*.txt", "transcripts/**/*.txt"), "log": ("**/*.log",)}
        kinds["explain"] = kinds["transcript"]
        patterns = kinds.get(target, ("h200/*/after/*", "vllm/**/*.txt", "incidents/*.txt", "h200/*/*.json"))
        paths = sorted({path for pattern in patterns for path in FIXTURES.glob(pattern) if path.is_file()})
        found = [path.read_bytes()[:SEED_CAP] for path in paths]
    if target == "parse":
        from tests.property.test_parse_never_raises import COMMANDS, NAMES

        dice = random.Random(0)
        found = [bytes((dice.randrange(len(NAMES)), dice.randrange(len(COMMANDS)))) + text for text in found]
    return sorted(set(found), key=lambda text: (len(text), text))[:SEEDS_CAP]


def _bundles() -> Iterator[bytes]:
    from tests.bundle_kit import entry, in_order_of_time, pack, zipped

    with tempfile.TemporaryDirectory() as folder:
        for name in ("selfmatch-orphans", "zombie-leader"):
            files = in_order_of_time(FIXTURES / "h200" / name)
            small = {member: data[:400] for member, data in list(files.items())[:6]}
            yield pack(small, Path(folder) / f"{name}.tgz").read_bytes()
    yield zipped(entry("after/ps.txt", b"PID COMMAND\n7 x\n"), entry("x", kind=b"2", target="/etc/passwd"))


TOKENS: Final = [
    *(b"MiB", b"[N/A]", b"\0", b"\x1b[31m", b"\xff\xfe", b"\xe2\x80\xae", b"# stderr", b"# rc=0\n", b"\n$ ", b"\n> "),
    *(b"9" * 30, b"-1", b"1e999", b"NaN", b"null", b"{", b"[" * 50, b'"', b"'", b"$(", b"`", b"<<E\n", b"|", b"&&"),
    *(
        b"pkill -f ",
        b"kill -9 ",
        b"ssh h '",
        b"sudo ",
        b"xargs ",
        b"nvidia-smi\n",
        b"--api-key ",
        b"TOKEN=",
        b"://a:b@",
    ),
    *(b"[[", b"]]", b"=", b"'''", b"{pids}", b"(a pid=7)", b"/dev/nvidia0:", b"\\_ ", b"+---", b"|====", b"\r", b"\t"),
]


def mutated(parent: bytes, other: bytes, dice: random.Random) -> bytes:
    """The parent with one to six changes; ``other`` is what pieces may be taken from."""
    data = bytearray(parent)
    for _ in range(1 << dice.randrange(3)):
        at = dice.randrange(len(data) + 1)
        end = min(len(data), at + dice.choice((1, 2, 8, 60, 400)))
        kind = dice.randrange(8)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del data[at:end]
        elif kind == 2:
            data[at:at] = dice.choice(TOKENS)
        elif kind == 3:
            data[at:end] = dice.choice(TOKENS)
        elif kind == 4:
            begin = dice.randrange(len(other) + 1)
            data[at:at] = other[begin : begin + dice.choice((8, 60, 400))]
        elif kind == 5:
            del data[at:]
        elif kind == 6:
            data[at:at] = data[at:end] * dice.choice((1, 3, 20))
        else:
            lines = bytes(data).split(b"\n")
            one, two = dice.randrange(len(lines)), dice.randrange(len(lines))
            lines[one], lines[two] = lines[two], lines[one]
            data = bytearray(b"\n".join(lines))
    return bytes(data[: 2 * SEED_CAP])


def run_one(target: Target, data: bytes) -> str | None:
    """What is wrong with how this input was taken; ``None``: nothing."""
    begun = time.process_time()
    try:
        target(data)
    except Exception:
        return traceback.format_exc()
    spent = time.process_time() - begun
    return f"took {spent:.1f} s of CPU" if spent > SLOW_S else None


class Coverage:
    """Lines of the package that were reached for the first time since it was last asked."""

    def __init__(self) -> None:
        self.seen: Places = set()
        self._new = 0
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is not None:
            self._disable = monitoring.DISABLE
            monitoring.use_tool_id(monitoring.COVERAGE_ID, "gpudiag-fuzz")
            monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, self._line)
            monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)
        else:
            sys.settrace(self._call)

    def taken(self) -> int:
        """How many lines were new."""
        new, self._new = self._new, 0
        return new

    def _line(self, code: CodeType, line: int) -> Any:
        if code.co_filename.startswith(PACKAGE):
            self._note(code.co_filename, line)
        return self._disable

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._local if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _local(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self._note(frame.f_code.co_filename, frame.f_lineno)
        return self._local

    def _note(self, file: str, line: int) -> None:
        if (file, line) not in self.seen:
            self.seen.add((file, line))
            self._new += 1


def breed(name: str, seconds: float, seed: int, say: Callable[[str], None]) -> dict[str, bytes]:
    """Fuzz one target for so long; findings by the last line of what went wrong."""
    target, dice = TARGETS[name], random.Random(seed)
    corpus = seeds(name)
    coverage = _COVERAGE or Coverage()
    findings: dict[str, bytes] = {}
    until, tried, kept = time.monotonic() + seconds, 0, 0
    queue = list(corpus)
    while time.monotonic() < until:
        if queue:
            data = queue.pop(0)
        else:
            # What was found last leads on most often.
            newest = len(corpus) - 1 - int(len(corpus) * dice.random() ** 2)
            data = mutated(corpus[max(0, newest)], dice.choice(corpus), dice)
        problem = run_one(target, data)
        tried += 1
        if coverage.taken() and data not in corpus:
            corpus.append(data)
            kept += 1
        if problem is not None:
            findings.setdefault(problem.strip().splitlines()[-1][:200], data)
    say(f"{name}: {tried} inputs, {kept} of them reached new lines, {len(findings)} findings")
    return findings


_COVERAGE: Coverage | None = None


def _with_atheris(name: str, seconds: float, seed: int) -> None:
    """Hand the target to atheris, which ends the process itself; its findings are files ``crash-*`` here."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["gpudiag"]):
        for module in ("gpudiag.explain", "gpudiag.report.html", "gpudiag.report.markdown", "gpudiag.report.terminal"):
            importlib.import_module(module)
    folder = Path(tempfile.mkdtemp(prefix=f"gpudiag-fuzz-{name}-"))
    for number, data in enumerate(seeds(name)):
        (folder / f"seed-{number}").write_bytes(data)
    words = [sys.argv[0], f"-max_total_time={int(seconds)}", f"-seed={seed}", f"-max_len={2 * SEED_CAP}", "-timeout=10"]
    atheris.Setup([*words, str(folder)], TARGETS[name])
    atheris.Fuzz()


def main(words: Sequence[str] | None = None) -> int:
    """0: nothing was found."""
    global _COVERAGE
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together (default 60)")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="repeatable; default: all")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--findings", type=Path, default=FINDINGS, help="where inputs go that were not taken well")
    parser.add_argument("--atheris", action="store_true", help="let atheris breed; one target")
    given = parser.parse_args(words)
    names = given.target or list(TARGETS)
    if given.atheris:
        if len(names) != 1:
            parser.error("--atheris takes one --target")
        _with_atheris(names[0], given.seconds, given.seed)
    _COVERAGE = Coverage()
    found = 0
    for name in names:
        for problem, data in breed(name, given.seconds / len(names), given.seed, print).items():
            found += 1
            given.findings.mkdir(parents=True, exist_ok=True)
            path = given.findings / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}.bin"
            path.write_bytes(data)
            print(f"  {path}: {problem}")
    print(f"seed {given.seed}, {len(_COVERAGE.seen)} lines of gpudiag reached, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
