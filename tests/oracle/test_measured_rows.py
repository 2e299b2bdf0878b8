"""Each measured fact about pkill, pgrep, kill and fuser, by its number: predicted here and asked of the real tool."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpudiag.shell.quoting import literal
from gpudiag.shell.replay import Observed, replay
from gpudiag.shell.selection import Selection
from gpudiag.shell.signals import fatal
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.tools import fuser, kill, killall, pgrep
from gpudiag.shell.tools.common import all_of
from gpudiag.shell.tools.listing import Looking
from gpudiag.shell.world import Caller, Candidate, World
from tests.oracle.arena import NAMES, ROOT, need, play, world_of

pytestmark = pytest.mark.oracle

ENGINE: dict[str, Any] = {"title": "VLLM::EngineCore", "comm": "VLLM::EngineCore"}
WORKER0: dict[str, Any] = {"title": "VLLM::Worker_TP0", "comm": "VLLM::Worker_TP0"}
WORKER1: dict[str, Any] = {"title": "VLLM::Worker_TP1", "comm": "VLLM::Worker_TP1"}
SERVER: dict[str, Any] = {"exec": ["python", "-c", "read x", "-m", "vllm.entrypoints.openai.api_server"]}
TRACKER: dict[str, Any] = {
    "title": "/opt/vllm-env/bin/python\0-c\0from multiprocessing.resource_tracker\0",
    "comm": "python",
}
ODD: dict[str, Any] = {"title": "x\0nl\nend\0tab\tend\0\xc3\xbcber\0a\0\0b\0", "comm": "odd"}
DEAD: dict[str, Any] = {"title": "VLLM::EngineCore", "comm": "VLLM::EngineCore", "state": "zombie"}
DEVICE = "/dev/shm/gpudiag-row"


@dataclass(frozen=True)
class Row:
    """One fact: who is there, what is run, who is hit (by place in ``there``), and the exit code."""

    id: str
    there: list[dict[str, Any]]
    command: list[str]
    hits: set[int]
    code: int
    uid: int = 0
    stdin: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


ROWS = [
    Row("A1", [ENGINE, WORKER0, WORKER1], ["pgrep", "VLLM::Worker_TP"], {1, 2}, 0),
    Row("A1-full", [ENGINE, WORKER0, WORKER1], ["pgrep", "-x", "VLLM::EngineCor"], {0}, 0),
    Row("A2", [ENGINE], ["pgrep", "VLLM::EngineCore"], set(), 1),
    Row("A2-long", [ENGINE], ["pgrep", "(VLLM::EngineC.*)"], {0}, 0),
    Row("A2-class", [ENGINE], ["pgrep", "VLLM::[A-Z][a-zA-Z]+"], {0}, 0),
    Row("A3", [ENGINE, ODD], ["pgrep", "-f", "^VLLM::EngineCore$"], {0}, 0),
    Row("A3-empty", [ODD], ["pgrep", "-f", "a  b"], {0}, 0),
    Row("A4-newline", [ODD], ["pgrep", "-f", "nl end"], {0}, 0),
    Row("A4-tab", [ODD], ["pgrep", "-f", "tab[?]end"], {0}, 0),
    Row("A4-literal", [ODD], ["pgrep", "-f", "tab\tend"], set(), 1),
    Row("A4-comm", [{"title": "t", "comm": "nl\nx"}], ["pgrep", "nl[?]x"], {0}, 0),
    Row("A4-zombie", [{"title": "t", "comm": "nl\nx", "state": "zombie"}], ["pgrep", "-f", "nl[?]x"], {0}, 0),
    Row("A5", [{"title": "x" * 6000 + "\0MARKER\0"}], ["pgrep", "-f", "MARKER"], {0}, 0),
    Row("A5-100k", [{"exec": ["x" * 100_000, "-c", "read x", "MARKER"]}], ["pgrep", "-f", "MARKER"], {0}, 0),
    Row("A6", [SERVER], ["pgrep", "python"], set(), 1),
    Row("A6-full", [SERVER], ["pgrep", "-f", "^python"], {0}, 0),
    Row("A7", [ENGINE], ["pgrep", "-f", "python"], set(), 1),
    Row("A7-comm", [ENGINE], ["pgrep", "-x", "python"], set(), 1),
    Row("A8", [DEAD], ["pgrep", "-f", "VLLM::EngineCore"], set(), 1),
    Row("A8-cut", [DEAD], ["pgrep", "-f", "VLLM::EngineCor"], {0}, 0),
    Row("A8-bracket", [DEAD], ["pgrep", "-f", r"^\[VLLM::EngineCor\] <defunct>$"], {0}, 0),
    Row("A8-comm", [DEAD], ["pgrep", "VLLM::EngineCor"], {0}, 0),
    Row("A9", [DEAD], ["pkill", "-9", "VLLM::EngineCor"], {0}, 0),
    Row("A12", [SERVER, ENGINE, TRACKER], ["pgrep", "-f", "vllm"], {0, 2}, 0),
    Row("A12-i", [SERVER, ENGINE, TRACKER], ["pgrep", "-if", "vllm"], {0, 1, 2}, 0),
    Row("A13", [ENGINE], ["pgrep", "-x", "nothing|VLLM::EngineCor"], {0}, 0),
    Row("A13-full", [SERVER], ["pgrep", "-xf", "python"], set(), 1),
    Row("A14", [ENGINE, DEAD], ["pgrep", ""], {0, 1}, 0),
    Row("A15", [ENGINE], ["pkill", "-v", "x"], set(), 2),
    Row("A16", [ENGINE], ["pkill", "VLLM", "bar"], set(), 2),
    Row("A16-none", [ENGINE], ["pkill", "-9"], set(), 2),
    Row("A16-both", [ENGINE], ["pgrep", "-n", "-o", "VLLM"], set(), 2),
    Row("A17", [{**ENGINE, "uid": 65534}, WORKER0], ["pkill", "-9", "-u", "nobody"], {0}, 0),
    Row("A18", [ENGINE], ["pgrep", "-f", "pgrep"], set(), 1),
    Row("B22", [ENGINE], ["pkill", "-9", "nosuch"], set(), 1),
    Row("B22-eperm", [ENGINE], ["pkill", "-9", "VLLM"], set(), 1, uid=65534),
    Row("B22-some", [ENGINE, {**WORKER0, "uid": 65534}], ["pkill", "-9", "VLLM"], {1}, 0, uid=65534),
    Row("B22-user", [ENGINE], ["pkill", "-9", "-u", "nosuchuser"], set(), 2),
    Row("B23", [ENGINE], ["pkill", "-f", "VLLM", "-9", "-e"], {0}, 0),
    Row("B23-long", [ENGINE], ["pkill", "--signal=sigkill", "VLLM"], {0}, 0),
    Row("B23-9f", [ENGINE], ["pkill", "-9f", "VLLM"], set(), 2),
    Row("B23-f9", [ENGINE], ["pkill", "-f9", "VLLM"], set(), 2),
    Row("B24", [ENGINE], ["pkill", "--signal", "FOO", "VLLM"], set(), 1),
    Row("B24-FOO", [ENGINE], ["pkill", "-FOO", "VLLM"], set(), 1),
    Row("B24-NOSUCH", [ENGINE], ["pkill", "-NOSUCH", "VLLM"], set(), 2),
    Row("B25", [ENGINE], ["pkill", "-0", "VLLM"], {0}, 0),
    Row("B26", [ENGINE], ["pgrep", "-f", "VLLM"], {0}, 0, uid=65534),
    Row("B27", [{**ENGINE, "state": "stopped"}], ["pkill", "-TERM", "VLLM"], {0}, 0),
    Row("B27-kill", [{**ENGINE, "state": "stopped"}], ["pkill", "-9", "VLLM"], {0}, 0),
    Row("E31", [{**ENGINE, "open": [DEVICE]}, WORKER0], ["fuser", "-k", DEVICE], {0}, 0),
    Row("E33", [ENGINE], ["fuser", "-k", "/dev/shm/gpudiag-nobody"], set(), 1),
    Row("E33-two", [{**ENGINE, "open": [DEVICE]}], ["fuser", "-k", DEVICE, "/dev/shm/gpudiag-nobody"], {0}, 0),
    Row("E33-none", [ENGINE], ["fuser", "-k"], set(), 1),
    Row("E34", [{**ENGINE, "open": [DEVICE]}], ["fuser", "-k", DEVICE], set(), 1, uid=65534),
    Row("E34-own", [{**ENGINE, "open": [DEVICE]}, {**SERVER, "open": [DEVICE], "uid": 65534}],
        ["fuser", "-k", DEVICE], {1}, 0, uid=65534),
    Row("E35", [{**ENGINE, "open": [DEVICE]}], ["fuser", "-k", "-TERM", DEVICE], {0}, 0),
    Row("E35-before", [{**ENGINE, "open": [DEVICE]}], ["fuser", "-TERM", "-k", DEVICE], {0}, 0),
    Row("E37", [{**ENGINE, "open": [DEVICE], "state": "zombie"}], ["fuser", "-k", DEVICE], set(), 1),
    Row("E37-stopped", [{**ENGINE, "open": [DEVICE], "state": "stopped"}], ["fuser", "-k", DEVICE], {0}, 0),
]  # fmt: skip


def selection_of(row: Row, world: World, pids: list[int]) -> Selection:
    words = tuple(map(literal, row.command))
    caller = Caller(NAMES[row.uid], row.uid)
    if row.command[0] == "fuser":
        held = {p.pid: frozenset[str]() for p in world.processes}
        held |= {pid: frozenset(spec.get("open", ())) for pid, spec in zip(pids, row.there, strict=True)}
        return fuser.select(words, World(world.processes, True, held), caller)
    if row.command[0] == "killall":
        return killall.select(words, world, caller)
    if row.command[0] == "kill":
        return kill.select(words, None, Looking(world, caller))
    return pgrep.select(words, world, caller, frozenset())


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    need("pgrep", "pkill", "fuser")
    jobs = [{"spawn": row.there, "run": [{"argv": row.command, "uid": row.uid, "settle": 0.02}]} for row in ROWS]
    return {row.id: answer for row, answer in zip(ROWS, play(jobs), strict=True)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_row(row: Row, answers: dict[str, dict[str, Any]]) -> None:
    answer = answers[row.id]
    result, pids = answer["results"][0], answer["pids"]
    assert result["code"] == row.code, result["err"]
    selection = selection_of(row, world_of(answer), pids)
    assert selection.exit_code in (row.code, None)
    verdicts = {verdict.pid: verdict for verdict in selection.verdicts}
    hit = {number for number, pid in enumerate(pids) if all_of((verdicts[pid].selected, verdicts[pid].permitted))}
    if row.command[0] == "pgrep":
        hit = {number for number, pid in enumerate(pids) if verdicts[pid].selected}
        assert hit == row.hits == {n for n, pid in enumerate(pids) if str(pid) in result["out"].split()}
        return
    assert hit == row.hits
    states = {process.pid: process for process in world_of(answer).processes}
    for number, pid in enumerate(pids):
        if states[pid].state != "Z":
            ends = bool(number in hit and fatal(selection.signal, states[pid]))
            assert ends == (pid not in result["alive"]), f"{row.there[number]}"


PATTERNS: list[tuple[str, str, str, int]] = [
    ("C01", "[[:alnum:]]", "x7", 0),
    ("C01-space", "a[[:space:]]b", "a b", 0),
    ("C01-equal", "[[=a=]]", "xa", 0),
    ("C01-collating", "[[.-.]]", "x-y", 0),
    ("C02", "[[:foo:]]", "foo", 2),
    ("C03", r"\<Worker\>", "VLLM::Worker x", 0),
    ("C03-inside", r"\<orker", "VLLM::Worker", 1),
    ("C04", r"\`VLLM", "VLLM::Worker", 0),
    ("C04-end", r"Worker\'", "VLLM::Worker", 0),
    ("C05", r"\d", "d", 0),
    ("C05-digit", r"\d", "7", 1),
    ("C05-A", r"\AVLLM", "VLLM", 1),
    ("C05-x", r"\x41", "A", 1),
    ("C05-n", r"a\nb", "anb", 0),
    ("C06", r"\bTP\w+\b", "x TP0 y", 0),
    ("C06-back", r"(a)x\1", "axa", 0),
    ("C06-space", r"a\sb\S", "a bc", 0),
    ("C07", r"[\d]", "7", 1),
    ("C07-backslash", r"^x[\d]$", "x\\", 0),
    ("C08", "(?i)x", "X", 2),
    ("C08-group", "(?:x)", "x", 2),
    ("C08-ahead", "x(?=y)", "xy", 2),
    ("C09", "a.*?b", "a1b2b", 0),
    ("C09-plus", "^a.+?b$", "ab", 0),
    ("C10", "^a{,3}$", "aaa", 0),
    ("C10-more", "^a{,3}$", "aaaa", 1),
    ("C11", "{", "{", 2),
    ("C11-open", "a{", "a{", 2),
    ("C11-letter", "a{x", "a{x", 2),
    ("C11-one", "a{1", "a{1", 2),
    ("C11-two", "a{1,2", "a{1,2", 2),
    ("C12", "a{32768}", "a", 2),
    ("C13", "*a", "*a", 2),
    ("C13-plus", "+a", "+a", 2),
    ("C13-group", "(*a)", "a", 2),
    ("C13-anchor", "^*a", "a", 2),
    ("C14", "^a**$", "aa", 0),
    ("C14-plus", "^a+*$", "aa", 0),
    ("C14-bounds", "^a{1}{2}$", "aa", 0),
    ("C15", "a)", "a)", 0),
    ("C15-alone", ")", "x)", 0),
    ("C16", "x|", "anything", 0),
    ("C16-before", "|x", "anything", 0),
    ("C16-group", "()", "anything", 0),
    ("C16-two", "a||b", "zzz", 0),
    ("C17", r"vllm\|VLLM", "VLLM", 1),
    ("C17-literal", r"vllm\|VLLM", "vllm|VLLM", 0),
    ("C18", "nl.end", "nl\nend", 0),
    ("C19", "a\\", "a\\", 2),
]
"""Row, pattern, the command line that it is tried on, exit code of ``pgrep -f``."""


@pytest.fixture(scope="module")
def pattern_answers() -> dict[str, dict[str, Any]]:
    need("pgrep")
    jobs = [
        {"spawn": [{"title": title, "comm": "x"}], "run": [{"argv": ["pgrep", "-f", "--", pattern]}]}
        for _, pattern, title, _ in PATTERNS
    ]
    return {row[0]: answer for row, answer in zip(PATTERNS, play(jobs), strict=True)}


@pytest.mark.parametrize(("id", "pattern", "title", "code"), PATTERNS, ids=[row[0] for row in PATTERNS])
def test_pattern(id: str, pattern: str, title: str, code: int, pattern_answers: dict[str, dict[str, Any]]) -> None:  # noqa: A002
    answer = pattern_answers[id]
    pid = answer["pids"][0]
    found = str(pid) in answer["results"][0]["out"].split()
    assert found == (code == 0), title
    if code == 2:
        assert answer["results"][0]["code"] == 2
    selection = pgrep.select(tuple(map(literal, ["pgrep", "-f", "--", pattern])), world_of(answer), ROOT, frozenset())
    assert next(one.selected for one in selection.verdicts if one.pid == pid) is found
    assert selection.exit_code == answer["results"][0]["code"]


SHELL_SERVER: dict[str, Any] = {
    "title": "python\0-m\0vllm.entrypoints.openai.api_server\0--port\08000\0",
    "comm": "python",
}
KILL = "pkill -9 -f"
SECOND = "echo SECOND"
SHELL_LINES: list[tuple[str, dict[str, Any]]] = [
    ("A19", {"argv": ["bash", "-c", f"{SECOND}; {KILL} vllm.entrypoints"]}),
    ("A20", {"argv": ["sudo", "pkill", "-9", "-f", "vllm.entrypoints"]}),
    ("D01", {"argv": ["bash", "-c", f"{KILL} 'vllm.entrypoints' 2>/dev/null; sleep 0.1; {SECOND}"]}),
    ("D02", {"argv": ["bash", "-c", f"{KILL} 'vllm.entrypoints' && {SECOND}"]}),
    ("D02-or", {"argv": ["bash", "-c", f"{KILL} 'vllm.entrypoints' || true; {SECOND}"]}),
    ("D03", {"argv": ["bash", "-c", f"pkill -f 'vllm.entrypoints'; {SECOND}"]}),
    ("D04", {"argv": ["bash", "-c", f"pkill -HUP -f 'vllm.entrypoints'; {SECOND}"]}),
    ("D05", {"argv": ["bash", "-c", f"pkill -INT -f 'vllm.entrypoints'; {SECOND}"]}),
    ("D06", {"argv": ["bash", "-c", f"{SECOND}; {KILL} 'vllm.entrypoints'"]}),
    ("D07", {"argv": ["bash", "-c", f"{KILL} vllm.entrypoints"]}),
    ("D08", {"argv": ["bash", "-c", f"{KILL} vllm.entrypoints 2>/dev/null"]}),
    ("D09", {"argv": ["dash", "-c", f"{KILL} vllm.entrypoints"]}),
    ("D10", {"argv": ["bash", "-c", f"{KILL} '[v]llm.entrypoints'; {SECOND}"]}),
    ("D11", {"argv": ["bash", "-c", f"{KILL} '[v]llm.entrypoints'; {SECOND}; : python -m vllm.entrypoints"]}),
    ("D12", {"argv": ["bash", "-c", f"{KILL} 'vllm\\.entrypoints'; {SECOND}"]}),
    ("D13", {"argv": ["bash", "-c", f"{KILL} '^python -m vllm.entrypoints'; {SECOND}"]}),
    ("D14", {"argv": ["bash", "{folder}/stop.sh"], "script": f"{KILL} vllm.entrypoints\n{SECOND}\n"}),
    ("D15", {"argv": ["bash", "{folder}/vllm.entrypoints.sh"], "script": f"{KILL} vllm.entrypoints\n{SECOND}\n"}),
    ("D16", {"argv": ["bash", "-c", f'P=vllm.entrypoints; {KILL} "$P"; {SECOND}']}),
    ("D17", {"argv": ["bash", "-c", f'P=vllm; {KILL} "$P.entrypoints"; {SECOND}']}),
    ("D18", {"argv": ["bash", "-c", f'{KILL} "$1"; {SECOND}', "x", "vllm.entrypoints"]}),
    ("D19", {"argv": ["bash", "-c", f'{KILL} "$PAT"; {SECOND}'], "env": {"PAT": "vllm.entrypoints"}}),
    ("D20", {"argv": ["bash", "-s"], "stdin": f"{KILL} vllm.entrypoints\n{SECOND}\n"}),
    ("D21", {"argv": ["bash", "-c", f"bash -c '{KILL} vllm.entrypoints; {SECOND}'; echo OUTER"]}),
    ("D22", {"argv": ["bash", "-c", f"sudo {KILL} vllm.entrypoints; {SECOND}"]}),
    ("D23", {"argv": ["bash", "{folder}/stop.sh"], "script": f"sudo {KILL} vllm.entrypoints\n{SECOND}\n"}),
    ("D24", {"argv": ["timeout", "5", "pkill", "-9", "-f", "vllm.entrypoints"]}),
    ("D25", {"argv": ["sh", "-c", f"{KILL} vllm.entrypoints; {SECOND}"]}),
    ("D26", {"argv": ["pkill", "-9", "-f", "vllm.entrypoints"]}),
    ("D27", {"argv": ["bash", "-c", f"pgrep -f vllm.entrypoints | xargs kill -9; {SECOND}"]}),
    (
        "D28",
        {
            "argv": [
                "bash",
                "-c",
                "ps aux | grep vllm.entry | grep -v grep | awk '{print $2}' | xargs kill -9; " + SECOND,
            ]
        },
    ),
    ("D29", {"argv": ["bash", "-c", f"pkill -A -9 -f vllm.entrypoints; {SECOND}"]}),
]
NOT_KNOWN = {"D19"}
"""What a variable of the environment holds is not recorded."""


@pytest.mark.parametrize(("id", "command"), SHELL_LINES, ids=[row[0] for row in SHELL_LINES])
def test_shell_line(id: str, command: dict[str, Any], tmp_path: Path) -> None:  # noqa: A002
    """Who is hit, whether the second command runs, and whether the first process of the line dies of its own signal."""
    need("bash", "dash", "pkill", "pgrep", "timeout")
    run = {**command, "argv": [word.replace("{folder}", str(tmp_path)) for word in command["argv"]], "settle": 0.05}
    if "sudo" in " ".join([*command["argv"], command.get("script", "")]):
        need("sudo")
    # An interrupt that comes before bash has begun to wait ends it; a busy machine makes that likely.
    computed, real = computed_and_real(run)
    for _ in range(2):
        if computed != real:
            computed, real = computed_and_real(run)
    if id in NOT_KNOWN:
        assert computed == (None, None, None)
    else:
        assert computed == real


def computed_and_real(run: dict[str, Any]) -> tuple[tuple[bool | None, ...], tuple[bool | None, ...]]:
    (answer,) = play([{"spawn": [SHELL_SERVER], "run": [run]}])
    real = answer["results"][0]
    text = run.get("script") or run.get("stdin")
    if "stdin" in run:
        line = parse_line(f"{' '.join(run['argv'])} < input", how="prompt", script_text=text)
    else:
        line = parse_line("", how="argv", argv=tuple(run["argv"]), script_text=text)
    result = replay(line, world_of(answer), ROOT, Observed(None, None, None))
    pid = answer["pids"][0]
    hit = [v.selected for s in result.steps if s.ran and s.selection for v in s.selection.verdicts if v.pid == pid]
    second = next((one.ran for one in result.steps if "SECOND" in one.step.text), False)
    rows = [one for one in result.carriers if one.carrier.parent is None and result.steps[one.step].ran]
    deaths = {all_of((one.matches, one.signal_fatal, None if one.execs is None else not one.execs)) for one in rows}
    died = True if True in deaths else (None if None in deaths else False)
    seen: tuple[bool | None, ...] = (pid not in real["alive"], "SECOND" in real["out"], real["code"] < 0)
    computed = (True if True in hit else (None if None in hit else False), second, died)
    # With -s the shell is started by another one, which the table does not have.
    return (computed[:2], seen[:2]) if "stdin" in run else (computed, seen)


def test_threads_are_not_matched_by_name() -> None:
    """A11: the name of another thread is nobody's comm."""
    need("pgrep", "bash")
    body = (
        "import ctypes, threading, time\n"
        "def other():\n ctypes.CDLL(None).prctl(15, b'odd_thread', 0, 0, 0)\n time.sleep(9)\n"
        "threading.Thread(target=other, daemon=True).start()\ntime.sleep(9)\n"
    )
    ask = f'{sys.executable} -c "{body}" & sleep 0.5; pgrep odd_thread; echo $?; pgrep -w odd_thread | wc -l; kill $!'
    (answer,) = play([{"spawn": [ENGINE], "run": [{"argv": ["bash", "-c", ask]}]}])
    assert answer["results"][0]["out"].split() == ["1", "1"]
    selection = pgrep.select((literal("pgrep"), literal("odd_thread")), world_of(answer), ROOT, frozenset())
    assert [one.selected for one in selection.verdicts if one.pid in answer["pids"]] == [False]


