"""Read a bundle, or a tar archive made by hand, whatever state it is in.

What is not whole or not right is left out and listed. Only the end of the file may be missing in the middle of an
entry: then the whole lines before the cut are given back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Dict, Iterable, List, Optional, Tuple

from gpudiag.bundle.format import (
    CHECKSUMS,
    END,
    MAJOR,
    OUTCOMES,
    START,
    TOTAL_CAP,
    End,
    Outcome,
    Start,
    is_record,
    read_checksums,
)
from gpudiag.bundle.gzipped import MAGIC, Gzipped, Stretch
from gpudiag.bundle.tarred import HEADERS_CAP, Entry, Tarred, header_size

FILE_CAP = 512 * 1024 * 1024
"""Bytes of a file that are looked at."""
RECORD_CAP = 1024 * 1024
"""Bytes of one of the format's own records; the list of checksums of a full bundle has 500 KB."""
_NAMES = (".tgz", ".tar.gz", ".tgz.partial")
_NEAR = 65536
FLAWS_CAP = 200
"""Flaws that are listed one by one."""


@dataclass(frozen=True)
class Flaw:
    """A part of the file that was not used."""

    member: str
    """Name of the entry, empty where none can be told."""
    reason: str


@dataclass(frozen=True)
class Member:
    """The raw text of one source."""

    name: str
    data: bytes
    cut: Optional[str]
    """Why the end is missing; ``None`` if it is not. ``data`` then ends with its last whole line."""


@dataclass(frozen=True)
class Contents:
    """What a file gave."""

    bundle: bool
    """It has entries of the format's own; else it is a plain archive."""
    start: Optional[Start]
    start_text: str
    """The start record as it stands in the file, for quoting."""
    end: Optional[End]
    members: Tuple[Member, ...]
    """In the order of the file."""
    outcomes: Tuple[Tuple[str, Outcome], ...]
    """With the names of the records' own entries."""
    flaws: Tuple[Flaw, ...]

    @property
    def unreadable_version(self) -> Optional[str]:
        """The version of a format that this reader does not know; nothing else of such a file is given."""
        newer = self.start is not None and self.start.major > MAJOR
        return f"{self.start.major}.{self.start.minor}" if newer and self.start is not None else None


def read_contents(path: Path) -> Contents:
    """Everything that can be used of a gzip file. Raises ``OSError`` only."""
    reading = _Reading()
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        if size > FILE_CAP:
            reading.flaw("", f"longer than {FILE_CAP >> 20} MiB: only the beginning was read")
        reading.run(stream, min(size, FILE_CAP))
    return reading.contents()


def is_archive(path: Path) -> bool:
    """The file begins like a gzip file; what is in it shows only when it is read.

    One that is called a bundle is one, too, if a gzip member begins somewhere near: only its beginning is damaged.
    """
    with path.open("rb") as stream:
        head = stream.read(_NEAR)
    return head[:2] == MAGIC[:2] or (path.name.endswith(_NAMES) and MAGIC in head)


def _is_header(data: bytes) -> bool:
    return header_size(data[:512]) is not None


