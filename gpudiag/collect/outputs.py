"""Where the command writes: a pipe, or a terminal of its own where the user's output is a terminal.

The user's own terminal stays the controlling one: it is what the command reads, what ``/dev/tty`` is and where ^C comes
from. The one made here is an output only. The reasons are in ADR 10.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import termios

_SIZE_BYTES = 8


def channel(target: int) -> tuple[int, int]:
    """Its end to read and its end to write, for what the user sees on descriptor ``target``."""
    if not os.isatty(target):
        return os.pipe()
    try:
        reading, writing = os.openpty()
    except OSError:
        return os.pipe()
    # The user's terminal makes of a line end what it should be; twice would be once too often.
    mode = termios.tcgetattr(writing)
    mode[1] &= ~termios.OPOST
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(writing, termios.TCSANOW, mode)
    copy_size(target, reading)
    return reading, writing


def copy_size(target: int, reading: int) -> None:
    """The user's window may be another size by now. Of a pipe there is none."""
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(target, termios.TIOCGWINSZ, bytes(_SIZE_BYTES))
        if size != fcntl.ioctl(reading, termios.TIOCGWINSZ, bytes(_SIZE_BYTES)):
            fcntl.ioctl(reading, termios.TIOCSWINSZ, size)


def read(reading: int, size: int) -> bytes:
    """What was written; nothing at the end. A terminal that nobody has open any more ends with an error."""
    try:
        return os.read(reading, size)
    except OSError:
        return b""
