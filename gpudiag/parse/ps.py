"""``ps`` in any of its forms: ``-eo`` with any columns, ``aux``, ``auxf``, ``-ef``, with or without its heading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpudiag.model import Container, Process
from gpudiag.parse import containers
from gpudiag.parse.commands import Shown
from gpudiag.parse.parsed import Row
from gpudiag.parse.procfs import KTHREADD
from gpudiag.parse.source import Segment, is_omission
from gpudiag.parse.values import age_s, local_s, pid_of, whole

_OTHER_HEADINGS = {
    "STARTED", "COMMAND", "CMD", "COMM", "ARGS", "RSZ", "%CPU", "%MEM", "SZ", "TTY", "TT", "START", "STIME", "TIME",
    "F", "PRI", "NI", "ADDR", "CLS", "RTPRIO", "PSR", "GID", "GROUP", "UNIT", "EXE", "SCH", "FLAGS", "LABEL", "PIDNS",
    "C", "RUID", "TPGID",
}  # fmt: skip
_BY_HEADING = {
    "PID": "pid", "PPID": "ppid", "PGID": "pgid", "PGRP": "pgid", "SID": "sid", "SESS": "sid", "USER": "user",
    "EUSER": "user", "RUSER": "ruser", "UID": "user", "EUID": "user", "STAT": "stat", "S": "stat", "STATE": "stat",
    "ELAPSED": "age", "NLWP": "threads", "THCNT": "threads", "WCHAN": "wchan", "LWP": "tid", "TID": "tid",
    "SPID": "tid", "RSS": "rss", "VSZ": "vsz", "CGROUP": "cgroup", "PENDING": "pending", "BLOCKED": "blocked",
    "IGNORED": "ignored", "CAUGHT": "caught",
}  # fmt: skip
_HEADING_WORDS = frozenset(_BY_HEADING) | _OTHER_HEADINGS
_BY_FIELD = {
    "pid": "PID", "tgid": "PID", "ppid": "PPID", "pgid": "PGID", "pgrp": "PGID", "sid": "SID", "sess": "SID",
    "session": "SID", "user": "USER", "euser": "USER", "uname": "USER", "ruser": "RUSER", "uid": "UID", "euid": "UID",
    "stat": "STAT", "s": "S", "state": "S", "lstart": "LSTART", "etimes": "ELAPSED", "etime": "ELAPSED",
    "nlwp": "NLWP", "thcount": "NLWP", "rss": "RSS", "rssize": "RSS", "rsz": "RSS", "vsz": "VSZ", "vsize": "VSZ",
    "wchan": "WCHAN", "comm": "COMM", "ucmd": "COMM", "ucomm": "COMM", "args": "ARGS", "cmd": "ARGS",
    "command": "ARGS", "tty": "TTY", "tt": "TTY", "tname": "TTY", "lwp": "LWP", "tid": "LWP", "spid": "LWP",
    "%cpu": "%CPU", "pcpu": "%CPU", "%mem": "%MEM", "pmem": "%MEM", "cgroup": "CGROUP", "pending": "PENDING",
    "blocked": "BLOCKED", "ignored": "IGNORED", "caught": "CAUGHT", "time": "TIME", "cputime": "TIME",
    "start": "START", "start_time": "START", "bsdstart": "START", "stime": "START", "psr": "PSR", "ni": "NI",
    "nice": "NI", "pri": "PRI", "cls": "CLS", "c": "C", "f": "F", "gid": "GID", "group": "GROUP", "tpgid": "TPGID",
}  # fmt: skip
_AUX = ("USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "ARGS")
_FULL = ("UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "ARGS")
_EXTRA_FULL = ("UID", "PID", "PPID", "C", "SZ", "RSS", "PSR", "STIME", "TTY", "TIME", "ARGS")
_FULL_THREADS = ("UID", "PID", "PPID", "LWP", "C", "NLWP", "STIME", "TTY", "TIME", "ARGS")
_BSD_JOBS = ("PPID", "PID", "PGID", "SID", "TTY", "TPGID", "STAT", "UID", "TIME", "ARGS")
_PLAIN = ("PID", "TTY", "TIME", "COMM")
_BSD_PLAIN = ("PID", "TTY", "STAT", "TIME", "ARGS")
_TREE = re.compile(r"(?:[ |]{0,400}\\_ )")
_BRACKETED = re.compile(r"\[(.+)\](?: <defunct>)?\Z")
_LSTART_WORDS = 5
_COMM_WIDTH = 15
_NARROWEST = 60
"""Columns; nobody reads ``ps`` in a narrower terminal."""
_OPTION_WITH_VALUE = frozenset(
    ("-o", "-O", "-p", "-C", "-u", "-U", "-g", "-G", "-s", "-t", "--cols", "--columns", "--width", "--sort", "-k")
)
_COLS = re.compile(r"--(?:cols|columns|width)[= ](\d{1,6})")


@dataclass(frozen=True)
class Layout:
    """The columns of a listing."""

    columns: tuple[str, ...]
    """Headings in order; ``COMM`` and ``ARGS`` tell the two kinds of COMMAND apart, ``LSTART`` is five words."""
    comm_at: int | None = None
    """Where a comm column in the middle begins, as the heading shows it."""
    args_at: int | None = None
    """Where the column behind it begins."""
    pid_end: int | None = None
    """Where the heading PID ends."""


@dataclass(frozen=True)
class Scope:
    """What a command lists."""

    everything: bool | None
    threads: bool
    forest: bool
    width: int | None
    wide: bool
    piped: bool
    """Its output went to another program, not to a terminal with a width."""


def heading(line: str, shown: Shown | None) -> Layout | None:
    """The layout that a heading gives, ``None`` if the line is none."""
    words = line.split()
    if len(words) < 2 or len(words) > 40 or "PID" not in words or not all(word in _HEADING_WORDS for word in words):
        return None
    wanted = command_columns(shown) if shown else None
    if wanted is not None and len(wanted) == len(words):
        columns = wanted
    else:
        columns = _named(words, line)
    comm_at, args_at = _command_columns_at(columns, line)
    end = line.index("PID", line.index("PPID") + 4 if _ppid_first(columns) else 0) + 3
    return Layout(columns, comm_at, args_at, end if "LSTART" not in columns[: columns.index("PID")] else None)


def _ppid_first(columns: Sequence[str]) -> bool:
    return "PPID" in columns and columns.index("PPID") < columns.index("PID")


def command_columns(shown: Shown) -> tuple[str, ...] | None:
    """The columns that a ``ps`` command prints; ``None`` if it is none, or prints some that are not known."""
    if not prints_table(shown):
        return None
    chosen: list[str] = []
    letters = ""
    words = [*shown.argv[1:], ""]
    skip = False
    for position, word in enumerate(words[:-1]):
        if skip:
            skip = False
        elif fields := _fields(word, words[position + 1]):
            chosen += fields[0]
            skip = fields[1]
        elif word in _OPTION_WITH_VALUE:
            skip = True
        elif not word.startswith("--"):
            letters += word
    if chosen:
        return None if "" in chosen else tuple(chosen)
    return _default_columns(letters)


def prints_table(shown: Shown) -> bool:
    """``ps``, or ``docker top``, which runs ``ps -ef`` on the host and keeps the container's processes."""
    return shown.tool == "ps" or containers.verb(shown) == "top"


