"""What a report lacks of an expectation that stands beside a transcript."""

from __future__ import annotations

from typing import Any

from gpudiag.report.contract import Report


def shortfalls(report: Report, expected: dict[str, Any]) -> list[str]:
    """Rules, PIDs and steps that are expected and missing, and another outcome; empty if nothing is."""
    said = {
        "rules_fire": {finding.rule for finding in report.findings},
        "kill_pids": {entry.pid for entry in report.plan.kill},
        "then": {entry.kind for entry in report.plan.then},
        "stop_first": {entry.kind for entry in report.plan.stop_first},
    }
    lacks = [f"{key} lacks {sorted(left)}" for key, has in said.items() if (left := set(expected.get(key, ())) - has)]
    return lacks + ([report.outcome] if report.outcome != expected["outcome"] else [])
