"""One shell text to its simple commands, in the order in which the shell would start them."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tree_sitter import Node

from gpudiag.shell.lines import HOLE, Group, Substitution, Word
from gpudiag.shell.quoting import literal
from gpudiag.shell.tree import parse, refuse, text_of
from gpudiag.shell.words import Budget, WordReader, first_program
from gpudiag.shell.wrappers import strip

_MAX_COMMANDS = 512
_MAX_DEPTH = 40
_MAX_WALKS = 16 * _MAX_COMMANDS
"""Statements that are entered; a loop over two words in a loop over two words … doubles them with every level."""
_MAX_LISTS_DEEP = 20
"""``$(…)`` within ``$(…)``; each level takes a part of the interpreter's stack."""
_MAX_PIPELINE = 64
"""Commands that feed one of a pipeline; they are read anew for each further one."""
_TOO_LONG_A_PIPELINE = f"a pipeline of more than {_MAX_PIPELINE} commands: what comes out at its end is not read"
_UNREAD_SHOWN = 200
"""Characters of a statement that is not read."""
_MAX_NOTES = 8
TOO_DEEP = "nested too deeply: the innermost commands are not read"
_TOO_LONG = "too many commands; the rest was left out"
_GROUPS = ("program", "list", "do_group", "compound_statement", "subshell", "else_clause", "elif_clause", "case_item")
_BRANCHES = ("if_statement", "while_statement", "case_statement", "c_style_for_statement")
_BUILTINS = ("declaration_command", "unset_command", "test_command")
_CONNECTORS = {"&&": "&&", "||": "||", "&": "&", ";": ";", ";;": ";", "\n": ";"}
_SIMPLE = ("command", "redirected_statement")
_REDIRECTS = ("file_redirect", "heredoc_redirect", "herestring_redirect")


@dataclass(frozen=True)
class Simple:
    """A simple command, before wrappers such as sudo are taken off."""

    words: tuple[Word, ...]
    """Empty for a bare assignment."""
    text: str
    connector: str | None
    redirected: bool = False
    hides_errors: bool = False
    prints: bool = True
    branch: bool = False
    tail: bool = False
    fed_by: Substitution | None = None
    piped_from: Substitution | None = None
    stdin_text: Word | None = None
    """A here-document or here-string."""
    stdin_file: str | None = None
    groups: tuple[Group, ...] = ()
    negated: bool = False
    forked: bool = False
    background: bool = False
    assigned: str | None = None


@dataclass(frozen=True)
class Reading:
    commands: tuple[Simple, ...]
    not_understood: tuple[str, ...]
    groups: int = 0
    """How many compound commands there are; their indexes are below that."""


@dataclass(frozen=True)
class _Context:
    """What the surroundings of a node say about the commands in it."""

    connector: str | None = None
    redirects: tuple[Node, ...] = ()
    branch: bool = False
    piped: bool = False
    captured: bool = False
    """Its output goes into a pipe."""
    nested: bool = False
    """Inside a group, a loop or a function: never the place where a shell replaces itself."""
    fed_by: Substitution | None = None
    piped_from: Substitution | None = None
    """What stands before it in its pipeline."""
    read_loop: bool = False
    """The body of a loop over a list of PIDs: a kill in it reaches those, anything else may not run at all."""
    loop: bool = False
    """Inside a loop over a list, which may be empty."""
    list_loop: bool = False
    """As ``read_loop``, where the list is the word of a ``for``."""
    text: str | None = None
    groups: tuple[Group, ...] = ()
    depth: int = 0


def read(text: str, outer: tuple[Substitution, ...] = (), variables: dict[str, Word] | None = None) -> Reading:
    """Reads shell text; ``outer`` are the lists that an outer shell has already put into it."""
    refused = refuse(text)
    if refused is not None:
        return Reading((), (refused,))
    reader = _Reader(text, outer, variables or {})
    return reader.run()


