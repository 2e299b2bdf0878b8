"""Rule files -> rules."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gpudiag.rules.files import RulesError, data_dir, read_bytes, read_model, toml_files
from gpudiag.rules.schema import Rule

PACK_RANGE = "78"
"""First digits of the ids that are left to others."""
MAX_PACK = 200
"""Rules of a pack; each costs milliseconds on every incident."""
VERDICT_TABLE = "gap"


def load_rule(path: Path) -> Rule:
    """One rule file; raises ``RulesError`` with one sentence."""
    return read_model(path, Rule)


def load_rules(directory: Path | None = None) -> tuple[Rule, ...]:
    """All rules of the directory (the shipped ones by default), by id."""
    seen: dict[str, str] = {}
    rules: list[Rule] = []
    for path in toml_files(directory or data_dir()):
        rule = load_rule(path)
        if rule.id in seen:
            raise RulesError(f"{path.name}: id: {rule.id} is taken by {seen[rule.id]}.")
        seen[rule.id] = path.name
        rules.append(rule)
    return tuple(sorted(rules, key=lambda rule: rule.id))


def load_pack(directory: Path) -> tuple[Rule, ...]:
    """The rules of somebody else, by id; raises ``RulesError`` with one sentence.

    They add findings to those of the shipped rules and replace none: their ids are from a range of their own. They are
    conditions over the fact tables, and texts: there is nothing in them that could be run.
    """
    paths = toml_files(directory)
    if len(paths) > MAX_PACK:
        raise RulesError(f"{directory}: {len(paths)} rules, a pack has at most {MAX_PACK}.")
    for path in paths:
        if path.is_symlink():
            raise RulesError(f"{path.name}: it is a link; a pack holds its own files.")
    if not paths:
        raise RulesError(f"{directory}: there is no rule (*.toml) in it.")
    rules = load_rules(directory)
    for rule in rules:
        if rule.id[3] not in PACK_RANGE:
            raise RulesError(f"{rule.id}: the rules of a pack have ids from GPD700 to GPD899, the others are taken.")
        if rule.table == VERDICT_TABLE:
            raise RulesError(f"{rule.id}: table: {VERDICT_TABLE} is filled after the rules were asked.")
    return rules


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
