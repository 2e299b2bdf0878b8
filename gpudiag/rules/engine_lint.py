"""Checks of the set of engine files: what one file can get wrong by itself, loading it finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gpudiag.rules.book import Book
from gpudiag.rules.engines import EngineSpec, compile_engine
from gpudiag.rules.files import RulesError, data_dir, read_model, toml_files
from gpudiag.timeline.families import GENERAL

_BY_PLACE = frozenset({"server", "launcher", "tracker"})
"""Roles that the place in the process tree, or Python's own words, can give."""
_RELATIVES = frozenset({"rest", "child", "descendant", "self", "around"})


def lint_engines(directory: Path | None = None) -> tuple[str, ...]:
    """Everything that is wrong with the directory's engine files, one sentence each."""
    problems: list[str] = []
    specs: dict[str, EngineSpec] = {}
    for path in toml_files(directory or data_dir() / "engines"):
        try:
            specs[path.name] = read_model(path, EngineSpec)
        except RulesError as error:
            problems.append(str(error))
    book = Book([compile_engine(spec) for spec in specs.values()])
    return (
        *problems,
        *_taken_twice(specs),
        *(f"{file}: {problem}" for file, spec in specs.items() for problem in _problems(file, spec, book)),
    )


def _taken_twice(specs: dict[str, EngineSpec]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for file, spec in specs.items():
        if spec.name in seen:
            yield f"{file}: name: {spec.name} is taken by {seen[spec.name]}."
        seen.setdefault(spec.name, file)


def _problems(file: str, spec: EngineSpec, book: Book) -> Iterator[str]:
    if file != f"{spec.name}.toml":
        yield f"the file should be named {spec.name}.toml."
    yield from _shadowed(spec, book)
    roles = {title.role for title in spec.title} | {child.role for child in spec.child} | _BY_PLACE
    roles |= {"worker"} if spec.name not in GENERAL else set()  # what is spawned by Python's own machinery is a worker
    yield from _unknown_roles("coupling", [one.ended for one in spec.coupling], roles | {"child", "program"})
    for coupling in spec.coupling:
        yield from _unknown_roles("coupling", [*coupling.leave, *coupling.stay], roles | _RELATIVES)
        yield from _unknown_roles("coupling", [coupling.through] if coupling.through else [], roles)
    yield from _unknown_roles("child", [child.of for child in spec.child], roles)
    yield from _unknown_roles("restart", [one.by for one in spec.restart], roles)
    if spec.pool is not None:
        yield from _unknown_roles("pool", [spec.pool.by, spec.pool.kept], roles)


def _shadowed(spec: EngineSpec, book: Book) -> Iterator[str]:
    for title in spec.title:
        for example in title.examples:
            found = book.role_of(example[:15], example)
            if found != (spec.name, title.role):
                said = " ".join(found) if found is not None else "nobody"
                yield f"title: {example!r} is recognised as {said}, not as {spec.name} {title.role}."


def _unknown_roles(where: str, named: Sequence[str], known: set[str]) -> Iterator[str]:
    for role in sorted(set(named) - known):
        yield f"{where}: no title and no child has the role {role}."
