"""Thousands of generated patterns, options and process tables: the predicted hits are those of the real tools."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpudiag.shell.quoting import literal
from gpudiag.shell.selection import Selection
from gpudiag.shell.signals import fatal
from gpudiag.shell.tools import fuser, killall, pgrep
from gpudiag.shell.tools.common import all_of
from gpudiag.shell.world import Caller, World
from tests.oracle import tables
from tests.oracle.arena import ROOT, SCALE, SEED, need, play, world_of

pytestmark = pytest.mark.oracle

MAX_UNKNOWN = 0.02
"""Of the answers about one process, those that were declared unknown beforehand."""


class Tally:
    """Counts agreement, and keeps what disagrees."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cases = self.answers = self.unknown = self.codes_unknown = 0
        self.wrong: list[str] = []

    def compare(self, command: list[str], selection: Selection, real: set[int], code: int | None) -> None:
        self.cases += 1
        self.answers += len(selection.verdicts)
        unsure = {one.pid for one in selection.verdicts if one.selected is None}
        computed = {one.pid for one in selection.verdicts if one.selected}
        self.unknown += len(unsure)
        self.codes_unknown += selection.exit_code is None
        if computed - real or (real - computed) - unsure:
            self.wrong.append(f"{command}: real {sorted(real)}, computed {sorted(computed)}, unsure {sorted(unsure)}")
        elif selection.exit_code not in (None, code):
            self.wrong.append(f"{command}: real code {code}, computed {selection.exit_code} ({selection.error})")

    def check(self, capsys: pytest.CaptureFixture[str]) -> None:
        share = self.unknown / max(1, self.answers)
        codes = self.codes_unknown / max(1, self.cases)
        with capsys.disabled():
            print(
                f"\n{self.name}: {self.cases} cases, {self.answers} answers, {len(self.wrong)} disagreements, "
                f"{share:.2%} of the answers and {codes:.1%} of the exit codes declared unknown (seed {SEED})"
            )
        assert not self.wrong, "\n".join(self.wrong[:40])
        assert share <= MAX_UNKNOWN


def cases(
    source: random.Random, make: Callable[..., list[str]], each: int, number: int
) -> Iterable[tuple[World, list[str], dict[str, Any]]]:
    """Makes tables, and lets the real tool loose on each with commands that fit it."""
    jobs: list[dict[str, Any]] = []
    for _ in range(number):
        specs = tables.table(source)
        commands = [make(source, specs) for _ in range(each)]
        run = [{"argv": command, "look": False, "env": _locale(source)} for command in commands]
        jobs.append({"spawn": specs, "run": run})
    for answer in play(jobs):
        world = world_of(answer)
        for result in answer["results"]:
            yield world, result["argv"], result


def _locale(source: random.Random) -> dict[str, str]:
    return {"LC_ALL": source.choice(("C.UTF-8", "C"))}


def test_pgrep(capsys: pytest.CaptureFixture[str]) -> None:
    need("pgrep")
    tally = Tally("pgrep")
    for world, command, result in cases(random.Random(SEED), tables.pgrep, 120, 10 * SCALE):
        selection = pgrep.select(tuple(map(literal, command)), world, ROOT, frozenset())
        counts = any(word in command for word in ("-c", "-w"))
        if counts:
            continue
        real = {int(row.split()[0]) for row in result["out"].splitlines() if row.split()[:1]}
        tally.compare(command, selection, real, result["code"])
    tally.check(capsys)


def _commands(source: random.Random, number: int, size: int) -> list[dict[str, Any]]:
    """Jobs of one pkill each."""
    jobs: list[dict[str, Any]] = []
    for _ in range(number):
        specs = [tables.masked(source, one) for one in tables.table(source, size)]
        run = {"argv": tables.pkill(source, specs), "uid": source.choice((0, 0, 0, 1)), "settle": 0.01}
        jobs.append({"spawn": specs, "run": [run]})
    return jobs


