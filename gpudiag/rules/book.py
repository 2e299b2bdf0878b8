"""The engines' names for their processes, in the form in which the timeline asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from gpudiag.rules.engines import Coupling, Engine, Pool, Restart
from gpudiag.shell.regex import RegexError, match
from gpudiag.timeline.coupling import MAX_COMMAND_LINE


class Book:
    """Answers about titles, log roles and kill patterns from all engine files."""

    def __init__(self, engines: Sequence[Engine]):
        self._engines = tuple(engines)
        self._role_of = cache(self._look_up)

    def role_of(self, comm: str | None, cmdline: str | None) -> tuple[str, str] | None:
        """(engine, role) that a title or command line shows; the first engine that knows it."""
        return self._role_of(comm, cmdline)

    def _look_up(self, comm: str | None, cmdline: str | None) -> tuple[str, str] | None:
        # A title that the process gave itself says more than the words that it was started with.
        for title, line in ((comm, None), (comm, cmdline)):
            for engine in self._engines:
                role = engine.role_of(title, line)
                if role is not None:
                    return engine.name, role
        return None

    def engine(self, name: str | None) -> Engine | None:
        """All that is known of an engine."""
        return next((engine for engine in self._engines if engine.name == name), None)

    def title_of(self, engine: str, role: str) -> str | None:
        """The title that an engine gives to a role, as an example of it."""
        for known in self._engines:
            if known.name == engine:
                return next((text for text in known.child_titles if known.role_of(text[:15], text) == role), None)
        return None

    def child_role(self, engine: str, parent_role: str) -> str | None:
        """What the children of a role are in that engine, whatever they are called."""
        known = self.engine(engine)
        return known.child_roles.get(parent_role) if known is not None else None

    def is_one_job(self, comm: str | None, cmdline: str | None) -> bool:
        """It is a launcher whose children are one job, also in process groups of their own."""
        found = self.role_of(comm, cmdline)
        known = self.engine(found[0]) if found is not None else None
        return found is not None and found[1] == "launcher" and known is not None and known.one_job

    def laws_of(self, engine: str) -> Sequence[Coupling]:
        """Who leaves with whom in an engine."""
        known = self.engine(engine)
        return known.couplings if known is not None else ()

    def restart_by(self, comm: str | None, cmdline: str | None) -> Restart | None:
        """How a parent of these words starts its children again, if it does."""
        found = self.role_of(comm, cmdline)
        known = self.engine(found[0]) if found is not None else None
        if found is None or known is None:
            return None
        line = (cmdline or "")[:MAX_COMMAND_LINE]
        fitting = (one for one in known.restarts if one.by == found[1])
        return next((one for one in fitting if one.if_head is None or one.if_head.search(line)), None)

    def pool_of(self, comm: str | None, cmdline: str | None) -> Pool | None:
        """The pool that a parent of these words keeps."""
        return self._pool(comm, cmdline, head=True)

    def pool_around(self, comm: str | None, cmdline: str | None) -> Pool | None:
        """The pool to which a process of these words belongs by its title."""
        return self._pool(comm, cmdline, head=False)

    def _pool(self, comm: str | None, cmdline: str | None, *, head: bool) -> Pool | None:
        found = self.role_of(comm, cmdline)
        known = self.engine(found[0]) if found is not None else None
        if found is None or known is None or known.pool is None:
            return None
        return known.pool if found[1] == (known.pool.by if head else known.pool.kept) else None

    def version_in(self, engine: str, line: str) -> tuple[int, ...] | None:
        """The engine's version, where this line of its log tells it."""
        known = self.engine(engine)
        return known.version_of(line) if known is not None else None

    def role_in_log(self, role: str) -> tuple[str, str] | None:
        """(engine, role) for a log prefix such as ``(Worker_TP0 pid=887)``."""
        line = f"({role} pid=1)"
        for engine in self._engines:
            for prefix in engine.log_prefixes:
                if prefix.pattern.match(line):
                    return engine.name, prefix.role
        return None

    def engines_named_by(self, pattern: str, *, ignore_case: bool, against: str) -> frozenset[str]:
        """Engines whose server a kill pattern matches as the tool would match it."""
        texts = [(engine.name, text) for engine in self._engines for text in _texts(engine, against)]
        answers = match(pattern, [text for _, text in texts], ignore_case=ignore_case) if texts else []
        if isinstance(answers, RegexError):
            return frozenset()
        return frozenset(name for (name, _), matched in zip(texts, answers, strict=True) if matched)


def _texts(engine: Engine, against: str) -> tuple[str, ...]:
    return (*engine.servers, *engine.child_titles) if against == "cmdline" else engine.server_comms
