"""Server logs, line by line: which process has which role, and what the server says about its own life and memory.

vLLM 0.8 to 0.33, SGLang, Ray, torchrun, accelerate, DeepSpeed, gunicorn, uvicorn, Jupyter, supervisord. ``TAG`` is
written in the common part of Python's and Rust's syntax, because ``log_scan`` uses both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, LogEvent, LogRole
from gpudiag.parse.log_stamps import WRAPPED, LogLine, unwrap
from gpudiag.parse.source import QUOTE_CAP
from gpudiag.parse.values import PID_CAP

ROLES_CAP = 10_000
_ANSI = r"(?:\x1b\[[0-9;]{0,12}m){0,4}"
TAG = rf"^{_ANSI}\r?{WRAPPED}{_ANSI}\(([A-Za-z][A-Za-z0-9_.:-]{{0,63}}(?: rank=[0-9]{{1,6}})? pid=[0-9]{{1,7}})\)"
"""The prefix that ties a role to a PID. Ray's ``(… pid=7, ip=…)`` is of another host and does not match."""
_TAG = re.compile(TAG)
_PID = r"(?P<pid>[0-9]{1,7})"


@dataclass(frozen=True)
class Fact:
    """One thing that servers say, and how."""

    kind: str
    pattern: str
    """Groups: ``pid`` and ``role`` of the process that the line is about; in GiB ``free``, ``total``, ``before`` (what
    was free before) and ``left`` (what is in use); ``gpu``; ``waited`` in seconds."""
    examples: tuple[str, ...]
    """As printed; a test holds the pattern and ``SIGNS`` to them."""
    own: bool = False
    """The process that writes the line is the one that it is about."""
    fatal: bool = False
    """The line is written when SIGKILL is sent to the process that it is about."""


def _said(kind: str, *words: str, own: bool = False) -> Fact:
    """A fact that needs no more than its words."""
    return Fact(kind, "|".join(re.escape(word) for word in words), words, own)


def _fact(kind: str, pattern: str, example: str, *, own: bool = False, fatal: bool = False) -> Fact:
    return Fact(kind, pattern, (example,), own, fatal)


