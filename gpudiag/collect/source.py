"""One thing that is read from the machine: what it is called, how long it may take, how it is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Callable, NamedTuple, Protocol

from gpudiag.collect.machine import Machine


class Out(Protocol):
    """Where a source writes while it runs in a child process; every row is with the parent at once."""

    def line(self, text: str) -> None:
        """One row without its line break; undecodable bytes as surrogates (``surrogateescape``)."""

    def started(self, pid: int) -> None:
        """The child has started a process of its own, so that no rule takes it for somebody's."""


class Source:
    """A source of a bundle. ``produce`` and ``argv``: exactly one of them is given."""

    # Neither here nor elsewhere in the collector a data class: their module loads others that take longer than a look.
    def __init__(
        self,
        name: str,
        member: str,
        deadline_s: float,
        produce: Callable[[Out], None] | None = None,
        argv: tuple[str, ...] = (),
        command: str | None = None,
        evidence: str | None = None,
        absent: str | None = None,
        listens: bool = False,
        then: Following | None = None,
        most: int | None = None,
    ) -> None:
        self.name = name
        """What a person reads while it runs: ``kernel log``."""
        self.member = member
        """Name of its entry: ``kernel.log``. A look puts its folder in front."""
        self.deadline_s = deadline_s
        """After so many seconds the child is killed and left; what has arrived is kept."""
        self.produce = produce
        """Runs in a child process. Returns: ``ok``. Raises ``Ended``: that outcome, with the rows written so far.
        Anything else that it raises is an outcome ``truncated`` with the exception's words."""
        self.argv = argv
        """A program, by its path, that is run in place of ``produce``; both of its outputs are the rows."""
        self.command = command
        """What stands in the header line ``# <time> $ <command>``; ``None``: no header lines (JSON, XML)."""
        self.evidence = evidence
        """Class of evidence in the report's words (``open handles``), if the source is the whole of a class."""
        self.absent = absent
        """Why there is nothing to read (``nvidia-smi is not installed``): not run, its outcome is ``absent``."""
        self.listens = listens
        """``produce`` waits for a line from the collector (``child.heard``, ``Runner.tell``)."""
        self.then = then
        """Sources that are started when it has ended."""
        self.most = most
        """Bytes that are kept of it; when it has written more, it is ended. ``None``: as many as a bundle takes."""


class Following(Protocol):
    """Makes sources from what another one has written."""

    def __call__(self, text: str, /) -> Sequence[Source]:
        """None where nothing follows."""
        ...


class Ended(Exception):  # noqa: N818 - reads as a sentence where it is raised
    """How a source ended, if not well."""

    def __init__(self, outcome: str, because: str, exit_code: int | None = None) -> None:
        """``outcome``: ``ok`` (with a remark), ``absent``, ``denied``, ``timed_out`` or ``truncated``."""
        super().__init__(because)
        self.outcome = outcome
        self.because = because
        self.exit_code = exit_code


def from_lines(lines: Callable[[], Iterable[str]]) -> Callable[[Out], None]:
    """A ``produce`` of a function that gives its rows one by one; it may raise ``Ended``, also after some rows."""

    def produce(out: Out) -> None:
        for line in lines():
            out.line(line)

    return produce


class Context(NamedTuple):
    """What sources that are not part of a look may start from."""

    machine: Machine
    kills: tuple[tuple[str, str | None], ...] = ()
    """Stated kill commands with their times (RFC 3339), in order: ``--kill`` and ``--at``."""
    logs: tuple[str, ...] = ()
    """Paths that were given with ``--log``."""
    history: tuple[str, ...] | None = None
    """Lines of a shell's history that came through a pipe; ``None``: there was no ``--history -``."""
    ring: str | None = None
    """Folder of a flight recorder's ring that was given with ``--ring``."""
