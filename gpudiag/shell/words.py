"""Nodes of the syntax tree to words: quotes removed, known variables filled in, the rest marked as unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from gpudiag.shell.lines import FIRST_LIST_HOLE, HOLE, MAX_LISTS, STATUS_HOLE, Substitution, Word
from gpudiag.shell.quoting import (
    EXPANDED,
    LITERAL,
    QUOTED,
    Chars,
    brace_words,
    has_holes,
    list_number,
    split_fields,
    unescape_ansi_c,
    unescape_bare,
    unescape_double,
)
from gpudiag.shell.tree import text_of

_MAX_DEPTH = 12
_MAX_STARS = 3
_SUBSTITUTIONS = ("command_substitution", "process_substitution")
_IN_DOCUMENT = re.compile(
    r"\\(?P<escaped>[$`\\])|(?P<joined>\\\n)|(?P<variable>\$(?:\{\w+\}|\w+))|`(?P<command>(?:[^`\\]|\\.)*)`"
    r"|\$\((?P<plain>[^()]*)\)|\$[({][^)}]*[)}]?"
)
"""What the shell replaces in a here-document; the last form is not read."""


@dataclass
class _Draft:
    """A word while it is put together."""

    chars: Chars = field(default_factory=list[tuple[str, int]])
    lists: list[Substitution] = field(default_factory=list[Substitution])
    quoted: bool = False

    def hole(self, origin: int, mark: str = HOLE) -> None:
        self.chars.append((mark, QUOTED if origin == LITERAL else origin))

    def add_list(self, found: Substitution, origin: int) -> None:
        if len(self.lists) < MAX_LISTS:
            self.lists.append(replace(found, quoted=origin == QUOTED))
            self.hole(origin, chr(FIRST_LIST_HOLE + len(self.lists) - 1))
        else:
            self.hole(origin)

    def add_template(self, template: str, lists: tuple[Substitution, ...], origin: int) -> None:
        """The value of a variable, or text that an outer shell has expanded already."""
        for char in template:
            number = list_number(char)
            if number is None:
                self.chars.append((char, origin))
            elif number < len(lists):
                self.add_list(lists[number], origin)
            else:
                self.hole(origin)


@dataclass
class Budget:
    """Characters that variables may still add; ``x=$x$x`` doubles with every repetition."""

    left: int = 256 * 1024

    def allows(self, length: int) -> bool:
        self.left -= min(length, self.left + 1)
        return self.left >= 0


@dataclass(frozen=True)
class WordReader:
    """Reads the words of one text."""

    source: bytes
    variables: Mapping[str, Word]
    """Values known so far; a name that is missing is unknown."""
    outer: tuple[Substitution, ...]
    """What the list marks that already stand in the text refer to."""
    substitute: Callable[[Node], Substitution]
    budget: Budget

    def words(self, node: Node) -> list[Word]:
        """The words that one argument becomes."""
        draft = _Draft()
        self._piece(node, draft, inside_quotes=False, depth=0)
        raw = text_of(node, self.source).strip()
        words: list[Word] = []
        for braced in brace_words(draft.chars):
            for chars in split_fields(braced):
                words.extend([_finish(chars, draft.lists, raw)] if chars or draft.quoted else [])
        return words

    def value(self, node: Node) -> Word:
        """One word without splitting: the right-hand side of an assignment."""
        draft = _Draft()
        self._piece(node, draft, inside_quotes=False, depth=0)
        return _finish(draft.chars, draft.lists, text_of(node, self.source))

    def pattern(self, node: Node) -> Word:
        """A pattern of ``case`` as a regular expression; its text is ``None`` where it cannot be told."""
        draft = _Draft()
        self._piece(node, draft, inside_quotes=False, depth=0)
        raw = text_of(node, self.source)
        bare = [char for char, origin in draft.chars if origin != QUOTED]
        if draft.lists or has_holes("".join(char for char, _ in draft.chars)) or bare.count("*") > _MAX_STARS:
            return Word(None, raw)
        if set(bare) & set("[\\"):
            return Word(None, raw)
        wild = {"*": "(?s:.*)", "?": "(?s:.)"}
        text = "".join(
            wild[char] if origin != QUOTED and char in wild else re.escape(char) for char, origin in draft.chars
        )
        return Word(text, raw, template=text)

    def here_document(self, body: Node, backquoted: Callable[[str], Substitution]) -> Word:
        """The text of a here-document whose end mark is not quoted: the shell fills it in, awk's ``$2`` too.

        ``backquoted`` reads a command of which the tree has no node.
        """
        draft = _Draft()
        position = body.start_byte
        for child in body.children:
            if child.is_named and child.type != "heredoc_content":
                self._document_text(position, child.start_byte, draft, backquoted)
                self._piece(child, draft, inside_quotes=True, depth=1)
                position = child.end_byte
        self._document_text(position, body.end_byte, draft, backquoted)
        return _finish(draft.chars, draft.lists, text_of(body, self.source))

    def _document_text(self, start: int, end: int, draft: _Draft, backquoted: Callable[[str], Substitution]) -> None:
        text = self.source[start:end].decode("utf-8", "replace")
        position = 0
        for found in _IN_DOCUMENT.finditer(text):
            self._known([(char, QUOTED) for char in text[position : found.start()]], draft)
            if found["escaped"] is not None:
                draft.chars.append((found["escaped"], QUOTED))
            elif found["variable"] is not None:
                self._variable(found["variable"], draft, QUOTED)
            elif found["command"] is not None:
                draft.add_list(backquoted(re.sub(r"\\([$`\\])", r"\1", found["command"])), QUOTED)
            elif found["plain"] is not None:
                draft.add_list(backquoted(found["plain"]), QUOTED)
            elif found["joined"] is None:
                draft.hole(QUOTED)
            position = found.end()
        self._known([(char, QUOTED) for char in text[position:]], draft)

    def _piece(self, node: Node, draft: _Draft, *, inside_quotes: bool, depth: int) -> None:
        kind = node.type
        text = text_of(node, self.source)
        origin = QUOTED if inside_quotes else EXPANDED
        if depth > _MAX_DEPTH:
            draft.hole(origin)
        elif kind == "string":
            self._string(node, draft, depth)
        elif kind == "raw_string":
            draft.quoted = True
            self._known([(char, QUOTED) for char in text[1:-1]], draft)
        elif kind == "ansi_c_string":
            draft.quoted = True
            self._known(unescape_ansi_c(text[2:-1]), draft)
        elif kind in ("concatenation", "command_name", "translated_string"):
            for child in node.children:
                if child.type != "$":
                    self._piece(child, draft, inside_quotes=inside_quotes, depth=depth + 1)
        elif kind in ("simple_expansion", "expansion"):
            self._variable(text, draft, origin)
        elif kind in _SUBSTITUTIONS:
            draft.add_list(self.substitute(node), origin)
        elif kind == "arithmetic_expansion":
            draft.hole(origin)
        else:
            self._known(unescape_bare(text), draft)

    def _known(self, chars: Chars, draft: _Draft) -> None:
        """Literal text, in which an outer shell may have left marks."""
        for char, origin in chars:
            draft.add_template(char, self.outer, origin)

    def _string(self, node: Node, draft: _Draft, depth: int) -> None:
        """A double-quoted string; blanks between its parts belong to no node of the tree."""
        draft.quoted = True
        position = node.start_byte + 1
        end = node.end_byte - (1 if self.source[node.start_byte + 1 : node.end_byte].endswith(b'"') else 0)
        for child in node.children:
            if not child.is_named:
                continue
            self._gap(position, child.start_byte, draft)
            if child.type == "string_content":
                self._known(unescape_double(text_of(child, self.source)), draft)
            else:
                text = text_of(child, self.source)
                self._known([(char, QUOTED) for char in text[: len(text) - len(text.lstrip())]], draft)
                self._piece(child, draft, inside_quotes=True, depth=depth + 1)
            position = child.end_byte
        self._gap(position, end, draft)

    def _gap(self, start: int, end: int, draft: _Draft) -> None:
        if start < end:
            self._known(unescape_double(self.source[start:end].decode("utf-8", "replace")), draft)

    def _variable(self, text: str, draft: _Draft, origin: int) -> None:
        found = re.fullmatch(r"\s*\$(?:\{(\w+|\?)\}|(\w+|\?))", text)
        if found is not None:
            name = found[1] or found[2]
            known = self.variables.get(name)
            if name == "?":
                draft.hole(origin, STATUS_HOLE)
            elif known is not None and self.budget.allows(len(known.template)):
                draft.add_template(known.template, known.substitutions, origin)
            else:
                draft.hole(origin)
        else:
            draft.hole(origin)


def _finish(chars: Chars, lists: list[Substitution], raw: str) -> Word:
    template = "".join(char for char, _ in chars)
    unknown = has_holes(template) or (chars[:1] == [("~", LITERAL)])
    used = {number for number in map(list_number, template) if number is not None}
    return Word(
        text=None if unknown else template,
        raw=raw,
        substitutions=tuple(lists) if used else (),
        glob=any(char in "*?[" and origin != QUOTED for char, origin in chars),
        template=HOLE + template[1:] if unknown and not has_holes(template) else template,
    )


def first_program(words: tuple[Word, ...]) -> str | None:
    """Base name of the program, without its directory."""
    if not words or words[0].text is None:
        return None
    return words[0].text.rsplit("/", 1)[-1] or None