def test_the_order_is_that_of_proc() -> None:
    """A21: ascending, and pkill goes on after it has killed its parent."""
    need("pkill", "bash")
    run = {"argv": ["bash", "-c", "pkill -9 -e -f VLLM; true"], "settle": 0.1}
    (answer,) = play([{"spawn": [WORKER0, WORKER1, ENGINE], "run": [run]}])
    order = [int(pid) for pid in re.findall(r"pid (\d+)", answer["results"][0]["out"])]
    assert order[:3] == answer["pids"] == sorted(answer["pids"])
    assert len(order) == 4, "the shell comes last"
    assert not set(answer["results"][0]["alive"]) & set(answer["pids"])


FILE = "/dev/shm/gpudiag-row-file"
FUSER_LINES: list[tuple[str, str, bool | None]] = [
    ("E30", f"kill -9 $(fuser {FILE} 2>/dev/null)", True),
    ("E30-table", f"kill -9 $(fuser -v {FILE} 2>/dev/null)", True),
    ("E36", f"fuser -ki {FILE} </dev/null", None),
    ("E36-plain", f"fuser -k {FILE}", True),
    ("E38", "fuser -k 1/tcp", None),
]


@pytest.mark.parametrize(("id", "text", "selected"), FUSER_LINES, ids=[row[0] for row in FUSER_LINES])
def test_fuser_in_a_shell(id: str, text: str, selected: bool | None) -> None:  # noqa: A002
    need("fuser", "bash")
    job = {"spawn": [{**ENGINE, "open": [FILE]}, WORKER0], "run": [{"argv": ["bash", "-c", text], "settle": 0.1}]}
    try:
        (answer,) = play([job])
    finally:
        Path(FILE).unlink(missing_ok=True)
    holder, other = answer["pids"]
    # The shell's kill takes the list as device files are recorded.
    device = text.replace(FILE, "/dev/nvidia0")
    held = {holder: frozenset({"/dev/nvidia0"}), other: frozenset[str]()}
    world = World(world_of(answer).processes, True, {**{pid: frozenset() for pid in (1,)}, **held})
    result = replay(parse_line(device, how="prompt"), world, ROOT, Observed(None, None, None))
    selection = result.steps[-1].selection
    assert selection is not None
    verdicts = {one.pid: one.selected for one in selection.verdicts}
    assert verdicts[holder] is selected
    assert (holder not in answer["results"][0]["alive"]) == bool(selected)
    assert other in answer["results"][0]["alive"]


