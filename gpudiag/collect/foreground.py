"""The user's terminal while the command has it: who is in its foreground, and what ^Z means."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager


class Foreground:
    """Standard input, where it is the terminal on which this process is in the foreground; else nothing happens."""

    def __init__(self) -> None:
        try:
            self._terminal = 0 if os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp() else None
        except OSError:
            self._terminal = None

    def take(self) -> None:
        """For this process and its group; called in the command's own process before it becomes the command."""
        self._give(os.getpgrp())

    def suspend(self, group: int) -> None:
        """The command was stopped by ^Z: so is this process, for the shell that started it, until that goes on."""
        if self._terminal is None:
            return
        self._give(os.getpgrp())
        os.kill(os.getpid(), signal.SIGSTOP)
        # In the foreground again, by `fg`; in the background, by `bg`, the terminal is the shell's.
        with contextlib.suppress(OSError):
            if os.tcgetpgrp(self._terminal) == os.getpgrp():
                self._give(group)
            os.killpg(group, signal.SIGCONT)

    def _give(self, group: int) -> None:
        if self._terminal is None:
            return
        with _not_stopped(), contextlib.suppress(OSError):
            os.tcsetpgrp(self._terminal, group)


@contextmanager
def _not_stopped() -> Generator[None, None, None]:
    """Who is in the background and changes that is stopped otherwise."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTTOU, before)
