"""Recorded commands, simulated on the look before them, hit whom they hit in reality."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpudiag.explain import explain
from gpudiag.report.simulation import Simulation
from gpudiag.simulate import Question, simulate
from gpudiag.simulation.choose import Wanted
from tests.bundle_kit import NOBODY, pack_capture
from tests.golden.engine_runs import NO_KILL_TOOL, TYPED

FIXTURES = Path(__file__).parents[1] / "fixtures"
RUNS = sorted(
    file.parent
    for folder in ("vllm", "engines")
    for file in FIXTURES.glob(f"{folder}/*/truth.json")
    if not json.loads(file.read_text())["command"].startswith((*TYPED, *NO_KILL_TOOL))
)


SEVERAL = {"jupyter-ipykernel6-server-kill9-under-subreaper"}
"""A notebook's kernels are servers of their own: with all looks at hand it is not told which one is meant."""
STILL_WHOLE = {"torchrun-sigterm-agent-ranks-ignore"}
"""Nobody had left yet in the look behind the command."""
WATCHED_TOO_SHORTLY = {"ray-block-kill9-cli"}
"""Ray's agents may take a minute, and the watch ended before."""


def truth(run: Path) -> dict[str, Any]:
    return json.loads((run / "truth.json").read_text())


def ask(command: str, path: Path, **question: Any) -> Simulation:
    return simulate([command], [path], Question(**question))[0]


def gpu_run(name: str) -> Path:
    return FIXTURES / "h200" / name


def recorded(name: str) -> str:
    issued = json.loads((gpu_run(name) / "kill-commands.json").read_text())[0]
    return issued.get("cmd") or shlex.join(map(str, issued["argv"]))