_SIGNAL = r"SIG[A-Z]{3,5}"
_TITLE = r"(?P<role>[A-Za-z0-9_:-]{1,64})"
FACTS = (
    _fact(
        "low_memory_start",
        r"Free memory on device(?: [^ ]{1,16})? \((?P<free>[0-9.]{1,12})/(?P<total>[0-9.]{1,12}) GiB\) on startup is",
        "Free memory on device cuda:0 (8.88/121.69 GiB) on startup is less than desired GPU memory utilization",
        own=True,
    ),
    _fact(
        "memory_freed",
        r"Error in memory profiling.{1,40}nitial free memory (?P<before>[0-9.]{1,12}) GiB, "
        r"current free memory (?P<free>[0-9.]{1,12}) GiB",
        "Error in memory profiling. Initial free memory 10.0 GiB, current free memory 12.5 GiB.",
        own=True,
    ),
    _fact(
        "still_in_use",
        r"still not idle after waiting (?P<waited>[0-9.]{1,8})s.{0,120}?GPU (?P<gpu>[0-9]{1,4}) uses "
        r"(?P<left>[0-9.]{1,12}) GiB",
        "GPU(s) still not idle after waiting 60s before setUpClass: GPU 0 uses 12.00 GiB (no other compute processes)",
    ),
    _said("host_cache", "enable_hierarchical_cache=True", "kv_connector='OffloadingConnector'", own=True),
    _fact(
        "host_cache",
        r"Allocating [0-9.]{1,12} GB host memory for hierarchical KV cache",
        "Allocating 243.00 GB host memory for hierarchical KV cache.",
        own=True,
    ),
    _said("client_lost", "No registered GPU context found for instance ID", own=True),
    # Ray's OutOfMemoryError is about host memory.
    _said("oom", "CUDA out of memory", "CUDA error: out of memory", "HIP out of memory", own=True),
    _said("address_in_use", "address already in use", "Address already in use", "EADDRINUSE", own=True),
    # gunicorn names itself in the message, too; docker's JSON escapes the angle brackets.
    _said("parent_exited", "Parent changed, shutting down", own=True),
    _said("parent_exited", "Parent process exited, terminating", "Parent appears to have exited", own=True),
    _said("parent_exited", "Shutting down the core worker because the local raylet failed", own=True),
    _said("parent_exited", "actor is dead because its owner has died", own=True),
    _fact(
        "death",
        rf"(?:Worker|Engine core) proc {_TITLE} died unexpectedly",
        "Worker proc VllmWorker-1 died unexpectedly, shutting down executor.",
    ),
    _fact(
        "death",
        r"MPClient: (?P<role>engine core) exited unexpectedly",
        "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
    ),
    _said("death", "EngineCore encountered a fatal error", "Scheduler hit an exception", own=True),
    _said("death", "Fatal Python error", own=True),
    _fact(
        "death",
        rf"failed \(exitcode: -?[0-9]{{1,4}}\) local_rank: [0-9]{{1,5}} \(pid: {_PID}\)",
        "failed (exitcode: -9) local_rank: 1 (pid: 22) of binary: /usr/bin/python3",
    ),
    _fact("shutdown", rf"Signal 15 \(SIGTERM\) received by PID {_PID}", "Signal 15 (SIGTERM) received by PID 21"),
    _fact(
        "death",
        rf"Signal [0-9]{{1,2}} \([A-Z0-9]{{3,12}}\) received by PID {_PID}",
        "Signal 9 (SIGKILL) received by PID 22",
    ),
    _fact("death", rf"Child process \[{_PID}\] died", "INFO:     Child process [20] died"),
    _fact("death", rf"Worker \(pid: ?{_PID}\) was sent {_SIGNAL}!", "Worker (pid:19) was sent SIGKILL! Perhaps out"),
    _fact(
        "death",
        rf"DataLoader worker \(pid\(?s?\)? {_PID}",
        "RuntimeError: DataLoader worker (pid 911) is killed by signal: Killed. ",
    ),
    _said("death", " exits with return code = ", "Triggering SIGQUIT for cleanup", "restarting kernel ("),
    _fact(
        "death",
        rf"exited: (?P<role>[^ ]{{1,80}}) \(terminated by {_SIGNAL}; not expected\)",
        "exited: model (terminated by SIGKILL; not expected)",
    ),
    _said("death", "A worker died or was killed while executing", "Raylet is terminated. Termination is unexpected"),
    _said("death", "The raylet exited immediately because", "exit_type = SYSTEM_ERROR"),
    _fact(
        "shutdown",
        rf"force killing (?:remaining|sub) process {_TITLE} pid {_PID}",
        "[shutdown] force killing sub process VLLM::Worker_TP0 pid 67",
        fatal=True,
    ),
    _fact(
        "shutdown",
        rf"Process manager: send sigterm to process {_TITLE}",
        "[shutdown] Process manager: send sigterm to process EngineCore",
    ),
    _fact("shutdown", rf"Sending process {_PID} closing signal {_SIGNAL}", "Sending process 21 closing signal SIGTERM"),
    _fact(
        "shutdown",
        rf"Unable to shutdown process {_PID} via ",
        "Unable to shutdown process 24 via 15, forcefully exiting via 9",
    ),
    _fact("shutdown", rf"Killing subprocess {_PID}", "Killing subprocess 21"),
    _fact(
        "shutdown",
        rf"kill_process_tree called: parent_pid={_PID}",
        "kill_process_tree called: parent_pid=812",
        fatal=True,
    ),
    _fact("shutdown", rf"Finished (?:server|parent) process \[{_PID}", "INFO:     Finished server process [44]"),
    _fact("shutdown", rf"Worker exiting \(pid: {_PID}\)", "[INFO] Worker exiting (pid: 19)"),
    _fact("shutdown", rf"Process {_PID} got signal: ", "SignalException: Process 18 got signal: 15"),
    _said("shutdown", "[shutdown] ", "WorkerProc shutting down", " death signal, shutting down workers", own=True),
    _said("shutdown", "SIGTERM received", "SIGQUIT received", "SIGINT received", "Handling signal: ", own=True),
    _fact("shutdown", r"received signal [0-9]{1,2}, stopping", "received signal 15, stopping", own=True),
    _fact("shutdown", rf"Main process received {_SIGNAL}, exiting", "Main process received SIGINT, exiting", own=True),
    _fact("shutdown", r"INFO: {1,8}Shutting down", "INFO:     Shutting down", own=True),
    _fact("shutdown", r"Shutting down [0-9]{1,6} kernel", "Shutting down 1 kernel", own=True),
    _said("shutdown", "Waiting for application shutdown", "Application shutdown complete", own=True),
    _said("shutdown", "Quick exit - terminating process immediately", own=True),
    _fact(
        "shutdown", rf"stopped: (?P<role>[^ ]{{1,80}}) \(terminated by {_SIGNAL}", "stopped: a (terminated by SIGTERM)"
    ),
    _fact("shutdown", r"Stopped (?:all|only) [0-9]{1,6} .{0,24}Ray processes", "Stopped all 10 Ray processes."),
    _said("startup_complete", "Application startup complete", "The server is fired up and ready to roll", own=True),
    _fact(
        "startup_complete",
        r"Jupyter Server [0-9.]{1,16} is running at",
        "Jupyter Server 2.21.1 is running at:",
        own=True,
    ),
    _said("startup_complete", "Ray runtime started", "Started a local Ray instance"),
    _fact(
        "startup_complete",
        r"success: (?P<role>[^ ]{1,80}) entered RUNNING state",
        "success: model entered RUNNING state, process has stayed up",
    ),
    _said(
        "loading", "Starting to load model", "Loading weights took", "Load weight begin", "Load weight end", own=True
    ),
    _fact("loading", r"Initializing an? (?:V[01] )?LLM engine", "Initializing a V1 LLM engine (v0.32.0)", own=True),
    _fact(
        "role",
        rf"Started (?P<role>server|parent|reloader) process \[{_PID}",
        "INFO:     Started server process [44]",
    ),
    _fact(
        "role",
        rf"Started (?P<role>[A-Za-z ]{{1,40}}) process (?:\(PID: |with pid ){_PID}",
        "Started DP Coordinator process (PID: 51)",
    ),
    _fact("role", r"Using worker: (?P<role>[\w.]{1,60})", "[INFO] Using worker: gthread", own=True),
    _fact("role", rf"Booting (?P<role>worker) with pid: {_PID}", "Booting worker with pid: 19"),
    _fact("role", rf"spawned: '(?P<role>[^']{{1,80}})' with pid {_PID}", "spawned: 'model' with pid 26"),
    _fact("role", rf"(?P<role>supervisord) started with pid {_PID}", "supervisord started with pid 18"),
    _fact("role", rf"process {_PID} spawned with command: ", "process 22 spawned with command: ['python3']"),
    _fact("role", rf"Listening at: .{{1,120}} \({_PID}\)", "Listening at: http://127.0.0.1:8000 (18)"),
)
_COMPILED = tuple((fact, re.compile(fact.pattern)) for fact in FACTS)
_GIB = r"(?P<gib>[0-9.]{1,12}) (?P<unit>[GM]iB) memory in use"
_OTHERS = re.compile(rf"Process {_PID} has {_GIB}")
_THIS = re.compile(rf"this process has {_GIB}")
_OTHERS_CAP = 64
_GPU = re.compile(r"GPU ([0-9]{1,4}) has a total capacity of ")

