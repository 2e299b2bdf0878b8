"""``fuser`` on device files: the table of ``-v``, and the plain form ``/dev/nvidia0:  699  700m``.

Plain output writes only the PIDs to standard output; names and letters go to standard error, so any part may be
missing. A zombie has no descriptors and never appears.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.model import Handle, Process
from gpudiag.parse.commands import Shown
from gpudiag.parse.parsed import Row
from gpudiag.parse.rights import ran_as_root
from gpudiag.parse.source import Segment
from gpudiag.parse.values import pid_of, whole

_HEADING = re.compile(r"\s*USER\s+PID\s+ACCESS\s+COMMAND\s*\Z")
_VERBOSE = re.compile(
    r"(?P<path>/\S{1,200}?:)?\s+(?P<user>\S{1,64})\s+(?P<pid>\d{1,10}|kernel)\s+"
    r"(?P<access>[cefrFm.]{5}|mount|swap|knfsd)\s+(?P<comm>\S.*)"
)
_PLAIN = re.compile(r"(?P<path>/\S{1,200}):(?P<pids>(?:\s+\d{1,10}[cefrFm]*)*)\s*\Z")
_PIDS = re.compile(r"\s*\d{1,10}[cefrFm]*(?:\s+\d{1,10}[cefrFm]*)*\s*\Z")
_ENTRY = re.compile(r"(\d{1,10})([cefrFm]*)")


def begins(line: str) -> bool:
    """The heading of the table, or a device with its users."""
    return bool(_HEADING.match(line) or (line.startswith("/dev/") and (_PLAIN.match(line) or _VERBOSE.match(line))))


def continues(line: str) -> bool:
    """The line may be a row of either form."""
    return begins(line) or bool(_VERBOSE.match(line))


def bare_pids(line: str) -> bool:
    """Only PIDs: what is left of plain output when standard error is thrown away."""
    return bool(_PIDS.match(line))


def rows(segment: Segment) -> Iterator[Row]:
    """One handle a file and way of holding it, one process a PID."""
    path: str | None = _only_path(segment.shown)
    known: set[int] = set()
    seen: set[tuple[int, str, str]] = set()
    for offset, line in enumerate(segment.lines):
        verbose, plain = _VERBOSE.match(line), _PLAIN.match(line)
        if plain or bare_pids(line):
            path = plain["path"] if plain else path
            found = _plain(segment, offset, path, plain["pids"] if plain else line, named=plain is not None)
        elif verbose:
            path = verbose["path"][:-1] if verbose["path"] else path
            found = _verbose(segment, offset, path, verbose, known)
        else:
            continue
        for row in found:
            if isinstance(row, Handle):
                if (row.pid, row.path, row.how) in seen:
                    continue
                seen.add((row.pid, row.path, row.how))
            yield row
    yield from coverage(segment)


def coverage(segment: Segment) -> Iterator[Row]:
    """All device files asked for, or a part of them."""
    yield segment.coverage(
        "open handles",
        complete=asks_for_all(segment.shown),
        as_root=ran_as_root(segment, "fuser"),
        names_missing=("zombie",),
    )


def asks_for_all(shown: Shown | None) -> bool | None:
    """The command names every NVIDIA device file."""
    if shown is None:
        return None
    paths = [word for word in shown.argv[1:] if word.startswith("/dev/")]
    named = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia[0-9]*")
    return not shown.filtered and ("/dev/nvidia*" in paths or all(path in paths for path in named))


def _only_path(shown: Shown | None) -> str | None:
    paths = [word for word in shown.argv[1:] if word.startswith("/dev/")] if shown else []
    return paths[0] if len(paths) == 1 else None


def _plain(segment: Segment, offset: int, path: str | None, pids: str, *, named: bool) -> Iterator[Row]:
    if path is None:
        return
    for number, letters in _ENTRY.findall(pids):
        pid = pid_of(number)
        if pid is None:
            continue
        # Plain output has no letter for an open descriptor; without standard error no letter is seen at all.
        how = "map" if "m" in letters else "fd" if named else "open"
        yield Handle(segment.place, pid, path, how, segment.cite(offset))


def _verbose(segment: Segment, offset: int, path: str | None, match: re.Match[str], known: set[int]) -> Iterator[Row]:
    pid = pid_of(match["pid"])
    if pid is None:
        return
    cited = segment.cite(offset)
    for letters, how in (("fF", "fd"), ("m", "map")):
        if path is not None and any(letter in match["access"] for letter in letters):
            yield Handle(segment.place, pid, path, how, cited)
    if pid in known:
        return
    known.add(pid)
    user, uid = match["user"], whole(match["user"])
    yield Process(
        at=segment.place,
        pid=pid,
        cited=cited,
        text_from="fuser",
        user=None if uid is not None or user == "(unknown)" or user.endswith("+") else user,
        uid=0 if user == "root" else uid,
        comm=match["comm"].rstrip(),
    )
