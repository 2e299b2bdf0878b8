"""What it means that a command printed nothing that a parser knows: an empty list, a failure, or something new."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Citation, Coverage, Damage, GpuReading, GpuRef
from gpudiag.parse import fuser, lsof, nvidia_smi_csv, pgrep, ps
from gpudiag.parse.commands import Shown, shown_commands
from gpudiag.parse.parsed import Row
from gpudiag.parse.segments import Pieces, is_table
from gpudiag.parse.source import QUOTE_CAP, Segment, cite_command, place_of
from gpudiag.parse.values import bus_in, is_fault
from gpudiag.shell.syntax import simple_commands

_SOURCES = {
    "nvidia-smi": ("gpu memory", "compute processes"),
    "ps": ("process table",),
    "fuser": ("open handles",),
    "lsof": ("open handles",),
    "pgrep": ("process table",),
}
_TIMED_OUT = (124, 137, -9)
"""timeout(1)'s own code, and a kill: nobody else kills a tool that only reads."""
_ECHOED = re.compile(r"\s*\w{0,16}=?(\d{1,3})\s*\Z")
_PROGRAM = re.compile(r"(?:^|: )(?:/[\w./-]*/)?([a-z][\w-]{1,30})(?=: )")
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ssh", "sudo", "timeout", "line"})
_FAILURES = (
    ("timed_out", re.compile(r"^(?:Killed|Terminated|Alarm clock)\s*$")),
    ("absent", re.compile(r"command not found|: not found|No such file or directory|error while loading shared")),
    ("denied", re.compile(r"[Pp]ermission denied|Operation not permitted|Insufficient Permissions")),
    (
        "absent",
        re.compile(
            r"NVIDIA-SMI has failed|couldn't communicate with the NVIDIA driver|No devices were found"
            r"|Failed to initialize NVML|Unable to determine the device handle|GPU is lost|requires reset"
            r"|No such container|[Cc]onnection (?:refused|closed|timed out)|Could not resolve|error code"
        ),
    ),
)


def rows(exhibit: Exhibit, pieces: Pieces) -> Iterator[Row]:
    """Coverage for each command of the exhibit that no piece was assigned to."""
    for shown in pieces.silent:
        if shown.tool in _SOURCES and not shown.reshaped and not _doubled(exhibit, shown):
            yield from _silent(exhibit, pieces, shown)


def kernel_log(exhibit: Exhibit) -> Iterator[Row]:
    """Somebody asked the kernel. Complete: without a filter; ``None``: with one that keeps what the driver says."""
    for argv in simple_commands(exhibit.command or "")[:1]:
        tool = argv[0].rpartition("/")[2] if argv else ""
        if tool != "dmesg" and not (tool == "journalctl" and {"-k", "--dmesg"} & set(argv)):
            continue
        denied = next((line for line in exhibit.text.split("\n")[:3] if "not permitted" in line), None)
        if denied is not None:
            because = denied.strip()[:QUOTE_CAP]
            yield Coverage(place_of(exhibit), "kernel log", "denied", because, cite_command(exhibit), complete=False)
            return
        searches = [argv for argv in simple_commands(exhibit.command or "")[1:] if argv and argv[0].endswith("grep")]
        shown = next((shown for shown in shown_commands(exhibit.command) if shown.tool == tool), None)
        keeps = any(word in " ".join(argv) for argv in searches for word in ("NVRM", "Xid", "nvidia"))
        whole = True if shown is not None and not shown.filters else None if keeps else False
        yield Coverage(place_of(exhibit), "kernel log", "ok", None, cite_command(exhibit), complete=whole)


def _doubled(exhibit: Exhibit, shown: Shown) -> bool:
    """``lsof`` beside ``fuser`` in one line asks the same question again; what fuser said is the answer."""
    return shown.tool == "lsof" and any(other.tool == "fuser" for other in shown_commands(exhibit.command))