SIGNS = (
    "(PID: ",
    "(pid:",
    "Core encountered",
    "DataLoader worker",
    "EADDRINUSE",
    "host memory for",
    "Error in memory profiling",
    "Fatal Python",
    "Jupyter Server ",
    "Killing subprocess",
    "LLM engine (",
    "Listening at",
    "Load weight ",
    "Main process received",
    "No registered GPU context",
    "Parent ",
    "Quick exit",
    "RUNNING state",
    "Ray processes",
    "Ray runtime",
    "SIGINT received",
    "SIGQUIT received",
    "SIGTERM received",
    "SYSTEM_ERROR",
    "Scheduler hit",
    "Triggering SIGQUIT",
    "Using worker: ",
    "ddress already in use",
    "er died",
    "exits with return",
    "hierarchical_cache=True",
    "not idle after",
    "OffloadingConnector",
    "fired up",
    "hutting down",
    "kill_process_tree",
    "l Ray",
    "oad model",
    "on startup",
    "owner has died",
    "raylet",
    "received by PID",
    "restarting kernel",
    "shutdown",
    "signal",
    "spawned",
    "ss [",
    "startup complete",
    "terminated by SIG",
    "th pid",
    "unexpected",
    "ut of memory",
    "was sent SIG",
    "weights took",
)
"""A line without any of these tells nothing but perhaps a role. Few, because a whole file is searched for them, and
none so short that it costs more than it saves; what they find too much is sorted out afterwards. Their first three
letters are rare in what a server prints while it serves (``Core enc``, because ``Engine 000`` is in every other line):
that is what the search looks for."""