class _Reader:
    def __init__(self, text: str, outer: tuple[Substitution, ...], variables: dict[str, Word]) -> None:
        self.root, self.source, self.added = parse(text)
        self.outer = outer
        self.variables = dict(variables)
        self.functions: dict[str, Node] = {}
        self.doubtful: set[str] = set()
        """Functions of which it is not known whether they were defined."""
        self.after_and: set[str] = set()
        """Names that were given a meaning behind ``&&``: what follows in the same list runs only if they were."""
        self.budget = Budget()
        self.calling: list[str] = []
        self.lost = False
        """A function has called itself: how often, and what runs afterwards, is not followed."""
        self.commands: list[Simple] = []
        self.notes: list[str] = []
        self.group_count = 0
        self.walks = 0
        self.lists_deep = 0

    def run(self) -> Reading:
        broken = next((child for child in self.root.children if _negates_inside_a_pipeline(child)), None)
        if broken is not None:
            return self.as_far_as(broken)
        if self.added is not None:
            self.note(f"the text breaks off; read as if {self.added} followed")
        self.walk(self.root, _Context())
        return Reading(tuple(_mark_tail(self.commands)), tuple(self.notes), self.group_count)

    def as_far_as(self, broken: Node) -> Reading:
        """A shell runs the lines before the one that it cannot read."""
        self.note("a `!` inside a pipeline is a syntax error: nothing of that line runs, and nothing behind it")
        context = _Context()
        for child in self.root.children:
            if child.is_named and child.type != "comment" and child.start_point[0] < broken.start_point[0]:
                self.walk(child, context)
                context = replace(context, connector=";")
        return Reading(tuple(self.commands), tuple(self.notes), self.group_count)

    def note(self, text: str) -> None:
        if len(self.notes) < _MAX_NOTES and text not in self.notes:
            self.notes.append(text)

    def text(self, node: Node) -> str:
        return text_of(node, self.source)

    def word_reader(self) -> WordReader:
        return WordReader(self.source, self.variables, self.outer, self.substitution, self.budget)

    # -- statements ------------------------------------------------------------------------------------------

    def walk(self, node: Node, context: _Context) -> None:
        """One statement or one group of them."""
        self.walks += 1
        if len(self.commands) >= _MAX_COMMANDS or self.walks > _MAX_WALKS:
            self.note(_TOO_LONG)
            return
        if context.depth > _MAX_DEPTH:
            self.unread(node, context)
            return
        context = replace(context, depth=context.depth + 1)
        handlers = {
            "command": self.command,
            "redirected_statement": self.redirected,
            "pipeline": self.pipeline,
            "for_statement": self.for_loop,
            "function_definition": self.define,
            "ERROR": self.broken,
            **dict.fromkeys(_BRANCHES, self.branches),
            **dict.fromkeys(("variable_assignment", "variable_assignments", *_BUILTINS), self.assignment),
            **dict.fromkeys((*_GROUPS, "negated_command"), self.group),
        }
        handler = handlers.get(node.type)
        if handler is not None:
            handler(node, context)

    def unread(self, node: Node, context: _Context) -> None:
        """A statement that is nested too deeply: a command of which nothing is known but that it stands there."""
        self.note(TOO_DEEP)
        shown = self.text(node)[:_UNREAD_SHOWN]
        unknown = Word(None, shown, template=HOLE)
        self.emit((unknown,), node, replace(context, branch=True, redirects=(), text=shown, fed_by=None))

    def group(self, node: Node, context: _Context) -> None:
        if node.type in ("program", "list", "do_group"):
            self.sequence(node, replace(context, nested=context.nested or node.type == "do_group"))
            return
        if node.type == "negated_command":
            start = len(self.commands)
            self.sequence(node, replace(context, nested=True))
            for simple in self.commands[start:][-1:]:
                self.commands[-1] = replace(simple, negated=not simple.negated)
            return
        uncertain = context.branch or node.type.endswith(("clause", "item"))
        kind = "subshell" if node.type == "subshell" else "list"
        before = dict(self.variables)
        self.sequence(node, replace(self.enter(context, kind), branch=uncertain))
        if kind == "subshell":
            self.variables = before
        elif context.connector in ("&&", "||"):
            self.keep(before)

    def keep(self, before: dict[str, Word]) -> None:
        """What ran may not have run: a variable that it changed is unknown."""
        self.variables = {name: value for name, value in self.variables.items() if before.get(name) == value}

    def enter(self, context: _Context, kind: str, after: Group | None = None, *, wanted: bool = True) -> _Context:
        """The surroundings inside a compound command."""
        group = self.new_group(kind, context.connector, after, wanted=wanted)
        return replace(context, connector=None, nested=True, groups=(*context.groups, group), piped_from=None)

    def new_group(self, kind: str, connector: str | None, after: Group | None = None, *, wanted: bool = True) -> Group:
        self.group_count += 1
        return Group(self.group_count - 1, kind, connector, None if after is None else after.index, wanted)

    def broken(self, node: Node, context: _Context) -> None:
        self.note(f"syntax not understood near: {self.text(node)[:80].strip()}")
        self.sequence(node, replace(context, nested=True, branch=True))

    def assignment(self, node: Node, context: _Context) -> None:
        self.assign_all(node, context)
        if node.type == "test_command":
            self.emit(tuple(self.test_words(node)), node, context)
            return
        words = (literal(self.text(node).split(None, 1)[0]),) if node.type in _BUILTINS else ()
        self.emit(words, node, context)

    def test_words(self, node: Node) -> Generator[Word]:
        """``[ "$x" = y ]`` in the order in which it is written."""
        waiting = list(reversed(node.children))
        reader = self.word_reader()
        while waiting:
            child = waiting.pop()
            if child.type.endswith("_expression"):
                waiting += reversed(child.children)
            elif child.is_named and child.type != "test_operator":
                yield from reader.words(child)
            else:
                yield literal(self.text(child))

    def sequence(self, node: Node, context: _Context) -> None:
        """Children that follow each other, with the tokens between them."""
        connector = context.connector
        started = False
        for child in node.children:
            if child.type in _CONNECTORS:
                connector = _CONNECTORS[child.type]
                if child.type == "||":
                    self.doubt(self.after_and)
            elif child.is_named and child.type not in ("comment", "word"):
                if started and connector == context.connector:
                    connector = ";"
                last_of_list = node.type != "list" or child.next_sibling is None
                redirects = context.redirects if last_of_list else ()
                if self.statement(child, replace(context, connector=connector, redirects=redirects)):
                    started = True
                    connector = context.connector
        if node.type == "list" and (node.parent is None or node.parent.type != "list"):
            self.doubt(self.after_and)

    def statement(self, node: Node, context: _Context) -> bool:
        """One statement, in the background if ``&`` stands behind it; says whether it has a command."""
        known = dict(self.variables)
        before = len(self.commands)
        self.walk(node, context)
        if len(self.commands) == before:
            return False
        if node.next_sibling is not None and node.next_sibling.type == "&":
            self.detach(before, len(context.groups))
            self.variables = known
        return True

    def doubt(self, names: set[str]) -> None:
        """From here on nobody knows whether these names have their new meaning."""
        for name in names:
            self.variables.pop(name, None)
        self.doubtful |= names & self.functions.keys()
        names.clear()

    def named(self, name: str, context: _Context) -> None:
        """A variable or a function was given a meaning, if the shell came here."""
        self.doubtful.discard(name)
        if context.connector == "&&":
            self.after_and.add(name)
        elif context.connector == "||" or context.branch or any(g.kind in ("body", "loop") for g in context.groups):
            self.doubt({name})

    def detach(self, start: int, depth: int) -> None:
        """A statement with ``&`` behind it: the shell forks for it, so it never replaces itself."""
        first = self.commands[start]
        connector = first.groups[depth].connector if len(first.groups) > depth else first.connector
        around = self.new_group("subshell", connector)
        for number, simple in enumerate(self.commands[start:], start):
            groups = (*simple.groups[:depth], around, *simple.groups[depth:])
            self.commands[number] = replace(simple, tail=False, background=True, groups=groups, forked=True)

    def redirected(self, node: Node, context: _Context) -> None:
        redirects = tuple(child for child in node.children if child.type in _REDIRECTS)
        bodies = [child for child in node.children if child.is_named and child.type not in _REDIRECTS]
        for redirect in redirects:
            context = self.feed_from_process(redirect, context)
        text = self.text(node) if bodies and bodies[0].type == "command" else None
        inner = replace(context, redirects=context.redirects + redirects, text=text)
        for body in bodies:
            self.walk(body, inner)
        for redirect in redirects:
            self.after_heredoc_start(redirect, context)

    def feed_from_process(self, redirect: Node, context: _Context) -> _Context:
        """``done < <(pgrep …)`` feeds a read loop."""
        for child in redirect.children:
            if child.type == "process_substitution":
                return replace(context, fed_by=self.substitution(child))
        return context

    def after_heredoc_start(self, redirect: Node, context: _Context) -> None:
        """What stands on the line after ``<<EOF`` hangs below the redirection in the tree."""
        if redirect.type != "heredoc_redirect":
            return
        connector = ";"
        for child in redirect.children:
            if child.type in _CONNECTORS:
                connector = _CONNECTORS[child.type]
            elif child.type == "pipeline":
                self.sequence(child, replace(context, connector="|", nested=True))
            elif child.is_named and not child.type.startswith("heredoc_") and child.type != "file_redirect":
                self.walk(child, replace(context, connector=connector))

    def pipeline(self, node: Node, context: _Context) -> None:
        elements = [child for child in node.children if child.is_named and child.type != "comment"]
        context, elements[0], redirects = self.joined_before(elements[0], context)
        consumer = next((i for i, e in enumerate(elements) if i > 0 and self.takes_arguments(e)), None)
        if context.connector in ("&&", "||"):
            # They decide about the whole pipeline, not only about its first command.
            context = self.enter(context, "list")
        start, connector = 0, context.connector
        if consumer is not None:
            self.arguments_from(elements, consumer, redirects, context)
            start, connector = consumer + 1, "|"
        known = dict(self.variables)
        for number, element in enumerate(elements[start:], start):
            own = replace(self.element(elements, number, redirects, context), connector=connector)
            self.walk(element, own if element.type in _SIMPLE else self.enter(own, "subshell"))
            self.variables = dict(known)
            connector = "|"

    def joined_before(self, first: Node, context: _Context) -> tuple[_Context, Node, tuple[Node, ...]]:
        """The grammar takes ``a && b 2>x | c`` for ``(a && b 2>x) | c``: reads ``a``, gives ``b`` and its ``2>x``."""
        inner = first.children[0] if first.type == "redirected_statement" else first
        if inner.type != "list":
            return context, first, ()
        operator = next(child.type for child in inner.children if child.type in ("&&", "||"))
        self.walk(inner.children[0], replace(context, redirects=()))
        if operator == "||":
            self.doubt(self.after_and)
        redirects = tuple(child for child in first.children if child.type in _REDIRECTS)
        return replace(context, connector=operator), inner.children[-1], redirects

    def arguments_from(
        self, elements: list[Node], consumer: int, redirects: tuple[Node, ...], context: _Context
    ) -> None:
        """An xargs, with what feeds it."""
        last = consumer == len(elements) - 1
        own = context.redirects if last else ()
        text = self.span(elements[0].start_byte, elements[consumer].end_byte, own)
        feed = self.feed(elements[:consumer], redirects)
        self.walk(
            elements[consumer],
            replace(context, piped=True, fed_by=feed, text=text, captured=not last, redirects=own),
        )

    def element(self, elements: list[Node], number: int, redirects: tuple[Node, ...], context: _Context) -> _Context:
        """The surroundings of one part of a pipeline."""
        last = number == len(elements) - 1
        own = (context.redirects if last else ()) + (redirects if number == 0 else ())
        inside = replace(context, piped=True, captured=not last or context.captured, redirects=own)
        if number == 0:
            return inside
        feed = self.feed(elements[:number], redirects)
        return replace(inside, piped_from=feed) if elements[number].type in _SIMPLE else replace(inside, fed_by=feed)

    def takes_arguments(self, node: Node) -> bool:
        """The element is xargs, possibly behind sudo and the like."""
        if node.type == "redirected_statement":
            node = node.children[0]
        return node.type == "command" and "xargs" in strip(self.words_of(node)).names

    def feed(self, producers: list[Node], redirects: tuple[Node, ...]) -> Substitution:
        text = self.source[producers[0].start_byte : producers[-1].end_byte].decode("utf-8", "replace")
        if len(producers) > _MAX_PIPELINE:
            self.note(_TOO_LONG_A_PIPELINE)
            return Substitution(text, None, "here", ())
        words = tuple(self.words_of(_command_in(producer)) for producer in producers)
        stdin = self.read_by(producers[0], redirects)
        return replace(_substitution(text, words), stdin=stdin)

    def for_loop(self, node: Node, context: _Context) -> None:
        """A loop over known words is unrolled; over anything else its body is read once."""
        name: str | None = None
        items: list[Word] = []
        body: Node | None = None
        for child in node.children:
            if child.type == "variable_name" and name is None:
                name = self.text(child)
            elif child.type in ("do_group", "compound_statement"):
                body = child
            elif child.is_named and child.type != "comment":
                items.extend(self.word_reader().words(child))
        if body is None or name is None:
            return
        inner = self.enter(context, "loop")
        for item in items or [Word(None, "", template=HOLE)]:
            self.variables[name] = item
            round_ = self.enter(inner, "round")
            # Over a list that may be empty: what does not use it may not run at all.
            self.walk(body, replace(round_, loop=True, list_loop=True) if item.substitutions else round_)
        self.variables.pop(name, None)

    def branches(self, node: Node, context: _Context) -> None:
        """``if``, ``while``, ``until``: the condition runs, the rest depends on it. ``case``: anything may run."""
        before = dict(self.variables)
        if self.reads_list(node, context):
            inner = replace(self.enter(context, "list"), loop=True, read_loop=True)
            for child in node.children:
                if child.is_named and child.type != "comment":
                    self.walk(child, inner)
        elif node.type in ("if_statement", "while_statement"):
            self.conditional(node, self.enter(context, "list"))
        elif node.type == "case_statement" and not any(
            c.type in (";&", ";;&") for i in node.children for c in i.children
        ):
            self.cases(node, self.enter(context, "list"))
        else:
            inner = replace(self.enter(context, "list"), branch=True)
            for child in node.children:
                if child.is_named and child.type not in ("comment", "variable_name", "word"):
                    self.walk(child, replace(inner, connector=";"))
        self.keep(before)

    def reads_list(self, node: Node, context: _Context) -> bool:
        """``while read p``, fed by a list of PIDs."""
        condition = next((child for child in node.children if child.type == "command"), None)
        return (
            node.type == "while_statement"
            and context.fed_by is not None
            and condition is not None
            and (first_program(self.words_of(condition)) == "read")
        )

    def conditional(self, node: Node, context: _Context) -> None:
        """The parts of an ``if`` or of a loop with a condition, one after the other."""
        wanted = node.children[0].type != "until"
        condition = self.enter(context, "condition")
        inside = condition
        for child in node.children:
            if child.type == "then":
                inside = self.enter(context, "body", condition.groups[-1])
            elif child.type == "do_group":
                self.sequence(child, self.enter(context, "loop", condition.groups[-1], wanted=wanted))
            elif child.type in ("elif_clause", "else_clause"):
                otherwise = self.enter(context, "body", condition.groups[-1], wanted=False)
                if child.type == "elif_clause":
                    # Later clauses hang beside this one in the tree, and depend on its condition as well.
                    condition = self.enter(otherwise, "condition")
                    self.clause(child, condition, otherwise)
                else:
                    self.sequence(child, otherwise)
            elif child.is_named and child.type != "comment" and self.statement(child, inside):
                inside = replace(inside, connector=";")

    def cases(self, node: Node, context: _Context) -> None:
        """``case``: each item is a condition, on which its commands and all later items depend."""
        subject = next((child for child in node.children if child.is_named), None)
        value = self.word_reader().value(subject) if subject is not None else None
        for item in (child for child in node.children if child.type == "case_item"):
            mark = next((n for n, child in enumerate(item.children) if child.type == ")"), len(item.children))
            shown = [child for child in item.children[:mark] if child.is_named]
            condition = self.enter(context, "condition")
            if value is not None and shown:
                patterns = map(self.word_reader().pattern, shown)
                text = f"case {value.raw} in {' | '.join(map(self.text, shown))})"
                self.emit((literal("case"), value, *patterns), item, replace(condition, text=text))
            inside = self.enter(context, "body", condition.groups[-1])
            for child in item.children[mark + 1 :]:
                if child.is_named and child.type != "comment":
                    self.statement(child, inside)
                    inside = replace(inside, connector=";")
            context = self.enter(context, "body", condition.groups[-1], wanted=False)

    def clause(self, node: Node, condition: _Context, context: _Context) -> None:
        inside = condition
        for child in node.children:
            if child.type == "then":
                inside = self.enter(context, "body", condition.groups[-1])
            elif child.is_named and child.type != "comment":
                self.statement(child, inside)
                inside = replace(inside, connector=";")

    def define(self, node: Node, context: _Context) -> None:
        names = [child for child in node.children if child.type == "word"]
        bodies = [child for child in node.children if child.type in ("compound_statement", "subshell")]
        if names and bodies:
            self.functions[self.text(names[0])] = bodies[0]
            self.named(self.text(names[0]), context)

    def assign_all(self, node: Node, context: _Context) -> None:
        assignments = [node] if node.type == "variable_assignment" else node.children
        for child in assignments:
            if child.type == "variable_assignment":
                self.assign(child)
                self.named(self.text(child.children[0]), replace(context, branch=False, groups=()))

    def assign(self, node: Node) -> None:
        name = self.text(node.children[0])
        plain = len(node.children) > 1 and node.children[1].type == "="
        if plain and len(node.children) == 3:
            self.variables[name] = self.word_reader().value(node.children[2])
        elif plain and len(node.children) == 2:
            self.variables[name] = literal("")
        else:
            self.variables.pop(name, None)

    # -- commands --------------------------------------------------------------------------------------------

    def command(self, node: Node, context: _Context) -> None:
        words = self.words_of(node)
        redirects = tuple(child for child in node.children if child.type in _REDIRECTS)
        context = replace(context, redirects=context.redirects + redirects)
        name = words[0].text if words else None
        if name in self.functions and name not in self.calling:
            self.call(name, words, context)
        else:
            self.lost = self.lost or name in self.functions
            self.emit(words, node, context)
        if name == "read":
            for word in words[1:]:
                self.variables.pop(word.template, None)

    def call(self, name: str, words: tuple[Word, ...], context: _Context) -> None:
        with self.arguments(name, words):
            inside = self.enter(context, "function")
            uncertain = context.branch or name in self.doubtful
            self.walk(self.functions[name], replace(inside, text=None, branch=uncertain))

    @contextmanager
    def arguments(self, name: str, words: tuple[Word, ...]) -> Generator[None]:
        saved = {key: value for key, value in self.variables.items() if key.isdigit()}
        for key in saved:
            del self.variables[key]
        self.variables.update({str(number): word for number, word in enumerate(words[1:], 1)})
        self.calling.append(name)
        yield
        self.calling.pop()
        self.variables = {key: value for key, value in self.variables.items() if not key.isdigit()} | saved

    def words_of(self, node: Node) -> tuple[Word, ...]:
        words: list[Word] = []
        reader = self.word_reader()
        for child in node.children if node.type == "command" else ():
            if child.type in _REDIRECTS or child.type == "variable_assignment" or child.type == "$":
                continue
            words.extend(reader.words(child))
        return tuple(words)

    def emit(self, words: tuple[Word, ...], node: Node, context: _Context) -> None:
        fed_by = context.fed_by
        if fed_by is not None and "xargs" not in strip(words).names and not any(w.text is None for w in words[1:]):
            fed_by = None
        stdin_text, stdin_file = self.standard_input(context.redirects)
        takes_list = context.list_loop and any(word.substitutions for word in words)
        uses_list = takes_list or (context.read_loop and fed_by is not None)
        self.commands.append(
            Simple(
                words=words,
                text=(context.text or self.span(node.start_byte, node.end_byte, context.redirects)).strip(),
                connector=context.connector,
                redirected=bool(context.redirects),
                hides_errors=any(_hides_errors(self.text(redirect)) for redirect in context.redirects),
                prints=not context.captured and not any(_moves_output(self.text(r)) for r in context.redirects),
                branch=self.lost or context.branch or (context.loop and not uses_list),
                tail=not (context.piped or context.nested or context.branch),
                fed_by=fed_by,
                piped_from=context.piped_from,
                stdin_text=stdin_text,
                stdin_file=stdin_file,
                groups=context.groups,
                forked=context.piped,
            )
        )

    def span(self, start: int, end: int, redirects: tuple[Node, ...]) -> str:
        """A part of the text with the redirections that follow it directly."""
        for redirect in redirects:
            if redirect.type == "file_redirect" and not self.source[end : redirect.start_byte].strip():
                end = max(end, redirect.end_byte)
        return self.source[start:end].decode("utf-8", "replace")

    def standard_input(self, redirects: tuple[Node, ...]) -> tuple[Word | None, str | None]:
        text: Word | None = None
        file: str | None = None
        for redirect in redirects:
            if redirect.type == "herestring_redirect":
                text = self.word_reader().value(redirect.children[-1])
            for child in redirect.children:
                if child.type == "heredoc_body":
                    start = next((self.text(one) for one in redirect.children if one.type == "heredoc_start"), "")
                    quoted = bool(set(start) & set("'\"\\"))
                    body = self.text(child)
                    text = literal(body) if quoted else self.word_reader().here_document(child, self.apart)
            if redirect.type == "file_redirect" and redirect.children[0].type == "<" and len(redirect.children) > 1:
                file = self.word_reader().value(redirect.children[1]).text
        return text, file

    def apart(self, text: str) -> Substitution:
        """A substitution whose command stands in a text of its own."""
        reader = _Reader(text, self.outer, self.variables)
        reader.budget, reader.notes, reader.lists_deep = self.budget, self.notes, self.lists_deep
        return reader.substitution(reader.root)

    # -- substitutions ---------------------------------------------------------------------------------------

    def substitution(self, node: Node) -> Substitution:
        """``$(…)``, backquotes or ``<(…)``."""
        text = re.sub(r"^\s*(?:\$\(|<\(|>\(|`)|(?:\)|`)$", "", self.text(node)).strip()
        if self.lists_deep >= _MAX_LISTS_DEEP:
            self.note(TOO_DEEP)
            return Substitution(text, None, "here", ())
        self.lists_deep += 1
        found = self.list_of(node, text)
        self.lists_deep -= 1
        return found

    def list_of(self, node: Node, text: str) -> Substitution:
        inner = [child for child in node.children if child.is_named and child.type != "comment"]
        if len(inner) != 1:
            commands = tuple(self.words_of(_command_in(child)) for child in inner)
            return replace(_substitution(text, commands), pipeline=())
        elements = inner
        statement = inner[0]
        if statement.type == "redirected_statement" and statement.children[0].type == "pipeline":
            statement = statement.children[0]
        if statement.type == "pipeline":
            elements = [child for child in statement.children if child.is_named and child.type != "comment"]
        words = tuple(self.words_of(_command_in(element)) for element in elements)
        return replace(_substitution(text, words), stdin=self.read_by(elements[0]))

    def read_by(self, element: Node, redirects: tuple[Node, ...] = ()) -> str | None:
        """The file that a command is redirected from."""
        own = tuple(child for child in element.children if child.type in _REDIRECTS)
        return self.standard_input(own + redirects)[1]


