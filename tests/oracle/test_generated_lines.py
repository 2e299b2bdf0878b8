"""Hundreds of generated shell lines under bash and dash: which steps run and which processes die is predicted."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpudiag.shell.replay import Observed, Replay, replay
from gpudiag.shell.signals import fatal
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.tools.common import all_of
from gpudiag.shell.world import World
from tests.oracle.arena import ROOT, SCALE, SEED, need, play, world_of
from tests.oracle.lines import SPAWN, Lines

pytestmark = pytest.mark.oracle

LINES = 300
MAX_UNKNOWN = 0.2


def predict(command: dict[str, Any], argv: Sequence[str], world: World) -> Replay:
    text = command.get("script") or command.get("stdin")
    if "stdin" in command:
        line = parse_line(f"{' '.join(argv)} < input", how="prompt", script_text=text)
    else:
        line = parse_line("", how="argv", argv=tuple(argv), script_text=text)
    return replay(line, world, ROOT, Observed(None, None, None))


def marks(result: Replay) -> dict[str, bool | None]:
    """Marker to *it is printed*: one of several steps with the same mark is enough."""
    found: dict[str, bool | None] = {}
    for one in result.steps:
        words = [word.text or "" for word in one.step.words]
        if words[0] == "echo" and len(words) == 2 and re.fullmatch(r"M\d+", words[1]):
            known = found.get(words[1], False)
            found[words[1]] = True if known or one.ran else (None if known is None or one.ran is None else False)
    return found


def deaths(result: Replay, world: World) -> dict[int, bool | None]:
    ends: dict[int, bool | None] = {}
    for process in world.processes:
        chances: list[bool | None] = [False]
        for one in result.steps:
            verdict = next((v for v in one.selection.verdicts if v.pid == process.pid), None) if one.selection else None
            if verdict is not None:
                chances.append(all_of((one.ran, verdict.selected, verdict.permitted, fatal(one.signal, process))))
        ends[process.pid] = True if True in chances else (None if None in chances else False)
    return ends


class Tally:
    def __init__(self) -> None:
        self.answers = self.unknown = 0
        self.wrong: list[str] = []

    def compare(self, what: str, computed: bool | None, real: bool, line: str) -> None:
        self.answers += 1
        self.unknown += computed is None
        if computed is not None and computed != real:
            self.wrong.append(f"{what}: computed {computed}, real {real} in {line}")


def test_generated_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    need("bash", "dash", "pkill", "killall", "ps")
    maker = Lines(random.Random(SEED + 3))
    commands = [maker.command() for _ in range(LINES * SCALE)]
    jobs: list[dict[str, Any]] = []
    for number, command in enumerate(commands):
        if "script" in command:
            command["argv"][1] = str(tmp_path / f"run{number}")
        jobs.append({"spawn": SPAWN, "run": [command]})
    tally = Tally()
    for command, answer in zip(commands, play(jobs), strict=True):
        result, world = answer["results"][0], world_of(answer)
        for key in ("script", "stdin"):
            if key in command:
                command[key] = result[key]
        shown = f"{result['argv']} {command.get('script', '') or command.get('stdin', '')!r} pids {answer['pids']}"
        computed = predict(command, result["argv"], world)
        for mark, ran in marks(computed).items():
            tally.compare(mark, ran, re.search(rf"^{mark}$", result["out"], re.MULTILINE) is not None, shown)
        for pid, dead in deaths(computed, world).items():
            state = next(process.state for process in world.processes if process.pid == pid)
            if state != "Z" and pid != 1:
                tally.compare(f"death of {pid}", dead, pid not in result["alive"], shown)
    with capsys.disabled():
        print(
            f"\nshell lines: {len(commands)} lines, {tally.answers} answers, {len(tally.wrong)} disagreements, "
            f"{tally.unknown / tally.answers:.1%} declared unknown (seed {SEED})"
        )
    assert not tally.wrong, "\n".join(tally.wrong[:40])
    assert tally.unknown <= MAX_UNKNOWN * tally.answers