def without_heading(shown: Shown) -> bool:
    """The command asks for no heading at all (``pid=``, ``--no-headers``)."""
    if any(word in ("--no-headers", "--no-heading", "h") for word in shown.argv):
        return True
    return any("=" in word and not word.startswith("--") for word in shown.argv[1:])


def fits(columns: Sequence[str], line: str) -> bool:
    """The line may be a row with these columns."""
    fields, _ = _fields_of(columns, line)
    return fields is not None and pid_of(fields.get("PID", "")) is not None


def scope_of(shown: Shown | None, text: str | None) -> Scope:
    """How much of the process table a command asks for."""
    if shown is None:
        return Scope(None, False, False, None, False, False)
    if shown.tool != "ps":
        return Scope(False, False, False, None, True, True)
    letters = "".join(word for word in _switches(shown))
    dashed = "".join(word for word in _switches(shown) if word.startswith("-") and not word.startswith("--"))
    bsd = "".join(word for word in _switches(shown) if not word.startswith("-"))
    selects = any(word.split("=")[0] in _SELECTING for word in shown.argv[1:])
    everything = ("e" in dashed or "A" in dashed or ("a" in bsd and "x" in bsd)) and not selects
    width = _COLS.search(text or "")
    return Scope(
        everything=everything and not shown.filtered,
        threads="L" in dashed or "T" in dashed or "m" in bsd,
        forest="--forest" in shown.argv or "f" in bsd or "H" in dashed,
        width=int(width[1]) if width else None,
        wide="ww" in letters,
        piped=bool(shown.filters),
    )


