"""The command that is simulated: its words, who gives it, and what reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpudiag.shell.lines import Line
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.world import Caller, World

REMOTE = "remote"
"""Stands for the host that an ssh command was given."""


@dataclass(frozen=True)
class Asked:
    """One command line as the person states it."""

    text: str
    shell: str | None = None
    """The program that gets it with ``-c``: ``bash``, ``dash``; ``None``: it is typed at a prompt."""
    over_ssh: bool = False
    """It is given to an ssh client; the login shell of the other side reads it, ``shell`` if that is named."""
    script_text: str | None = None
    """Text of the script that it runs, where that was recorded."""

    def line(self, caller: Caller) -> Line:
        """Taken apart, with the processes that carry it."""
        argv: tuple[str, ...] | None = None
        if self.shell is not None:
            argv = (self.shell, "-c", self.text)
        elif self.over_ssh:
            argv = ("ssh", f"{caller.user}@{REMOTE}" if caller.user else REMOTE, self.text)
        how = "prompt" if argv is None else "argv"
        line = parse_line(self.text, how=how, argv=argv, script_text=self.script_text, user=caller.user)
        # Who logs in without a name is taken to be who gives the command; a recorded one may have been anybody.
        steps = (replace(step, user=step.user or (caller.user if step.host else None)) for step in line.steps)
        return replace(line, steps=tuple(steps))


def caller_of(user: str, world: World) -> Caller:
    """A user with the number that the process table shows for the name."""
    if user == "root":
        return Caller("root", 0)
    numbers = {process.uid for process in world.processes if process.user == user} - {None}
    return Caller(user, numbers.pop() if len(numbers) == 1 else None)
