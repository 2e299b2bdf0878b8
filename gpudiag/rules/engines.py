"""What is known of serving engines and launchers: the titles of their processes, their command lines, what dies with
what. A title gives a process its role and nothing else: who belongs together is decided without names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from gpudiag.rules.files import data_dir, read_model, toml_files
from gpudiag.rules.schema import Sentence, Strict

Role = Literal["server", "engine", "worker", "tracker", "launcher", "helper", "sidecar"]
"""``engine`` starts the workers for a server or launcher; a ``tracker`` belongs to a server that left it behind or not;
a ``helper`` is a daemon of the engine that opens no device; a ``sidecar`` maps the device memory of servers."""

MAX_LOOKED_AT = 1024
"""Characters of a command line that patterns see; a title or a server's own words stand at the beginning."""

# A repeated group is where a pattern stops being linear; titles do not need one.
_REPEATED_GROUP = re.compile(r"\)[*+{]")


class TitleSpec(Strict):
    """How a process of a role is recognised."""

    role: Role
    title: str
    """Regular expression: the whole ``comm``, or the command line's beginning up to a space or its end."""
    examples: Annotated[tuple[str, ...], Field(min_length=1)]
    """Titles or command lines that it must match; they are tried when the file is loaded."""
    source: Sentence
    """Where this was seen or read."""

    @model_validator(mode="after")
    def _examples_match(self) -> Self:
        pattern = _title_pattern(self.title)
        for example in self.examples:
            if not _matches(pattern, example[:15], example):
                raise ValueError(f"title {self.title!r} does not match its example {example!r}")
        return self


class LogPrefixSpec(Strict):
    """A log line's beginning that ties a role to a PID."""

    role: Role
    prefix: str
    """Regular expression with the groups ``name`` and ``pid``."""
    example: str

    @model_validator(mode="after")
    def _example_matches(self) -> Self:
        found = _compiled(self.prefix).match(self.example)
        if found is None or not {"name", "pid"} <= found.groupdict().keys():
            raise ValueError(f"prefix {self.prefix!r} does not find name and pid in its example")
        return self


Version = Annotated[str, Field(pattern=r"^[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}$")]


Relatives = Role | Literal["rest", "child", "descendant", "self", "around"]
"""``rest`` is everybody else of the server or job. ``child`` and ``descendant`` are of the process that ended; so is
``around``: its parent, where that is another job, with that job and the parent's other children."""


class CouplingSpec(Strict):
    """Who leaves by itself, and who is known to stay, when a process of the engine ends."""

    ended: Role | Literal["child", "program"]
    """Role of the process that was killed; ``child`` is anything below the server or launcher, ``program`` a job of its
    own that the launcher started: then the law speaks of the launcher alone."""
    by: tuple[Literal["KILL", "TERM", "INT"], ...] = ()
    """Signals that have this effect; empty: whatever ends it."""
    through: Role | None = None
    """Role of the process of the same job that sees to it; if that has ended as well, nothing follows."""
    orderly: bool = False
    """Only if it leaves by itself: a process that is killed cannot clean up."""
    leave: tuple[Relatives, ...] = ()
    """Who goes."""
    stay: tuple[Relatives, ...] = ()
    """Who does not notice and goes on without limit."""
    within_s: Annotated[float, Field(gt=0, le=3600)] | None = None
    """Longest time that it took; ``None``: no bound is known (until a task or a call ends)."""
    if_idle: bool = False
    """Sure only of a process that sleeps in the look; one that runs may not notice for long."""
    if_init_adopts: bool = False
    """Sure only where the process that ended is a child of PID 1, so that PID 1 adopts what it leaves."""
    unless_head: str | None = None
    """Does not hold where the server's or launcher's command line contains this regular expression."""
    if_log: str | None = None
    """Holds only where the server's log has a line with this regular expression, and none that another law asks for."""
    since: Version | None = None
    """First version of the engine for which it holds."""
    before: Version | None = None
    """First version for which it holds no more."""
    certainty: Literal["inferred", "possible"]
    because: Sentence

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if bool(self.leave) == bool(self.stay):
            raise ValueError("a coupling has either leave or stay")
        if self.stay and self.within_s is not None:
            raise ValueError("within_s is about those that leave")
        if self.orderly and self.by:
            raise ValueError("what leaves by itself was sent no signal: orderly and by exclude each other")
        return self


class ChildSpec(Strict):
    """What the children of a role are, whatever they are called."""

    of: Role
    role: Role


