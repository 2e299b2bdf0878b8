"""The ring on disk: its bounds, its one writer, what a killed writer and a full disk leave."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpudiag.collect.watching.ring import PART, Bounds, Ring, TakenError, segments

MIB = 1 << 20
HOUR = 3600.0


class State:
    """What a snapshot says: a header, some rows, and that they are all."""

    def __init__(self, rows: int = 3, width: int = 40) -> None:
        self.rows = rows
        self.width = width
        self.asked: list[bool] = []

    def __call__(self, goes_on: bool) -> Iterator[bytes]:
        self.asked.append(goes_on)
        yield row(head=True, goes_on=goes_on)
        for number in range(self.rows):
            yield row(known=number, filler="k" * self.width)
        yield row(all=True)


def row(**values: Any) -> bytes:
    return json.dumps(values).encode() + b"\n"


def total(folder: Path) -> int:
    return sum(path.stat().st_size for path in segments(folder))


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in segments(folder) for line in path.read_bytes().splitlines()]


def aged(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_size_is_bounded_at_every_moment(tmp_path: Path) -> None:
    ring = Ring(tmp_path, Bounds(HOUR, MIB), State(100))
    for number in range(6000):
        ring.put(row(number=number, filler="x" * 400))
        if number % 50 == 0:
            assert total(tmp_path) <= MIB
    assert ring.size == total(tmp_path) <= MIB
    numbers = [item["number"] for item in rows(tmp_path) if "number" in item]
    assert numbers[-1] == 5999
    assert numbers == list(range(numbers[0], 6000))
    assert len(numbers) > 1200, "a ring of one MiB holds more than half a MiB of news"
    assert all(path.read_bytes().startswith(b'{"head"') for path in segments(tmp_path))


def test_snapshot_that_is_too_large_is_cut_and_says_so(tmp_path: Path) -> None:
    ring = Ring(tmp_path, Bounds(HOUR, MIB), State(20_000, 100))
    for number in range(3000):
        ring.put(row(number=number, filler="x" * 300))
        assert ring.size <= MIB
    assert total(tmp_path) <= MIB
    assert not any("all" in item for item in rows(tmp_path))
    assert all(PART in path.read_bytes() for path in segments(tmp_path))


def test_batch_that_is_larger_than_the_ring_is_left_to_the_snapshot(tmp_path: Path) -> None:
    ring = Ring(tmp_path, Bounds(HOUR, MIB), State())
    ring.put(row(number=1))
    ring.put(row(filler="x" * 2 * MIB))
    assert total(tmp_path) <= MIB


def test_old_segments_go_and_young_ones_stay(tmp_path: Path) -> None:
    for number, age in ((1, 3 * HOUR), (2, 1.5 * HOUR), (3, 0.5 * HOUR)):
        path = tmp_path / f"ring-{number:012d}.jsonl"
        path.write_bytes(row(number=number))
        aged(path, age)
    ring = Ring(tmp_path, Bounds(HOUR, MIB), State())
    ring.put(row(number=4))
    names = [path.name for path in segments(tmp_path)]
    assert names == ["ring-000000000003.jsonl", "ring-000000000004.jsonl"]
    assert ring.size == total(tmp_path)


def test_segment_ends_with_its_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State()
    ring = Ring(tmp_path, Bounds(800.0, MIB), state)
    ring.put(row(number=1))
    begun = time.time()
    monkeypatch.setattr(time, "time", lambda: begun + 99)
    ring.put(row(number=2))
    assert len(segments(tmp_path)) == 1
    monkeypatch.setattr(time, "time", lambda: begun + 101)
    ring.put(row(number=3))
    assert len(segments(tmp_path)) == 2
    assert state.asked == [False, True]


def test_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    first = Ring(tmp_path, Bounds(HOUR, MIB), State())
    with pytest.raises(TakenError, match=rf"PID {os.getpid()}"):
        Ring(tmp_path, Bounds(HOUR, MIB), State())
    first.close()
    Ring(tmp_path, Bounds(HOUR, MIB), State()).close()


def test_new_writer_goes_on_behind_what_was_left_half_written(tmp_path: Path) -> None:
    first = Ring(tmp_path, Bounds(HOUR, MIB), State())
    first.put(row(number=1))
    first.close()
    torn = segments(tmp_path)[0]
    with torn.open("ab") as file:
        file.write(b'{"number": 2, "fil')
    before = torn.read_bytes()
    second = Ring(tmp_path, Bounds(HOUR, MIB), State())
    second.put(row(number=3))
    assert torn.read_bytes() == before
    assert [path.name for path in segments(tmp_path)] == ["ring-000000000001.jsonl", "ring-000000000002.jsonl"]


def test_full_disk_costs_the_oldest_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "ring-000000000001.jsonl"
    old.write_bytes(row(number=0, filler="o" * 5000))
    ring = Ring(tmp_path, Bounds(HOUR, MIB), State())
    ring.put(row(number=1))
    limit_disk(monkeypatch, tmp_path, total(tmp_path) + 10)
    ring.put(row(number=2))
    assert (ring.dropped_early, ring.trouble) == (1, None)
    assert not old.exists()
    assert rows(tmp_path)[-1] == {"number": 2}


def test_disk_that_stays_full_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State()
    ring = Ring(tmp_path, Bounds(HOUR, MIB), state)
    ring.put(row(number=1))
    whole = segments(tmp_path)[0].read_bytes()
    with monkeypatch.context() as patch:
        limit_disk(patch, tmp_path, len(whole) + 5)
        ring.put(row(number=2))
        assert ring.trouble == os.strerror(errno.ENOSPC)
        assert segments(tmp_path)[0].read_bytes() == whole, "no half a line is left"
        ring.put(row(number=3))
        assert ring.trouble is not None
    later = time.time() + 11
    monkeypatch.setattr(time, "time", lambda: later)
    ring.put(row(number=4))
    assert ring.trouble is None
    # What was lost in between is in the new snapshot, and a reader is told that there was a gap.
    assert state.asked[-1] is False
    assert rows(tmp_path)[-1] == {"all": True}


def test_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring/lock").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match=r"symbolic|symlink|Too many"):
        Ring(tmp_path / "ring", Bounds(HOUR, MIB), State())
    assert (tmp_path / "target").read_text() == "mine"


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "new", Bounds(HOUR, MIB), State())
    ring.put(row(number=1))
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "new", *(tmp_path / "new").iterdir()]}
    assert modes == {"new": 0o700, "lock": 0o600, "ring-000000000001.jsonl": 0o600}


def limit_disk(patch: pytest.MonkeyPatch, folder: Path, size: int) -> None:
    """A disk of so many bytes: what does not fit is written in part, and the next call fails."""
    real = os.write

    def write(file: int, data: Any) -> int:
        room = size - total(folder)
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, bytes(data)[:room])

    patch.setattr(os, "write", write)
