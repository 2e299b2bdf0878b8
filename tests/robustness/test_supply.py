"""What gpudiag is made of, and that it reaches no network when it explains."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudiag.explain import explain
from gpudiag.report import html

Tried = Callable[[str, int, str], None]
ROOT = Path(__file__).parents[2]
PINNED = re.findall(r"(?m)^([a-z0-9-]+)==", (ROOT / "requirements" / "run.txt").read_text())


def test_every_package_has_a_licence_on_the_list(tried: Tried) -> None:
    decision = (ROOT / "docs" / "adr" / "0004-dependencies.md").read_text().lower()
    assert [name for name in PINNED if name not in decision] == []
    tried("Packages that gpudiag needs at run time", len(PINNED), "pinned, hashed, and in the list of licences")


def test_no_network(monkeypatch: pytest.MonkeyPatch, tried: Tried) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    html.render(explain([ROOT / "tests" / "fixtures" / "h200" / "selfmatch-orphans"]))
    tried("An incident explained with sockets that refuse", 1, "the same report")


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path, tried: Tried) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    wrong = [name for name in names if not re.match(r"gpudiag(-[\w.+]+\.dist-info)?/", name)]
    assert not wrong
    assert not [name for name in names if name.endswith((".pyc", ".so", ".pth")) or "test" in name.split("/")]
    assert any(name.startswith("gpudiag/rules_data/GPD101") for name in names)
    tried("Files of the wheel", len(names), "the package, its rules and its metadata; nothing compiled, no tests")