def test_another_node_of_the_same_device_is_another_file(tmp_path: Path) -> None:
    """E32: compared by the node, not by the numbers of the device."""
    need("fuser", "mknod")
    nodes = [str(tmp_path / name) for name in ("node", "other")]
    for node in nodes:
        if subprocess.run(["mknod", node, "c", "1", "3"], check=False, capture_output=True).returncode != 0:
            pytest.skip("no right to make a device node: fuser's comparison cannot be asked")
    looks = [{"argv": ["fuser", node], "look": False} for node in nodes]
    try:
        (answer,) = play([{"spawn": [{**ENGINE, "open": nodes[:1]}], "run": looks}])
    except AssertionError as error:
        if "PermissionError" in str(error):
            pytest.skip("device nodes cannot be opened here: fuser's comparison cannot be asked")
        raise
    found = [str(answer["pids"][0]) in result["out"] for result in answer["results"]]
    held = {answer["pids"][0]: frozenset({"/dev/nvidia0"})}
    world = World(tuple(p for p in world_of(answer).processes if p.pid in held), True, held)
    for name, real in zip(("/dev/nvidia0", "/container/dev/nvidia0"), found, strict=True):
        selection = fuser.select(tuple(map(literal, ["fuser", "-k", name])), world, ROOT)
        assert any(one.selected for one in selection.verdicts) == real
    assert found == [True, False]