_SELECTING = frozenset({"-p", "-C", "--pid", "--ppid", "-q"})


def rows(segment: Segment, layout: Layout, first: int) -> Iterator[Row]:
    """One process a row, from the line ``first`` of the segment on."""
    scope = scope_of(segment.shown, segment.exhibit.command)
    reader = _Reader(segment, layout, scope, _terminal_width(segment.lines[first:], scope))
    found: list[Process] = []
    threads: Counter[int] = Counter()
    sleeping: Counter[int] = Counter()
    for offset in range(first, len(segment.lines)):
        if not segment.lines[offset].strip() or is_omission(segment.lines[offset]):
            continue
        if found and reader.is_rest_of_a_line(offset):
            found[-1] = replace(found[-1], cmdline_cut=found[-1].cmdline is not None)
            continue
        process = reader.process(offset)
        if process is not None:
            found.append(process)
        if (pid := reader.thread_of(offset)) is not None:
            threads[pid] += 1
            sleeping[pid] += process is None and reader.sleeps(offset)
    if threads and segment.shown is not None and scope.threads and not segment.shown.filtered:
        found = [replace(row, threads=threads[row.pid], sleeping_threads=sleeping[row.pid]) for row in found]
    yield from found
    if segment.shown is not None and segment.shown.tool != "ps":
        names = containers.operands(segment.shown)
        pids = tuple(row.pid for row in found)
        yield Container(segment.place, segment.top(), name=names[0] if names else None, pids=pids)
    yield segment.coverage("process table", complete=scope.everything, as_root=_as_root(segment, found))


