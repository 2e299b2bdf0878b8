"""What a bundle's records say about its exhibits, whether it is packed or lies unpacked in a directory."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Iterator, Optional, Sequence, Tuple

from gpudiag.bundle.format import MAJOR, START, Outcome
from gpudiag.bundle.reader import Contents
from gpudiag.evidence.exhibit import Exhibit, LookName, Unreadable
from gpudiag.model import Citation, ClockPair, Coverage, Damage, Place, Recorder

_QUOTE_CAP = 300
_SOURCE = re.compile(r"[a-z][a-z ]{2,39}\Z")
"""A class of evidence, as ``Coverage`` names it."""


def refuse_newer(contents: Contents, path: Path) -> None:
    """Raise ``Unreadable`` for a format that this reader does not know."""
    version = contents.unreadable_version
    if version is not None:
        raise Unreadable(
            f"{path} is a bundle of format {version}, and this gpudiag reads {MAJOR}.x; explain it with a newer one."
        )


class Records:
    """The records of one input. An archive made by hand has none: then all is unknown."""

    def __init__(self, contents: Contents, input_id: str) -> None:
        self._contents = contents
        self._input = input_id
        self._outcomes = {outcome.member: outcome for _, outcome in contents.outcomes}
        self.host = (contents.start.host or "") if contents.start is not None else ""
        self.damage = [Damage(input_id, flaw.member, None, flaw.reason) for flaw in contents.flaws]
        self.coverage = tuple(row for name, outcome in contents.outcomes for row in self._coverage(name, outcome))

    def described(self, exhibit: Exhibit) -> Exhibit:
        """The exhibit with what its text does not say itself."""
        outcome = self._outcomes.get(exhibit.member)
        if outcome is None:
            return replace(exhibit, host=self.host)
        return replace(
            exhibit,
            host=self.host,
            time_ns=exhibit.time_ns if exhibit.time_ns is not None else outcome.started_ns,
            outcome=outcome.outcome,
            because=outcome.because,
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

    def clocks(self) -> Tuple[ClockPair, ...]:
        """Wall time and boot clock of the start record, if it has both."""
        start = self._contents.start
        if start is None or start.clocks.wall_ns is None or start.clocks.boot_ns is None:
            return ()
        return (ClockPair(start.clocks.boot_ns / 1e9, start.clocks.wall_ns, self._cite_start()),)

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
