"""Rule files -> rules."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gpudiag.rules.files import RulesError, data_dir, read_bytes, read_model, toml_files
from gpudiag.rules.schema import Rule


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


def rules_digest(directory: Path | None = None) -> str:
    """SHA-256 over the names and bytes of the rule and engine files: the same digest means the same judgement."""
    root = directory or data_dir()
    digest = hashlib.sha256()
    folders = [root, root / "engines"] if (root / "engines").is_dir() else [root]
    for folder in folders:
        for path in toml_files(folder):
            content = read_bytes(path)
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()