@dataclass(frozen=True)
class _Reader:
    segment: Segment
    layout: Layout
    scope: Scope
    width: int | None

    def process(self, offset: int) -> Process | None:
        """The row as a process; ``None`` for a thread's row and for what is no row."""
        line = self.segment.lines[offset]
        fields, tail = _fields_of(self.layout.columns, line)
        pid = pid_of(fields.get("PID", "")) if fields is not None else None
        if fields is None or pid is None:
            return None
        tid = fields.get("LWP", fields.get("TID", fields.get("SPID")))
        if tid is not None and whole(tid) != pid:
            return None
        comm, args = self._texts(line, fields, tail)
        return self._assembled(offset, pid, fields, comm, args)

    def thread_of(self, offset: int) -> int | None:
        """The process that the row is a thread of, in a list of threads."""
        fields, _ = _fields_of(self.layout.columns, self.segment.lines[offset])
        if fields is None or not {"LWP", "TID", "SPID"} & set(fields):
            return None
        return pid_of(fields.get("PID", ""))

    def sleeps(self, offset: int) -> bool:
        """The row shows a state from which any signal that ends the process would have woken it."""
        fields, _ = _fields_of(self.layout.columns, self.segment.lines[offset])
        return fields is not None and fields.get("STAT", fields.get("S", fields.get("STATE", "")))[:1] in (
            "S",
            "T",
            "t",
        )

    def is_rest_of_a_line(self, offset: int) -> bool:
        """A terminal has broken the line above, and this is its rest: no row, or a number where no PID can stand.

        PIDs are printed right-aligned, so none ends before its heading does.
        """
        line = self.segment.lines[offset]
        if not fits(self.layout.columns, line):
            return True
        end = self.layout.pid_end
        if end is None or self._pid_end(offset - 1) < end:
            return False
        return self._pid_end(offset) < end and len(self.segment.lines[offset - 1]) >= _NARROWEST

    def _pid_end(self, offset: int) -> int:
        """Where the PID of a row ends, 0 if it has none."""
        at = self.layout.columns.index("PID")
        words = re.finditer(r"\S+", self.segment.lines[offset])
        return next((match.end() for number, match in enumerate(words) if number == at), 0)

    def _texts(self, line: str, fields: dict[str, str], tail: str) -> tuple[_Text | None, _Text | None]:
        columns = self.layout.columns
        if columns[-1] not in ("COMM", "ARGS"):
            comm = fields.get("COMM")
            return (_Text(comm, False) if comm is not None else None), None
        if columns[-1] == "COMM":
            return _Text(_untreed(tail.rstrip()), self._cut(line)), None
        if "COMM" not in columns:
            return None, _Text(_untreed(tail.rstrip()), self._cut(line))
        comm, rest = self._two(line, tail)
        return comm, _Text(_untreed(rest.strip()), self._cut(line))

    def _two(self, line: str, tail: str) -> tuple[_Text, str]:
        """Split comm from args where both are printed, by the heading's columns."""
        start, end = self.layout.comm_at, self.layout.args_at
        if start is not None and end is not None and line[:start][-1:] in ("", " ") and line[end - 1 : end] == " ":
            return _comm_cell(line[start : end - 1], end - 1 - start), line[end:]
        cell, rest = tail[:_COMM_WIDTH], tail[_COMM_WIDTH:]
        if rest and not rest.startswith(" "):
            cell, _, rest = tail.partition(" ")
        return _comm_cell(cell, _COMM_WIDTH), rest

    def _cut(self, line: str) -> bool:
        return self.width is not None and len(line) >= self.width

    def _assembled(
        self, offset: int, pid: int, fields: dict[str, str], comm: _Text | None, args: _Text | None
    ) -> Process:
        ppid = whole(fields.get("PPID", ""))
        stat = fields.get("STAT", fields.get("S", fields.get("STATE", "")))
        text = args.text if args else comm.text if comm else ""
        state = stat[:1] or ("Z" if text.endswith("<defunct>") else None)
        user, uid = _owner(fields)
        inner = _BRACKETED.match(args.text) if args else None
        empty = bool(inner) and (state == "Z" or _no_user_memory(pid, ppid, fields, state))
        name = comm.text.removesuffix("<defunct>").rstrip() if comm else None
        if (name is None or (comm and comm.cut)) and empty and inner:
            name = inner[1]
        return Process(
            at=self.segment.place,
            pid=pid,
            cited=self.segment.cite(offset),
            text_from="ps",
            ppid=ppid,
            pgid=whole(fields.get("PGID", fields.get("PGRP", ""))),
            sid=_session(pid, fields),
            user=user,
            uid=uid,
            state=state,
            threads=_threads(fields, fields.get("STAT", "")),
            elapsed_s=age_s(fields["ELAPSED"]) if "ELAPSED" in fields else None,
            started_local_s=local_s(fields["LSTART"]) if "LSTART" in fields else None,
            start_shown=_given(fields.get("STIME") or fields.get("START")),
            comm=name,
            comm_cut=bool(comm and comm.cut and not empty),
            cmdline="" if empty else args.text if args else None,
            cmdline_cut=bool(args and args.cut and not empty),
            kernel_thread=_kernel_thread(pid, ppid, name, args, empty=empty),
            sig_pending=_mask(fields.get("PENDING")),
            sig_blocked=_mask(fields.get("BLOCKED")),
            sig_ignored=_mask(fields.get("IGNORED")),
            sig_caught=_mask(fields.get("CAUGHT")),
            wchan=_given(fields.get("WCHAN")),
        )


