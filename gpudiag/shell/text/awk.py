"""awk as people use it on listings: patterns, ``print``, ``sub``, ``NR``, ``-F``. What goes further is not read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpudiag.shell.text.awk_tokens import Token, expression, tokens, unescaped
from gpudiag.shell.text.base import MAX_CHARACTERS, Lines, UnreadError, as_lines, matches, spans

_NUMBER = re.compile(r"[ \t\n]*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_COMPARISONS: dict[str, Callable[[int], bool]] = {
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}
_RESERVED = frozenset(
    {"ARGV", "ENVIRON", "RSTART", "break", "case", "continue", "default", "delete", "do", "for", "func", "function"}
    | {"getline", "in", "nextfile", "return", "switch", "while"}
)
_MAX_FIELDS = 4096
_MAX_DEPTH = 40


@dataclass(frozen=True)
class _Value:
    text: str
    number: float
    numeric: bool
    """It is compared as a number: a constant, or input that looks like one."""
    is_text: bool = False
    """A string constant, or what was made of one."""

    @property
    def holds(self) -> bool:
        return self.number != 0 if self.numeric else bool(self.text)


def _of_text(text: str) -> _Value:
    found = _NUMBER.match(text)
    return _Value(text, float(found[0]) if found else 0.0, False, True)


def _of_input(text: str) -> _Value:
    found = _NUMBER.match(text)
    whole = found is not None and not text[found.end() :].strip(" \t\n")
    return _Value(text, float(found[0]) if found else 0.0, whole)


def _of_number(number: float) -> _Value:
    return _Value(str(int(number)) if number == int(number) else f"{number:.6g}", number, True)


_UNSET = _Value("", 0.0, True)
_Expression = Callable[["_Run"], _Value]
_Statement = Callable[["_Run"], None]


class _Next(Exception):  # noqa: N818
    pass


class _Exit(Exception):  # noqa: N818
    pass


@dataclass
class _Run:
    """What the program knows while it runs."""

    variables: dict[str, _Value]
    lines: Lines
    out: list[str] = field(default_factory=list[str])
    size: int = 0
    line: str = ""
    fields: list[str] = field(default_factory=list[str])
    arrays: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    ranges: set[int] = field(default_factory=set[int])
    number: int = 0
    answers: dict[str, dict[str, bool]] = field(default_factory=dict[str, dict[str, bool]])

    def text(self, name: str) -> str:
        return self.variables[name].text

    def take(self, line: str) -> None:
        self.line = line
        self.fields = _split(line, self.text("FS"))

    def write(self, text: str) -> None:
        self.size += len(text)
        if self.size > MAX_CHARACTERS:
            raise UnreadError
        self.out.append(text)

    def field(self, number: float) -> str:
        if number < 0:
            raise UnreadError
        place = int(number)
        return self.line if place == 0 else (self.fields[place - 1] if place <= len(self.fields) else "")

    def store(self, number: int, text: str) -> None:
        if number == 0:
            self.take(text)
            return
        if number > _MAX_FIELDS:
            raise UnreadError
        self.fields += [""] * (number - len(self.fields))
        self.fields[number - 1] = text
        self.line = self.text("OFS").join(self.fields)

    def matched(self, pattern: str, text: str) -> bool:
        """All lines are asked at once: each question starts a process."""
        known = self.answers.setdefault(pattern, {})
        if text not in known:
            batch = list(dict.fromkeys((*self.lines, text))) if text in self.lines and not known else [text]
            known |= dict(zip(batch, matches(pattern, batch), strict=True))
        return known[text]


def _split(line: str, separator: str) -> list[str]:
    if separator == " ":
        return line.split()
    if not line:
        return []
    if len(separator) == 1:
        return line.split(separator)
    found: list[str] = []
    position = 0
    for groups in spans(expression(separator), [line])[0]:
        start, end = groups[0]
        if end > start:
            found.append(line[position:start])
            position = end
    return [*found, line[position:]]


def awk(arguments: Sequence[str], lines: Lines) -> Lines:
    """What it prints. Raises ``UnreadError``."""
    program, variables = _options(arguments)
    rules = _Parser(tokens(program)).rules()
    run = _Run(variables, lines)
    try:
        for one in rules:
            if one.when == "BEGIN":
                one.action(run)
        if any(one.when != "BEGIN" for one in rules):
            _over_lines(rules, run)
    except _Exit:
        if any(one.when == "END" for one in rules):
            raise UnreadError from None
    except (_Next, ValueError, OverflowError, RecursionError):
        raise UnreadError from None
    return as_lines("".join(run.out))


def _over_lines(rules: Sequence[_Rule], run: _Run) -> None:
    for number, line in enumerate(run.lines, 1):
        run.number = number
        run.take(line)
        try:
            for one in rules:
                if one.when not in ("BEGIN", "END") and one.applies(run):
                    one.action(run)
        except _Next:
            continue
    for one in rules:
        if one.when == "END":
            one.action(run)


def _options(arguments: Sequence[str]) -> tuple[str, dict[str, _Value]]:
    variables = {"FS": _of_text(" "), "OFS": _of_text(" "), "ORS": _of_text("\n")}
    words = list(arguments)
    while words and words[0].startswith("-") and words[0] != "-":
        option = words.pop(0)
        if option == "--":
            break
        if option[:2] not in ("-F", "-v") or option.startswith("--"):
            raise UnreadError
        value = option[2:] or (words.pop(0) if words else "")
        if option.startswith("-F"):
            if value in ("", "t"):
                raise UnreadError
            variables["FS"] = _of_text(_separator(value))
        else:
            name, equals, text = value.partition("=")
            if not equals or not name.isidentifier():
                raise UnreadError
            variables[name] = _of_input(unescaped(text))
    if len(words) != 1:  # a file, or no program
        raise UnreadError
    return words[0], variables


def _separator(text: str) -> str:
    return unescaped(text) if re.fullmatch(r"\\[tn\\]|[^\\]*", text) else text


@dataclass
class _Rule:
    when: str
    """``BEGIN``, ``END``, ``always``, ``if`` or ``range``."""
    action: _Statement
    first: _Expression | None = None
    last: _Expression | None = None

    def applies(self, run: _Run) -> bool:
        if self.when == "always" or self.first is None:
            return True
        if self.when == "if" or self.last is None:
            return self.first(run).holds
        if id(self) not in run.ranges and not self.first(run).holds:
            return False
        run.ranges.add(id(self))
        if self.last(run).holds:
            run.ranges.discard(id(self))
        return True


class _Parser:
    """Recursive descent; whatever is not expected raises ``UnreadError``."""

    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.position = 0
        self.depth = 0

    def head(self) -> Token:
        return self.tokens[self.position]

    def next(self) -> Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def at(self, *marks: str) -> bool:
        token = self.head()
        return token.kind in ("mark", "word") and token.text in marks

    def skip(self, mark: str) -> bool:
        found = self.at(mark)
        self.position += found
        return found

    def expect(self, mark: str) -> None:
        if not self.skip(mark):
            raise UnreadError

    def ends(self) -> None:
        while self.at(";", "\n"):
            self.position += 1

    # -- rules -----------------------------------------------------------------------------------------------

    def rules(self) -> list[_Rule]:
        found: list[_Rule] = []
        self.ends()
        while self.head().kind != "end":
            found.append(self.rule())
            self.ends()
        if not found:
            raise UnreadError
        return found

    def rule(self) -> _Rule:
        if self.at("BEGIN", "END"):
            return _Rule(self.next().text, self.block())
        if self.at("{"):
            return _Rule("always", self.block())
        first = self.expression()
        last = self.expression() if self.skip(",") else None
        action = self.block() if self.at("{") else _print_line
        return _Rule("if" if last is None else "range", action, first, last)

    def block(self) -> _Statement:
        self.expect("{")
        found: list[_Statement] = []
        self.ends()
        while not self.skip("}"):
            found.append(self.statement())
            if not self.at("}", ";", "\n") and self.tokens[self.position - 1].text != "}":
                raise UnreadError
            self.ends()
        return lambda run: _in_order(found, run)

    def statement(self) -> _Statement:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnreadError
        try:
            return self.one_statement()
        finally:
            self.depth -= 1

    def one_statement(self) -> _Statement:
        if self.at("{"):
            return self.block()
        if self.skip("next"):
            return _next
        if self.skip("exit"):
            if not self.at(";", "\n", "}"):
                self.expression()
            return _exit
        if self.skip("if"):
            return self.conditional()
        if self.at("print", "printf"):
            return self.printing(self.next().text)
        if self.head().kind == "name" and self.head().text in ("sub", "gsub"):
            return self.substitution(everywhere=self.next().text == "gsub")
        return self.assignment()

    def conditional(self) -> _Statement:
        self.expect("(")
        condition = self.expression()
        self.expect(")")
        self.ends()
        then = self.statement()
        before = self.position
        self.ends()
        if not self.skip("else"):
            self.position = before
            return lambda run: then(run) if condition(run).holds else None
        self.ends()
        otherwise = self.statement()
        return lambda run: then(run) if condition(run).holds else otherwise(run)

    def printing(self, word: str) -> _Statement:
        values: list[_Expression] = []
        bracket = word == "print" and self.at("(") and self.closes_statement()
        if bracket:
            self.expect("(")
        if not self.at(";", "\n", "}") and self.head().kind != "end":
            values.append(self.expression(in_print=not bracket))
            while self.skip(","):
                values.append(self.expression(in_print=not bracket))
        if bracket:
            self.expect(")")
        if self.at(">", "|"):  # into a file or a command
            raise UnreadError
        if word == "print":
            return lambda run: run.write(
                (run.text("OFS").join(one(run).text for one in values) if values else run.line) + run.text("ORS")
            )
        return lambda run: run.write(_formatted([one(run) for one in values]))

    def closes_statement(self) -> bool:
        """The bracket that opens here closes at the end of the statement: it holds the whole list."""
        depth = 0
        for place in range(self.position, len(self.tokens)):
            token = self.tokens[place]
            if token.kind == "mark":
                depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                after = self.tokens[place + 1] if place + 1 < len(self.tokens) else token
                return after.kind == "end" or after.text in (";", "\n", "}", ">", "|")
        return False

    def substitution(self, *, everywhere: bool) -> _Statement:
        self.expect("(")
        token = self.next()
        if token.kind not in ("ere", "string"):
            raise UnreadError
        pattern = token.text if token.kind == "ere" else expression(token.text)
        self.expect(",")
        new = self.next()
        if new.kind != "string" or "&" in new.text or "\\" in new.text:
            raise UnreadError
        target: _Expression | None = None
        if self.skip(","):
            self.expect("$")
            target = self.primary()
        self.expect(")")

        def replaced(run: _Run) -> None:
            place = 0 if target is None else int(target(run).number)
            old = run.field(place)
            found = spans(pattern, [old])[0][: None if everywhere else 1]
            if found:
                run.store(place, _with(old, [groups[0] for groups in found], new.text))

        return replaced

    def assignment(self) -> _Statement:
        if self.head().kind == "name" and self.tokens[self.position + 1].text == "=":
            name = self.next().text
            self.expect("=")
            value = self.expression()
            if name in ("NR", "NF", "RS", "FNR", "SUBSEP"):
                raise UnreadError
            return lambda run: run.variables.__setitem__(name, value(run))
        value = self.expression()
        if self.skip("="):
            raise UnreadError
        return lambda run: _in_order([value], run)

    # -- expressions -----------------------------------------------------------------------------------------

    def expression(self, *, in_print: bool = False) -> _Expression:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnreadError
        left = self.conjunction(in_print=in_print)
        while self.skip("||"):
            left = _either(left, self.conjunction(in_print=in_print))
        if self.at("?"):
            raise UnreadError
        self.depth -= 1
        return left

    def conjunction(self, *, in_print: bool) -> _Expression:
        left = self.matching(in_print=in_print)
        while self.skip("&&"):
            left = _both(left, self.matching(in_print=in_print))
        return left

    def matching(self, *, in_print: bool) -> _Expression:
        left = self.comparison(in_print=in_print)
        while self.at("~", "!~"):
            wanted = self.next().text == "~"
            left = _found(left, self.pattern(), wanted)
        return left

    def pattern(self) -> str:
        token = self.next()
        if token.kind == "ere":
            return token.text
        if token.kind != "string":
            raise UnreadError
        return expression(token.text)

    def comparison(self, *, in_print: bool) -> _Expression:
        left = self.concatenation()
        if self.at(*_COMPARISONS) and not (in_print and self.at(">")):
            fits = _COMPARISONS[self.next().text]
            left = _compared(left, self.concatenation(), fits)
        return left

    def concatenation(self) -> _Expression:
        left = self.sum()
        while self.head().kind in ("number", "string", "name") or self.at("$", "("):
            left = _joined(left, self.sum())
        return left

    def sum(self) -> _Expression:
        left = self.product()
        while self.at("+", "-"):
            sign = 1 if self.next().text == "+" else -1
            left = _added(left, self.product(), sign)
        return left

    def product(self) -> _Expression:
        left = self.unary()
        while self.at("*", "/", "%"):
            left = _multiplied(left, self.next().text, self.unary())
        return left

    def unary(self) -> _Expression:
        if self.skip("!"):
            inner = self.unary()
            return lambda run: _of_number(not inner(run).holds)
        if self.skip("-"):
            inner = self.unary()
            return lambda run: _of_number(-inner(run).number)
        return self.primary()

    def primary(self) -> _Expression:
        token = self.next()
        if token.kind == "number":
            value = _of_number(float(token.text))
            return lambda _: value
        if token.kind == "string":
            text = _of_text(token.text)
            return lambda _: text
        if token.kind == "ere":
            return lambda run: _of_number(run.matched(token.text, run.line))
        if token.kind == "name":
            return self.variable(token.text)
        if token.text == "$":
            place = self.primary()
            return lambda run: _of_input(run.field(place(run).number))
        if token.text == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        raise UnreadError

    def variable(self, name: str) -> _Expression:
        if self.skip("["):
            key = self.expression()
            self.expect("]")
            return _counted(name, key, counts=self.skip("++"))
        if name == "length" and not self.at("("):
            return lambda run: _of_number(len(run.line))
        if name == "length":
            inner = self.primary()
            return lambda run: _of_number(len(inner(run).text))
        if self.at("(", "++") or name in _RESERVED:
            raise UnreadError
        if name in ("NR", "FNR"):
            return lambda run: _of_number(run.number)
        if name == "NF":
            return lambda run: _of_number(len(run.fields))
        return lambda run: run.variables.get(name, _UNSET)


def _in_order(parts: Sequence[Callable[[_Run], object]], run: _Run) -> None:
    for one in parts:
        one(run)


def _print_line(run: _Run) -> None:
    run.write(run.line + run.text("ORS"))


def _next(_: _Run) -> None:
    raise _Next


def _exit(_: _Run) -> None:
    raise _Exit


def _either(left: _Expression, right: _Expression) -> _Expression:
    return lambda run: _of_number(left(run).holds or right(run).holds)


def _both(left: _Expression, right: _Expression) -> _Expression:
    return lambda run: _of_number(left(run).holds and right(run).holds)


def _found(left: _Expression, pattern: str, wanted: bool) -> _Expression:
    return lambda run: _of_number(run.matched(pattern, left(run).text) == wanted)


def _compared(left: _Expression, right: _Expression, fits: Callable[[int], bool]) -> _Expression:
    def compared(run: _Run) -> _Value:
        one, other = left(run), right(run)
        if one.numeric and other.numeric:
            return _of_number(fits((one.number > other.number) - (one.number < other.number)))
        return _of_number(fits((one.text > other.text) - (one.text < other.text)))

    return compared


def _joined(left: _Expression, right: _Expression) -> _Expression:
    return lambda run: _of_text(left(run).text + right(run).text)


def _added(left: _Expression, right: _Expression, sign: int) -> _Expression:
    return lambda run: _of_number(left(run).number + sign * right(run).number)


def _multiplied(left: _Expression, mark: str, right: _Expression) -> _Expression:
    def multiplied(run: _Run) -> _Value:
        one, other = left(run).number, right(run).number
        if mark == "*":
            return _of_number(one * other)
        if other == 0 or mark == "%":
            raise UnreadError
        return _of_number(one / other)

    return multiplied


def _counted(name: str, key: _Expression, *, counts: bool) -> _Expression:
    """``seen[$1]++``."""

    def counted(run: _Run) -> _Value:
        place = (name, key(run).text)
        value = run.arrays.get(place, 0.0)
        if counts:
            run.arrays[place] = value + 1
        return _of_number(value)

    return counted


def _with(text: str, places: Sequence[tuple[int, int]], new: str) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in places:
        pieces += [text[position:start], new]
        position = end
    return "".join([*pieces, text[position:]])


def _formatted(values: Sequence[_Value]) -> str:
    """``printf`` with ``%s`` and ``%d`` only."""
    if not values or re.search(r"%[^sd%]|%\Z", values[0].text):
        raise UnreadError
    rest = list(values[1:])

    def value(one: re.Match[str]) -> str:
        if one[1] == "%":
            return "%"
        if not rest:
            raise UnreadError
        taken = rest.pop(0)
        return taken.text if one[1] == "s" else str(int(taken.number))

    return re.sub(r"%([sd%])", value, values[0].text)