def test_pkill_hits_and_ends_whom_it_should(capsys: pytest.CaptureFixture[str]) -> None:
    need("pkill")
    tally, undecided = Tally("pkill -e"), 0
    source = random.Random(SEED + 1)
    jobs = _commands(source, 200 * SCALE, 9)
    for job, answer in zip(jobs, play(jobs), strict=True):
        result, uid = answer["results"][0], job["run"][0]["uid"]
        command = result["argv"]
        world, caller = world_of(answer), Caller({0: "root", 1: "daemon"}[uid], uid)
        selection = pgrep.select(tuple(map(literal, command)), world, caller, frozenset())
        reached = [replace(one, selected=all_of((one.selected, one.permitted))) for one in selection.verdicts]
        real = {int(found) for found in re.findall(r" killed \(pid (\d+)\)$", result["out"], re.MULTILINE)}
        tally.compare(command, replace(selection, verdicts=tuple(reached)), real, result["code"])
        dying = {one.pid for one in reached if one.selected}
        for process, verdict in zip(world.processes, reached, strict=True):
            if process.state == "T" and process.ppid in dying:
                # The kernel hangs up a stopped process group that loses its last parent outside of it.
                continue
            ends = all_of((verdict.selected, fatal(selection.signal, process)))
            undecided += ends is None
            if process.state != "Z" and ends is not None and ends != (process.pid not in result["alive"]):
                tally.wrong.append(f"{command}: {process} ends: {ends}, alive {result['alive']}")
    with capsys.disabled():
        print(f"\npkill: {undecided} of {tally.answers} deaths undecided")
    tally.check(capsys)


def test_killall(capsys: pytest.CaptureFixture[str]) -> None:
    need("killall")
    tally = Tally("killall")
    for world, command, result in cases(random.Random(SEED + 2), tables.killall, 100, 6 * SCALE):
        selection = killall.select(tuple(map(literal, command)), world, ROOT)
        if "-g" in command:
            continue  # names one process of each group only
        said = re.findall(r"\((\d+)\) with signal", result["out"] + result["err"])
        tally.compare(command, selection, {int(one) for one in said}, result["code"])
    tally.check(capsys)


FILES = tuple(f"/dev/shm/gpudiag-file{number}" for number in range(3))


def _fuser_job(source: random.Random) -> dict[str, Any]:
    specs: list[dict[str, Any]] = []
    for _ in range(6):
        held = source.sample(FILES, source.randrange(3))
        # A program that was started anew: one that only changed its user hides its descriptors even from that user.
        spec = {"exec": ["holder", "-c", "read x"], "uid": source.choice((0, 1)), "open": held}
        specs.append({**spec, "state": source.choice((None, None, "stopped"))})
    options = source.choice((["-k"], ["-k", "-TERM"], ["-KILL", "-k"], ["-ks"], ["-kv"], ["-k", "-INT"], ["-s"], []))
    files = source.sample((*FILES, "/dev/shm/gpudiag-missing"), source.randrange(1, 4))
    return {"spawn": specs, "run": [{"argv": ["fuser", *options, *files], "uid": source.choice((0, 0, 1))}]}


def test_fuser(capsys: pytest.CaptureFixture[str]) -> None:
    need("fuser")
    tally = Tally("fuser -k")
    source = random.Random(SEED + 4)
    jobs = [_fuser_job(source) for _ in range(80 * SCALE)]
    for job, answer in zip(jobs, play(jobs), strict=True):
        result, uid = answer["results"][0], job["run"][0]["uid"]
        held = {row["pid"]: frozenset[str]() for row in answer["table"]}
        held |= {pid: frozenset(spec["open"]) for pid, spec in zip(answer["pids"], job["spawn"], strict=True)}
        selection = fuser.select(
            tuple(map(literal, result["argv"])), world_of(answer, held), Caller({0: "root", 1: "daemon"}[uid], uid)
        )
        said = {int(pid) for pid in re.findall(r"\d+", result["out"])} if "-s" not in result["argv"] else None
        silent = any(word in result["argv"] for word in ("-s", "-ks"))
        sure = {one.pid for one in selection.verdicts if one.selected}
        tally.compare(result["argv"], selection, sure if silent or said is None else said, result["code"])
        if fuser.kills(tuple(map(literal, result["argv"]))):
            for process, verdict in zip(world_of(answer).processes, selection.verdicts, strict=True):
                ends = all_of((verdict.selected, fatal(selection.signal, process)))
                if ends is not None and ends != (process.pid not in result["alive"]):
                    tally.wrong.append(f"{result['argv']}: {process.pid} ends: {ends}, alive {result['alive']}")
    for path in FILES:
        Path(path).unlink(missing_ok=True)
    tally.check(capsys)
