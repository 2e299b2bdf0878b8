"""Text to ``Line``: which commands a shell line has, in which order, and which processes carry it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from gpudiag.shell.lines import Carrier, Group, Line, Step, Substitution, Word
from gpudiag.shell.nested import Nested, nested
from gpudiag.shell.quoting import as_procps, has_holes, join, list_number, literal, sanitise, show_holes
from gpudiag.shell.reader import TOO_DEEP, Simple, read
from gpudiag.shell.tree import MAX_TEXT
from gpudiag.shell.words import first_program
from gpudiag.shell.wrappers import Stripped, Wrapper, base_name, has_flag, strip

__all__ = ["Carrier", "Line", "Step", "Substitution", "Word", "command_names", "parse_line", "simple_commands"]

_MAX_STEPS = 512
_MAX_SHELLS = 10
_MAX_TEXT_READ = 4 * MAX_TEXT
"""Characters over all shells of a line."""
_COMM = 15
_HERE = ("localhost", "127.0.0.1", "::1")


def parse_line(
    text: str,
    *,
    how: str,
    argv: tuple[str, ...] | None = None,
    script_text: str | None = None,
    user: str | None = None,
    host: str | None = None,
) -> Line:
    """Takes a kill line apart; never raises, whatever the text is.

    ``how`` is ``argv`` (executed as it stands), ``shell`` (given to the ``-c`` of some shell), ``prompt`` (typed)
    or ``stated``: a person says that it was run, which may be either.
    ``script_text`` is the text of the script that the line runs, ``host`` the name of the machine where it was given.
    """
    builder = _Builder(script_text, host)
    clean = sanitise(text)
    place = _Place(parent=None, host=None, user=None, shown_user=user)
    if how == "argv":
        builder.execute(_argument_words(clean, argv), clean, place)
    else:
        builder.root_shell(clean, how, place)
    return Line(clean, tuple(builder.steps), tuple(builder.carriers), tuple(builder.notes))


def simple_commands(text: str) -> list[list[str]]:
    """Arguments of every simple command anywhere in the text, substitutions and nested shells included.

    A word that cannot be known is left out.
    """
    line = parse_line(text, how="prompt")
    found: list[list[str]] = []
    for step in line.steps:
        found.append([word.text for word in step.words if word.text is not None])
        lists = [one for word in step.words for one in word.substitutions]
        for produced in [*lists, *([step.fed_by] if step.fed_by else [])]:
            commands = produced.pipeline or ((literal_words(produced.argv)),)
            found.extend([w.text for w in strip(words).words if w.text is not None] for words in commands)
    return [argv for argv in found if argv]


def literal_words(argv: tuple[str, ...]) -> tuple[Word, ...]:
    return tuple(literal(argument, shlex.quote(argument)) for argument in argv)


def command_names(text: str) -> tuple[str, ...]:
    """Base names of the programs that ``text`` runs, wrappers and clients included, each once, in order."""
    line = parse_line(text, how="prompt")
    names = [
        carrier.cmdline.split(" ", 1)[0].rsplit("/", 1)[-1].lstrip("-")
        for carrier in line.carriers
        if carrier.kind not in ("prompt", "none", "ssh") and carrier.cmdline
    ]
    for step in line.steps:
        names.extend(step.wrappers)
    names.extend(argv[0].rsplit("/", 1)[-1] for argv in simple_commands(text))
    return tuple(dict.fromkeys(name for name in names if name))


@dataclass(frozen=True)
class _Place:
    """Where a command is started."""

    parent: int | None
    host: str | None
    user: str | None
    shown_user: str | None
    container: str | None = None
    depth: int = 0
    beside: bool = False


def _argument_words(text: str, argv: tuple[str, ...] | None) -> tuple[Word, ...]:
    if argv is None:
        try:
            argv = tuple(shlex.split(text))
        except ValueError:
            argv = tuple(text.split())
    return literal_words(argv)


class _Builder:
    """Collects the steps and carriers of one line."""

    def __init__(self, script_text: str | None, home: str | None) -> None:
        self.script_text = None if script_text is None else sanitise(script_text)
        self.home = home
        self.steps: list[Step] = []
        self.carriers: list[Carrier] = []
        self.notes: list[str] = []
        self.text_left = _MAX_TEXT_READ
        self.group_count = 0

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # -- entry points ----------------------------------------------------------------------------------------

    def root_shell(self, text: str, how: str, place: _Place) -> None:
        if how == "prompt":
            index = self.add("prompt", None, None, place)
        else:
            kind = "stated" if how == "stated" else "unknown -c"
            index = self.add(kind, None, join((literal("sh"), literal("-c"), literal(text))), place)
        self.read_text(literal(text), replace(place, parent=index), ())

    def execute(self, words: tuple[Word, ...], text: str, place: _Place) -> None:
        """A program is executed directly; a shell exists only if the arguments name one."""
        if sum(len(word.template) for word in words) > MAX_TEXT:
            self.note(f"longer than {MAX_TEXT} characters")
            return
        self.simple(Simple(words, text, None, prints=True, tail=True), place)

    # -- texts -----------------------------------------------------------------------------------------------

    def read_text(self, text: Word, place: _Place, positional: tuple[Word, ...], inline: Simple | None = None) -> None:
        """Reads a text for the shell at ``place.parent``; ``inline`` is the ``eval`` that it belongs to."""
        self.text_left -= len(text.template)
        if self.text_left < 0:
            self.note("too much text in nested shells; the rest was left out")
            return
        up = 0 if inline is not None else 1
        outer = tuple(
            replace(one, expands_on="outer", levels=one.levels + up, in_lines=one.in_lines or one.quoted)
            for one in text.substitutions
        )
        variables = {str(number): word for number, word in enumerate(positional)}
        reading = read(text.template, outer, variables)
        for note in reading.not_understood:
            self.note(note)
        around = () if inline is None else (*inline.groups, self.new_group(inline.connector))
        offset = self.group_count
        self.group_count += reading.groups
        for number, simple in enumerate(_with_assignments(reading.commands)):
            if number == 0 and simple.assigned is None:
                simple = replace(simple, connector=None)
            if inline is not None:
                simple = replace(simple, tail=False, branch=simple.branch or inline.branch)
            groups = (*around, *(_renumbered(group, offset) for group in simple.groups))
            shown = _with_lists(simple.text, outer)
            self.simple(replace(simple, groups=groups, text=shown), replace(place, depth=place.depth + 1))

    def new_group(self, connector: str | None) -> Group:
        self.group_count += 1
        return Group(self.group_count - 1, "list", connector)

    def simple(self, simple: Simple, place: _Place) -> None:
        """One command: its wrappers become carriers, a shell that it starts is entered, the rest is a step."""
        if len(self.steps) >= _MAX_STEPS:
            self.note("too many commands; the rest was left out")
            return
        stripped = strip(simple.words)
        if not stripped.words:
            # A wrapper without a command, such as `sudo -v`, is a command of its own.
            stripped = Stripped(simple.words)
        if not simple.words:
            return
        shell_parent = place.parent
        place = replace(place, beside=place.beside or simple.background)
        for wrapper in stripped.wrappers:
            place = self.wrap(wrapper, simple, place)
        words = self.sudo_shell(stripped.words, stripped.wrappers)
        inner = nested(words, simple.stdin_text, simple.stdin_file) if words else None
        if inner is None or not self.enter(inner, words, simple, place):
            names = tuple(wrapper.name for wrapper in stripped.wrappers if wrapper.name != "xargs")
            options = next((wrapper.options for wrapper in stripped.wrappers if wrapper.name == "xargs"), None)
            xargs = None if options is None else tuple(word.template for word in options)
            self.step(simple, words, names, shell_parent, place, xargs)

    def wrap(self, wrapper: Wrapper, simple: Simple, place: _Place) -> _Place:
        user = place.user if wrapper.user is None else wrapper.user
        shown = place.shown_user if wrapper.user is None else wrapper.user
        moved = replace(place, user=user, shown_user=shown)
        if wrapper.usage.other_namespace:
            moved = replace(moved, container=wrapper.name)
        waits = wrapper.name == "setsid" and has_flag(wrapper.options, "w", "wait")
        if not (wrapper.usage.stays or waits) or wrapper.name == "xargs":
            return moved
        kind = wrapper.name if wrapper.name in ("sudo", "timeout") else "client"
        index = self.add(kind, None, join(wrapper.words), place, simple)
        self.carriers[index] = replace(self.carriers[index], may_be_gone=waits)
        return replace(moved, parent=index)

    @staticmethod
    def sudo_shell(words: tuple[Word, ...], wrappers: tuple[Wrapper, ...]) -> tuple[Word, ...]:
        """``sudo -i CMD`` and ``sudo -s CMD`` hand the command to a shell's ``-c``."""
        innermost = wrappers[-1] if wrappers else None
        if innermost is None or innermost.name != "sudo" or not words:
            return words
        shell = any(
            has_flag((word,), letter) for word in innermost.options for letter in "is" if len(word.template) == 2
        )
        return (literal("bash"), literal("-c"), join(words)) if shell else words

    def enter(self, inner: Nested, words: tuple[Word, ...], simple: Simple, place: _Place) -> bool:
        """Goes into the shell that a command starts; says whether there was anything to go into."""
        text = inner.text
        if place.depth > _MAX_SHELLS:
            self.note(TOO_DEEP)
            return False
        if inner.script:
            text = None if self.script_text is None else literal(self.script_text)
            if text is None:
                return False
            self.script_text = None
        if inner.kind in ("eval", "source") and text is not None and place.parent is not None:
            self.read_text(text, place, (), simple)
            return True
        if text is None and not inner.words:
            return False
        place = self.between(inner, words, simple, place)
        if inner.words:
            bare = replace(simple, words=inner.words, connector=None, stdin_text=None, groups=())
            self.simple(bare, replace(place, depth=place.depth + 1))
            return True
        assert text is not None
        cmdline, shell = self.interpreter(inner, text)
        index = self.add(inner.kind, shell, cmdline, place, simple, strict=inner.stops_on_error)
        self.read_text(text, replace(place, parent=index), inner.positional)
        return True

    def between(self, inner: Nested, words: tuple[Word, ...], simple: Simple, place: _Place) -> _Place:
        """The process that stands between this shell and the next one, and where that one lives."""
        parent = place.parent
        if inner.client is not None:
            parent = self.add(inner.client, None, join(words), place, simple)
        host = place.host
        if inner.host is not None:
            host = None if inner.host in _HERE or inner.host == self.home else inner.host
        user = inner.user or (None if inner.host is not None else place.user)
        shown = inner.user or (None if inner.host is not None else place.shown_user)
        container = inner.container or (None if inner.host is not None else place.container)
        return replace(place, parent=parent, host=host, user=user, shown_user=shown, container=container)

    @staticmethod
    def interpreter(inner: Nested, text: Word) -> tuple[Word | None, str | None]:
        """Command line of a script's process: ``./x.sh`` runs as ``/bin/bash ./x.sh``."""
        if inner.cmdline is None or inner.kind != "script" or inner.shell is not None:
            return inner.cmdline, inner.shell
        if base_name(inner.positional[0]) in ("sh",) if inner.positional else True:
            return inner.cmdline, None
        first = text.template.split("\n", 1)[0]
        if not first.startswith("#!"):
            return inner.cmdline, None
        program = tuple(literal(part) for part in first[2:].split()[:2])
        shell = strip(program).words
        name = base_name(shell[0]) if shell else None
        shown = shell[:1] if program and base_name(program[0]) == "env" else program
        return join((*shown, inner.cmdline)), None if name == "sh" else name

    # -- results ---------------------------------------------------------------------------------------------

    def add(
        self,
        kind: str,
        shell: str | None,
        cmdline: Word | None,
        place: _Place,
        simple: Simple | None = None,
        *,
        strict: bool = False,
    ) -> int:
        index = len(self.carriers)
        template = cmdline.template if cmdline is not None else None
        self.carriers.append(
            Carrier(
                index=index,
                kind=kind,
                shell=shell,
                cmdline=None if template is None else as_procps(show_holes(template)),
                parent=place.parent,
                host=place.host,
                user=place.shown_user,
                comm=_comm(kind, cmdline),
                cmdline_holes=template is not None and has_holes(template),
                connector=simple.connector if simple else None,
                redirected=simple.redirected if simple else False,
                tail=simple.tail if simple else False,
                branch=simple.branch if simple else False,
                stops_on_error=strict,
                groups=simple.groups if simple else (),
            )
        )
        return index

    def step(
        self,
        simple: Simple,
        words: tuple[Word, ...],
        wrappers: tuple[str, ...],
        parent: int | None,
        place: _Place,
        xargs: tuple[str, ...] | None,
    ) -> None:
        if parent is None:
            parent = self.direct_parent(place)
        lists = [one for word in words for one in word.substitutions]
        source = simple.fed_by or (lists[0] if lists else None)
        self.steps.append(
            Step(
                index=len(self.steps),
                text=show_holes(simple.text),
                words=words,
                wrappers=wrappers,
                redirected=simple.redirected,
                hides_errors=simple.hides_errors,
                connector=simple.connector,
                carrier=parent,
                started_by=parent if place.parent is None else place.parent,
                host=place.host,
                user=place.user,
                pid_source=source.program if source else None,
                fed_by=simple.fed_by,
                piped_from=simple.piped_from,
                branch=simple.branch,
                tail=simple.tail,
                container=place.container,
                prints=simple.prints,
                groups=simple.groups,
                negated=simple.negated,
                forked=simple.forked,
                background=simple.background,
                beside=place.beside,
                xargs=xargs,
                assigned=simple.assigned,
            )
        )

    def direct_parent(self, place: _Place) -> int:
        """Nobody but the recorder started the program: a carrier without a command line stands for that."""
        if place.parent is not None:
            return place.parent
        return self.add("none", None, None, place)


