"""Neighbours drawn together, so that eight workers take one word in a sentence."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

_NUMBERED = re.compile(r"(?P<stem>.*\D)(?P<number>0|[1-9]\d{0,5})", re.DOTALL)


def number_ranges(values: Iterable[int]) -> str:
    """Numbers in the order given; runs of three or more neighbours as one: ``884, 886–890``."""
    return ", ".join(numbers_in_runs(tuple(values)))


def numbers_in_runs(values: Sequence[int]) -> list[str]:
    """The parts of ``number_ranges``."""
    parts: list[str] = []
    for run in _runs(values):
        parts.extend([f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(number) for number in run])
    return parts


def names_in_runs(names: Sequence[str]) -> list[str]:
    """Names in the order given; runs of three or more that differ in their last number: ``VLLM::Worker_TP0–7``."""
    parts: list[str] = []
    for stem, group in itertools.groupby(names, key=lambda name: _split(name)[0]):
        run = list(group)
        numbers = [_split(name)[1] for name in run]
        known = [number for number in numbers if number is not None]
        parts.extend(run if len(known) < len(run) else (f"{stem}{part}" for part in numbers_in_runs(known)))
    return parts


def _split(name: str) -> tuple[str, int | None]:
    found = _NUMBERED.fullmatch(name)
    return (found["stem"], int(found["number"])) if found is not None else (name, None)


def _runs(values: Sequence[int]) -> list[list[int]]:
    keyed = itertools.groupby(enumerate(values), key=lambda pair: pair[1] - pair[0])
    return [[number for _, number in group] for _, group in keyed]
