"""The processes above a step: which there are, what they look like to a kill tool, and what a signal does to them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpudiag.shell.dialects import kill_dialects
from gpudiag.shell.lines import Carrier, Line, Step
from gpudiag.shell.signals import INT, KILL, QUIT, ends_by_default
from gpudiag.shell.syntax import program_of
from gpudiag.shell.world import Caller, Candidate

_FIRST_PID = -(10**12)
"""Carriers have no recorded PID; these numbers cannot be written in a kill command."""
_LOGIN_SHELLS = ("bash", "zsh", "sh", "dash", "ksh", "fish")
_PROMPTS = (
    "-bash",
    "bash",
    "-zsh",
    "zsh",
    "/bin/bash",
    "/usr/bin/bash",
    "-sh",
    "sh",
    "/bin/sh",
    "-fish",
    "/usr/bin/zsh",
)
_SHELL_KINDS = ("prompt", "unknown -c", "stated", "ssh", "su -c", "script")


@dataclass(frozen=True)
class Standin:
    """A carrier as the kill tool would find it; several where its shell is not known."""

    carrier: int
    candidates: tuple[Candidate, ...]
    uncertain: bool = False
    """It may not be there, or not be the youngest of its kind."""


def is_shell(carrier: Carrier) -> bool:
    return carrier.kind in _SHELL_KINDS or carrier.kind.endswith(" -c")


def chain(line: Line, step: Step) -> tuple[Carrier, ...]:
    """The carriers above the step, innermost first."""
    found: list[Carrier] = []
    index: int | None = step.started_by
    while index is not None:
        found.append(line.carriers[index])
        index = line.carriers[index].parent
    return tuple(found)


def above(line: Line, step: Step) -> tuple[Carrier, ...]:
    """Those carriers that live where the step's tool looks."""
    return tuple(one for one in chain(line, step) if one.host == step.host and one.kind != "none")


def standins(carriers: tuple[Carrier, ...], caller: Caller, newest_start: float, *, one_each: bool) -> list[Standin]:
    """Entries for the process table. A shell is younger than anything recorded, an inner one younger than an outer."""
    found: list[Standin] = []
    for carrier in carriers:
        looks = _looks(carrier)[: 1 if one_each and carrier.kind != "stated" else None]
        user = carrier.user or caller.user
        found.append(
            Standin(
                carrier.index,
                tuple(
                    Candidate(
                        pid=_FIRST_PID - carrier.index * 100 - number,
                        # It started after everything recorded, so it is in none of the recorded groups.
                        ppid=_FIRST_PID,
                        pgid=_FIRST_PID,
                        sid=_FIRST_PID,
                        uid=0 if user == "root" else None,
                        user=user,
                        comm=comm,
                        cmdline=cmdline,
                        cmdline_cut=carrier.cmdline_holes,
                        state="S",
                        start=newest_start + 1 + carrier.index,
                        kernel_thread=False,
                    )
                    for number, (cmdline, comm) in enumerate(looks)
                ),
                carrier.may_be_gone,
            )
        )
    return found


def _looks(carrier: Carrier) -> list[tuple[str | None, str | None]]:
    """Command line and comm, in each form that the shell may have."""
    prompts: list[tuple[str | None, str | None]] = [(text, text.rsplit("/", 1)[-1].lstrip("-")) for text in _PROMPTS]
    if carrier.kind == "prompt":
        return prompts
    if carrier.kind == "stated":
        return [*_looks(replace(carrier, kind="unknown -c")), *prompts]
    cmdline = carrier.cmdline
    if cmdline is None or carrier.comm is not None:
        return [(cmdline, carrier.comm)]
    first, _, rest = cmdline.partition(" ")
    if carrier.shell is not None:
        return [(cmdline, carrier.shell)]
    names = dict.fromkeys((first, *_LOGIN_SHELLS))
    return [(f"{name} {rest}", name.rsplit("/", 1)[-1].lstrip("-")) for name in names]


def element_below(line: Line, step: Step, carrier: Carrier) -> Carrier | None:
    """The carrier that ``carrier`` itself started on the way to the step; ``None`` if that is the step."""
    below: Carrier | None = None
    for one in chain(line, step):
        if one.index == carrier.index:
            return below
        below = one
    return below


def replaces_itself(line: Line, step: Step, carrier: Carrier) -> bool | None:
    """Whether the shell has become the program (exec), so that no shell is left to be hit.

    Measured: bash 5.2 does it for the last simple command of ``-c`` unless that has a redirection or a trap is set;
    dash 0.5.12 never does. Of other shells only the last command is in question.
    """
    element = element_below(line, step, carrier)
    tail = step.tail if element is None else element.tail
    redirected = step.redirected if element is None else element.redirected
    inside = step.forked or any(group.kind == "subshell" for group in step.groups)
    if element is None and "exec" in step.wrappers and is_shell(carrier) and not inside:
        return True
    if not is_shell(carrier) or carrier.kind in ("prompt", "script") or not tail or carrier.shell == "dash":
        return False
    trapped = any(program_of(s) == "trap" for s in line.steps if s.carrier == carrier.index and s.index < step.index)
    if carrier.shell == "bash":
        return not redirected and not trapped
    return None


def signal_ends(line: Line, step: Step, carrier: Carrier, signal: int | None) -> bool | None:
    """Whether this signal ends the carrier, as far as its program decides that."""
    if signal is None:
        return None
    if not ends_by_default(signal):
        return False
    if signal == KILL:
        return True
    if not is_shell(carrier):
        return True if carrier.kind == "ssh client" else None
    if carrier.kind == "prompt":
        return None
    if any(program_of(s) == "trap" for s in line.steps if s.carrier == carrier.index and s.index < step.index):
        return None
    if signal in (INT, QUIT) and step.fed_by is not None:
        # The list may name the xargs that is just starting; a child that dies of the interrupt takes the shell along.
        return None
    if signal in (INT, QUIT) and _sent_by_itself(line, step, carrier):
        # Nothing is waited for. bash ignores SIGQUIT, dash does not.
        return {"bash": signal == INT, "dash": True}.get(carrier.shell or "")
    if signal in (INT, QUIT) and element_below(line, step, carrier) is not None:
        # What it waits for may itself be hit: bash dies of the interrupt if that did.
        return None
    if signal in (INT, QUIT):
        # bash waits for its child and goes on if that did not die of the signal itself; dash has no such rule for INT.
        if carrier.shell == "bash":
            return False
        return True if carrier.shell == "dash" and signal == INT else None
    return True


def _sent_by_itself(line: Line, step: Step, carrier: Carrier) -> bool:
    """The shell's own kill sends it, not a program or a copy of the shell."""
    copied = step.forked or any(group.kind == "subshell" for group in step.groups)
    builtin = program_of(step) == "kill" and "program" not in kill_dialects(line, step)
    return builtin and not copied and step.carrier == carrier.index


def later_steps(line: Line, step: Step, carrier: Carrier) -> tuple[int, ...]:
    """Steps that this carrier has yet to start when the step runs."""
    if not is_shell(carrier):
        return ()
    below = element_below(line, step, carrier)
    found: list[int] = []
    same_pipeline = below is None
    for other in line.steps[step.index + 1 :]:
        same_pipeline = same_pipeline and other.connector == "|" and other.carrier == step.carrier
        indexes = {one.index for one in chain(line, other)}
        if same_pipeline or carrier.index not in indexes or (below is not None and below.index in indexes):
            continue
        found.append(other.index)
    return tuple(found)
