"""The recorded runs of engines on CPU: what is true of each, and what ``explain`` says of it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpudiag.explain import Explanation, explain_fully
from gpudiag.timeline.coupling import Fate
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.leaving import concerned, fates_on, member_of, reached
from gpudiag.timeline.lives import Life
from gpudiag.timeline.order import Look

FIXTURES = Path(__file__).parents[1] / "fixtures"
ENGINES, VLLM = FIXTURES / "engines", FIXTURES / "vllm"
RUNS = sorted(path.name for path in ENGINES.iterdir() if path.is_dir())
VLLM_RUNS = sorted(path.name for path in VLLM.iterdir() if path.is_dir())
SLACK_S = 2.0
"""Added to a bound where a run is judged by it: two cores served several runs at once."""

ROLES = {
    "launcher": "launcher", "agent": "launcher", "runner": "launcher", "launch": "engine", "ranks": "worker",
    "master": "server", "server": "server", "kernel": "worker", "supervisord": "launcher", "parent": "server",
    "program": "server", "idle": "worker", "trainer": "worker",
}  # fmt: skip
"""What a process that a run's record names is called here."""
TYPED = ("Ctrl-C", "one Ctrl-C", "(driver ends")
"""What was done was no command: a key in a terminal, or nothing."""
NO_KILL_TOOL = ("ray stop", "supervisorctl")
"""Commands that signal by themselves; whom, their words do not tell."""


@dataclass(frozen=True)
class Run:
    """One run, its record, and the explanation made without that record."""

    name: str
    truth: dict[str, Any]
    explained: Explanation

    @property
    def incident(self) -> Incident:
        return self.explained.incident

    @property
    def before(self) -> Look:
        return self.incident.looks[0]

    @property
    def after(self) -> Look:
        return self.incident.looks[1]

    @property
    def pids(self) -> set[int]:
        """Everybody whom the record names."""
        return {*map(int, self.truth["roles"]), *self.truth["alive_at_end"], *map(int, self.truth["new_after_kill"])}

    def lives(self) -> list[Life]:
        return [life for life in self.incident.census.lives if life.pid in self.pids and life.pid != 17]

    def role(self, pid: int) -> str | None:
        life = self.incident.census.named("", pid)[-1]
        family = self.incident.family_of(life)
        return family.role(life) if family is not None else None

    def engines(self) -> set[str | None]:
        return {family.engine for family in self.incident.families} - {None}

    def foreseen(self) -> dict[int, Fate]:
        """What is foretold from the look before the command and the command alone."""
        befell = reached(self.incident, "", self.after)
        endings = {key: ending for key, (ending, _) in befell.items() if ending.signals}
        lives = concerned(self.incident, "", endings)
        members = [member_of(self.incident, life, self.before) for life in lives if self.before.id in life.sightings]
        return {key[1]: fate for key, fate in fates_on(self.incident, "", members, endings).items()}


def read(folder: Path, into: Path, *, without: Iterable[str] = ()) -> Run:
    """Explain a copy that lacks the answer, and whatever else the test wants away."""
    truth = json.loads((folder / "truth.json").read_text())
    copied = into / folder.name
    shutil.copytree(folder, copied, ignore=shutil.ignore_patterns("truth.json", *without))
    if not (copied / "kill-commands.json").exists():
        record = {"cmd": truth["command"], "t0": None, "rc": None, "out": ""}
        (copied / "kill-commands.json").write_text(json.dumps([record]))
    if "roles" not in truth:
        named = [truth["api_server"], *truth["engine_cores"], *truth["workers"], *truth["others"]]
        truth |= {"roles": {str(pid): "" for pid in named}, "new_after_kill": {}, "gone_after_s": {}}
    return Run(folder.name, truth, explain_fully([copied]))


def judged(run: Run) -> Counter[str]:
    """Every statement about who leaves and who stays: right, wrong, or left open.

    A time that lies beyond the end of the watch is neither right nor wrong. Somebody whom nothing befell and of whom
    nothing is said is not counted.
    """
    count: Counter[str] = Counter()
    told = run.foreseen()
    for life in run.lives():
        if run.before.id not in life.sightings or life.pid in run.truth["hit"]:
            continue
        fate = told.get(life.pid)
        gone = life.pid not in run.truth["alive_at_end"]
        if fate is None or fate.certainty == "possible":
            count["open"] += 1
        elif fate.leaves == gone:
            count["right"] += 1
        else:
            beyond = fate.leaves and fate.within_s is not None and fate.within_s > run.truth.get("poll_end_s", 0)
            count["open" if beyond else "wrong"] += 1
    return count


@cache
def family_of_runs(name: str) -> str:
    """accelerate, deepspeed, … as the run's name begins."""
    return name.partition("-")[0]
