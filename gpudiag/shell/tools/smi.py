"""What nvidia-smi prints, where its text was recorded: the table, ``pmon`` and ``--query-compute-apps``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudiag.shell.lines import Word
from gpudiag.shell.text.base import Lines
from gpudiag.shell.world import Printed, World

_SPELLED = {"name": "process_name", "used_memory": "used_gpu_memory"}
_HEADINGS = {"used_gpu_memory": "used_gpu_memory [MiB]"}
_UTILISATION = ("sm", "mem", "enc", "dec", "jpg", "ofa")
_MEMORY = ("fb", "ccpm")


def printed(words: Sequence[Word], world: World) -> Lines | None:
    """``words[0]`` is nvidia-smi; ``None`` where it is asked for something that is not recorded."""
    texts = [word.text for word in words[1:]]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        return None
    if not known:
        table = world.printouts.get("table")
        return None if table is None else table.lines
    if known[0] == "pmon":
        monitor = world.printouts.get("pmon")
        return None if monitor is None else _monitor(known[1:], monitor)
    apps = world.printouts.get("compute-apps")
    return None if apps is None else _apps(known, apps)


def _monitor(options: Sequence[str], recorded: Printed) -> Lines | None:
    """``pmon -c 1``, with the columns that it is asked for: those of the utilisation where nothing is said."""
    text = " ".join(options)
    found = re.fullmatch(r"(?:-c ?1)?(?: ?-s ?([um]{1,2}))?(?: ?-c ?1)?", text)
    if found is None or "-c" not in text:
        return None
    letters = found[1] or "u"
    # nvidia-smi prints the groups in its own order, with what this driver has of each.
    chosen = [*(_UTILISATION if "u" in letters else ()), *(_MEMORY if "m" in letters else ())]
    wanted = ["gpu", "pid", "type", *(name for name in chosen if name in recorded.columns), "command"]
    if "".join(sorted(letters)) == "um" and not {"fb", "sm"} <= set(recorded.columns):
        return None
    if {"u": "sm", "m": "fb"}[letters[0]] not in recorded.columns:
        return None
    places = [recorded.columns.index(name) for name in wanted]
    lines: list[str] = []
    for line in recorded.lines:
        cells = line.lstrip("# ").split(None, len(recorded.columns) - 1)
        if len(cells) != len(recorded.columns):
            return None
        mark = "#" if line.startswith("#") else ""
        lines.append(mark + "".join(f" {cells[place]:>6}" for place in places))
    return tuple(lines)


def _apps(options: Sequence[str], recorded: Printed) -> Lines | None:
    fields: str | None = None
    formats: list[str] = []
    for option in options:
        name, _, value = option.partition("=")
        if name == "--query-compute-apps" and value:
            fields = value
        elif name == "--format" and value:
            formats = value.split(",")
        else:
            return None
    wanted = [_SPELLED.get(field.strip(), field.strip()) for field in (fields or "").split(",")]
    if "csv" not in formats or not set(wanted) <= set(recorded.columns):
        return None
    rows = [_cells(line, recorded.columns) for line in recorded.lines]
    if not all(rows):
        return None
    places = [recorded.columns.index(name) for name in wanted]
    lines = [", ".join(row[place] for place in places) for row in rows]
    if "nounits" in formats:
        lines = [re.sub(r" MiB(?=,|\Z)", "", line) for line in lines]
    elif "used_gpu_memory" in wanted and not all("MiB" in line or "[" in line for line in recorded.lines):
        return None  # recorded without units
    return tuple(lines if "noheader" in formats else [", ".join(_HEADINGS.get(name, name) for name in wanted), *lines])


def _cells(line: str, columns: Sequence[str]) -> list[str]:
    """Cells of a row; a name may hold commas, and then the row is not read."""
    cells = [cell.strip() for cell in line.split(",")]
    return cells if len(cells) == len(columns) else []
