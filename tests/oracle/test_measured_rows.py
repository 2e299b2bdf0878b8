"""Each measured fact about pkill, pgrep, kill and fuser, by its number: predicted here and asked of the real tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
