"""One file -> exhibits: a pasted terminal session, a single captured output, or a file of one known format.

Every kill command ends the look before it. What it printed belongs to the next look, because commands such as
``kill …; nvidia-smi`` show the state that they leave. A query that is typed again opens a new look too: whoever
repeats it expects another answer, and two answers of different times must not be added up. Where the query stands
before the kill in one line, its output is of the look before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple

from gpudiag.evidence.exhibit import Exhibit, Input, LookName, Unreadable
from gpudiag.evidence.files import FILE_CAP, head_of_long_log, read_text, tail_of
from gpudiag.evidence.header import Headed, has_header, split_header, stamp_ns
from gpudiag.evidence.interrupts import interrupted_line
from gpudiag.evidence.log_shape import is_log_alone
from gpudiag.evidence.names import about_whole_incident, is_expectation
from gpudiag.evidence.printed import may_have_printed, printed_from
from gpudiag.evidence.prompts import Typed, clean_lines, typed_commands
from gpudiag.evidence.shells import Line, Shells, Where
from gpudiag.kill_words import first_kill
from gpudiag.model import Citation, Damage, KillAction

_QUOTE_CAP = 300
_COMMANDS_CAP = 5000
ZONE_ERROR_NS = 14 * 3600 * 1_000_000_000
"""A local time without a zone is at most this far from UTC."""

_STDERR_MARK = re.compile(r"^# stderr:?[ \t]*\n?", re.MULTILINE)
_DATE_LINE = re.compile(
    r"(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [AP]M)?) ([A-Z]{2,5}|[+-]\d\d) (\d{4})\Z"
)
_RC_LINE = re.compile(r"-?\d{1,3}\Z")
_WAITS = re.compile(r"(?:\s*(?:sleep\s+[\d.]+[smh]?|date(?:\s+[-+]\S+)?)\s*(?:;|&&))+\s*")
_MIXED = "several hosts printed this, and nothing tells which line is of which: not read"
_OBSERVES = re.compile(r"\b(?:nvidia-smi|ps|fuser|pgrep|lsof|gpustat|nvtop)\b")


def read_transcript(path: Path, input_id: str) -> Input:
    """Cut a file at its prompts; without any, the whole file is one exhibit. A long log is left on disk."""
    session = _Session(input_id, path.name)
    head = head_of_long_log(path)
    if head is not None and not is_expectation(path.name) and is_log_alone(path.name, head, tail_of(path)):
        session.refer(path, split_header(head))
    else:
        _cut(session, path)
    return Input(
        id=input_id,
        path=str(path),
        kind="transcript",
        complete=not session.damage,
        exhibits=tuple(session.exhibits),
        looks=tuple(session.looks),
        actions=tuple(session.actions),
        damage=tuple(session.damage),
    )


def _cut(session: _Session, path: Path) -> None:
    """Give the session what was typed, and what was printed."""
    text, session.damage[:] = _text(path, session.input_id)
    lines = clean_lines(text)
    captured = has_header(text)
    for typed in typed_commands(lines, captured=captured):
        if session.count >= _COMMANDS_CAP:
            reason = f"more than {_COMMANDS_CAP} commands: rest not read"
            session.damage.append(Damage(session.input_id, path.name, typed.line, reason))
            break
        if session.count == 0 and not captured:
            session.take_before(typed, lines[: typed.line - 1])
        session.take(typed)
    if session.count == 0:
        session.take_whole(lines)


def _text(path: Path, input_id: str) -> Tuple[str, List[Damage]]:
    if not path.exists():
        raise Unreadable(f"{path} does not exist; name a transcript, a directory of captured outputs or a bundle.")
    if is_expectation(path.name):
        raise Unreadable(
            f"{path} is an expectation of a test, not evidence; name the transcript or directory beside it."
        )
    content = read_text(path)
    if content.text is None:
        raise Unreadable(
            f"{path} {content.problem}; name a transcript (pasted commands and what they printed) or a directory "
            "of captured outputs."
        )
    if not content.text.strip("\0 \t\r\n"):
        raise Unreadable(f"{path} is empty; name a transcript or a directory of captured outputs.")
    if not content.cut:
        return content.text, []
    return content.text, [
        Damage(input_id, path.name, None, f"longer than {FILE_CAP >> 20} MiB: only the beginning was read")
    ]


@dataclass
class _Session:
    """The state of reading: which look is open on which host."""

    input_id: str
    member: str
    exhibits: List[Exhibit] = field(default_factory=lambda: list[Exhibit]())
    looks: List[LookName] = field(default_factory=lambda: list[LookName]())
    actions: List[KillAction] = field(default_factory=lambda: list[KillAction]())
    damage: List[Damage] = field(default_factory=lambda: list[Damage]())
    count: int = 0
    _open: Dict[str, LookName] = field(default_factory=lambda: dict[str, LookName]())
    _asked: Set[Tuple[str, str]] = field(default_factory=lambda: set[Tuple[str, str]]())
    """Queries of the open looks, by host."""
    _last_was_kill: bool = False
    _last_told: bool = False

    def __post_init__(self) -> None:
        self._shells = Shells(self.input_id)

    def take(self, typed: Typed) -> None:
        """One command with its output becomes an action, an exhibit, or both."""
        self.count += 1
        headed = split_header(typed.text)
        if typed.command == "echo $?" and self._exit_code_of_last(headed.text.strip()):
            return
        kill_at = first_kill(typed.command)
        line = self._shells.line(typed, kill_at is not None)
        self._last_was_kill = kill_at is not None
        seen = _OBSERVES.search(typed.command)
        # A kill command that prints nothing shows nothing; a query that prints nothing shows an empty list.
        self._last_told = bool(headed.text.strip()) or (seen is not None and kill_at is None)
        shows_before = kill_at is not None and seen is not None and not _OBSERVES.search(typed.command, kill_at)
        if kill_at is not None and not shows_before:
            self._act(typed, line, headed)
        if line.mixed and self._last_told:
            self._last_told = False
            self.damage.append(Damage(self.input_id, self.member, typed.output_line, _MIXED))
        if self._last_told:
            self._show(typed, line, headed, seen is not None)
            if interrupted_line(typed.command, typed.output) is not None:
                self._open.clear()  # what is seen from here on is the state after the interrupt
                self._asked.clear()
        if shows_before:
            self._act(typed, line, headed)

    def _show(self, typed: Typed, line: Line, headed: Headed, asks: bool) -> None:
        """The output becomes an exhibit of each place that it is of."""
        query = typed.command if asks else None
        for where, part in line.parts:
            self._reopen(where.host, query)
            text = "\n".join(part.lines)
            self._exhibit(typed, where, line.user, part.exit_code, typed.output_line + part.first, text)
        if not line.parts:
            self._reopen(line.shown.host, query)
            first_line = typed.output_line + headed.first_line - 1
            self._exhibit(typed, line.shown, line.user, headed.exit_code, first_line, headed.text)

    def take_before(self, first: Typed, lines: List[str]) -> None:
        """What stands before the first prompt: the end of an output whose command was not copied, or a remark."""
        start = printed_from(lines)
        if start is None:
            return
        where = self._shells.here(first)
        text = "\n".join(lines[start:]).rstrip()
        self.exhibits.append(
            Exhibit(
                input=self.input_id,
                member=self.member,
                host=where.host,
                look=self._look(where.host, where.container).id,
                command="",
                time_ns=None,
                exit_code=None,
                user=None,
                first_line=start + 1,
                text=text,
                container=where.container,
            )
        )
        if may_have_printed(first.command, text):
            self._open.clear()  # asked again: an answer of another time

    def take_whole(self, lines: List[str]) -> None:
        """A file without prompts: one exhibit whose format its content tells."""
        look = None if about_whole_incident(self.member) else self._look("").id
        self.exhibits.append(Exhibit(self.input_id, self.member, "", look, None, None, None, None, 1, "\n".join(lines)))

    def refer(self, path: Path, headed: Headed) -> None:
        """A log whose reader goes through the file, header lines included."""
        look = None if about_whole_incident(self.member) else self._look("").id
        self.exhibits.append(
            Exhibit(
                input=self.input_id,
                member=self.member,
                host="",
                look=look,
                command=headed.command,
                time_ns=headed.time_ns,
                exit_code=headed.exit_code,
                user=None,
                first_line=1,
                text="",
                path=path.resolve(),
            )
        )

    def _exhibit(
        self, typed: Typed, where: Where, user: Optional[str], exit_code: Optional[int], first_line: int, text: str
    ) -> None:
        stamp = stamp_ns(typed.stamp or "")
        self.exhibits.append(
            Exhibit(
                input=self.input_id,
                member=self.member,
                host=where.host,
                look=self._look(where.host, where.container).id,
                command=typed.command,
                time_ns=stamp[0] if stamp and stamp[1] else None,
                exit_code=exit_code,
                user=user,
                first_line=first_line,
                text=text,
                container=where.container,
            )
        )

    def _reopen(self, host: str, query: Optional[str]) -> None:
        """Close the look if the same query was asked in it before."""
        if query is None:
            return
        asked = (host, _WAITS.sub("", query, count=1) if _WAITS.match(query) else query)
        if asked in self._asked:
            self._open.clear()
            self._asked.clear()
        self._asked.add(asked)

    def _look(self, host: str, container: Optional[str] = None) -> LookName:
        look = self._open.get(host)
        if look is None:
            name = f"look-{len(self.looks) + 1}"
            look = LookName(f"{self.input_id}:{name}", name, host, container)
            self._open[host] = look
            self.looks.append(look)
        return look

    def _act(self, typed: Typed, line: Line, headed: Headed) -> None:
        """Note the action on every host where it took effect; it ends all looks."""
        own = {where.host: ("\n".join(part.lines), part.exit_code) for where, part in line.parts}
        after = self.looks[-1].id if self.looks else None
        for host, called in line.killed:
            # Where several hosts answer, and nothing tells which line is whose, what each said is not known.
            shared = (headed.text, headed.exit_code) if len(line.killed) == 1 else (None, None)
            output, exit_code = own.get(host, shared)
            self.actions.append(replace(self._action(typed, host, after, output, exit_code), called=called))
        self._open.clear()
        self._asked.clear()

    def _action(
        self, typed: Typed, host: str, after: Optional[str], output: Optional[str], exit_code: Optional[int]
    ) -> KillAction:
        printed = _date_ns(typed)
        moment = stamp_ns(typed.stamp or "") or printed
        return KillAction(
            host=host,
            text=typed.command,
            argv=None,
            how="prompt",
            time_ns=moment[0] if moment else None,
            end_ns=None,
            time_error_ns=0 if moment is None or moment[1] else ZONE_ERROR_NS,
            after_look=after,
            user=typed.user,
            exit_code=exit_code,
            output=None if output is None else _STDERR_MARK.sub("", output),
            script_text=None,
            source="transcript",
            cited=Citation(self.input_id, self.member, typed.line, typed.command[:_QUOTE_CAP]),
            local_s=printed[0] // 1_000_000_000 if printed else None,
        )

    def _exit_code_of_last(self, printed: str) -> bool:
        """Give the code that ``echo $?`` printed to the command before it; false if there is none to give it to."""
        if not _RC_LINE.match(printed) or not (self._last_was_kill or self._last_told):
            return False
        code = int(printed)
        if self._last_was_kill and self.actions[-1].exit_code is None:
            self.actions[-1] = replace(self.actions[-1], exit_code=code)
        if self._last_told and self.exhibits[-1].exit_code is None:
            self.exhibits[-1] = replace(self.exhibits[-1], exit_code=code)
        self._last_was_kill = self._last_told = False
        return True


def _date_ns(typed: Typed) -> Optional[Tuple[int, bool]]:
    """The time that a leading ``date;`` printed; the flag says whether its zone is known."""
    if not re.match(r"date\s*(?:-u\s*)?(?:;|&&)", typed.command) or not typed.output:
        return None
    match = _DATE_LINE.match(typed.output[0].strip())
    if not match:
        return None
    clock, zone, year = match.groups()
    form = "%b %d %I:%M:%S %p %Y" if clock.endswith("M") else "%b %d %H:%M:%S %Y"
    try:
        moment = datetime.strptime(f"{clock} {year}", form).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000_000, zone in ("UTC", "GMT", "+00")
