"""Checks of a set of rule files. What one file can get wrong by itself, loading it finds; this is about the set and
about what a finished rule owes its readers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from gpudiag.rules.engine_lint import lint_engines
from gpudiag.rules.files import data_dir
from gpudiag.rules.loader import read_pack, read_rules, taken_twice
from gpudiag.rules.schema import Answer, AnyOf, Condition, Rule

CATALOGUE: Final = frozenset(
    f"GPD{number}"
    for numbers in (
        range(101, 113),
        range(201, 214),
        range(301, 306),
        range(401, 404),
        range(501, 507),
        range(601, 606),
        range(901, 904),
    )
    for number in numbers
)
"""Ids that have a meaning, whether their rule is written yet or not. An id never gets another meaning."""

ANSWERS: Final[tuple[Answer, ...]] = ("fires", "quiet", "unknown")


def lint_directory(directory: Path | None = None) -> tuple[str, ...]:
    """Everything that is wrong with the directory's rules, one sentence each."""
    rules, problems = read_rules(directory or data_dir())
    return (*problems, *lint_rules(rules))


def lint_pack(directory: Path) -> tuple[str, ...]:
    """Everything that is wrong with a directory of somebody else's rules, one sentence each.

    File names are free there, and a rival may also be a rule of the pack. Raises ``RulesError`` if there is no pack.
    """
    rules, problems = read_pack(directory)
    known = CATALOGUE | {rule.id for rule in rules.values()}
    return (
        *problems,
        *taken_twice(rules, "slug"),
        *(f"{file}: {problem}" for file, rule in rules.items() for problem in _owed(rule, known)),
    )


def main() -> int:
    """Print everything that is wrong with the shipped rules and engine files; 1 if there is anything."""
    problems = (*lint_directory(), *lint_engines())
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def lint_rules(rules: Mapping[str, Rule]) -> tuple[str, ...]:
    """What is wrong with rules that load, by file name."""
    return (
        *taken_twice(rules, "id"),
        *taken_twice(rules, "slug"),
        *(f"{file}: {problem}" for file, rule in rules.items() for problem in _rule_problems(file, rule)),
    )


def _rule_problems(file: str, rule: Rule) -> Iterator[str]:
    if file != rule.file_name:
        yield f"the file should be named {rule.file_name}."
    if rule.id not in CATALOGUE:
        yield f"id: {rule.id} is not in the catalogue."
    yield from _owed(rule, CATALOGUE)


def _owed(rule: Rule, known: Collection[str]) -> Iterator[str]:
    """What any finished rule has; ``known``: ids that it may name."""
    for rival in rule.rivals:
        if rival.rule == rule.id or rival.rule not in known:
            yield f"rivals: {rival.rule} is no other rule of the catalogue."
    yield from _case_problems(rule)
    for column in sorted(_undecidable(rule) - rule.missing.keys()):
        yield f"missing: nothing says which evidence lacks when {column} is null."


def _case_problems(rule: Rule) -> Iterator[str]:
    names = [case.name for case in rule.cases]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"case: the name {name!r} stands there twice."
    covered = {case.expect for case in rule.cases}
    for answer in ANSWERS:
        waived = answer == "unknown" and rule.no_unknown_case is not None
        if answer not in covered and not waived:
            yield f"case: none expects {answer}."
    if "unknown" in covered and rule.no_unknown_case is not None:
        yield "no_unknown_case: there is an unknown case."


def _undecidable(rule: Rule) -> set[str]:
    """Columns whose null can leave the rule undecided. A rule that is never unknown has none."""
    if rule.no_unknown_case is not None:
        return set()
    conditions = (
        condition
        for clause in (*rule.where, *rule.fires)
        for condition in _conditions(clause)
        if condition.op != "known"
    )
    return {column for condition in conditions for column in condition.columns}


def _conditions(clause: Condition | AnyOf) -> tuple[Condition, ...]:
    return clause.any if isinstance(clause, AnyOf) else (clause,)


if __name__ == "__main__":
    raise SystemExit(main())
