"""What is known of serving engines and launchers: the titles of their processes, their command lines, what dies with
what. A title gives a process its role and nothing else: who belongs together is decided without names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from gpudiag.rules.files import data_dir, read_model, toml_files
from gpudiag.rules.schema import Sentence, Strict

Role = Literal["server", "engine", "worker", "tracker", "launcher"]

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


class CouplingSpec(Strict):
    """Who leaves by itself when a process of the engine ends."""

    ended: Role | Literal["child"]
    """Role of the process that was killed; ``child`` is anything below the server or launcher."""
    by: tuple[Literal["KILL", "TERM", "INT"], ...] = ()
    """Signals that have this effect; empty: whatever ends it."""
    leave: Annotated[tuple[Role | Literal["rest"], ...], Field(min_length=1)]
    """Roles that go; ``rest`` is everybody else of the server."""
    since: Version | None = None
    """First version of the engine for which it holds."""
    before: Version | None = None
    """First version for which it holds no more."""
    certainty: Literal["inferred", "possible"]
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
    """What ``death_coupling`` says, as far as a machine can use it."""
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
    """One sentence of the kind *when this ends, those leave*."""

    ended: str
    by: tuple[str, ...]
    leave: tuple[str, ...]
    since: tuple[int, ...] | None
    before: tuple[int, ...] | None
    certainty: str
    because: str

    def holds_for(self, version: tuple[int, ...] | None) -> bool | None:
        """Whether it holds for a version of the engine; ``None`` if that depends on the version and none is known."""
        if self.since is None and self.before is None:
            return True
        if version is None:
            return None
        return (self.since is None or version >= self.since) and (self.before is None or version < self.before)


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
    return tuple(_engine(spec) for spec in specs)


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


def _engine(spec: EngineSpec) -> Engine:
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
        version_in_log=_version_pattern(spec.version_in_log),
        couplings=tuple(_coupling(one) for one in spec.coupling),
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
    )


def _version_pattern(pattern: str | None) -> re.Pattern[str] | None:
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