class RestartSpec(Strict):
    """Who starts whom again."""

    by: Role
    """Role of the parent."""
    within_s: Annotated[float, Field(gt=0, le=3600)]
    """Longest time until the new process was there."""
    if_head: str | None = None
    """Only where the parent's command line contains this regular expression; ``None``: always."""
    kind: Literal["launcher", "supervisor"]
    """As ``stop_first`` names it."""
    stop: str | None = None
    """Its own command that stops the child for good: ``{child}`` is the child's PID, ``{-c}`` that option of the
    parent's command line with its value. ``None``: SIGTERM to the parent."""
    because: Sentence

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Self:
        unknown = set(re.findall(r"\{([^}]*)\}", self.stop or "")) - {"child"}
        if any(not re.fullmatch(r"--?[a-z][a-z-]*", name) for name in unknown):
            raise ValueError(f"stop {self.stop!r} has a placeholder that is neither child nor an option")
        return self


class PoolSpec(Strict):
    """Who keeps its children alive after their user left, by design."""

    by: Role
    """Role of the parent."""
    kept: Role
    """Role that the titles of the kept ones show; they may be its children whatever they are called."""
    kind: Literal["ray", "notebook", "sidecar"]
    """As ``stop_first`` names it."""
    name: Annotated[str, Field(pattern=r"^[a-z ]+$")]
    """What the parent is to people: ``node``, ``server``."""
    stop: str | None = None
    """Its own command that ends them; ``None``: there is none that ends one of them alone."""
    because: Sentence


class EngineSpec(Strict):
    """One file under ``engines/``."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    versions: Sentence
    """Versions that the statements were made for."""
    server_cmdlines: tuple[str, ...]
    """Command lines of its server as people start it. A kill pattern that matches one of them *names* the engine."""
    server_comms: tuple[str, ...]
    """The same for tools that compare the 15 bytes of ``comm``."""
    children_own_session: bool
    """Workers leave the server's session, so a kill by process group does not reach them."""
    death_coupling: Annotated[tuple[Sentence, ...], Field(min_length=1)]
    stop_command: Sentence
    version_in_log: str | None = None
    """Regular expression with the group ``version``, for a line of the server's log that tells something."""
    coupling: tuple[CouplingSpec, ...] = ()
    """What ``death_coupling`` says, as far as a machine can use it; what stands first is believed first."""
    one_job: bool = False
    """What its launcher starts is one job that lives and dies together, also in sessions of their own."""
    child: tuple[ChildSpec, ...] = ()
    restart: tuple[RestartSpec, ...] = ()
    pool: PoolSpec | None = None
    title: tuple[TitleSpec, ...] = ()
    log_prefix: tuple[LogPrefixSpec, ...] = ()

    @model_validator(mode="after")
    def _version_has_its_group(self) -> Self:
        if self.version_in_log is not None and "version" not in _compiled(self.version_in_log).groupindex:
            raise ValueError(f"version_in_log {self.version_in_log!r} has no group named version")
        return self


class Title(NamedTuple):
    """A recogniser, compiled."""

    role: Role
    pattern: re.Pattern[str]


class LogPrefix(NamedTuple):
    """A log prefix, compiled; groups ``name`` and ``pid``."""

    role: Role
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class Coupling:
    """One sentence of the kind *when this ends, those leave*; fields as in ``CouplingSpec``."""

    ended: str
    by: tuple[str, ...]
    leave: tuple[str, ...]
    since: tuple[int, ...] | None
    before: tuple[int, ...] | None
    certainty: str
    because: str
    stay: tuple[str, ...] = ()
    within_s: float | None = None
    through: str | None = None
    orderly: bool = False
    if_idle: bool = False
    if_init_adopts: bool = False
    unless_head: re.Pattern[str] | None = None
    if_log: re.Pattern[str] | None = None

    def holds_for(self, version: tuple[int, ...] | None) -> bool | None:
        """Whether it holds for a version of the engine; ``None`` if that depends on the version and none is known."""
        if self.since is None and self.before is None:
            return True
        if version is None:
            return None
        return (self.since is None or version >= self.since) and (self.before is None or version < self.before)


@dataclass(frozen=True)
class Restart:
    """A parent that starts its children again; fields as in ``RestartSpec``."""

    by: str
    within_s: float
    if_head: re.Pattern[str] | None
    kind: str
    stop: str | None
    because: str


@dataclass(frozen=True)
class Pool:
    """A parent that keeps its children alive by design; fields as in ``PoolSpec``."""

    by: str
    kept: str
    kind: str
    name: str
    stop: str | None
    because: str


