"""The table in ``docs/robustness.md`` names tests that exist, and is as the tests' record writes it."""

from __future__ import annotations

import ast

from tests.robustness.record import DOCUMENT, read_table, with_table


def test_every_line_of_the_table_has_its_test() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = read_table(text)
    assert len(rows) > 20
    for row in rows.values():
        file, _, function = row.test.partition("::")
        tree = ast.parse((DOCUMENT.parents[1] / "tests" / "robustness" / file).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, row


def test_the_table_is_not_edited_by_hand() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_table(text, read_table(text)) == text
