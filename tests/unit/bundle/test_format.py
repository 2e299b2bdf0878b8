"""Names that a bundle may hold, and records that say less or more than they should."""

from __future__ import annotations

import json

import pytest

from gpudiag.bundle.format import Clocks, End, Outcome, Start, checksum_lines, name_problem, read_checksums

BOOT = "0f0e0d0c-0b0a-0908-0706-050403020100"
FULL = Start(
    tool_version="0.1.0",
    host="node-1",
    boot_id=BOOT,
    clocks=Clocks(1_796_040_000_000_000_000, 5, 7),
    pids=(10, 20),
    uid=0,
    user="root",
    pid_namespace="pid:[4026531836]",
    argv=("gpudiag", "collect"),
    looks=("before", "after"),
)


@pytest.mark.parametrize("name", ["ps.txt", "after/ps.txt", "after/proc/12/stat", "a b/ü.txt", "x" * 240, "..txt/a..b"])
def test_names_that_may_be_in_a_bundle(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../x", "after/../../x", "after/..", "a//b", "./a", "a/", "a\\b", "a\nb", "a\0b", "x" * 241,
     "/".join("abcdefghij")],
)  # fmt: skip
def test_names_that_may_not(name: str) -> None:
    assert name_problem(name)


def test_records_come_back_as_they_were() -> None:
    assert Start.from_json(FULL.to_json()) == FULL
    outcome = Outcome("after/ps.txt", "timed_out", "5 s", "process table", "ps -e", 3, 5.0, -9, (77,), 10, "ab" * 32)
    assert Outcome.from_json(outcome.to_json()) == outcome
    assert End.from_json(End(Clocks(1, 2, 3), (4,)).to_json()) == End(Clocks(1, 2, 3), (4,))


def test_a_higher_minor_version_is_read_and_its_additions_are_skipped() -> None:
    record = {**json.loads(FULL.to_json()), "version": "1.9", "colour": {"new": []}}
    start = Start.from_json(json.dumps(record).encode())
    assert start is not None
    assert (start.major, start.minor, start.boot_id) == (1, 9, BOOT)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("boot_id", "x; rm -rf /"),
        ("boot_id", 7),
        ("uid", True),
        ("uid", 1 << 80),
        ("host", ["a"]),
        ("user", {}),
        ("pid_namespace", "pid:[0]; x"),
    ],
)
def test_a_field_of_another_kind_is_unknown(field: str, value: object) -> None:
    record = {**json.loads(FULL.to_json()), field: value}
    start = Start.from_json(json.dumps(record).encode())
    assert start is not None
    assert getattr(start, field) is None
    assert start.pids == (10, 20)


def test_only_numbers_that_can_be_pids_are_pids() -> None:
    record = {"version": "1.0", "pids": [1, "2", True, -3, 0, 4.0, 1 << 40, None, 5]}
    start = Start.from_json(json.dumps(record).encode())
    assert start is not None
    assert start.pids == (1, 5)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"version": "one"}', b'{"version": 1.0}', b"[" * 100_000, b"\xff\xfe\0", b"1" * 9999],
)
def test_what_is_no_start_record(data: bytes) -> None:
    assert Start.from_json(data) is None
    assert Outcome.from_json(data) is None
    assert End.from_json(data) == End()


def test_an_outcome_of_an_unknown_kind_is_none() -> None:
    assert Outcome.from_json(b'{"member": "a", "outcome": "fine"}') is None
    assert Outcome.from_json(b'{"outcome": "ok"}') is None


def test_checksums_skip_what_is_no_checksum() -> None:
    lines = checksum_lines({"after/a b.txt": "0a" * 32})
    assert read_checksums(b"nonsense\n" + lines + b"0a  short\n\xff") == {"after/a b.txt": "0a" * 32}
