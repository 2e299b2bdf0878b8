"""``gpudiag watch``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from gpudiag.collect.machine import Machine
from gpudiag.collect.telling import say
from gpudiag.collect.watching import places
from gpudiag.collect.watching.recorder import Recorder
from gpudiag.collect.watching.ring import Bounds, TakenError

EXIT_ENDED = 0
EXIT_WRITE = 1
EXIT_TAKEN = 5
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_UNITS_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LEAST_BYTES = 1 << 20
_LEAST_S = 60.0
_EPILOG = """\
It records what changes, once a second: who starts and ends, whose child he is, who has a GPU open, how much memory each
GPU has in use. `gpudiag collect` takes the ring along, so that a report knows what was there before a clean-up.
Exit codes: 0 ended by SIGTERM or ^C, 1 the directory cannot be written, 2 usage, 5 another one records there."""


def main(words: Sequence[str], machine: Machine | None = None) -> int:
    """Record until somebody ends it."""
    machine = Machine() if machine is None else machine
    parser = new_parser(places.default(root=machine.root))
    given = parser.parse_args(words)
    folder: str = given.directory
    try:
        recorder = Recorder(Path(folder), Bounds(given.keep, given.max_size), machine)
    except TakenError as error:
        say(f"gpudiag: {error} records in {folder} already; one writer at a time")
        return EXIT_TAKEN
    except OSError as error:
        say(f"gpudiag: {error.filename or folder} cannot be used: {error.strerror}; name another one with --directory")
        return EXIT_WRITE
    say(f"gpudiag: recording in {folder}; ^C or SIGTERM ends it")
    if not machine.root:
        say(
            "gpudiag: not root: who has a GPU open is seen of your own processes only, and programs that live for less "
            "than a second are not seen; as root it records both"
        )
    recorder.run()
    return EXIT_ENDED


def new_parser(folder: str) -> argparse.ArgumentParser:
    """The words that ``gpudiag watch`` takes; ``folder``: where the ring lies by default."""
    parser = argparse.ArgumentParser(
        prog="gpudiag watch",
        description="A flight recorder: keep the last hours of processes and GPU memory in a ring on disk.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--keep", metavar="TIME", type=_time, default=6 * 3600.0, help="how far back: 30m, 6h, 2d (default 6h)")
    add("--max-size", metavar="SIZE", type=_size, default=64 << 20, help="of the ring: 8M, 1G (default 64M)")
    add("--directory", metavar="DIR", default=folder, help=f"of the ring (default here: {folder})")
    return parser


def _time(text: str) -> float:
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    value = int(match[1]) * _UNITS_S[match[2]] if match else 0
    if value < _LEAST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 30m, 6h or 2d (at least 1m)")
    return float(value)


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d{1,12})([KMG]?)(?:i?B)?", text)
    value = int(match[1]) * _UNITS_BYTES[match[2]] if match else 0
    if value < _LEAST_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 8M or 1G (at least 1M)")
    return value
