"""One command against one look: who is reached by which step, and what cannot be told."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpudiag.kill_words import may_kill
from gpudiag.rules.book import Book
from gpudiag.shell.replay import CarrierReplay, Observed, Replay, StepReplay
from gpudiag.shell.replay import replay as replay_line
from gpudiag.shell.selection import Verdict
from gpudiag.shell.signals import fatal
from gpudiag.shell.syntax import program_of
from gpudiag.shell.tools.common import all_of, any_of
from gpudiag.shell.world import Caller
from gpudiag.simulation.command import Asked
from gpudiag.simulation.scene import Scene

HARMLESS = frozenset(
    {
        ":", "[", "[[", "awk", "basename", "case", "cat", "cd", "clear", "column", "cut", "date", "declare", "df",
        "dirname",
        "dmesg", "du", "echo", "env", "exit", "export", "false", "free", "fuser", "grep", "egrep", "fgrep", "head",
        "history", "hostname", "id", "journalctl", "jobs", "kill", "less", "local", "ls", "lsof", "netstat", "nproc",
        "nvidia-smi", "nvtop", "pgrep", "pidof", "printf", "ps", "pstree", "pwd", "read", "return", "sed", "seq", "set",
        "sleep", "sort", "ss", "stat", "sync", "tail", "tee", "test", "top", "touch", "tr", "trap", "true", "type",
        "ulimit", "umask", "uname", "uniq", "unset", "uptime", "w", "wait", "watch", "wc", "which", "who", "whoami",
    }
)  # fmt: skip
"""Programs that end no process of others, whatever their arguments."""
CONTROLLERS = frozenset(
    {"docker", "kubectl", "nerdctl", "podman", "ray", "screen", "service", "supervisorctl", "systemctl", "tmux"}
)
"""Programs that end something by some of their words only."""


@dataclass(frozen=True)
class Touch:
    """One step against one process."""

    step: int
    reached: bool | None
    because: str


@dataclass(frozen=True)
class Effect:
    """What the whole line does to the processes of the look."""

    scene: Scene
    caller: Caller
    replay: Replay
    obscure: tuple[str, ...]
    """Why some of it cannot be told at all: steps that are not understood."""

    @cached_property
    def touches(self) -> dict[int, tuple[Touch, ...]]:
        """By PID, one a killing step."""
        found: dict[int, list[Touch]] = {pid: [] for pid in self.scene.lives}
        for step in self.replay.steps:
            selection = step.selection
            for verdict in selection.verdicts if selection is not None else ():
                if verdict.pid in found:
                    found[verdict.pid].append(_touch(step, verdict))
        return {pid: tuple(touches) for pid, touches in found.items()}

    def reached(self, pid: int) -> bool | None:
        """Whether any step signals it; a step that is not understood may."""
        answer = any_of(touch.reached for touch in self.touches[pid])
        return None if answer is False and self.obscure else answer

    def ends(self, pid: int) -> bool | None:
        """Whether a signal that reaches it ends it: a handler may, or may not."""
        process = self._candidates[pid]
        steps = {touch.step for touch in self.touches[pid] if touch.reached}
        return any_of(fatal(self.replay.steps[index].signal, process) for index in steps)

    def signals(self, pid: int) -> frozenset[int | None]:
        """Numbers of the signals that reach it."""
        steps = {touch.step for touch in self.touches[pid] if touch.reached}
        return frozenset(self.replay.steps[index].signal for index in steps)

    @cached_property
    def shells(self) -> tuple[CarrierReplay, ...]:
        """Shells and clients that carry the line and are ended by it."""
        return tuple(row for row in self.replay.carriers if self._is_ended(row) is True)

    @cached_property
    def shells_in_doubt(self) -> bool:
        """Whether it also hits what carries it cannot be told."""
        return any(self._is_ended(row) is None for row in self.replay.carriers)

    def _is_ended(self, row: CarrierReplay) -> bool | None:
        step = self.replay.steps[row.step]
        if row.execs or row.carrier.host != step.step.host:
            return False
        lives_on = None if row.execs is None else True
        return all_of((row.matches, row.signal_fatal, step.ran, lives_on))

    @cached_property
    def _candidates(self):
        return {process.pid: process for process in self.scene.world.processes}


def effect_of(asked: Asked, scene: Scene, caller: Caller, book: Book) -> Effect:
    """Replay the command on the look."""
    line = asked.line(caller)
    done = replay_line(line, scene.world, caller, Observed(None, None, None))
    obscure = [f"not understood: {note}" for note in line.not_understood]
    obscure += [reason for step in done.steps if (reason := _obscure(step, book)) is not None]
    if not done.steps and not obscure:
        obscure = ["it holds no command"]
    return Effect(scene, caller, done, tuple(obscure))


def _touch(step: StepReplay, verdict: Verdict) -> Touch:
    if step.ran is False:
        return Touch(step.step.index, False, f"the step does not run: {step.ran_because}")
    if step.signal == 0 and verdict.selected:
        return Touch(step.step.index, False, "signal 0 only asks whether it is there")
    reached = all_of((step.ran, verdict.selected, verdict.permitted))
    because = verdict.because
    if verdict.selected and verdict.permitted is False:
        because = f"{because}, but the caller may not signal it"
    elif verdict.selected and verdict.permitted is None:
        because = f"{because}; whether the caller may signal it is not known"
    elif verdict.selected and step.ran is None:
        because = f"{because}; whether the step runs is not known: {step.ran_because}"
    return Touch(step.step.index, reached, because)


def _obscure(step: StepReplay, book: Book) -> str | None:
    """Why a step may do something that is not worked out here."""
    if step.ran is False:
        return None
    shown = step.step.text[:200]
    if step.selection is not None:
        return None if step.selection.understood else f"the effect of `{shown}` is not worked out"
    program = program_of(step.step)
    if program in HARMLESS and not (program == "nvidia-smi" and may_kill(shown)):
        return None
    if program in CONTROLLERS and not may_kill(step.step.text):
        return None
    words = " ".join(word.text or "" for word in step.step.words)
    if book.role_of(None, words) is not None:
        return None  # it starts a server
    return f"the effect of `{shown}` is not known"
