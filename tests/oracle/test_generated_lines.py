"""Hundreds of generated shell lines under bash and dash: which steps run and which processes die is predicted."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpudiag.shell.replay import Observed, Replay, replay
from gpudiag.shell.signals import fatal
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.tools.common import all_of
from gpudiag.shell.world import World
from tests.oracle.arena import ROOT, SCALE, SEED, need, not_steady, play, world_of
from tests.oracle.lines import SPAWN, Lines

pytestmark = pytest.mark.oracle

LINES = 300
MAX_UNKNOWN = 0.2


def predict(texts: dict[str, str], argv: Sequence[str], world: World) -> Replay:
    text = texts.get("script") or texts.get("stdin")
    if "stdin" in texts:
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


@dataclass
class Comparison:
    """Answers about one line: how many there are, how many were declared unknown, which of the others are wrong."""

    answers: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def add(self, what: str, computed: bool | None, real: bool, line: str) -> None:
        self.answers += 1
        self.unknown += computed is None
        if computed is not None and computed != real:
            self.wrong.append(f"{what}: computed {computed}, real {real} in {line}")


def compare(answer: dict[str, Any]) -> Comparison:
    result, world = answer["results"][0], world_of(answer)
    texts = {key: result[key] for key in ("script", "stdin") if key in result}
    shown = f"{result['argv']} {''.join(texts.values())!r} pids {answer['pids']}"
    computed = predict(texts, result["argv"], world)
    found = Comparison()
    for mark, ran in marks(computed).items():
        found.add(mark, ran, re.search(rf"^{mark}$", result["out"], re.MULTILINE) is not None, shown)
    states = {process.pid: process.state for process in world.processes}
    for pid, dead in deaths(computed, world).items():
        if states[pid] != "Z" and pid != 1:
            found.add(f"death of {pid}", dead, pid not in result["alive"], shown)
    return found


def test_generated_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    need("bash", "dash", "pkill", "killall", "ps")
    maker = Lines(random.Random(SEED + 3))
    jobs: list[dict[str, Any]] = []
    for number in range(LINES * SCALE):
        command = maker.command()
        if "script" in command:
            command["argv"][1] = str(tmp_path / f"run{number}")
        jobs.append({"spawn": SPAWN, "run": [command]})
    found = list(map(compare, play(jobs)))
    suspects = [number for number, one in enumerate(found) if one.wrong]
    # On a busy machine a background job or a wait may end late: what is wrong is wrong each time.
    passing = not_steady(suspects, lambda numbers: [compare(a).wrong for a in play([jobs[n] for n in numbers])])
    wrong = [text for number in suspects if number not in passing for text in found[number].wrong]
    answers, unknown = sum(one.answers for one in found), sum(one.unknown for one in found)
    with capsys.disabled():
        print(
            f"\nshell lines: {len(jobs)} lines, {answers} answers, {len(wrong)} disagreements, "
            f"{unknown / answers:.1%} declared unknown, {len(passing)} lines disagreed once and not again (seed {SEED})"
        )
    assert not wrong, "\n".join(wrong[:40])
    assert unknown <= MAX_UNKNOWN * answers
