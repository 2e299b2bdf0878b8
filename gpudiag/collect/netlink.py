"""Process events as the kernel tells them over netlink (the *proc connector*): forks, execs, exits with their status.

It says when a process began and how it ended, and nothing about who sent a signal. It needs ``CAP_NET_ADMIN`` (root in
the first user and PID namespace); from Linux 6.6 on anybody in the first namespaces may listen. The layout is that of
``linux/cn_proc.h``; PIDs are those of the initial PID namespace.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import time
from typing import NamedTuple

from gpudiag.collect.source import Ended

FORK, EXEC, EXIT, COMM = "fork", "exec", "exit", "comm"

_NETLINK_CONNECTOR = 11
_CN_IDX_PROC = _CN_VAL_PROC = 1
_LISTEN, _IGNORE = 1, 2
_NLMSG_DONE = 3
_NETLINK_HEADER = struct.Struct("=IHHII")
_CONNECTOR_HEADER = struct.Struct("=IIIIHH")
_EVENT_HEADER = struct.Struct("=IIQ")
_ACKNOWLEDGED = 0
_KINDS = {0x1: FORK, 0x2: EXEC, 0x200: COMM, 0x80000000: EXIT}
_WORDS = struct.Struct("=IIII")
_COMM_BYTES = 16
_BUFFER_BYTES = 16 << 20
_DATAGRAM_BYTES = 4096
_ANSWER_S = 1.0
"""Where listening is not allowed, the kernel does not answer at all."""
_BATCH = 512
"""Events of one call at most, so that a fork storm does not keep its caller away from the rest of its work."""
_INITIAL_NAMESPACE = "pid:[4026531836]"


class Event(NamedTuple):
    """Something that happened to a process or one of its threads."""

    what: str
    """``fork``, ``exec``, ``exit`` or ``comm`` (it renamed itself)."""
    monotonic_ns: int
    pid: int
    """The thread. Of a fork: a thread of the parent, for a new thread one of the process above its own."""
    process: int
    """The process (thread group) of ``pid``; they are equal for the leading thread."""
    child: int | None = None
    """Of a fork: the new thread."""
    child_process: int | None = None
    """Of a fork: its process; another number than ``child`` means that no process began, but a thread."""
    status: int | None = None
    """Of an exit: as ``waitpid`` gives it."""
    comm: str | None = None


class Listener:
    """Hears the events of all processes from the moment on at which this is made."""

    def __init__(self) -> None:
        """``Ended``: this process may not listen, in words."""
        if _pid_namespace() != _INITIAL_NAMESPACE:
            raise Ended("absent", "in a PID namespace of its own: process events have other PIDs than are seen here")
        self.lost: str | None = None
        """Why the events are not complete."""
        self._sequences: dict[int, int] = {}
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_CONNECTOR)
        except OSError as error:
            raise Ended("absent", f"the kernel has no process events: {error.strerror}") from None
        try:
            self._subscribe()
        except OSError as error:
            self.close()
            outcome = "denied" if isinstance(error, PermissionError) else "absent"
            raise Ended(outcome, f"process events cannot be listened to: {error.strerror}") from None
        except Ended:
            self.close()
            raise

    def fileno(self) -> int:
        """For ``select``: readable when events wait."""
        return self._socket.fileno()

    def events(self, within_s: float) -> list[Event]:
        """Those that wait, in the order of arrival; if none does, the first that comes within these seconds."""
        found: list[Event] = []
        if not select.select([self._socket], [], [], within_s)[0]:
            return found
        for _ in range(_BATCH):
            try:
                data, sender = self._socket.recvfrom(_DATAGRAM_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self.lost = "more process events than could be read in time"
                continue
            if sender[0] == 0:  # from the kernel, and not from a process
                event = self._event(data)
                if event is not None:
                    found.append(event)
        return found

    def close(self) -> None:
        """Listen no more."""
        with contextlib.suppress(OSError):  # An older kernel goes on counting a listener that has not said so.
            self._say(_IGNORE)
        self._socket.close()

    def _subscribe(self) -> None:
        for option in (33, socket.SO_RCVBUF):  # 33: SO_RCVBUFFORCE, for those who may exceed the limit
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
                break
            except OSError:
                continue
        self._socket.bind((0, _CN_IDX_PROC))
        self._socket.setblocking(False)
        self._say(_LISTEN)
        end = time.monotonic() + _ANSWER_S
        while select.select([self._socket], [], [], max(0.0, end - time.monotonic()))[0]:
            try:
                data, sender = self._socket.recvfrom(_DATAGRAM_BYTES)
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    continue
                raise
            refused = _answer(data) if sender[0] == 0 else None
            if refused == 0:
                return
            if refused is not None:
                raise OSError(refused, os.strerror(refused))
        raise Ended("denied", "process events cannot be listened to: the kernel does not answer (another namespace?)")

    def _say(self, operation: int) -> None:
        body = _CONNECTOR_HEADER.pack(_CN_IDX_PROC, _CN_VAL_PROC, 0, 0, 4, 0) + struct.pack("=I", operation)
        head = _NETLINK_HEADER.pack(_NETLINK_HEADER.size + len(body), _NLMSG_DONE, 0, 0, 0)
        self._socket.send(head + body)

    def _event(self, data: bytes) -> Event | None:
        parts = _parts(data)
        if parts is None:
            return None
        sequence, what, processor, nanoseconds, rest = parts
        if what == _ACKNOWLEDGED:
            return None
        # Each processor counts its own events, also those that nobody could be told.
        expected = self._sequences.get(processor, sequence)
        if sequence != expected:
            self.lost = "some process events were not told"
        self._sequences[processor] = (sequence + 1) & 0xFFFFFFFF
        kind = _KINDS.get(what)
        return None if kind is None else _event(kind, nanoseconds, rest)


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return None


def _parts(data: bytes) -> tuple[int, int, int, int, bytes] | None:
    """Sequence number, kind, processor, time and the rest of one message of the proc connector."""
    start = _NETLINK_HEADER.size + _CONNECTOR_HEADER.size
    if len(data) < start + _EVENT_HEADER.size + _WORDS.size:
        return None
    index, value, sequence, _, _, _ = _CONNECTOR_HEADER.unpack_from(data, _NETLINK_HEADER.size)
    if (index, value) != (_CN_IDX_PROC, _CN_VAL_PROC):
        return None
    what, processor, nanoseconds = _EVENT_HEADER.unpack_from(data, start)
    return sequence, what, processor, nanoseconds, data[start + _EVENT_HEADER.size :]


def _answer(data: bytes) -> int | None:
    """The error number of an acknowledgement, 0 for none; ``None``: this is something else."""
    parts = _parts(data)
    if parts is None or parts[1] != _ACKNOWLEDGED:
        return None
    return int(_WORDS.unpack_from(parts[4])[0])


def _event(kind: str, nanoseconds: int, rest: bytes) -> Event:
    pid, process, third, fourth = _WORDS.unpack_from(rest)
    if kind == FORK:
        return Event(kind, nanoseconds, pid, process, child=third, child_process=fourth)
    if kind == EXIT:
        return Event(kind, nanoseconds, pid, process, status=third)
    if kind == COMM:
        name = rest[8 : 8 + _COMM_BYTES].split(b"\0")[0].decode("utf-8", "replace")
        return Event(kind, nanoseconds, pid, process, comm=name)
    return Event(kind, nanoseconds, pid, process)