@dataclass(frozen=True)
class Engine:
    """An engine or launcher."""

    name: str
    titles: tuple[Title, ...]
    child_titles: tuple[str, ...]
    """Titles that its children carry, as examples: a kill pattern that matches one names the engine too."""
    servers: tuple[str, ...]
    """Example command lines of its server."""
    server_comms: tuple[str, ...]
    log_prefixes: tuple[LogPrefix, ...]
    children_own_session: bool
    death_coupling: tuple[str, ...]
    stop_command: str
    version_in_log: re.Pattern[str] | None
    couplings: tuple[Coupling, ...]
    one_job: bool
    child_roles: Mapping[str, str]
    """Role of a process by the role of its parent."""
    restarts: tuple[Restart, ...]
    pool: Pool | None

    def version_of(self, log_line: str) -> tuple[int, ...] | None:
        """The engine's version, where the line tells it."""
        found = self.version_in_log.search(log_line) if self.version_in_log is not None else None
        return version_key(found["version"]) if found is not None else None

    def role_of(self, comm: str | None, cmdline: str | None) -> Role | None:
        """The role that the process's own words give it here."""
        return next((title.role for title in self.titles if _matches(title.pattern, comm, cmdline)), None)


def version_key(text: str) -> tuple[int, ...]:
    """A dotted version in the form that sorts."""
    return tuple(int(part) for part in text.split("."))


def load_engines(directory: Path | None = None) -> tuple[Engine, ...]:
    """All engine files, by name; raises ``RulesError`` with one sentence."""
    specs = (read_model(path, EngineSpec) for path in toml_files(directory or data_dir() / "engines"))
    return tuple(compile_engine(spec) for spec in specs)


@cache
def shipped_engines() -> tuple[Engine, ...]:
    """The engines that come with the program, read once."""
    return load_engines()


def role_of(comm: str | None, cmdline: str | None) -> tuple[str, Role] | None:
    """Engine and role by title or command line, or ``None``. Says nothing about who belongs to whom."""
    for engine in shipped_engines():
        role = engine.role_of(comm, cmdline)
        if role is not None:
            return engine.name, role
    return None


def compile_engine(spec: EngineSpec) -> Engine:
    """What a file says, ready to be asked."""
    children = (title for title in spec.title if title.role in ("engine", "worker"))
    return Engine(
        name=spec.name,
        titles=tuple(Title(title.role, _title_pattern(title.title)) for title in spec.title),
        child_titles=tuple(example for title in children for example in title.examples),
        servers=spec.server_cmdlines,
        server_comms=spec.server_comms,
        log_prefixes=tuple(LogPrefix(prefix.role, _compiled(prefix.prefix)) for prefix in spec.log_prefix),
        children_own_session=spec.children_own_session,
        death_coupling=spec.death_coupling,
        stop_command=spec.stop_command,
        version_in_log=_pattern(spec.version_in_log),
        couplings=tuple(_coupling(one) for one in spec.coupling),
        one_job=spec.one_job,
        child_roles={child.of: child.role for child in spec.child},
        restarts=tuple(_restart(one) for one in spec.restart),
        pool=Pool(**spec.pool.model_dump()) if spec.pool is not None else None,
    )


def _coupling(spec: CouplingSpec) -> Coupling:
    return Coupling(
        ended=spec.ended,
        by=spec.by,
        leave=spec.leave,
        since=version_key(spec.since) if spec.since is not None else None,
        before=version_key(spec.before) if spec.before is not None else None,
        certainty=spec.certainty,
        because=spec.because,
        stay=spec.stay,
        within_s=spec.within_s,
        through=spec.through,
        orderly=spec.orderly,
        if_idle=spec.if_idle,
        if_init_adopts=spec.if_init_adopts,
        unless_head=_pattern(spec.unless_head),
        if_log=_pattern(spec.if_log),
    )


def _restart(spec: RestartSpec) -> Restart:
    return Restart(spec.by, spec.within_s, _pattern(spec.if_head), spec.kind, spec.stop, spec.because)


def _pattern(pattern: str | None) -> re.Pattern[str] | None:
    return _compiled(pattern) if pattern is not None else None


def _title_pattern(title: str) -> re.Pattern[str]:
    """The title followed by the end or a space, so that ``vllm serve`` is not found in ``vllm served``."""
    _compiled(title)
    return _compiled(rf"(?:{title})(?=\s|\Z)")


def _compiled(pattern: str) -> re.Pattern[str]:
    if _REPEATED_GROUP.search(pattern):
        raise ValueError(f"pattern {pattern!r} repeats a group")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern {pattern!r}: {error}") from error


def _matches(pattern: re.Pattern[str], comm: str | None, cmdline: str | None) -> bool:
    if comm is not None and pattern.fullmatch(comm):
        return True
    if cmdline is None:
        return False
    return pattern.match(cmdline[:MAX_LOOKED_AT]) is not None
