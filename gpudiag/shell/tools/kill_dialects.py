"""How each ``kill`` reads its arguments: the built-ins of bash and dash, and the program of procps.

Measured with bash 5.2.15, dash 0.5.12 and procps 4.0.2. They differ in what is pasted most: ``kill -9 -- -PGID``
reaches nobody under dash, and the program takes a negative number without ``--`` apart digit by digit, down to
``kill(-1)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpudiag.shell.lines import Word
from gpudiag.shell.signals import TERM, number_of

_INVALID = "invalid signal specification"


@dataclass(frozen=True)
class Request:
    """The arguments of one kill, understood."""

    signal: int | None = TERM
    targets: tuple[Word, ...] = ()
    error: str | None = None
    """It refuses the command and signals nobody."""
    exit_code: int = 1
    """With ``error``; also that of a target that is no number."""
    needs_all: bool = True
    """It succeeds only if every target could be signalled; otherwise one is enough."""
    stops: bool = True
    """It ends at the first target that is no number."""
    doubt: str | None = None
    """What it does with these arguments is not known."""
    no_target_code: int = 2
    complaint: str = "%s: arguments must be process or job IDs"
    """What it says about a target that is no number."""


@dataclass
class _Scan:
    """The words that are left, first one first."""

    words: list[Word] = field(default_factory=list[Word])

    def head(self) -> str:
        return self.words[0].template if self.words else ""

    def known(self) -> bool:
        return not self.words or self.words[0].text is not None

    def take(self) -> str:
        return self.words.pop(0).template


def bash(words: Sequence[Word]) -> Request:
    scan = _Scan(list(words))
    signal: int | None = TERM
    option = scan.head()
    if option in ("-l", "-L"):
        return Request(None, error="lists the signals only", exit_code=0)
    if re.match(r"-[sn]", option) and number_of(option[1:]) is None:
        scan.take()
        value = option[2:] or (scan.take() if scan.words else "")
        signal = number_of(value)
        if signal is None:
            return Request(None, error=f"{value}: {_INVALID}")
    elif option.startswith("-") and option != "--":
        signal = number_of(option[1:])
        if signal is None:
            return Request(None, error=f"{option[1:]}: {_INVALID}") if scan.known() else Request(None, doubt=_UNREAD)
        scan.take()
    if scan.head() == "--":
        scan.take()
    return Request(signal, tuple(scan.words), needs_all=False, stops=False)


def dash(words: Sequence[Word]) -> Request:
    scan = _Scan(list(words))
    signal: int | None = TERM
    option = scan.head()
    if option == "-l":
        return Request(None, error="lists the signals only", exit_code=0)
    if option == "--":
        scan.take()
    elif option.startswith("-"):
        signal = None if option[1:].upper().startswith("SIG") else number_of(option[1:])
        if signal is not None:
            # What follows a signal are targets, `--` too, which is no number.
            scan.take()
        elif not scan.known():
            return Request(None, doubt=_UNREAD)
        elif option.startswith("-s"):
            scan.take()
            value = option[2:] or (scan.take() if scan.words else "")
            signal = None if value.upper().startswith("SIG") else number_of(value)
            if signal is None:
                return Request(None, error=f"invalid signal number or name: {value}", exit_code=2)
            if scan.head() == "--":
                scan.take()
            elif scan.head().startswith("-"):
                return Request(None, error=f"Illegal option {scan.head()[:2]}", exit_code=2)
        else:
            return Request(None, error=f"Illegal option {option[:2]}", exit_code=2)
    return Request(signal, tuple(scan.words), exit_code=2, complaint="Illegal number: %s")


def program(words: Sequence[Word]) -> Request:
    scan = _Scan(list(words))
    signal: int | None = None
    targets: list[Word] = []
    while scan.words:
        option = scan.head()
        if option == "--":
            scan.take()
            if signal is None or signal < 0:
                return Request(TERM, doubt="kill -- without a plain signal before it differs between its makers")
            targets.extend(scan.words)
            break
        if not scan.known() or not option.startswith("-"):
            targets.append(scan.words.pop(0))
        elif option in ("-l", "-L", "--list", "--table"):
            return Request(None, error="lists the signals only", exit_code=0)
        elif signal is None and number_of(option[1:]) is not None:
            signal = number_of(scan.take()[1:])
        elif re.match(r"-s|--signal", option):
            value = re.sub(r"^(?:-s|--signal=?)", "", scan.take()) or (scan.take() if scan.words else "")
            signal = number_of(value)
            if signal is None:
                return Request(None, error=f"invalid argument {value}")
        elif re.fullmatch(r"-\d+", option):
            return Request(signal, doubt="the program kill misreads a negative number that has no -- before it")
        elif option == "-":
            targets.append(scan.words.pop(0))
        else:
            return Request(None, error=f"invalid argument {option[1:]}")
    chosen = TERM if signal is None else signal
    return Request(chosen, tuple(targets), no_target_code=1, complaint="failed to parse argument: '%s'")


_UNREAD = "an option depends on a variable or on another command"
DIALECTS: dict[str, Callable[[Sequence[Word]], Request]] = {"bash": bash, "dash": dash, "program": program}
