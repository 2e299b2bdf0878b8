"""A command while it runs."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from gpudiag.collect.command import Command, Line


def test_a_command_may_end_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    command = Command(Line("true", ()))
    os.waitid(os.P_PID, command.begun.pid, os.WEXITED | os.WNOWAIT)
    with monkeypatch.context() as patched:
        patched.setattr(command, "_process", SimpleNamespace(poll=lambda: None, pid=command.begun.pid))
        assert command.poll() is False
    assert command.poll() is True
    assert command.done().exit_code == 0