def test_a_holder_outside_the_namespace_is_not_seen() -> None:
    """E39."""
    need("fuser", "unshare")
    inside = "unshare --pid --fork --mount-proc --kill-child"
    looks = [{"argv": f"{before} fuser {FILE}".split(), "look": False} for before in ("", inside)]
    try:
        (answer,) = play([{"spawn": [{**ENGINE, "open": [FILE]}], "run": looks}])
    finally:
        Path(FILE).unlink(missing_ok=True)
    assert [str(answer["pids"][0]) in result["out"] for result in answer["results"]] == [True, False]


LISTED = Candidate(10, 1, 10, 10, 0, "root", "VLLM::EngineCor", False, "VLLM::EngineCore", False, "S", 1.0, False)


@pytest.mark.parametrize(
    ("id", "text", "expected"),
    [
        ("A10", "pkill -f vllm.entrypoints", {10: False}),
        ("A10-comm", "pkill -9 VLLM::EngineCor", {10: True}),
    ],
)
def test_leader_that_ended_before_its_threads(id: str, text: str, expected: dict[int, bool]) -> None:  # noqa: A002
    """A leader whose other threads live shows state Z and no command line."""
    leader = Candidate(10, 1, 10, 10, 0, "root", "VLLM::EngineCor", False, "", False, "Z", 1.0, False)
    result = replay(parse_line(text, how="prompt"), World((leader,), True), ROOT, Observed(None, None, None))
    selection = result.steps[0].selection
    assert selection is not None
    assert {one.pid: one.selected for one in selection.verdicts} == expected


