"""A bundle, or a tar archive that somebody packed by hand -> exhibits, as if its files lay in a directory."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from gpudiag.bundle.format import DEPTH_CAP, MAJOR, START, Outcome
from gpudiag.bundle.reader import Contents, Member, is_archive, read_contents
from gpudiag.evidence.directory import FILES_CAP
from gpudiag.evidence.exhibit import Exhibit, Input, LookName, Unreadable
from gpudiag.evidence.files import decoded
from gpudiag.evidence.header import split_header
from gpudiag.evidence.names import FIRST_LOOKS, about_whole_incident, is_expectation, look_order
from gpudiag.model import Citation, ClockPair, Coverage, Damage, Place, Recorder

_QUOTE_CAP = 300
_SOURCE = re.compile(r"[a-z][a-z ]{2,39}\Z")
"""A class of evidence, as ``Coverage`` names it."""


def is_bundle(path: Path) -> bool:
    """The path is a regular file that begins like a gzip file."""
    try:
        return stat.S_ISREG(path.stat().st_mode) and is_archive(path)
    except OSError:
        return False


def read_bundle(path: Path, input_id: str) -> Input:
    """Read what can be read; raise ``Unreadable`` if that is nothing."""
    try:
        contents = read_contents(path)
    except OSError as error:
        raise Unreadable(
            f"{path} cannot be read ({error.strerror or error}); name a bundle that you may read."
        ) from None
    version = contents.unreadable_version
    if version is not None:
        raise Unreadable(
            f"{path} is a bundle of format {version}, and this gpudiag reads {MAJOR}.x; explain it with a newer one."
        )
    reading = _Reading(contents, input_id)
    exhibits = tuple(reading.exhibits())
    if not exhibits and not reading.coverage:
        raise Unreadable(f"{path} {_nothing(contents)}")
    return Input(
        id=input_id,
        path=str(path),
        kind="bundle",
        complete=not reading.damage,
        exhibits=exhibits,
        looks=reading.looks(exhibits),
        actions=(),
        damage=tuple(reading.damage),
        recorder=reading.recorder(),
        coverage=tuple(reading.coverage),
        clocks=tuple(reading.clocks()),
    )


def _nothing(contents: Contents) -> str:
    if contents.bundle:
        return "is a bundle of which no source is whole; take another copy of it, or collect again."
    if contents.members:
        return "is an archive without a single readable text file; name one that holds captured outputs."
    reason = next((f" ({flaw.reason})" for flaw in contents.flaws if flaw.reason), "")
    return f"is a gzip file in which no file of a tar archive can be read{reason}; unpack it and name what it holds."


class _Reading:
    """One pass over the contents of a file."""

    def __init__(self, contents: Contents, input_id: str) -> None:
        self._contents = contents
        self._input = input_id
        self.host = (contents.start.host or "") if contents.start is not None else ""
        self.damage = [Damage(input_id, flaw.member, None, flaw.reason) for flaw in contents.flaws]
        self._outcomes = {outcome.member: outcome for _, outcome in contents.outcomes}
        members = [member for member in contents.members if not is_expectation(member.name)]
        self._root = "" if contents.bundle else _common_folder([member.name for member in members])
        self._members = members
        self.coverage = [row for name, outcome in contents.outcomes for row in self._coverage(name, outcome)]

    def exhibits(self) -> Iterator[Exhibit]:
        """In the order in which a directory of these files is read."""
        for member, look in self._ordered():
            outcome = self._outcomes.get(member.name)
            content = decoded(member.data, member.cut is not None)
            if content.text is None:
                self._note(member.name, content.problem or "cannot be read")
                continue
            headed = split_header(content.text)
            yield Exhibit(
                input=self._input,
                member=member.name,
                host=self.host,
                look=None if look is None else f"{self._input}:{look}",
                command=headed.command,
                time_ns=headed.time_ns if headed.time_ns is not None or outcome is None else outcome.started_ns,
                exit_code=headed.exit_code,
                user=None,
                first_line=headed.first_line,
                text=headed.text,
                outcome="truncated" if member.cut is not None else outcome.outcome if outcome is not None else None,
                because=member.cut if member.cut is not None else outcome.because if outcome is not None else None,
            )

    def looks(self, exhibits: Sequence[Exhibit]) -> Tuple[LookName, ...]:
        """Those with anything in them, and those that a file that is cut off would have had.

        A look of which nothing is known is a look all the same: what the one before it shows is not the last word.
        """
        start, end = self._contents.start, self._contents.end
        announced = start.looks if start is not None and end is None else ()
        found = [exhibit.look for exhibit in exhibits] + [row.at.look for row in self.coverage]
        names = dict.fromkeys([*announced, *(look.partition(":")[2] for look in found if look is not None)])
        return tuple(LookName(f"{self._input}:{name}", name, self.host) for name in names)

    def recorder(self) -> Optional[Recorder]:
        """Who recorded the bundle; nobody is known for an archive made by hand."""
        contents = self._contents
        if contents.start is None:
            return None
        end = contents.end.pids if contents.end is not None else ()
        pids = [*contents.start.pids, *(pid for _, outcome in contents.outcomes for pid in outcome.pids), *end]
        return Recorder(
            host=self.host,
            boot_id=contents.start.boot_id,
            pids=tuple(dict.fromkeys(pids)),
            uid=contents.start.uid,
            user=contents.start.user,
            pid_namespace=contents.start.pid_namespace,
            cited=self._cite_start(),
        )

    def clocks(self) -> Iterator[ClockPair]:
        """Wall time and boot clock of the start record, if it has both."""
        start = self._contents.start
        if start is not None and start.clocks.wall_ns is not None and start.clocks.boot_ns is not None:
            yield ClockPair(start.clocks.boot_ns / 1e9, start.clocks.wall_ns, self._cite_start())

    def _cite_start(self) -> Citation:
        return Citation(self._input, START, 1, self._contents.start_text[:_QUOTE_CAP])

    def _coverage(self, record: str, outcome: Outcome) -> Iterator[Coverage]:
        """What a source lacks, said by its outcome even where it left no text."""
        if outcome.outcome == "ok" or not _SOURCE.match(outcome.source or ""):
            return
        folder = outcome.member.partition("/")[0] if "/" in outcome.member else None
        look = None if folder is None else f"{self._input}:{folder}"
        quote = f"{outcome.member}: {outcome.outcome}" + (f", {outcome.because}" if outcome.because else "")
        cited = Citation(self._input, record, 1, quote[:_QUOTE_CAP])
        place = Place(self.host, look, outcome.started_ns)
        yield Coverage(place, outcome.source or "", outcome.outcome, outcome.because, cited, complete=False)

    def _ordered(self) -> Iterator[Tuple[Member, Optional[str]]]:
        """Members with the names of their looks: looks in their order, then what lies beside them."""
        folders: Dict[str, List[Tuple[str, Member]]] = {}
        beside: List[Tuple[str, Member]] = []
        for member in self._members:
            name = member.name[len(self._root) :]
            folder, slash, _ = name.partition("/")
            (folders.setdefault(folder, []) if slash else beside).append((name, member))
        count = 0
        for folder in (*look_order(list(folders)), ""):
            for name, member in sorted(folders.get(folder, beside), key=lambda pair: _as_walked(pair[0])):
                count += 1
                if count > FILES_CAP:
                    self._note("", f"more than {FILES_CAP} files: the rest was not read")
                    return
                look = folder or (None if folders else "look")
                yield member, None if about_whole_incident(name.rpartition("/")[2]) else look

    def _note(self, member: str, reason: str) -> None:
        self.damage.append(Damage(self._input, member, None, reason))


def _as_walked(name: str) -> Tuple[Tuple[int, str], ...]:
    """Sort key of a walk through folders that gives the files of a folder before its sub-folders."""
    *folders, last = name.split("/")
    return (*((1, folder) for folder in folders), (0, last))


def _common_folder(names: Sequence[str]) -> str:
    """The folders that somebody packed along with the capture: ``incident/`` if every file lies below it.

    A folder that is named like a look, or in which copies of ``/proc`` lie, is part of the capture.
    """
    root = ""
    for _ in range(DEPTH_CAP):
        first = {name[len(root) :].partition("/")[0] for name in names}
        folder = first.pop() if len(first) == 1 else ""
        if not folder or folder in (*FIRST_LOOKS, "proc") or any(name == root + folder for name in names):
            break
        root += folder + "/"
    return root
