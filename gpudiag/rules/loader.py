"""Rule files -> rules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from gpudiag.rules.files import RulesError, data_dir, read_bytes, read_model, toml_files
from gpudiag.rules.schema import Rule

PACK_RANGE = "78"
"""First digits of the ids that are left to others."""
MAX_PACK = 200
"""Rules of a pack; each costs milliseconds on every incident."""
VERDICT_TABLE = "gap"


def load_rule(path: Path) -> Rule:
    """One rule file; raises ``RulesError``."""
    return read_model(path, Rule)


def read_rules(directory: Path) -> tuple[dict[str, Rule], tuple[str, ...]]:
    """The directory's rules by file name, and what is wrong with the other files, one sentence each.

    Raises ``RulesError`` if the directory cannot be listed.
    """
    rules: dict[str, Rule] = {}
    problems: list[str] = []
    for path in toml_files(directory):
        try:
            rules[path.name] = load_rule(path)
        except RulesError as error:
            problems.extend(error.problems)
    return rules, tuple(problems)


def taken_twice(rules: Mapping[str, Rule], kind: Literal["id", "slug"]) -> Iterator[str]:
    """Every file whose id, or slug, is another file's already."""
    seen: dict[str, str] = {}
    for file, rule in rules.items():
        value = rule.id if kind == "id" else rule.slug
        if value in seen:
            yield f"{file}: {kind}: {value} is taken by {seen[value]}."
        seen.setdefault(value, file)


def load_rules(directory: Path | None = None) -> tuple[Rule, ...]:
    """All rules of the directory (the shipped ones by default), by id; ``RulesError`` names all that is wrong."""
    rules, problems = read_rules(directory or data_dir())
    return _sorted(rules, (*problems, *taken_twice(rules, "id")))


def load_pack(directory: Path) -> tuple[Rule, ...]:
    """The rules of somebody else, by id; ``RulesError`` names all that is wrong.

    They add findings to those of the shipped rules and replace none: their ids are from a range of their own. They are
    conditions over the fact tables, and texts: there is nothing in them that could be run.
    """
    rules, problems = read_pack(directory)
    return _sorted(rules, problems)


def read_pack(directory: Path) -> tuple[dict[str, Rule], tuple[str, ...]]:
    """A pack's rules by file name, and why others, or these, cannot be used, one sentence each."""
    paths = toml_files(directory)
    if len(paths) > MAX_PACK:
        raise RulesError(f"{directory}: {len(paths)} rules, a pack has at most {MAX_PACK}.")
    if links := [path.name for path in paths if path.is_symlink()]:
        raise RulesError(*(f"{name}: it is a link; a pack holds its own files." for name in links))
    if not paths:
        raise RulesError(f"{directory}: there is no rule (*.toml) in it.")
    rules, problems = read_rules(directory)
    return rules, (*problems, *taken_twice(rules, "id"), *_pack_problems(rules))


def _pack_problems(rules: Mapping[str, Rule]) -> Iterator[str]:
    for file, rule in rules.items():
        if rule.id[3] not in PACK_RANGE:
            yield f"{file}: id: {rule.id} is taken: the rules of a pack have ids from GPD700 to GPD899."
        if rule.table == VERDICT_TABLE:
            yield f"{file}: table: {VERDICT_TABLE} is filled after the rules were asked."


def _sorted(rules: Mapping[str, Rule], problems: Sequence[str]) -> tuple[Rule, ...]:
    if problems:
        raise RulesError(*problems)
    return tuple(sorted(rules.values(), key=lambda rule: rule.id))


def rules_digest(directory: Path | None = None, pack: Path | None = None) -> str:
    """SHA-256 over the names and bytes of the rule and engine files: the same digest means the same judgement."""
    root = directory or data_dir()
    digest = hashlib.sha256()
    if pack is not None:
        digest.update(rules_digest(pack).encode())
    folders = [root, root / "engines"] if (root / "engines").is_dir() else [root]
    for folder in folders:
        for path in toml_files(folder):
            content = read_bytes(path)
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()
