"""Copies of ``/proc/PID/{stat,status,cmdline,comm,cgroup,wchan}`` as single files in ``proc/PID/`` of a look."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, Coverage
from gpudiag.parse.parsed import Row
from gpudiag.parse.procfs import process
from gpudiag.parse.source import QUOTE_CAP, place_of
from gpudiag.parse.values import pid_of

_MEMBER = re.compile(r"(?P<folder>(?:.*/)?proc)/(?P<pid>\d{1,7})/(?P<name>\w+)\Z")
_NAMES = frozenset({"stat", "status", "cmdline", "comm", "cgroup", "wchan", "limits", "io"})


def is_proc_file(exhibit: Exhibit) -> bool:
    """The file is one of a process's folder."""
    match = _MEMBER.match(exhibit.member)
    return match is not None and match["name"] in _NAMES


def rows(exhibits: Iterable[Exhibit]) -> Iterator[Row]:
    """One process a folder, cited at its stat or, without one, at its first file."""
    folders: dict[tuple[str, int], list[Exhibit]] = {}
    for exhibit in exhibits:
        match = _MEMBER.match(exhibit.member)
        pid = pid_of(match["pid"]) if match else None
        if match is not None and pid is not None:
            folders.setdefault((match["folder"], pid), []).append(exhibit)
    covered: set[str] = set()
    for (folder, pid), files in folders.items():
        yield _process(pid, files)
        if folder not in covered:
            covered.add(folder)
            # Which processes were copied is not said, so absence tells nothing.
            yield Coverage(place_of(files[0]), "process table", "ok", None, _cite(files), complete=False)


def _process(pid: int, files: Sequence[Exhibit]) -> Row:
    texts = {exhibit.member.rpartition("/")[2]: exhibit.text for exhibit in files}
    return process(place_of(files[0]), pid, _cite(files), texts, None)


def _cite(files: Sequence[Exhibit]) -> Citation:
    cited = next((exhibit for exhibit in files if exhibit.member.endswith("/stat")), files[0])
    quote = cited.text.partition("\n")[0].rstrip("\0").replace("\0", " ")
    return Citation(cited.input, cited.member, 1, quote[:QUOTE_CAP])
