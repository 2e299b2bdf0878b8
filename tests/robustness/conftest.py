"""Every test of this folder says how much it tried; see ``record``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.robustness.record import Record, Writer, name_of

RECORD = Record()


def pytest_configure(config: pytest.Config) -> None:
    """Also when only this folder is run."""
    if not config.pluginmanager.has_plugin("robustness-writer"):
        config.pluginmanager.register(Writer(RECORD), "robustness-writer")


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Callable[[str, int, str], None]:
    """``tried(class, number, what was seen)``: a line of ``docs/robustness.md``. To be called when all went well."""

    def note(what: str, number: int, seen: str) -> None:
        assert number > 0
        assert "|" not in what + seen
        RECORD.add(what, number, seen, name_of(request.node))

    return note