def _silent(exhibit: Exhibit, pieces: Pieces, shown: Shown) -> Iterator[Row]:
    sources = _asked(shown)
    failure = _failure(exhibit, pieces, shown)
    if failure is not None and sources:
        outcome, because, cited = failure
        if is_fault(because):
            gpu = GpuRef(bus_id=bus_in(because))
            yield GpuReading(place_of(exhibit), gpu, "device", None, because, cited)
        for source in sources:
            yield Coverage(place_of(exhibit), source, outcome, because, cited, complete=False)
        return
    segment = Segment(exhibit, place_of(exhibit), 0, (), shown)
    query = nvidia_smi_csv.query_of(shown)
    if shown.tool == "fuser":
        yield from fuser.coverage(segment)
    elif shown.tool == "lsof":
        yield from lsof.coverage(segment)
    elif query is not None and query.layout.of_processes and not query.heading:
        yield from nvidia_smi_csv.coverage(segment, query.layout, query)
    elif _asks_for_some(shown, pieces):
        # That nothing came says something about those names or PIDs only, not about the table.
        yield segment.coverage("process table", complete=False)
    elif sources and (pieces.unclaimed or is_table(shown) or query is not None):
        yield from _not_understood(exhibit, pieces, sources)


def _asks_for_some(shown: Shown, pieces: Pieces) -> bool:
    """The command lists chosen processes, and no process is an answer."""
    if shown.tool == "ps":
        return not ps.scope_of(shown, None).everything
    return pgrep.prints_rows(shown) and not pieces.unclaimed


def _asked(shown: Shown) -> tuple[str, ...]:
    """The classes of evidence that the command would have given."""
    if shown.tool == "nvidia-smi" and not is_table(shown):
        query = nvidia_smi_csv.query_of(shown)
        if query is None:
            return ()
        return ("compute processes",) if query.layout.of_processes else ("gpu memory",)
    return _SOURCES[shown.tool]


def _failure(exhibit: Exhibit, pieces: Pieces, shown: Shown) -> tuple[str, str, Citation] | None:
    for position in pieces.unclaimed:
        line = pieces.lines[position]
        if _is_about_another(line, shown):
            continue
        for outcome, pattern in _FAILURES:
            if pattern.search(line):
                return outcome, line.strip()[:QUOTE_CAP], _cite(exhibit, pieces, position)
    code = exhibit.exit_code if exhibit.exit_code is not None else echoed(exhibit, pieces)
    if code in _TIMED_OUT:
        return "timed_out", f"ended with exit code {code}", cite_command(exhibit)
    return None


def _is_about_another(line: str, shown: Shown) -> bool:
    """The message names a program, as error messages do, and it is not this one."""
    named = _PROGRAM.findall(line[:QUOTE_CAP])
    return bool(named) and shown.tool not in named and not any(name in _SHELLS for name in named[-1:])


def echoed(exhibit: Exhibit, pieces: Pieces) -> int | None:
    """The code that a trailing ``echo rc=$?`` printed."""
    if "$?" not in (exhibit.command or "") or not pieces.unclaimed:
        return None
    match = _ECHOED.match(pieces.lines[pieces.unclaimed[-1]])
    return int(match[1]) if match else None


def _not_understood(exhibit: Exhibit, pieces: Pieces, sources: tuple[str, ...]) -> Iterator[Row]:
    nothing = not pieces.unclaimed
    because = "nothing was printed" if nothing else "the output is in no known format"
    cited = cite_command(exhibit) if nothing else _cite(exhibit, pieces, pieces.unclaimed[0])
    for source in sources:
        yield Coverage(place_of(exhibit), source, "not_understood", because, cited, complete=False)
    yield Damage(exhibit.input, exhibit.member, cited.line, because)


def _cite(exhibit: Exhibit, pieces: Pieces, position: int) -> Citation:
    return Citation(exhibit.input, exhibit.member, exhibit.first_line + position, pieces.lines[position][:QUOTE_CAP])
