"""The shape of a shell line after parsing: its words, its steps and the processes that carry it."""

from __future__ import annotations

from dataclasses import dataclass

HOLE = "\U000f0000"
"""Stands in ``Word.template`` for a piece that cannot be known."""
STATUS_HOLE = "\U000f0001"
"""Stands for ``$?``."""
FIRST_LIST_HOLE = 0xF0010
"""``chr(FIRST_LIST_HOLE + n)`` stands for ``Word.substitutions[n]``."""
MAX_LISTS = 0x800


@dataclass(frozen=True)
class Substitution:
    """Output of a command that becomes arguments: ``$(…)``, backquotes, or a pipeline into xargs."""

    text: str
    """The command, as written."""
    program: str | None
    """Base name of its first program, ``nvidia-smi``; ``None`` if that cannot be read."""
    expands_on: str
    """``here``: by the shell that carries the step. ``outer``: by a shell above it, before that one starts."""
    argv: tuple[str, ...]
    """Arguments of the first simple command, program included; unknown words are left out."""
    pipeline: tuple[tuple[Word, ...], ...] = ()
    """Words of each command of the pipeline; empty if it is more than one pipeline."""
    stdin: str | None = None
    """File that its first command reads."""
    levels: int = 0
    """How many shells above the one that carries the step the expanding one is; 0 is ``here``."""
    quoted: bool = False
    """It stands in quotes: its lines become one argument."""
    in_lines: bool = False
    """It was put into shell text with its line ends, each of which ends a command there: ``bash -c "kill $(pgrep x)"``
    names the first PID only."""


@dataclass(frozen=True)
class Word:
    """One argument of a command."""

    text: str | None
    """Value after quote removal; ``None`` where a variable or a substitution makes it unknowable."""
    raw: str
    """As written, quotes included."""
    substitutions: tuple[Substitution, ...] = ()
    glob: bool = False
    """Has an unquoted ``*``, ``?`` or ``[``: the shell may replace it by file names."""
    template: str = ""
    """The value with one private-use character for each unknown piece; equal to ``text`` where that is known."""


@dataclass(frozen=True)
class Group:
    """A compound command: what stands in it runs, or not, together."""

    index: int
    """Unique in the line."""
    kind: str
    """``list`` (``{ … }``), ``subshell`` (a process of its own: brackets, a part of a pipeline, something with ``&``),
    ``function``, ``loop``, ``round`` (one pass through a loop), ``condition`` (of ``if``, ``while``, ``until``) or
    ``body`` (what depends on a condition)."""
    connector: str | None = None
    """As in ``Step``."""
    after: int | None = None
    """Index of the condition on which it depends."""
    wanted: bool = True
    """It runs if that condition succeeded; if not, when the condition failed."""


@dataclass(frozen=True)
class Step:
    """One command of the line, in the order in which a reader meets them."""

    index: int
    """Order over the whole line, from 0."""
    text: str
    """As written, without the connectors around it."""
    words: tuple[Word, ...]
    """``words[0]`` is the program; assignments and wrappers are removed."""
    wrappers: tuple[str, ...]
    """Programs that stood in front and ran this one: ``sudo``, ``timeout`` …, outermost first."""
    redirected: bool
    """Has a redirection of its own, which keeps bash from replacing itself by the program."""
    hides_errors: bool
    """Standard error goes to ``/dev/null``."""
    connector: str | None
    """What joins it to what stands before it in the same carrier: ``;`` ``&&`` ``||`` ``&`` ``|``; ``None`` for the
    first."""
    carrier: int
    """Index into ``Line.carriers`` of the shell (or client) that starts it."""
    host: str | None
    """Host that an ssh client was told; ``None`` is the host where the line was given."""
    user: str | None
    """User set by ``su``, ``sudo -u``, ``runuser`` or ``user@host``; ``None`` is the caller's own."""
    pid_source: str | None = None
    """Program that supplies the arguments: ``pgrep`` in ``pgrep … | xargs kill`` and in ``kill $(pgrep …)``."""
    fed_by: Substitution | None = None
    """The pipeline that feeds this step through xargs or a ``read`` loop."""
    piped_from: Substitution | None = None
    """The pipeline whose text it reads."""
    branch: bool = False
    """Stands in the body of a condition or a loop: whether it runs depends on what was not evaluated here."""
    tail: bool = False
    """The last command of its carrier and not part of a pipeline: a shell may replace itself by its program."""
    container: str | None = None
    """Runs inside this container (or other PID namespace), where other processes are visible."""
    prints: bool = True
    """Its standard output is the line's own: not piped, not redirected."""
    started_by: int = 0
    """Index of the innermost carrier above it: its sudo or timeout if it has one, else the same as ``carrier``."""
    groups: tuple[Group, ...] = ()
    """The compound commands around it inside its carrier, outermost first."""
    negated: bool = False
    """``!`` turns its exit code round."""
    forked: bool = False
    """A part of a pipeline, or followed by ``&``: ``exit`` or ``exec`` there does not end the carrier."""
    background: bool = False
    """``&`` stands behind it."""
    beside: bool = False
    """``&`` stands behind it or behind what started its shell: what follows does not wait for it."""
    xargs: tuple[str, ...] | None = None
    """Options of the xargs that runs it."""
    assigned: str | None = None
    """A bare assignment stands before it: ``zero`` if it left exit code 0, ``unknown`` if it may have left any."""


@dataclass(frozen=True)
class Carrier:
    """A process that has the line, or a part of it, in its own command line, or that reads it."""

    index: int
    kind: str
    """``prompt`` (interactive shell), ``bash -c``, ``sh -c``, ``unknown -c``, ``ssh`` (login shell run by sshd),
    ``su -c``, ``script``, ``sudo``, ``timeout``, ``ssh client``, ``client`` (another program that starts the next
    one, such as su or docker exec) or ``none`` (a program was executed directly)."""
    shell: str | None
    """``bash``, ``dash``, ``zsh`` …; ``None`` if not known or if the process is no shell."""
    cmdline: str | None
    """Its own ``/proc/PID/cmdline`` the way procps prints it; ``None`` if unknown."""
    parent: int | None
    """Index of the carrier that started it."""
    host: str | None
    user: str | None
    comm: str | None = None
    """Its comm, at most 15 bytes; ``None`` if unknown."""
    cmdline_holes: bool = False
    """``cmdline`` has pieces that are unknown, each shown as U+FFFD."""
    connector: str | None = None
    """How the command that started it is joined to what stands before it in the parent."""
    redirected: bool = False
    """The command that started it has a redirection."""
    tail: bool = False
    """The command that started it is the last of the parent (see ``Step.tail``)."""
    branch: bool = False
    """The command that started it stands in a condition or loop body."""
    stops_on_error: bool = False
    """Started with ``-e``."""
    may_be_gone: bool = False
    """``setsid -w`` forks, and waits, only if it leads a process group; else it has become the program."""
    groups: tuple[Group, ...] = ()
    """The compound commands around the command that started it, inside the parent."""


@dataclass(frozen=True)
class Line:
    """A whole kill line, taken apart."""

    text: str
    steps: tuple[Step, ...]
    carriers: tuple[Carrier, ...]
    not_understood: tuple[str, ...] = ()
    """Parts that could not be parsed, each with the reason."""
