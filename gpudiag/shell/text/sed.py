"""sed as people use it on listings: ``s``, ``p``, ``d``, ``q`` with addresses. What goes further is not read."""

from __future__ import annotations

import getopt
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpudiag.shell.regex import Spans
from gpudiag.shell.text.base import MAX_CHARACTERS, Lines, UnreadError, matches, spans

_MAX_SCRIPT = 4096
_ADDRESS = re.compile(
    r"(?P<number>\d{1,9})|(?P<last>\$)|/(?P<pattern>(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]\n]*\])*)/(?P<ignore>I?)"
)


@dataclass(frozen=True)
class _Address:
    number: int | None = None
    last: bool = False
    pattern: str | None = None
    ignore_case: bool = False


@dataclass(frozen=True)
class _Command:
    name: str
    addresses: tuple[_Address, ...]
    negated: bool = False
    pattern: str = ""
    new: str = ""
    everywhere: bool = False
    nth: int = 1
    prints: bool = False
    ignore_case: bool = False


class _Machine:
    """Runs the commands over one line after the other."""

    def __init__(self, commands: Sequence[_Command], extended: bool, count: int) -> None:
        self.commands = commands
        self.extended = extended
        self.count = count
        self.open: set[int] = set()
        """Ranges that have begun, by the place of their command."""
        self.out: list[str] = []
        self.quits = False

    def cycle(self, place: int, line: str, *, quiet: bool) -> None:
        for number, command in enumerate(self.commands):
            if not self.selects(command, number, place, line):
                continue
            if command.name == "d":
                return
            line = self.does(command, place, line)
            if self.quits:
                break
        if not quiet:
            self.out.append(line)

    def does(self, command: _Command, place: int, line: str) -> str:
        if command.name == "s":
            line, changed = _substituted(command, line, self.extended)
            self.out += [line] if changed and command.prints else []
        elif command.name == "q":
            self.quits = True
        else:
            self.out.append(line if command.name == "p" else str(place))
        return line

    def selects(self, command: _Command, number: int, place: int, line: str) -> bool:
        if not command.addresses:
            inside = True
        elif len(command.addresses) == 1:
            inside = self.fits(command.addresses[0], place, line)
        else:
            inside = self.in_range(command, number, place, line)
        return inside != command.negated

    def in_range(self, command: _Command, number: int, place: int, line: str) -> bool:
        first, second = command.addresses
        if number not in self.open:
            begins = self.fits(first, place, line)
            if begins and (second.number is None or second.number > place):
                self.open.add(number)
            return begins
        if second.number is not None and place >= second.number:
            self.open.discard(number)
            return place == second.number
        if second.number is None and self.fits(second, place, line):
            self.open.discard(number)
        return True

    def fits(self, address: _Address, place: int, line: str) -> bool:
        if address.pattern is not None:
            return matches(address.pattern, [line], extended=self.extended, ignore_case=address.ignore_case)[0]
        return place == (self.count if address.last else address.number)


def sed(arguments: Sequence[str], lines: Lines) -> Lines:
    """What it prints. Raises ``UnreadError``."""
    quiet, extended, commands = _options(arguments)
    machine = _Machine(commands, extended, len(lines))
    size = 0
    for place, line in enumerate(lines, 1):
        machine.cycle(place, line, quiet=quiet)
        size += len(line) * (1 + len(commands))
        if size > MAX_CHARACTERS * 8:
            raise UnreadError
        if machine.quits:
            break
    return tuple(part for text in machine.out for part in text.split("\n"))


def _options(arguments: Sequence[str]) -> tuple[bool, bool, list[_Command]]:
    try:
        options, operands = getopt.gnu_getopt(
            list(arguments), "ne:Ersu", ["quiet", "silent", "expression=", "regexp-extended", "unbuffered", "posix"]
        )
    except getopt.GetoptError:
        raise UnreadError from None
    scripts = [value for name, value in options if name in ("-e", "--expression")]
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    if not scripts or operands not in ([], ["-"]):
        raise UnreadError
    names = {name for name, _ in options}
    commands = _Reader("\n".join(scripts)).commands()
    return bool(names & {"-n", "--quiet", "--silent"}), bool(names & {"-E", "-r", "--regexp-extended"}), commands