@dataclass
class _Reading:
    tar: Tarred = field(default_factory=lambda: Tarred(room=TOTAL_CAP))
    flaws: List[Flaw] = field(default_factory=lambda: list[Flaw]())
    torn: bool = False

    def run(self, stream: BinaryIO, size: int) -> None:
        """Go through the gzip members."""
        gzipped = Gzipped(stream, size, _is_header)
        place: Optional[int] = 0
        while place is not None and place < size:
            stretch = gzipped.inflate(place, self.tar.take)
            if stretch.state == "whole":
                self.tar.accept()
                place = stretch.end
                if place < size and gzipped.only_padding(place):
                    return
            elif stretch.state == "over":
                self._over(stretch)
                return
            else:
                following = gzipped.next_member(place + 1)
                if stretch.state == "torn" and following is None:
                    self._tear()
                    return
                self._damaged(stretch)
                place = following
        if self.tar.unfinished:
            self._tear()
        if self.tar.full:
            self.flaw("", f"more than {HEADERS_CAP} entries: the rest was not read")

    def contents(self) -> Contents:
        """Sort the entries into the format's own and the sources, and compare what the records say of them."""
        entries = self._unique()
        records = {name: entry for name, entry in entries.items() if is_record(name) and entry.whole}
        sums = read_checksums(_record(records.get(CHECKSUMS)))
        records = {name: entry for name, entry in records.items() if self._is_right(entry, sums)}
        sources = [entry for name, entry in entries.items() if not is_record(name)]
        bundle = any(is_record(name) for name in entries)
        start = Start.from_json(_record(records.get(START)))
        if start is not None and start.major > MAJOR:
            return Contents(True, start, "", None, (), (), ())
        outcomes = [
            (name, outcome)
            for name, entry in records.items()
            if name.startswith(OUTCOMES) and (outcome := Outcome.from_json(_record(entry))) is not None
        ]
        end = End.from_json(_record(records[END])) if END in records else None
        noted = {outcome.member: outcome.sha256 for _, outcome in outcomes if outcome.sha256 is not None}
        noted.update(sums)
        members = [member for entry in sources if (member := self._member(entry, noted)) is not None]
        if bundle:
            known = {flaw.member for flaw in self.flaws if flaw.member}
            missing = missing_parts(entries, noted, start is not None, CHECKSUMS in records and end is not None)
            self.flaws += [flaw for flaw in missing if flaw.member == START or flaw.member not in known]
        elif self.torn:
            self.flaw("", "the file ends before the archive does: what would have followed is missing")
        text = _record(records.get(START)).decode("utf-8", "replace").strip()
        return Contents(bundle, start, text, end, tuple(members), tuple(outcomes), self._flaws())

    def flaw(self, member: str, reason: str) -> None:
        """Note a part that was not used."""
        self.flaws.append(Flaw(member, reason))

    def _over(self, stretch: Stretch) -> None:
        """A limit was reached. What was not checked by then is dropped: nothing says that it is right."""
        lost = self.tar.drop()
        self.flaw("", f"the file {stretch.because}: the rest was not read")
        for name in lost:
            self.flaw(name, "not read: it stands where reading was given up")

    def _damaged(self, stretch: Stretch) -> None:
        names = self.tar.drop()
        because = stretch.because or "the file does not end where its end is missing"
        for name in names:
            self.flaw(name, f"damaged, not read ({because})")
        if not names:
            self.flaw("", f"damaged, not read: bytes {stretch.start} and following ({because})")

    def _tear(self) -> None:
        self.torn = True
        self.tar.salvage()

    def _unique(self) -> Dict[str, Entry]:
        entries: Dict[str, Entry] = {}
        for entry in self.tar.entries:
            if entry.name in entries:
                self.flaw(entry.name, "not read: an entry of the same name stands before it")
            else:
                entries[entry.name] = entry
        return entries

    def _is_right(self, entry: Entry, noted: Dict[str, str]) -> bool:
        if not entry.whole or noted.get(entry.name, entry.sha256) == entry.sha256:
            return True
        self.flaw(entry.name, "damaged, not read: its checksum is not the one that the recorder noted")
        return False

    def _member(self, entry: Entry, noted: Dict[str, str]) -> Optional[Member]:
        if not self._is_right(entry, noted):
            return None
        if entry.whole and len(entry.kept) == entry.size:
            data, entry.kept = bytes(entry.kept), bytearray()
            return Member(entry.name, data, None)
        cut = "the file ends within it" if not entry.whole else f"only its first {len(entry.kept)} bytes were read"
        data = bytes(entry.kept[: entry.kept.rfind(b"\n") + 1])
        entry.kept = bytearray()
        self.flaw(entry.name, f"cut: {cut}" + ("" if data else "; no line of it is whole"))
        return Member(entry.name, data, cut) if data else None

    def _flaws(self) -> Tuple[Flaw, ...]:
        flaws = [*self.flaws, *(Flaw(name, reason) for name, reason in self.tar.refused)]
        if len(flaws) <= FLAWS_CAP:
            return tuple(flaws)
        return (*flaws[:FLAWS_CAP], Flaw("", f"{len(flaws) - FLAWS_CAP} more parts were not read"))


def missing_parts(there: Iterable[str], noted: Iterable[str], started: bool, finished: bool) -> List[Flaw]:
    """What a bundle ought to have and this one has not. ``there``: names of its entries, in their order."""
    names = list(there)
    flaws: List[Flaw] = []
    if not started:
        flaws.append(Flaw(START, "missing or damaged: host, boot id and the recorder's own PIDs are not known"))
    found = set(names)
    lost = [name for name in noted if name not in found and not is_record(name)]
    flaws += [Flaw(name, "missing: the recorder wrote it, the file does not have it") for name in lost]
    if not finished:
        last = next((name for name in reversed(names) if not is_record(name)), None)
        place = f"after {last}" if last is not None else "before the first source"
        flaws.append(Flaw("", f"the bundle has no end: what would have come {place} is missing"))
    return flaws


def _record(entry: Optional[Entry]) -> bytes:
    return bytes(entry.kept[:RECORD_CAP]) if entry is not None else b""
