"""``pstree -p``: who is whose child, drawn as a tree; in braces are threads. ``-a`` prints one process a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpudiag.model import Process
from gpudiag.parse.commands import Shown
from gpudiag.parse.listing import Listing
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import Segment
from gpudiag.parse.values import pid_of

_DRAWN = re.compile(r"(?P<lead>[\s│|]{0,400}?)(?P<branch>[`|├└][-─])?(?=[^\s│|`├└─-])")
_NODE = re.compile(r"(?P<name>[^\s(][^(]{0,60}|\([^()]{1,40}\))\((?P<pid>\d{1,10})(?:,[^()]{1,40})?\)")
_LINK = re.compile(r"(?:-[-+]-|─[─┬]─)")
_WITH_ARGUMENTS = re.compile(
    r"(?P<lead>[\s│|`├└─-]{0,400})(?P<name>\{[^{}]{1,40}\}|[^\s,{}]{1,40}),(?P<pid>\d{1,10})(?P<args> .*)?\Z"
)
_UNMISTAKABLE = re.compile(r"[A-Za-z][\w.:@-]{0,40}\(\d{1,10}\)(?:-[-+]-|─[─┬]─)\S")


@dataclass
class _Node:
    pid: int
    ppid: int | None
    comm: str
    offset: int
    args: str | None = None
    threads: int = 1


@dataclass
class _Tree:
    nodes: dict[int, _Node] = field(default_factory=lambda: dict[int, _Node]())
    forks: dict[int, int] = field(default_factory=lambda: dict[int, int]())
    """Column of a fork to the PID that has its children below."""

    def add(self, name: str, pid: int, parent: int | None, offset: int, args: str | None = None) -> None:
        """A process, or a thread of its parent."""
        if name.startswith("{"):
            if parent in self.nodes:
                self.nodes[parent].threads += 1
        else:
            self.nodes.setdefault(pid, _Node(pid, parent, name, offset, args))


def rows(segment: Segment) -> Iterator[Row]:
    """One process a node."""
    tree = _Tree()
    stack: list[tuple[int, int]] = []
    for offset, line in enumerate(segment.lines):
        if match := _WITH_ARGUMENTS.match(line):
            _with_arguments(tree, stack, offset, match)
        else:
            _drawn(tree, offset, line)
    for node in tree.nodes.values():
        yield Process(
            at=segment.place,
            pid=node.pid,
            cited=segment.cite(node.offset),
            text_from="ps",
            ppid=node.ppid,
            threads=node.threads if node.threads > 1 else None,
            comm=node.comm,
            cmdline=node.args,
            cmdline_cut=node.args is not None,
        )
    yield segment.coverage("process table", complete=False)


def _drawn(tree: _Tree, offset: int, line: str) -> None:
    lead = _DRAWN.match(line)
    if lead is None:
        return
    parent = tree.forks.get(lead.start("branch")) if lead["branch"] else None
    position = lead.end()
    while match := _NODE.match(line, position):
        pid = pid_of(match["pid"])
        if pid is None:
            return
        tree.add(match["name"], pid, parent, offset)
        link = _LINK.match(line, match.end())
        if link is None:
            return
        if link[0][1] in "+┬":
            tree.forks[link.start() + 1] = pid
        parent, position = pid, link.end()


def _with_arguments(tree: _Tree, stack: list[tuple[int, int]], offset: int, match: re.Match[str]) -> None:
    pid = pid_of(match["pid"])
    if pid is None:
        return
    depth = len(match["lead"])
    while stack and stack[-1][0] >= depth:
        stack.pop()
    args = match["args"]
    tree.add(match["name"], pid, stack[-1][1] if stack else None, offset, f"{match['name']}{args}" if args else None)
    stack.append((depth, pid))


def _continues(line: str) -> bool:
    return bool(re.match(r"[\s│|`├└]", line) and ("─" in line or "-" in line) and re.search(r"[(,]\d{1,10}", line))


def _headless(shown: Shown, line: str) -> bool:
    if shown.tool != "pstree" or not any(re.fullmatch(r"-[a-zA-Z]*p[a-zA-Z]*", word) for word in shown.argv[1:]):
        return False
    lead = _DRAWN.match(line)
    return bool(_WITH_ARGUMENTS.match(line) or (lead and _NODE.match(line, lead.end())))


LISTING = Listing(
    rows=rows,
    begins=lambda line: bool(_UNMISTAKABLE.match(line)),
    continues=_continues,
    printed_by=lambda shown: shown.tool == "pstree",
    headless=_headless,
)
