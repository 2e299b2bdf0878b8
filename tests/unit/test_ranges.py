"""Neighbours drawn together, in sentences of findings and in every output."""

from __future__ import annotations

import pytest

from gpudiag import ranges


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([886, 887, 888, 889, 890], "886–890"),
        ([884, 886, 887], "884, 886, 887"),
        ([1, 2, 3, 5, 7, 8, 9], "1–3, 5, 7–9"),
        ([890, 889, 888], "890, 889, 888"),
        ([5, 5, 6, 7], "5, 5–7"),
        ([], ""),
    ],
)
def test_pids_are_grouped_only_where_they_follow_each_other(given: list[int], expected: str) -> None:
    assert ranges.number_ranges(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([f"VLLM::Worker_TP{n}" for n in range(8)], ["VLLM::Worker_TP0–7"]),
        (
            ["VLLM::EngineCore", "VLLM::Worker_TP0", "VLLM::Worker_TP1"],
            ["VLLM::EngineCore", "VLLM::Worker_TP0", "VLLM::Worker_TP1"],
        ),
        (["a1", "a2", "a3", "b4", "b5", "b6"], ["a1–3", "b4–6"]),
        (["a01", "a02", "a03"], ["a01", "a02", "a03"]),
        (["python3", "python3.11", "python3.12"], ["python3", "python3.11", "python3.12"]),
        (["1", "2", "3"], ["1", "2", "3"]),
        ([], []),
    ],
)
def test_names_are_grouped_only_where_their_last_number_counts_on(given: list[str], expected: list[str]) -> None:
    """A leading zero is a part of the name: it would be lost."""
    assert ranges.names_in_runs(given) == expected