def _with_assignments(commands: tuple[Simple, ...]) -> list[Simple]:
    """The commands; a bare assignment is none, but the next one learns which exit code it left."""
    found: list[Simple] = []
    assigned: str | None = None
    for simple in commands:
        if simple.words:
            found.append(replace(simple, assigned=assigned))
            assigned = None
        elif "$(" in simple.text or "`" in simple.text:
            assigned = "unknown"
        elif simple.connector != "&&":
            assigned = "zero"
    return found


def _with_lists(text: str, lists: tuple[Substitution, ...]) -> str:
    """The text as it was written: with the commands whose output an outer shell puts there."""
    numbers = ((char, list_number(char)) for char in text)
    return "".join(
        f"$({lists[number].text})" if number is not None and number < len(lists) else char for char, number in numbers
    )


def _renumbered(group: Group, offset: int) -> Group:
    after = None if group.after is None else group.after + offset
    return replace(group, index=group.index + offset, after=after)


def _comm(kind: str, cmdline: Word | None) -> str | None:
    """Name of the program's file, 15 bytes; unknown where the kernel may have taken another name."""
    if cmdline is None or kind in ("unknown -c", "stated", "ssh", "su -c"):
        return None
    first = cmdline.template.split(" ", 1)[0]
    if has_holes(first):
        return None
    name = first.rsplit("/", 1)[-1].lstrip("-")
    return name.encode()[:_COMM].decode("utf-8", "ignore")


def program_of(step: Step) -> str | None:
    """Base name of the step's program."""
    return first_program(step.words)