@dataclass(frozen=True)
class _Text:
    """A comm or a command line, and whether the tool may have shortened it."""

    text: str
    cut: bool


def _kernel_thread(pid: int, ppid: int | None, name: str | None, args: _Text | None, *, empty: bool) -> bool | None:
    """In a PID namespace of its own, PID 2 and its children are processes like others: they have a command line."""
    if KTHREADD not in (pid, ppid):
        return None if ppid is None else False
    if args is not None:
        return empty
    return name == "kthreadd" if pid == KTHREADD and name is not None else True


def _fields_of(columns: Sequence[str], line: str) -> tuple[dict[str, str] | None, str]:
    """The single-word columns by heading, and the rest of the line where the free text begins."""
    fixed = list(columns)
    while fixed and fixed[-1] in ("COMM", "ARGS"):
        fixed.pop()
    words = sum(_LSTART_WORDS if column == "LSTART" else 1 for column in fixed)
    parts = line.split(None, words)
    if len(parts) < words or (len(parts) == words and len(fixed) < len(columns)):
        return None, ""
    fields: dict[str, str] = {}
    position = 0
    for column in fixed:
        step = _LSTART_WORDS if column == "LSTART" else 1
        fields.setdefault(column, " ".join(parts[position : position + step]))
        position += step
    return fields, parts[words] if len(parts) > words else ""


def _named(words: list[str], line: str) -> tuple[str, ...]:
    """Headings to columns where the command is not known: of two COMMANDs the first is comm."""
    commands = [position for position, word in enumerate(words) if word in ("COMMAND", "CMD", "COMM", "ARGS")]
    columns = list(words)
    for position in commands:
        columns[position] = "ARGS"
    if len(commands) > 1 or (commands and words == ["PID", "TTY", "TIME", "CMD"]):
        columns[commands[0]] = "COMM"
    if "STARTED" in columns and _wide_started(line):
        columns[columns.index("STARTED")] = "LSTART"
    return tuple(columns)


def _wide_started(line: str) -> bool:
    """``lstart`` and ``start`` share the heading; lstart's column is 24 wide."""
    end = line.index("STARTED") + len("STARTED")
    blanks = len(line[: end - len("STARTED")]) - len(line[: end - len("STARTED")].rstrip(" "))
    return blanks >= 24 - len("STARTED")


def _command_columns_at(columns: tuple[str, ...], line: str) -> tuple[int | None, int | None]:
    if columns[-2:] != ("COMM", "ARGS"):
        return None, None
    args_at = max(line.rfind("COMMAND"), line.rfind("CMD"))
    before = line[:args_at].rstrip()
    return before.rfind(" ") + 1, args_at


def _fields(word: str, following: str) -> tuple[list[str], bool] | None:
    """The columns of a ``-o`` option in any of its forms, and whether the next word was taken."""
    if word.startswith("--format"):
        value, took = (word.partition("=")[2], False) if "=" in word else (following, True)
    elif re.fullmatch(r"-?[a-zA-Z]*o", word) and not word.startswith("--"):
        value, took = following, True
    elif re.match(r"-o\w", word):
        value, took = word[2:], False
    else:
        return None
    names = re.split(r"[,\s]+", value.strip(", "))
    return [_BY_FIELD.get(re.split(r"[:=]", name)[0].lower(), "") for name in names if name], took


def _default_columns(letters: str) -> tuple[str, ...] | None:
    if "u" in letters and not letters.startswith("-"):
        return _AUX
    if letters.startswith("-") and set(letters) & set("fF"):
        # Other letters add columns that are not known here.
        forms = {"fL": _FULL_THREADS, "F": _EXTRA_FULL, "f": _FULL, "fF": _EXTRA_FULL}
        shape = "".join(sorted(set(letters) & set("fFLljyMZcTPV"), key="fFLljyMZcTPV".index))
        return forms.get(shape)
    if not letters.startswith("-") and "j" in letters:
        return _BSD_JOBS if set(letters) <= set("axjfw") else None
    if letters.startswith("-") or not letters:
        return _PLAIN if set(letters) <= set("-eAap") else None
    return _BSD_PLAIN if set(letters) <= set("axwf") else None


