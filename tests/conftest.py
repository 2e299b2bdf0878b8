"""What holds for every test: how hypothesis runs in CI, and which tests may be skipped."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
ALLOWED_SKIPS = HERE / "allowed-skips.txt"
ONE_AT_A_TIME = ("oracle", "browser")
IN_CI = os.environ.get("CI") == "true"

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if IN_CI else "local")

# Started with nohup, or in the background of a script, the tests would hand on that these two are ignored: then no
# process of theirs ends as one does at a terminal.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class SkipList:
    """Collects skips that are on no line of the list; in CI one of them fails the run."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = allowed
        self.unlisted: list[str] = []

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        expected_failure = hasattr(report, "wasxfail")
        if report.skipped and not expected_failure and not report.nodeid.startswith(self._allowed):
            self.unlisted.append(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted and IN_CI and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for node in self.unlisted:
            terminalreporter.write_line(f"skipped, but not in {ALLOWED_SKIPS.name}: {node}", red=True)


def read_allowed_skips(path: Path) -> tuple[str, ...]:
    """The starts of ids that may be skipped; a line without a reason is an error."""
    starts: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        start, _, reason = line.partition(" ")
        if not reason.strip():
            raise pytest.UsageError(f"{path.name}:{number}: {start} has no reason")
        starts.append(start)
    return tuple(starts)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs side by side (``scripts/test``): modules, but what starts real processes or a browser one at a time.

    Those measure time and watch the machine as a whole. The other tests only keep a processor busy beside them.
    """
    for item in items:
        module = item.path.relative_to(HERE)
        item.add_marker(pytest.mark.xdist_group("machine" if module.parts[0] in ONE_AT_A_TIME else module.as_posix()))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SkipList(read_allowed_skips(ALLOWED_SKIPS)), "skip-list")
