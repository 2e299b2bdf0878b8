"""The public object: key names, tolerance when reading, and what can never be in it."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from gpudiag.report.contract import Gpu, Report, Sample
from tests.unit.report import sample

REPORTS = [sample.selfmatch, sample.ghost_workers, sample.hostile, sample.empty]


@pytest.mark.parametrize("make", REPORTS)
def test_json_round_trip(make: object) -> None:
    report = make()  # type: ignore[operator]
    assert Report.model_validate_json(report.to_json()) == report


def test_json_has_the_documented_keys() -> None:
    keys = list(json.loads(sample.selfmatch().to_json()))
    assert keys == [
        "schema", "tool", "inputs", "hosts", "looks", "sources", "outcome", "summary", "gpus", "families",
        "processes", "actions", "findings", "unknown", "plan", "samples", "events",
    ]  # fmt: skip


def test_reader_tolerates_what_a_later_version_adds() -> None:
    data = json.loads(sample.selfmatch().to_json())
    data["a_later_field"] = {"x": 1}
    data["gpus"][0]["another"] = 5
    data["outcome"] = "half_held"
    data["families"][0]["state"] = "hibernating"
    report = Report.model_validate(data)
    assert report.outcome == "half_held"
    assert report.gpus == sample.selfmatch().gpus
    assert report.families[0].state == "hibernating"


def test_report_cannot_be_changed() -> None:
    report = sample.empty()
    with pytest.raises(ValidationError, match="frozen"):
        report.outcome = "released"  # type: ignore[misc]


def test_unknown_stays_null() -> None:
    gpu = json.loads(Gpu(id="g", host="H1", outcome="inconclusive").model_dump_json())
    assert gpu["used_mib"] is None
    assert gpu["index"] is None


@pytest.mark.parametrize(("given", "written"), [(8802.0, "8802"), (8802, "8802"), (0.5, "0.5"), (None, "null")])
def test_whole_sizes_are_integers_in_json(given: float | None, written: str) -> None:
    assert f'"used_mib":{written}' in Sample(gpu="g", used_mib=given).model_dump_json()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_sizes_are_numbers(value: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Sample(gpu="g", used_mib=value)


def test_half_a_surrogate_pair_does_not_break_the_output() -> None:
    report = Report(tool=sample.TOOL, outcome="released", summary="odd \ud800 name")
    assert "odd \\\\ud800 name" in report.to_json()
