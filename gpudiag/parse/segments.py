"""Cut a text into pieces of one format each: one session often prints a table, then CSV, then ``ps``, then ``fuser``.

A piece begins where a line can be nothing else (a heading, a border). Rows without a heading are given to the command
that was told to print none, in the order of the commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.parse import (
    fuser,
    kernel_log,
    log_scan,
    nvidia_smi_csv,
    nvidia_smi_q,
    nvidia_smi_table,
    nvidia_smi_xml,
    pgrep,
    pmon,
    ps,
)
from gpudiag.parse.commands import Shown, shown_commands
from gpudiag.parse.listing import Listing
from gpudiag.parse.listings import LISTINGS, without_heading
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment, is_omission, place_of

_STDERR = re.compile(r"# stderr:?\s*\Z")
_LINE_CAP = 65536
_LISTING_LINE_CAP = 8192
_NARROWEST = 60
"""Columns of the narrowest terminal that is reckoned with."""
_WRAPPED_LINES = 8
"""Further lines that one row of a listing may take."""
"""Characters of a line that are looked at; no tool prints a longer one, and patterns must stay fast."""


@dataclass(frozen=True)
class Piece:
    """How lines of one format are recognised and read."""

    fits: Callable[[str], bool]
    """A further line belongs to it."""
    read: Callable[[Segment], Iterator[Row]]
    tool: Callable[[Shown], bool]
    """The command may have printed it."""
    wraps: bool = False
    """A terminal may have broken its lines: what does not fit between two rows is the rest of the one above."""
    torn: Callable[[str], bool] = lambda _: False
    """A last line without a line feed that does not fit may be the beginning of a row."""


@dataclass(frozen=True)
class Cut:
    """A piece with its lines."""

    segment: Segment
    read: Callable[[Segment], Iterator[Row]]

    def rows(self) -> Iterator[Row]:
        """What the piece's parser makes of it."""
        return self.read(self.segment)


@dataclass(frozen=True)
class Pieces:
    """The whole exhibit, cut."""

    cuts: tuple[Cut, ...]
    unclaimed: tuple[int, ...]
    """Zero-based lines that no format takes, blank ones left out."""
    silent: tuple[Shown, ...]
    """Commands of which nothing was recognised."""
    lines: tuple[str, ...]


def cut(exhibit: Exhibit) -> Pieces:
    """All pieces of an exhibit in order."""
    return _Cutter(exhibit).run()


class _Cutter:
    def __init__(self, exhibit: Exhibit) -> None:
        self._exhibit = exhibit
        self._lines = tuple(line[:_LINE_CAP].rstrip("\r") for line in exhibit.text.rstrip("\n").split("\n"))
        self._left = list(shown_commands(exhibit.command))
        self._cuts: list[Cut] = []
        self._unclaimed: list[int] = []

    def run(self) -> Pieces:
        start, piece = 0, None
        for position, line in enumerate(self._lines):
            if _STDERR.match(line):
                self._close(piece, start, position)
                piece = None
                continue
            opened = self._opens(position, line, piece)
            if opened is None and piece is not None and (piece.fits(line) or self._torn(piece, position)):
                continue
            if opened is None and piece is not None and piece.wraps and self._goes_on(piece, position):
                continue
            if opened is None and piece is not None and is_omission(line) and self._resumes(piece, position):
                continue
            opened = opened or (self._headless(line) or _log_piece(line) if line.strip() else None)
            self._close(piece, start, position)
            start, piece = position, opened
            if opened is None and line.strip():
                self._unclaimed.append(position)
        self._close(piece, start, len(self._lines))
        return Pieces(tuple(self._cuts), tuple(self._unclaimed), tuple(self._left), self._lines)

    def _goes_on(self, piece: Piece, position: int) -> bool:
        """The line above is long enough to have been broken, and rows of the piece follow."""
        if position == 0 or len(self._lines[position - 1]) < _NARROWEST or not self._lines[position].strip():
            return False
        for following in range(position + 1, min(position + 1 + _WRAPPED_LINES, len(self._lines))):
            line = self._lines[following]
            if not line.strip() or self._opens(following, line, piece) is not None:
                return False
            if piece.fits(line):
                return True
        return False

    def _resumes(self, piece: Piece, position: int) -> bool:
        """Behind a mark for what was left out the piece goes on."""
        following = next((line for line in self._lines[position + 1 : position + 4] if line.strip()), None)
        return following is not None and piece.fits(following)

    def _torn(self, piece: Piece, position: int) -> bool:
        last = position == len(self._lines) - 1 and not self._exhibit.text.endswith("\n")
        return last and piece.torn(self._lines[position])

    def _close(self, piece: Piece | None, start: int, end: int) -> None:
        if piece is None:
            return
        while end > start + 1 and not self._lines[end - 1].strip():
            end -= 1
        shown = next((command for command in self._left if piece.tool(command)), None)
        if shown is not None:
            self._left.remove(shown)
        lines = self._lines[start:end]
        segment = Segment(self._exhibit, place_of(self._exhibit), start, lines, shown)
        self._cuts.append(Cut(segment, piece.read))

    def _opens(self, position: int, line: str, piece: Piece | None) -> Piece | None:
        if piece is _XML_PIECE:
            return None
        if nvidia_smi_table.begins(line) and self._new_table(position, line, piece):
            return _TABLE_PIECE
        for begins, fixed in _FIXED:
            if begins(line) and (piece is not fixed or fixed is _Q_PIECE):
                return fixed
        if piece is not None and piece.fits(line) and piece is _TABLE_PIECE:
            return None
        return self._headed(line)

    def _new_table(self, position: int, line: str, piece: Piece | None) -> bool:
        following = self._lines[position + 1] if position + 1 < len(self._lines) else ""
        if nvidia_smi_table.SHOWN_TIME.match(line):
            return following.startswith("+")
        return piece is not _TABLE_PIECE or (
            line.startswith("+")
            and "NVIDIA-SMI" in following
            and position > 0
            and not nvidia_smi_table.SHOWN_TIME.match(self._lines[position - 1])
        )

    def _headed(self, line: str) -> Piece | None:
        layout = nvidia_smi_csv.heading(line)
        if layout is not None:
            return _csv_piece(layout, 1)
        command = next((shown for shown in self._left if ps.prints_table(shown)), None)
        columns = ps.heading(line, command)
        return None if columns is None else _ps_piece(columns, 1)

    def _headless(self, line: str) -> Piece | None:
        for shown in self._left:
            query = nvidia_smi_csv.query_of(shown)
            if query is not None:
                if nvidia_smi_csv.fits(query.layout, line):
                    return _csv_piece(query.layout, 0)
            elif ps.prints_table(shown) and not shown.reshaped and (ps.without_heading(shown) or shown.filtered):
                columns = ps.command_columns(shown)
                if columns is not None and ps.fits(columns, line):
                    return _ps_piece(ps.Layout(columns), 0)
            elif shown.tool == "fuser" and not shown.reshaped and fuser.bare_pids(line):
                return Piece(fuser.bare_pids, fuser.rows, _is_fuser)
            elif pgrep.prints_rows(shown) and pgrep.fits(line):
                return Piece(pgrep.fits, pgrep.rows, pgrep.prints_rows)
            elif len(line) <= _LISTING_LINE_CAP and (listing := without_heading(shown, self._left, line)) is not None:
                return _PIECES.get(listing) or _listing_piece(listing)
        return None