def tag_of(line: str) -> str | None:
    """``Worker_TP0 pid=887`` if the line begins with such a prefix."""
    match = _TAG.match(line)
    return match[1] if match else None


def role_row(line: str, cited: Citation, host: str) -> LogRole | None:
    """The role that the line's prefix names."""
    role, _, pid = (tag_of(line) or "").rpartition(" pid=")
    return LogRole(int(pid), role, cited, host) if role and 0 < int(pid) <= PID_CAP else None


def roles(exhibit: Exhibit) -> Iterator[LogRole]:
    """Each role and PID once, at its first line, wherever a text shows such lines."""
    if " pid=" not in exhibit.text:
        return
    seen: set[str] = set()
    for number, line in enumerate(exhibit.text.split("\n"), exhibit.first_line):
        tag = tag_of(line[:4096])
        if tag is None or tag in seen:
            continue
        if len(seen) >= ROLES_CAP:
            return
        seen.add(tag)
        row = role_row(line, Citation(exhibit.input, exhibit.member, number, line[:QUOTE_CAP]), exhibit.host)
        if row is not None:
            yield row


def events(line: str, cited: Citation, host: str) -> Iterator[LogEvent]:
    """What one line says; nothing if it says nothing that is kept."""
    front = unwrap(line)
    for fact, pattern in _COMPILED:
        match = pattern.search(front.body)
        if match is not None:
            yield _event(fact, match, front, cited, host)
            if fact.kind == "oom":
                yield from _others(front, cited, host)
            return


def _event(fact: Fact, match: re.Match[str], front: LogLine, cited: Citation, host: str) -> LogEvent:
    groups = match.groupdict()
    pid = int(groups["pid"]) if groups.get("pid") else front.pid if fact.own else None
    own = _THIS.search(front.body) if fact.kind == "oom" else None
    return LogEvent(
        kind=fact.kind,
        pid=pid if pid is not None and 0 < pid <= PID_CAP else None,
        role=groups.get("role") or (front.role if fact.own else None),
        time_ns=None,
        time_error_ns=0,
        text=front.body.strip()[:QUOTE_CAP],
        cited=cited,
        host=host,
        stamp=front.stamp,
        mib=_mib(own) if own else _gib(groups.get("left")) or _gained(groups),
        free_mib=_gib(groups.get("free")),
        total_mib=_gib(groups.get("total")),
        gpu_index=int(groups["gpu"]) if groups.get("gpu") else _named_gpu(fact, front),
        waited_s=_seconds(groups.get("waited")),
        fatal=fact.fatal,
    )


def _gained(groups: Mapping[str, str | None]) -> float | None:
    """How much more is free than before; less is no gain."""
    before, now = _gib(groups.get("before")), _gib(groups.get("free"))
    return now - before if before is not None and now is not None and now > before else None


def _named_gpu(fact: Fact, front: LogLine) -> int | None:
    match = _GPU.search(front.body) if fact.kind == "oom" else None
    return int(match[1]) if match else None


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _others(front: LogLine, cited: Citation, host: str) -> Iterator[LogEvent]:
    """The other processes that an out-of-memory message names."""
    for number, match in enumerate(_OTHERS.finditer(front.body)):
        pid = int(match["pid"])
        if number >= _OTHERS_CAP:
            return
        if 0 < pid <= PID_CAP:
            text = match[0]
            own = _GPU.search(front.body)
            yield LogEvent(
                "memory_in_use",
                pid,
                None,
                None,
                0,
                text,
                cited,
                host=host,
                stamp=front.stamp,
                mib=_mib(match),
                gpu_index=int(own[1]) if own else None,
            )


def _mib(match: re.Match[str] | None) -> float | None:
    if match is None:
        return None
    gib = _gib(match["gib"])
    return gib if gib is None or match["unit"] == "GiB" else gib / 1024


def _gib(text: str | None) -> float | None:
    """GiB as printed, in MiB."""
    try:
        return float(text) * 1024 if text else None
    except ValueError:
        return None
