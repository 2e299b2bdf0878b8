"""Titles give roles, patterns stay linear, and each engine file proves its patterns on its own examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.rules.engines import MAX_LOOKED_AT, load_engines, role_of, shipped_engines
from gpudiag.rules.files import RulesError

ENGINE = """
name = "mine"
versions = "1"
server_cmdlines = ["mine serve"]
server_comms = ["mine"]
children_own_session = false
death_coupling = ["none"]
stop_command = "mine stop"
[[title]]
role = "worker"
title = 'mine::w[0-9]*'
examples = ["mine::w1"]
source = "here"
"""


@pytest.mark.parametrize(
    ("comm", "cmdline", "expected"),
    [
        ("VLLM::EngineCor", "VLLM::EngineCore", ("vllm", "engine")),
        ("VLLM::EngineCor", None, ("vllm", "engine")),
        ("VLLM::Worker_TP", "VLLM::Worker_TP7", ("vllm", "worker")),
        (None, "VLLM::Worker_DP1_TP3", ("vllm", "worker")),
        ("pt_main_thread", "VLLM::EngineCore_DP0", ("vllm", "engine")),
        ("python3", "/opt/venv/bin/python3 -m vllm.entrypoints.openai.api_server --model m", ("vllm", "server")),
        ("vllm", "/usr/bin/python3 /usr/local/bin/vllm serve m", ("vllm", "server")),
        ("pt_elastic", "/usr/bin/python3 /usr/local/bin/torchrun train.py", ("torchrun", "launcher")),
        ("sglang::schedul", None, ("sglang", "worker")),
        ("python3", "python3 -c from multiprocessing.resource_tracker import main;main(3)", ("python", "tracker")),
        ("ray::RayWorkerW", "ray::RayWorkerWrapper.execute_method", ("ray", "worker")),
        ("ray::IDLE", "ray::IDLE", None),
        ("ray::DashboardA", "ray::DashboardAgent", ("ray", "helper")),
        ("python3", "python3 train.py --log VLLM::Worker_TP0", None),
        ("accelerate", "/usr/bin/python3 /opt/env/bin/accelerate launch train.py", ("accelerate", "launcher")),
        ("deepspeed", "/usr/bin/python3 /opt/env/bin/deepspeed --num_gpus 2 train.py", ("deepspeed", "launcher")),
        ("python3", "/opt/env/bin/python3 -u -m deepspeed.launcher.launch --x=1 t.py", ("deepspeed", "engine")),
        ("gunicorn: maste", "gunicorn: master [wsgi:app]", ("gunicorn", "server")),
        ("gunicorn: worke", "gunicorn: worker [wsgi:app]", ("gunicorn", "worker")),
        ("uvicorn", "/usr/bin/python3 /opt/env/bin/uvicorn app:app --workers 2", ("uvicorn", "server")),
        ("supervisord", "/usr/bin/python3 /opt/env/bin/supervisord -n", ("supervisord", "launcher")),
        ("jupyter-lab", "/usr/bin/python3 /opt/env/bin/jupyter-lab --port=8888", ("jupyter", "server")),
        ("python3", "/opt/env/bin/python3 -m ipykernel_launcher -f k.json", ("jupyter", "worker")),
        ("pt_data_worker", "python train.py", ("dataloader", "worker")),
        ("python", "python train.py --launcher deepspeed", None),
        ("python", "python supervisord_config.py", None),
        ("grep", "grep VLLM::EngineCore", None),
        ("bash", "bash -c pkill -9 -f vllm.entrypoints", None),
        ("vllm-served", "vllm served", None),
        (None, None, None),
        ("", "", None),
        ("\x00\x1b[31m", "\ud800", None),
    ],
)
def test_roles(comm: str | None, cmdline: str | None, expected: tuple[str, str] | None) -> None:
    assert role_of(comm, cmdline) == expected


def test_every_shipped_engine_says_how_to_stop_it_and_what_dies() -> None:
    engines = {engine.name: engine for engine in load_engines()}
    assert {"vllm", "torchrun", "sglang"} <= engines.keys()
    assert all(engine.titles and engine.death_coupling and engine.stop_command for engine in engines.values())
    assert "VLLM::EngineCore" in engines["vllm"].child_titles
    assert engines["torchrun"].children_own_session
    assert not engines["vllm"].children_own_session


def test_server_command_lines_have_the_server_role() -> None:
    for engine in shipped_engines():
        for cmdline in engine.servers:
            assert engine.role_of(None, cmdline) in ("server", "launcher"), cmdline


def test_log_prefixes_find_role_and_pid() -> None:
    (vllm,) = (engine for engine in shipped_engines() if engine.name == "vllm")
    found = [
        (prefix.role, match["name"], match["pid"])
        for prefix in vllm.log_prefixes
        if (match := prefix.pattern.match("(EngineCore_DP0 pid=886) INFO 02-20 19:00:06"))
    ]
    assert found == [("engine", "EngineCore_DP0", "886")]


def test_only_the_beginning_of_a_command_line_is_looked_at() -> None:
    assert role_of(None, "/" * 1_000_000 + "python3 -m vllm.entrypoints.x") is None
    assert role_of(None, "/" * (MAX_LOOKED_AT - 100) + "python3 -m vllm.entrypoints.x") == ("vllm", "server")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("mine::w[0-9]*", "(?:a+)+", "repeats a group"),
        ("mine::w[0-9]*", "mine::(", "pattern 'mine::\\('"),
        ("mine::w[0-9]*", "mine::x", "does not match its example 'mine::w1'"),
        ('role = "worker"', 'role = "boss"', "title.0.role"),
        ('name = "mine"', 'name = "mine"\nkind = "x"', "kind: Extra"),
    ],
)
def test_a_wrong_engine_file_is_one_sentence(tmp_path: Path, old: str, new: str, says: str) -> None:
    (tmp_path / "mine.toml").write_text(ENGINE.replace(old, new), encoding="utf-8")
    with pytest.raises(RulesError, match=says):
        load_engines(tmp_path)


def test_a_new_engine_needs_a_file_only(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(ENGINE, encoding="utf-8")
    (engine,) = load_engines(tmp_path)
    assert engine.role_of("mine::w3", None) == "worker"
    assert engine.child_titles == ("mine::w1",)


def test_the_version_is_read_from_the_line_that_the_engine_prints() -> None:
    vllm = next(engine for engine in load_engines() if engine.name == "vllm")
    assert vllm.version_of("core.py:133] Initializing a V1 LLM engine (v0.32.0) with config") == (0, 32, 0)
    assert vllm.version_of("core.py:77] Initializing a V1 LLM engine (v0.11.post2) with config") == (0, 11)
    assert vllm.version_of("INFO: Application startup complete") is None


@pytest.mark.parametrize(
    ("version", "certainties"),
    [((0, 9, 2), set()), ((0, 11, 0), {"possible"}), ((0, 32, 0), {"inferred"}), (None, {None})],
)
def test_vllm_workers_leave_with_their_engine_as_the_version_says(
    version: tuple[int, ...] | None, certainties: set[str | None]
) -> None:
    vllm = next(engine for engine in load_engines() if engine.name == "vllm")
    about = [one for one in vllm.couplings if one.ended == "engine" and one.leave == ("worker",)]
    answers = {holds: one.certainty for one in about if (holds := one.holds_for(version)) is not False}
    assert {certainty if holds else None for holds, certainty in answers.items()} == certainties


def test_a_version_pattern_needs_its_group(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(ENGINE.replace("stop_command", 'version_in_log = "v[0-9]"\nstop_command'))
    with pytest.raises(RulesError, match="no group named version"):
        load_engines(tmp_path)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ('ended = "worker"\ncertainty = "inferred"\nbecause = "x"', "either leave or stay"),
        (
            'ended = "worker"\nleave = ["rest"]\nstay = ["rest"]\ncertainty = "inferred"\nbecause = "x"',
            "either leave or stay",
        ),
        ('ended = "worker"\nstay = ["rest"]\nwithin_s = 2\ncertainty = "inferred"\nbecause = "x"', "those that leave"),
        (
            'ended = "worker"\norderly = true\nby = ["KILL"]\nleave = ["rest"]\ncertainty = "inferred"\nbecause = "x"',
            "exclude each other",
        ),
        ('ended = "worker"\nleave = ["rest"]\ncertainty = "proven"\nbecause = "x"', "coupling.0.certainty"),
    ],
)
def test_a_wrong_coupling_is_one_sentence(tmp_path: Path, entry: str, says: str) -> None:
    (tmp_path / "mine.toml").write_text(f"{ENGINE}[[coupling]]\n{entry}\n", encoding="utf-8")
    with pytest.raises(RulesError, match=says):
        load_engines(tmp_path)


def test_a_stop_command_takes_the_child_and_options_only(tmp_path: Path) -> None:
    entry = '[[restart]]\nby = "server"\nwithin_s = 1\nkind = "supervisor"\nstop = "mine stop {name}"\nbecause = "x"\n'
    (tmp_path / "mine.toml").write_text(f"{ENGINE}{entry}", encoding="utf-8")
    with pytest.raises(RulesError, match="neither child nor an option"):
        load_engines(tmp_path)
