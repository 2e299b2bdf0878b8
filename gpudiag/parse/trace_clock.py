"""``trace-clock.json``: one instant on the boot clock and on the wall clock."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.model import ClockPair
from gpudiag.parse.jsontext import JsonText, mapping, number
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment


def rows(segment: Segment) -> Iterator[Row]:
    """The pair, if both clocks were read."""
    document = JsonText("\n".join(segment.lines))
    record = mapping(document.value)
    boot, wall = number(record.get("boot")), number(record.get("wall"))
    if boot is None or wall is None:
        yield segment.damage(0, document.problem or "not a pair of clock readings")
        return
    yield ClockPair(boot_s=boot, wall_ns=int(wall) * 10**9 + round(wall % 1 * 1e9), cited=segment.cite(0))