def _csv_piece(layout: nvidia_smi_csv.Layout, first: int) -> Piece:
    def read(segment: Segment) -> Iterator[Row]:
        query = nvidia_smi_csv.query_of(segment.shown) if segment.shown else None
        return nvidia_smi_csv.rows(segment, layout, first, query)

    def matches(shown: Shown) -> bool:
        query = nvidia_smi_csv.query_of(shown)
        return query is not None and len(query.layout.fields) == len(layout.fields)

    def fits(line: str) -> bool:
        return nvidia_smi_csv.fits(layout, line) or nvidia_smi_csv.is_error(line)

    return Piece(fits, read, matches, torn=lambda line: "," in line)


def _ps_piece(layout: ps.Layout, first: int) -> Piece:
    def read(segment: Segment) -> Iterator[Row]:
        return ps.rows(segment, layout, first)

    return Piece(lambda line: ps.fits(layout.columns, line), read, _is_ps, wraps=first > 0)


def is_table(shown: Shown) -> bool:
    """Plain ``nvidia-smi``, perhaps for one GPU."""
    return shown.tool == "nvidia-smi" and not _has(
        shown, "--query", "-q", "pmon", "dmon", "-L", "--list", "-r", "--gpu"
    )


def _log_piece(line: str) -> Piece | None:
    """Lines of a server's or the kernel's log, whatever command showed them."""
    return _LOG_PIECE if log_scan.fits(line) else None


def _log_rows(segment: Segment) -> Iterator[Row]:
    numbered = list(enumerate(segment.lines, segment.start))
    relative = kernel_log.relative_stamps(numbered, range(segment.start, segment.start + len(numbered)))
    return log_scan.telling_rows(segment.exhibit, numbered, relative)


def _nobody(_: Shown) -> bool:
    return False


def _is_fuser(shown: Shown) -> bool:
    return shown.tool == "fuser"


def _is_ps(shown: Shown) -> bool:
    return ps.prints_table(shown)


def _is_pmon(shown: Shown) -> bool:
    return shown.tool == "nvidia-smi" and _has(shown, "pmon")


def _is_q(shown: Shown) -> bool:
    return shown.tool == "nvidia-smi" and any(word in ("-q", "--query") for word in shown.argv)


def _has(shown: Shown, *beginnings: str) -> bool:
    return any(word.startswith(beginnings) for word in shown.argv[1:])


def _anything(_: str) -> bool:
    return True


def _listing_piece(listing: Listing) -> Piece:
    return Piece(
        lambda line: len(line) <= _LISTING_LINE_CAP and listing.continues(line), listing.rows, listing.printed_by
    )


def _begins(listing: Listing) -> Callable[[str], bool]:
    return lambda line: len(line) <= _LISTING_LINE_CAP and listing.begins(line)


_PIECES = {listing: _listing_piece(listing) for listing in LISTINGS}
_TABLE_PIECE = Piece(nvidia_smi_table.continues, nvidia_smi_table.rows, is_table)
_FUSER_PIECE = Piece(fuser.continues, fuser.rows, _is_fuser)
_PMON_PIECE = Piece(pmon.continues, pmon.rows, _is_pmon)
_Q_PIECE = Piece(nvidia_smi_q.continues, nvidia_smi_q.rows, _is_q)
_XML_PIECE = Piece(_anything, nvidia_smi_xml.rows, _is_q)
_LOG_PIECE = Piece(log_scan.begins, _log_rows, _nobody)
_FIXED: Sequence[tuple[Callable[[str], bool], Piece]] = (
    (fuser.begins, _FUSER_PIECE),
    (pmon.begins, _PMON_PIECE),
    (nvidia_smi_q.begins, _Q_PIECE),
    (nvidia_smi_xml.begins, _XML_PIECE),
    *((_begins(listing), piece) for listing, piece in _PIECES.items()),
    (log_scan.begins, _LOG_PIECE),
)
