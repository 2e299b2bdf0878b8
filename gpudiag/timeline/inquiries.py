"""Who was asked for and is not there: lists of chosen processes prove an absence that only a full table could else.

``ps -ef | grep vllm`` shows every process whose line passes the filter. A process that is known from another look,
whose recorded text passes it, and that is not in the answer, was gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpudiag.model import Inquiry
from gpudiag.shell.lines import Substitution
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.tools.listing import Looking, listed
from gpudiag.shell.world import Caller, Candidate, World
from gpudiag.timeline.lives import Census, Life, started_comm

_NOBODY = Caller(None, None)
MAX_INQUIRIES = 500
"""Lists that are compared with every process of the incident."""


def note_absent(census: Census, inquiries: Sequence[Inquiry]) -> None:
    """Tell the census whom the looks' questions did not find."""
    for inquiry in inquiries[:MAX_INQUIRIES]:
        if inquiry.at.look is None:
            continue
        for pid in inquiry.pids:
            census.note_missing(inquiry.at.look, inquiry.at.host, pid)
        for life in _asked_for(census, inquiry):
            census.note_absent(inquiry.at.look, life)


def _asked_for(census: Census, inquiry: Inquiry) -> Iterator[Life]:
    here = [life for life in census.lives if life.host == inquiry.at.host]
    own = [life for life in here if life.cmdline or life.comm]  # of a bare PID no filter can be tried
    yield from (life for life in own if (life.comm or started_comm(life.cmdline)) in inquiry.comms)
    produced = _produced(inquiry.pipeline)
    if produced is not None:
        yield from _passing(own, produced)


def _produced(pipeline: str | None) -> Substitution | None:
    """The pipeline as the shell stage reads it where its output becomes arguments."""
    if pipeline is None:
        return None
    line = parse_line(f"kill $({pipeline})", how="prompt")
    words = line.steps[0].words if len(line.steps) == 1 else ()
    lists = [one for word in words for one in word.substitutions]
    return lists[0] if len(lists) == 1 else None


def _passing(lives: Sequence[Life], produced: Substitution) -> Iterator[Life]:
    world = World(tuple(_candidates(lives)), complete=None)
    for life, verdict in zip(lives, listed(produced, Looking(world, _NOBODY)), strict=True):
        if verdict.selected is True:
            yield life


def _candidates(lives: Iterable[Life]) -> Iterator[Candidate]:
    for life in lives:
        line, cut = life.recorded_cmdline
        yield Candidate(
            pid=life.pid,
            ppid=life.born_ppid,
            user=life.string("user"),
            comm=life.comm,
            comm_cut=False,
            cmdline=line,
            cmdline_cut=cut,
            text_from="ps",
        )