def _negates_inside_a_pipeline(root: Node) -> bool:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        children = [child for child in node.children if child.is_named]
        if node.type == "pipeline" and any(child.type == "negated_command" for child in children[1:]):
            return True
        waiting += children
    return False


def _mark_tail(commands: list[Simple]) -> list[Simple]:
    return [replace(simple, tail=simple.tail and simple is commands[-1]) for simple in commands]


def _command_in(node: Node) -> Node:
    return node.children[0] if node.type == "redirected_statement" else node


_DEAF = frozenset({"pgrep", "ps", "nvidia-smi", "fuser", "lsof", "pidof"})
"""Programs that print what they find, whatever is piped into them."""


def _substitution(text: str, pipeline: tuple[tuple[Word, ...], ...]) -> Substitution:
    stages = [strip(words) for words in pipeline]
    deaf = [n for n, one in enumerate(stages) if first_program(one.words) in _DEAF and "xargs" not in one.names]
    pipeline = pipeline[deaf[-1] :] if deaf else pipeline
    first = strip(pipeline[0]).words if pipeline else ()
    argv = tuple(word.text for word in first if word.text is not None)
    whole = pipeline if all(pipeline) else ()
    return Substitution(text, first_program(first), "here", argv, whole)


def _hides_errors(redirect: str) -> bool:
    return re.match(r"(?:2|&)>>?\s*/dev/null|>&\s*/dev/null", redirect.strip()) is not None


def _moves_output(redirect: str) -> bool:
    return re.match(r"(?:1?>>?\|?|&>>?)\s*[^&\s]", redirect.strip()) is not None