class _Reader:
    def __init__(self, script: str) -> None:
        if len(script) > _MAX_SCRIPT:
            raise UnreadError
        self.script = script
        self.position = 0

    def head(self) -> str:
        return self.script[self.position : self.position + 1]

    def blanks(self, more: str = "") -> None:
        while self.head() and self.head() in " \t" + more:
            self.position += 1

    def commands(self) -> list[_Command]:
        found: list[_Command] = []
        self.blanks(";\n")
        while self.head():
            found += self.command()
            self.blanks(";\n")
        if not found:
            raise UnreadError
        return found

    def command(self) -> list[_Command]:
        addresses = self.addresses()
        self.blanks()
        negated = self.head() == "!"
        self.position += negated
        self.blanks()
        name = self.head()
        self.position += 1
        if name == "s":
            return [self.substitution(addresses, negated)]
        if name == "{" and not negated:
            # Only what needs no addresses of its own; the block's are those of each command.
            return self.block(addresses)
        if name not in ("p", "d", "q", "="):
            raise UnreadError
        self.ends()
        return [_Command(name, addresses, negated)]

    def block(self, addresses: tuple[_Address, ...]) -> list[_Command]:
        found: list[_Command] = []
        self.blanks(";\n")
        while self.head() not in ("}", ""):
            for one in self.command():
                if one.addresses or one.negated or len(addresses) > 1 or found:
                    raise UnreadError
                found.append(
                    _Command(one.name, addresses, False, one.pattern, one.new, one.everywhere, one.nth, one.prints)
                )
            self.blanks(";\n")
        if self.head() != "}":
            raise UnreadError
        self.position += 1
        return found

    def ends(self) -> None:
        self.blanks()
        if self.head() not in ("", ";", "\n", "}"):
            raise UnreadError

    def addresses(self) -> tuple[_Address, ...]:
        first = self.address()
        if first is None:
            return ()
        self.blanks()
        if self.head() != ",":
            return (first,)
        self.position += 1
        self.blanks()
        second = self.address()
        if second is None:
            raise UnreadError
        return (first, second)

    def address(self) -> _Address | None:
        found = _ADDRESS.match(self.script, self.position)
        if found is None:
            return None
        self.position = found.end()
        if self.head() in ("~", "+"):
            raise UnreadError
        if found["number"]:
            return _Address(number=int(found["number"]))
        if found["last"]:
            return _Address(last=True)
        pattern = _expression(found["pattern"], "/")
        if not pattern:  # the last one again
            raise UnreadError
        return _Address(pattern=pattern, ignore_case=bool(found["ignore"]))

    def substitution(self, addresses: tuple[_Address, ...], negated: bool) -> _Command:
        mark = self.head()
        if not mark or mark in "\\\n" or mark.isalnum():
            raise UnreadError
        self.position += 1
        pattern, new = _expression(self.upto(mark, brackets=True), mark), self.upto(mark, brackets=False)
        flags = re.compile(r"[gpI0-9]*").match(self.script, self.position)
        assert flags is not None
        self.position = flags.end()
        self.ends()
        digits = re.sub(r"\D", "", flags[0])
        if not pattern or len(digits) > 3 or (digits and ("g" in flags[0] or int(digits) == 0)):
            raise UnreadError
        return _Command(
            "s", addresses, negated, pattern, _checked(new.replace(f"\\{mark}", mark) if mark != "&" else new),
            "g" in flags[0], int(digits or "1"), "p" in flags[0], "I" in flags[0],
        )  # fmt: skip

    def upto(self, mark: str, *, brackets: bool) -> str:
        """As far as the next mark; one inside brackets does not count in a pattern (as GNU sed reads it, it does)."""
        start = self.position
        while self.head() and self.head() != mark:
            self.position += 2 if self.head() == "\\" else 1
        if not self.head():
            raise UnreadError
        text = self.script[start : self.position]
        self.position += 1
        if "\n" in text or (brackets and text.count("[") > text.count("]")):
            raise UnreadError
        return text


def _expression(text: str, mark: str) -> str:
    """As the C library reads it; escapes that only sed knows are not read."""
    text = text.replace(f"\\{mark}", mark) if mark not in "|.*[]^$+?(){}" else text
    if mark in "|.*[]^$+?(){}" and f"\\{mark}" in text:
        raise UnreadError
    text = text.replace("\\t", "\t")
    if re.search(r"\\[nacdofrvx]|\\`|\\'|\\\Z", text):
        raise UnreadError
    return text


def _checked(new: str) -> str:
    if re.search(r"\\[^0-9&\\/|,;: .\"'-]|\\\Z", new):
        raise UnreadError
    return new


def _substituted(command: _Command, line: str, extended: bool) -> tuple[str, bool]:
    found = spans(command.pattern, [line], extended=extended, ignore_case=command.ignore_case)[0]
    chosen = found if command.everywhere else found[command.nth - 1 : command.nth]
    pieces: list[str] = []
    position = 0
    for groups in chosen:
        pieces += [line[position : groups[0][0]], _filled(command.new, line, groups)]
        position = groups[0][1]
    return "".join([*pieces, line[position:]]), bool(chosen)


def _filled(new: str, line: str, groups: Spans) -> str:
    def value(one: re.Match[str]) -> str:
        if one[0] == "&":
            return line[groups[0][0] : groups[0][1]]
        if one[1].isdigit():
            start, end = groups[int(one[1])]
            return line[start:end] if start >= 0 else ""
        return one[1]

    return re.sub(r"\\(.)|&", value, new)