@pytest.mark.parametrize(
    ("id", "text", "selected"),
    [
        ("E30", "kill -9 $(fuser /dev/nvidia0 2>/dev/null)", True),
        ("E30-v", "fuser -v /dev/nvidia0 2>&1 | awk '{print $2}' | xargs kill", None),
        ("E32", "fuser -k /dev/nvidia*", True),
        ("E32-other", "fuser -k /dev/nvidia1", False),
        ("E33-glob", "fuser -k '/dev/nvidia*'", False),
        ("E36", "fuser -ki /dev/nvidia0 </dev/null", None),
        ("E38", "fuser -k 8000/tcp", None),
        ("E38-n", "fuser -k -n tcp 8000", None),
        ("E39", "docker exec c fuser -k /dev/nvidia0", None),
    ],
)
def test_fuser_lines(id: str, text: str, selected: bool | None) -> None:  # noqa: A002
    world = World((LISTED,), True, {10: frozenset({"/dev/nvidia0", "/dev/nvidiactl"})})
    result = replay(parse_line(text, how="prompt"), world, ROOT, Observed(None, None, None))
    selection = result.steps[-1].selection
    assert selection is not None
    assert [one.selected for one in selection.verdicts] == [selected]


MEASURED = {
    **dict.fromkeys((f"A{n}" for n in range(1, 22)), "what pgrep and pkill match"),
    **dict.fromkeys((f"B{n}" for n in range(22, 28)), "options, signals and exit codes"),
    **dict.fromkeys((f"C{n:02}" for n in range(1, 20)), "the dialect of the patterns"),
    **dict.fromkeys((f"D{n:02}" for n in range(1, 30)), "a line that carries its own pattern"),
    **dict.fromkeys((f"E{n}" for n in range(30, 40)), "fuser"),
}
"""Every fact that was measured with the tools themselves, by its number."""
BY_NAME = {
    "A10": test_leader_that_ended_before_its_threads,
    "A11": test_threads_are_not_matched_by_name,
    "A21": test_the_order_is_that_of_proc,
    "E32": test_another_node_of_the_same_device_is_another_file,
    "E39": test_a_holder_outside_the_namespace_is_not_seen,
}


def test_every_measured_fact_has_a_test() -> None:
    tables = [row.id for row in ROWS], [row[0] for row in (*PATTERNS, *SHELL_LINES, *FUSER_LINES)], list(BY_NAME)
    tested = {name.partition("-")[0] for table in tables for name in table}
    assert tested == set(MEASURED)