def test_the_runs_are_here() -> None:
    assert len(RUNS) == 14 + 39


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_hits_are_those_of_the_record(run: Path) -> None:
    said = truth(run)
    answer = ask(said["command"], run / "before")
    assert list(answer.hit) == said["hit"]
    assert answer.collateral == ()
    assert bool(answer.hit_shells) == said["hits_its_own_shell"]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_newest_look_with_the_whole_server_is_found(run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    (folder / "truth.json").unlink()
    said = truth(run)
    answer = ask(said["command"], folder)
    if run.name in SEVERAL:
        assert answer.verdict == "cannot_be_told"
        return
    assert list(answer.hit) == said["hit"]
    assert answer.look == ("after" if run.name in STILL_WHOLE else "before" if said["hit"] else "later")


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_who_lives_on_survived_and_who_is_inferred_to_leave_left(run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    (folder / "truth.json").unlink()
    said = truth(run)
    answer = ask(said["command"], folder)
    there = set(answer.hit) | set(answer.survivors)
    assert there & set(said["alive_at_end"]) <= set(answer.survivors)
    leaves = {follow.pid for follow in answer.follows}
    assert leaves <= set(answer.survivors)
    # A worker inside a long native call goes when that returns: the run named so was watched for that.
    inferred = {follow.pid for follow in answer.follows if follow.certainty == "inferred"}
    assert not inferred & set(said["alive_at_end"]) or run.name in WATCHED_TOO_SHORTLY


def certainties(run: str, tmp_path: Path) -> dict[int, str]:
    folder = shutil.copytree(FIXTURES / "vllm" / run, tmp_path / run)
    (folder / "truth.json").unlink()
    return {follow.pid: follow.certainty for follow in ask(truth(FIXTURES / "vllm" / run)["command"], folder).follows}


def test_vllm_deaths_follow_its_version(tmp_path: Path) -> None:
    engine_killed = certainties("0.32.0-05-kill9-enginecore", tmp_path)
    assert {engine_killed[75], engine_killed[76]} == {"inferred"}
    assert {engine_killed[44], engine_killed[63]} == {"possible"}
    assert set(certainties("0.11.0-06-kill9-worker1", tmp_path).values()) == {"inferred"}
    assert certainties("0.32.0-01-module-pkill9-f-vllm.entrypoints", tmp_path) == {}
    assert certainties("0.9.2-01-module-pkill9-f-vllm.entrypoints", tmp_path) == {}
    assert set(certainties("0.32.0-03-sigterm-api", tmp_path).values()) == {"possible"}


def test_without_a_log_the_version_is_not_known(tmp_path: Path) -> None:
    answer = ask("kill -9 64", FIXTURES / "vllm" / "0.32.0-05-kill9-enginecore" / "before")
    assert {follow.certainty for follow in answer.follows} == {"possible"}
    assert all("version is not known" in follow.because for follow in answer.follows)


def test_torchrun_ranks_belong_to_their_agent() -> None:
    before = FIXTURES / "engines" / "torchrun-sigterm-agent-ranks-ignore" / "before"
    answer = ask("kill -TERM 18", before)
    assert answer.survivors == (22, 23, 24)
    assert {follow.certainty for follow in answer.follows} == {"inferred"}
    assert ask("kill -9 18", before).follows == ()


HITS = {
    "forked-child-holds": ([1225], [1247], []),
    "killed-by-pid": ([885, 886, 887, 888, 889, 890], [], []),
    "respawned": ([1080], [1079], []),
    "selfmatch-orphans": ([884], [885, 886, 887, 888, 889, 890], []),
    "teardown-pinned-40g": ([768, 769, 770, 771], [], []),
    "torchrun-agent-killed": ([422], [450, 451, 452], []),
    "traced-selfmatch": ([450], [451, 452, 453, 454, 455, 456], []),
    "two-servers-one-pattern": ([788, 791, 792, 833, 834], [789, 790], [833, 834]),
    "zombie-plain": ([1165], [], []),
}
"""Whom the command hit, who was left of the server, who else was hit: from the descriptions and the kernel's trace."""


@pytest.mark.parametrize("name", sorted(HITS))
def test_a_real_gpu(name: str) -> None:
    answer = ask(recorded(name), gpu_run(name))
    hit, survivors, collateral = HITS[name]
    assert (list(answer.hit), list(answer.survivors), list(answer.collateral)) == (hit, survivors, collateral)
    assert answer.verdict == ("not_clean" if survivors or collateral else "clean")
    assert answer.look == "before"


def test_fuser_of_a_user_who_sees_nothing() -> None:
    command = recorded("fuser-as-user")
    assert ask(command, gpu_run("fuser-as-user"), user="nobody").hit == ()
    assert set(ask(command, gpu_run("fuser-as-user"), user="root").hit) >= {644, 645}


def test_fuser_before_the_devices_were_open() -> None:
    command = recorded("fuser-too-early")
    early = ask(command, gpu_run("fuser-too-early"), wanted=Wanted(look="before"))
    assert (early.look, early.hit) == ("before", ())
    assert set(ask(command, gpu_run("fuser-too-early")).hit) >= {440, 441}


def memory(answer: Simulation) -> tuple[float | None, float | None]:
    (back,), (stays,) = answer.releases_mib.values(), answer.leaves_mib.values()
    return back, stays


def test_memory_comes_back_as_it_did() -> None:
    assert memory(ask(recorded("selfmatch-orphans"), gpu_run("selfmatch-orphans"))) == (0, 35208)
    assert memory(ask(recorded("killed-by-pid"), gpu_run("killed-by-pid"))) == (35208, 0)
    # The forked child keeps what the driver books on its dead parent.
    assert memory(ask(recorded("forked-child-holds"), gpu_run("forked-child-holds"))) == (0, 6662)
    assert memory(ask("kill -9 1225 1247", gpu_run("forked-child-holds"))) == (6662, 0)


def test_of_two_servers_the_person_may_name_the_other() -> None:
    answer = ask(recorded("two-servers-one-pattern"), gpu_run("two-servers-one-pattern"), wanted=Wanted(pid=830))
    assert (answer.root_pid, answer.collateral) == (830, (788, 791, 792))


OWN_COMMANDS = sorted(
    [
        *(path for path in (FIXTURES / "h200").iterdir() if path.is_dir() and path.name != "views"),
        *(FIXTURES / "incidents").glob("*.txt"),
        *(path for path in (FIXTURES / "collected").iterdir() if path.is_dir()),
    ]
)
"""Captures of the gallery, and collections."""
IN_BUNDLES = ("selfmatch-orphans", "script-orphans", "respawned", "forked-child-holds")
"""Captures that are packed with a boot id, which makes the identity strong."""
BOOT_ID = "0f0e0d0c-0b0a-0908-0706-050403020100"


def assert_own_commands_hit_whom_they_name(path: Path, identity: str) -> None:
    plan = explain([path]).plan
    killed = [entry for entry in plan.kill if entry.run_in == "host"]
    assert {entry.identity for entry in killed} <= {identity}
    following = [plan.next_time] if plan.next_time is not None else []
    commands = [entry.command for entry in killed] + [one.command for one in following]
    wanted = [(entry.pid,) for entry in killed] + [one.matches for one in following]
    if killed:  # all of the plan in one go
        commands.insert(0, "\n".join(entry.command for entry in killed))
        wanted.insert(0, tuple(sorted(entry.pid for entry in killed)))
    answers = simulate(commands, [path], Question(user="root")) if commands else ()
    assert [(answer.hit, answer.undecided) for answer in answers] == [(pids, ()) for pids in wanted]
    assert all(answer.verdict == "clean" for answer in answers[len(answers) - len(following) :])


@pytest.mark.parametrize("path", OWN_COMMANDS, ids=lambda path: path.stem)
def test_own_commands_hit_exactly_whom_they_name(path: Path) -> None:
    assert_own_commands_hit_whom_they_name(path, "strong" if (path / "_bundle").is_dir() else "weak")


@pytest.mark.parametrize("name", IN_BUNDLES)
def test_own_commands_with_a_strong_identity_do_as_well(name: str, tmp_path: Path) -> None:
    bundle = pack_capture(gpu_run(name), tmp_path / "b.tgz", NOBODY._replace(boot_id=BOOT_ID, uid=0))
    assert_own_commands_hit_whom_they_name(bundle, "strong")


def test_another_boot_or_another_process_is_not_killed(tmp_path: Path) -> None:
    bundle = pack_capture(gpu_run("script-orphans"), tmp_path / "b.tgz", NOBODY._replace(boot_id=BOOT_ID, uid=0))
    entry = next(entry for entry in explain([bundle]).plan.kill if entry.start_ticks is not None)
    other_boot = entry.command.replace(BOOT_ID, BOOT_ID.replace("0f0e", "1f0e"))
    other_process = entry.command.replace(f"= {entry.start_ticks} ]", f"= {(entry.start_ticks or 0) + 1} ]")
    answers = simulate([entry.command, other_boot, other_process], [bundle], Question(user="root"))
    assert [answer.hit for answer in answers] == [(entry.pid,), (), ()]
    assert [answer.undecided for answer in answers] == [(), (), ()]


@pytest.mark.parametrize(
    "run",
    [
        run.parent
        for run in FIXTURES.glob("engines/*/truth.json")
        if "ray stop" in json.loads(run.read_text())["command"]
    ],
    ids=lambda run: run.name,
)
def test_ray_stop_ends_whom_it_looks_for(run: Path) -> None:
    said = truth(run)
    answer = ask(said["command"], run / "before")
    assert answer.hit
    assert not set(answer.hit) & set(said["alive_at_end"])
