"""One call from a command and paths to what the command would do: read, parse, join, replay. Nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpudiag.evidence.exhibit import Input
from gpudiag.explain import read_evidence
from gpudiag.report.simulation import Simulation
from gpudiag.rules.book import Book
from gpudiag.rules.engines import load_engines
from gpudiag.simulation.choose import Wanted, choose, picks_of
from gpudiag.simulation.command import Asked
from gpudiag.simulation.outcome import describe, undecided_server
from gpudiag.simulation.scene import Stage
from gpudiag.timeline.incident import build_incident

ANY = Wanted()


class NoSuchServerError(ValueError):
    """The evidence has no such server or look as the person named; the message says what it has."""


@dataclass(frozen=True)
class Question:
    """What the person wants to know about each command."""

    run_by: str | None = None
    """The shell that gets it with ``-c``; ``None``: as ``over_ssh`` says, else typed at a prompt."""
    over_ssh: bool = False
    user: str | None = None
    wanted: Wanted = ANY


def simulate(commands: Sequence[str], paths: Sequence[Path], question: Question) -> tuple[Simulation, ...]:
    """One answer a command.

    Raises ``Unreadable`` if an input cannot be used, and ``NoSuchServerError``.
    """
    inputs, parsed = read_evidence(paths)
    engines = load_engines()
    stage = Stage(build_incident(parsed, Book(engines)), engines, _prompts(inputs))
    return tuple(simulate_one(stage, command, question) for command in commands)


def simulate_one(stage: Stage, command: str, question: Question) -> Simulation:
    """What one command would do."""
    names = [look.name for look in stage.incident.looks]
    if question.wanted.look is not None and question.wanted.look not in names:
        raise NoSuchServerError(
            f"no look is called {question.wanted.look!r}; there is {', '.join(names[:20]) or 'none'}."
        )
    asked = Asked(command, question.run_by, question.over_ssh, _script_text(stage, command))
    picks = picks_of(stage, asked, question.user, question.wanted)
    chosen = choose(stage, picks, question.wanted)
    if not chosen and question.wanted != ANY:
        shown = ", ".join(f"{pick.family.id} (root PID {pick.family.root_pid or 'not known'})" for pick in picks[:20])
        raise NoSuchServerError(f"the evidence shows no such server; it shows {shown or 'none'}.")
    return describe(stage, asked, chosen[0]) if len(chosen) == 1 else undecided_server(stage, asked, chosen)


def _prompts(inputs: Sequence[Input]) -> dict[str, str]:
    """Whose prompt each look was typed at; the last one where somebody became another user."""
    exhibits = (exhibit for item in inputs for exhibit in item.exhibits)
    return {exhibit.look: exhibit.user for exhibit in exhibits if exhibit.look is not None and exhibit.user is not None}


def _script_text(stage: Stage, command: str) -> str | None:
    """Text of the script, where the very command stands in the evidence with it."""
    recorded = (action for action in stage.incident.parsed.actions if action.text == command)
    return next((action.script_text for action in recorded if action.script_text is not None), None)
