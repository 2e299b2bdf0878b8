"""The kernel's own word on every process and program that starts and every one that ends: its process connector.

Several sockets (netlink), because one of them wakes and the others do not: a program that kills lives for milliseconds
and has to be read at once; the rest can wait for the next pass. Filters in the kernel drop what threads do.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from ctypes import Structure, addressof, c_uint8, c_uint16, c_uint32, c_void_p, create_string_buffer, sizeof
from typing import NamedTuple

_NETLINK_CONNECTOR = 11
_CN_IDX_PROC = 1
_LISTEN = 1
_FORK, _EXEC, _EXIT = 0x00000001, 0x00000002, 0x80000000
_WHAT, _DATA = 36, 52
"""Where in a message the kind and what belongs to it stand: behind ``nlmsghdr`` and ``cn_msg``."""
_EVENT = struct.Struct("=IIQIIII")
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE = 26, 33
_BUFFER = 4 << 20
_MESSAGE = 4096
_INITIAL = "pid:[4026531836]"
_LOAD, _TO_X, _EQUAL, _EQUAL_X, _RETURN = 0x20, 0x07, 0x15, 0x1D, 0x06
"""Instructions of the kernel's classic packet filter."""
_READY_S = 1.0


class Event(NamedTuple):
    """One of them."""

    pid: int
    monotonic_s: float
    status: int | None
    """Of an end: as ``waitpid`` gives it."""


class Connector:
    """Starts and ends of processes. ``OSError`` with words: they cannot be had here."""

    def __init__(self) -> None:
        # The kernel answers nobody in another namespace, and its PIDs would be the wrong ones there.
        if os.readlink("/proc/self/ns/pid") != _INITIAL:  # noqa: PTH115
            raise OSError(errno.EPERM, "in a PID namespace of its own")
        self.starts = _subscribed(_EXEC, _DATA)
        self._births = _subscribed(_FORK, _DATA + 8)
        self._ends = _subscribed(_EXIT, _DATA)
        self.lost = False
        """There were more than could be taken since somebody asked last."""

    def started(self) -> Iterator[Event]:
        """Programs that have started since the last call."""
        return self._drained(self.starts)

    def born(self) -> Iterator[Event]:
        """Processes that were forked since the last call."""
        return self._drained(self._births)

    def ended(self) -> Iterator[Event]:
        """Processes that have ended since the last call."""
        return self._drained(self._ends)

    def _drained(self, source: socket.socket) -> Iterator[Event]:
        while True:
            try:
                data = source.recv(_MESSAGE)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self.lost = True
                continue
            if len(data) < _WHAT + _EVENT.size:
                continue
            what, _, stamp, pid, _, third, _ = _EVENT.unpack_from(data, _WHAT)
            if what == _FORK:
                yield Event(third, stamp / 1e9, None)
            elif what in (_EXEC, _EXIT):
                yield Event(pid, stamp / 1e9, third if what == _EXIT else None)


class _Step(Structure):
    _fields_ = (("code", c_uint16), ("true", c_uint8), ("false", c_uint8), ("value", c_uint32))


class _Program(Structure):
    _fields_ = (("length", c_uint16), ("steps", c_void_p))


def _subscribed(what: int, at: int) -> socket.socket:
    source = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_CONNECTOR)
    try:
        _filter(source, what, at)
        try:
            source.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        except OSError:
            source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        source.bind((0, _CN_IDX_PROC))
        order = struct.pack("=IIIIHHI", _CN_IDX_PROC, 1, 0, 0, 4, 0, _LISTEN)
        source.send(struct.pack("=IHHII", 16 + len(order), 3, 0, 0, 0) + order)
        source.settimeout(_READY_S)
        source.recv(_MESSAGE)  # The kernel's word that it will tell; without the right there is none.
        source.setblocking(False)
    except (OSError, ValueError) as error:
        source.close()
        words = "no answer" if isinstance(error, socket.timeout) else os.strerror(getattr(error, "errno", 0) or 0)
        raise OSError(errno.EPERM, words) from None
    return source


def _filter(source: socket.socket, what: int, at: int) -> None:
    """Let pass: this kind, of whole processes, and the answer to the subscription (kind 0). ``at``: where in a message
    of this kind the ids of the task and of its process stand.
    """
    steps = (_Step * 9)(
        _Step(_LOAD, 0, 0, _WHAT),
        _Step(_EQUAL, 5, 0, 0),
        _Step(_EQUAL, 0, 5, socket.htonl(what)),
        _Step(_LOAD, 0, 0, at),
        _Step(_TO_X, 0, 0, 0),
        _Step(_LOAD, 0, 0, at + 4),
        _Step(_EQUAL_X, 0, 1, 0),
        _Step(_RETURN, 0, 0, 0xFFFFFFFF),
        _Step(_RETURN, 0, 0, 0),
    )
    program = _Program(len(steps), addressof(steps))
    source.setsockopt(
        socket.SOL_SOCKET,
        _SO_ATTACH_FILTER,
        create_string_buffer(bytes(program), sizeof(program)).raw,
    )