def _switches(shown: Shown) -> Iterator[str]:
    """Words that are option letters: no values, no PIDs, no long options."""
    skip = False
    for word in shown.argv[1:]:
        if skip:
            skip = False
        elif word in _OPTION_WITH_VALUE or re.fullmatch(r"-?[a-zA-Z]*o", word):
            skip = True
            yield word
        elif not word.startswith("--") and re.fullmatch(r"-?[a-zA-Z]+", word):
            yield word


def _terminal_width(lines: Sequence[str], scope: Scope) -> int | None:
    """Lines of this length may be cut: ``--cols``, or a terminal's width that different command lines end at."""
    if scope.width is not None:
        return scope.width
    longest = max(map(len, lines), default=0)
    if scope.piped or scope.wide or longest < 80:
        return None
    at_edge = {line.rstrip()[-40:] for line in lines if len(line) == longest}
    return longest if len(at_edge) > 1 and longest in _TERMINALS else None


_TERMINALS = frozenset({80, 100, 120, 132, 140, 150, 160, 180, 200, 220, 240})
"""Usual widths; two command lines that end at one of them by chance are rarer than a terminal of that width."""


def _comm_cell(cell: str, width: int) -> _Text:
    """A comm column; a tree drawn into it takes room, and comm is cut to what is left."""
    used = len(cell.rstrip())
    drawn = cell.startswith(" ") or bool(_TREE.match(cell))
    return _Text(_untreed(cell.strip()), (drawn and used >= width - 2) or (width < _COMM_WIDTH and used >= width))


def _untreed(text: str) -> str:
    """The text without the lines of ``--forest``."""
    match = _TREE.match(text)
    return text[match.end() :] if match else text


def _no_user_memory(pid: int, ppid: int | None, fields: dict[str, str], state: str | None) -> bool:
    """A name in brackets stands for an empty command line, not for a title with brackets."""
    if KTHREADD in (pid, ppid) or state == "I":
        return True
    sizes = [fields[key] for key in ("RSS", "VSZ") if key in fields]
    return bool(sizes) and all(size == "0" for size in sizes)


def _owner(fields: dict[str, str]) -> tuple[str | None, int | None]:
    shown = fields.get("USER", fields.get("UID"))
    if shown is None:
        return None, None
    number = whole(shown)
    if number is not None:
        return ("root" if number == 0 else None), number
    # A name that does not fit its column ends in + and is only a beginning.
    return (None if shown.endswith("+") else shown), (0 if shown == "root" else None)


def _session(pid: int, fields: dict[str, str]) -> int | None:
    """Its session as printed; a lower-case s in STAT says that it leads one, which has its own number."""
    shown = whole(fields.get("SID", fields.get("SESS", "")))
    return pid if shown is None and "s" in fields.get("STAT", "")[1:] else shown


def _threads(fields: dict[str, str], stat: str) -> int | None:
    number = whole(fields.get("NLWP", fields.get("THCNT", "")))
    if number is not None:
        return number
    # ``Zl``: the leader is dead and at least one other thread is not; a ``Z`` without ``l`` is alone. The column S has
    # one letter only and does not tell.
    return None if not stat.startswith("Z") else 2 if "l" in stat else 1


def _given(text: str | None) -> str | None:
    return None if text in (None, "-", "0", "?") else text


def _mask(text: str | None) -> int | None:
    try:
        return None if text is None else int(text.strip("<>"), 16)
    except ValueError:
        return None


def _as_root(segment: Segment, found: list[Process]) -> bool | None:
    """Whose ``ps`` it was: the listing shows the observing command itself."""
    if segment.shown is None:
        return None
    own = " ".join(segment.shown.argv)
    owners = {(process.user, process.uid) for process in found if process.cmdline == own}
    if len(owners) != 1:
        return None
    user, uid = owners.pop()
    return None if user is None and uid is None else uid == 0
