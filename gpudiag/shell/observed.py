"""What the recorded exit code, run time and output say about how far a line came."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpudiag.shell.carriers import chain
from gpudiag.shell.lines import STATUS_HOLE, Carrier, Line, Step
from gpudiag.shell.quoting import hole_parts
from gpudiag.shell.signals import KILLED_WORDS
from gpudiag.shell.syntax import program_of

_MAX_OUTPUT = 1024 * 1024
_CLOCK_SLACK_S = 0.2
_SSH_FAILED = 255
_NO_CONNECTION = re.compile(
    r"^(?:ssh: |kex_exchange|.*Permission denied \(|Host key verification failed|.*Connection (?:refused|timed out))",
    re.MULTILINE,
)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Observed:
    """What is recorded about the run of the line."""

    exit_code: int | None
    """Negative is a signal number, 128 + n the shell's form of it."""
    duration_s: float | None
    output: str | None
    """``""`` means that nothing was printed."""
    traced_dead_shell: bool | None = None
    """A kernel trace shows that the line's own shell was signalled and died (or that it was not)."""


def printed(step: Step, output: str | None) -> bool | None:
    """Whether the text of an ``echo`` stands in the output; ``None`` if the step prints nothing that is known."""
    pieces = _echo_pieces(step)
    if output is None or pieces is None:
        return None
    return any(_in_order(pieces, row) for row in output[:_MAX_OUTPUT].split("\n"))


def printed_status(step: Step, output: str | None) -> int | None:
    """The number that ``echo …$?`` printed: the exit code of what stood before it."""
    templates = [word.template for word in step.words[1:]]
    if output is None or program_of(step) != "echo" or not step.prints or "".join(templates).count(STATUS_HOLE) != 1:
        return None
    before, _, after = " ".join(templates).partition(STATUS_HOLE)
    if len(hole_parts(before)) != 1 or len(hole_parts(after)) != 1:
        return None
    found = re.search(rf"^{re.escape(before)}(\d{{1,3}}){re.escape(after)}\s*$", output[:_MAX_OUTPUT], re.MULTILINE)
    return int(found[1]) if found else None


def _echo_pieces(step: Step) -> list[str] | None:
    if program_of(step) != "echo" or not step.prints:
        return None
    words = [word.template for word in step.words[1:] if word.template not in ("-n", "-e", "-ne", "-en")]
    pieces = hole_parts(" ".join(words))
    return pieces if any(piece.strip() for piece in pieces) else None


def _in_order(pieces: list[str], row: str) -> bool:
    position = 0
    for piece in pieces:
        found = row.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def no_connection(output: str | None, exit_code: int | None) -> bool:
    """The ssh client says that it never got there."""
    failed = exit_code in (None, _SSH_FAILED)
    return failed and output is not None and _NO_CONNECTION.search(output[:_MAX_OUTPUT]) is not None


def sleep_seconds(step: Step) -> float:
    """How long a ``sleep`` takes at least; 0 for any other step."""
    if program_of(step) != "sleep":
        return 0.0
    total = 0.0
    for word in step.words[1:]:
        found = re.fullmatch(r"(\d{1,6}(?:\.\d{0,6})?)([smhd]?)", word.text or "")
        total += float(found[1]) * _UNITS[found[2]] if found else 0.0
    return total


def carrier_status(line: Line, step: Step, carrier: Carrier, observed: Observed) -> int | None:
    """The exit status of ``carrier`` itself, if what was recorded is that one's."""
    below = list(chain(line, step))
    outer = below[[one.index for one in below].index(carrier.index) :]
    for one in outer:
        if one.parent is None:
            return observed.exit_code
        probe = _probe_after(line, one)
        code = None if probe is None else printed_status(probe, observed.output)
        if code is not None:
            return code
        if not one.tail:
            # The recorded exit code is that of something after it.
            return None
    return None


def _probe_after(line: Line, carrier: Carrier) -> Step | None:
    """The step that directly follows this carrier's command in its parent."""
    inside = [s.index for s in line.steps if carrier.index in {one.index for one in chain(line, s)}]
    following = line.steps[inside[-1] + 1] if inside and inside[-1] + 1 < len(line.steps) else None
    return following if following is not None and following.carrier == carrier.parent else None


@dataclass(frozen=True)
class Death:
    """Whether a carrier was seen to die of a signal."""

    seen: bool | None
    how: str | None


def death(
    line: Line, step: Step, carrier: Carrier, signal: int | None, later: tuple[int, ...], observed: Observed
) -> Death:
    """Looks for signs that this step's signal ended the carrier, or that the carrier went on."""
    if observed.traced_dead_shell is not None:
        word = "died of the signal" if observed.traced_dead_shell else "was not signalled"
        return Death(observed.traced_dead_shell, f"the kernel trace shows that the shell {word}")
    went_on = next((line.steps[i] for i in later if printed(line.steps[i], observed.output)), None)
    if went_on is not None:
        return Death(False, f"the output has the text of a later step: {went_on.text[:80]}")
    by_code = _by_code(line, step, carrier, signal, observed)
    if by_code is not None:
        return by_code
    needed = sum(
        sleep_seconds(line.steps[i]) for i in later if line.steps[i].connector == ";" and not line.steps[i].branch
    )
    if observed.duration_s is not None and needed >= 1 and observed.duration_s + _CLOCK_SLACK_S < needed:
        text = f"the line took {observed.duration_s:.3g} s, the sleeps that follow the step take {needed:g} s"
        return Death(True, text)
    return _by_output(line, signal, later, observed)


def _by_code(line: Line, step: Step, carrier: Carrier, signal: int | None, observed: Observed) -> Death | None:
    code = carrier_status(line, step, carrier, observed)
    if code is None:
        return None
    if signal and code in (-signal, 128 + signal):
        return Death(True, f"exit code {code} is that of signal {signal}")
    through_ssh = carrier.kind == "ssh" or any(one.kind == "ssh" for one in chain(line, step))
    if through_ssh and code == _SSH_FAILED:
        if no_connection(observed.output, code):
            return Death(False, "exit code 255: the ssh client did not reach the host")
        return Death(True, "exit code 255: the remote shell ended by a signal")
    return Death(False, f"exit code {code} is not that of a shell ended by signal {signal}")


def _by_output(line: Line, signal: int | None, later: tuple[int, ...], observed: Observed) -> Death:
    if observed.output is None:
        return Death(None, None)
    word = KILLED_WORDS.get(signal or 0)
    rows = [row.strip() for row in observed.output[:_MAX_OUTPUT].split("\n")]
    if word is not None and word in rows:
        return Death(True, f"the output says {word}")
    for index in later:
        other = line.steps[index]
        if other.connector == ";" and not other.branch and printed(other, observed.output) is False:
            return Death(True, f"the output lacks the text of a later step: {other.text[:80]}")
    return Death(None, None)
