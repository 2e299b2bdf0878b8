"""A rule file that is wrong is refused with one sentence that says where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gpudiag.rules.files import MAX_FILE_BYTES, MAX_OF_A_FILE, MAX_PROBLEMS, RulesError
from gpudiag.rules.loader import load_pack, load_rule, load_rules, rules_digest
from gpudiag.rules.schema import Rule
from tests.unit.rules.facts import rule, rule_fields

MINIMAL = """
id = "GPD101"
slug = "pattern-misses-holder"
title = "t"
since = "0.1.0"
maturity = "preview"
table = "reach"
group_by = ["step"]
fires = [{ column = "meant", op = "is", value = true }]
text = "PID {pids}"
settled_by = "look"
[doc]
what_it_is = "w"
how_told_apart = "h"
what_to_do = "d"
known_gaps = ["g"]
"""


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_rules_load_in_order() -> None:
    ids = [loaded.id for loaded in load_rules()]
    assert ids == sorted(set(ids))
    assert {"GPD101", "GPD102", "GPD201", "GPD301", "GPD605", "GPD901"} <= set(ids)


def test_a_directory_is_read_without_its_sub_folders(tmp_path: Path) -> None:
    write(tmp_path, "GPD101-pattern-misses-holder.toml", MINIMAL)
    write(tmp_path, "notes.md", "not a rule")
    (tmp_path / "engines").mkdir()
    write(tmp_path / "engines", "x.toml", "nonsense")
    assert [loaded.id for loaded in load_rules(tmp_path)] == ["GPD101"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id = 3 4", "a.toml: not TOML: .*line 1"),
        (MINIMAL.replace('title = "t"', ""), "a.toml:1: title: Field required"),
        (MINIMAL.replace('title = "t"', 'title = "t"\ntitel = "t"'), "a.toml:5: titel: Extra inputs"),
        (MINIMAL.replace("GPD101", "GPD1"), "a.toml:2: id: "),
        (MINIMAL.replace('"reach"', '"reech"'), "no fact table 'reech'"),
        (MINIMAL.replace('"meant"', '"is_gpd101"'), "no column 'is_gpd101'"),
        (MINIMAL.replace('op = "is"', 'op = "isnt"'), r"a.toml:9: fires\.0\.condition\.op: "),
    ],
)
def test_errors_name_the_file_and_the_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(RulesError, match=says) as caught:
        load_rule(write(tmp_path, "a.toml", text))
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_one_sentence(tmp_path: Path) -> None:
    big = write(tmp_path, "big.toml", "#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(RulesError, match=r"big\.toml: larger than"):
        load_rule(big)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\x00")
    with pytest.raises(RulesError, match=r"binary\.toml: not UTF-8"):
        load_rule(binary)
    deep = write(tmp_path, "deep.toml", "a = " + "[" * 20_000)
    with pytest.raises(RulesError, match=r"deep\.toml: n"):
        load_rule(deep)
    with pytest.raises(RulesError, match="cannot be listed"):
        load_rules(tmp_path / "absent")


def test_an_id_is_taken_once(tmp_path: Path) -> None:
    write(tmp_path, "a.toml", MINIMAL)
    write(tmp_path, "b.toml", MINIMAL)
    with pytest.raises(RulesError, match=r"b\.toml: id: GPD101 is taken by a.toml"):
        load_rules(tmp_path)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.toml",
        MINIMAL.replace('"meant"', '"ment"')
        .replace("{pids}", "{pidz}")
        .replace('settled_by = "look"', 'settled_by = "look"\nexplains = "tool"'),
    )
    write(tmp_path, "b.toml", "id = 3 4")
    write(tmp_path, "c.toml", MINIMAL.replace('op = "is"', 'op = "isnt"').replace('title = "t"', "title = 3"))
    write(tmp_path, "d.toml", MINIMAL)
    write(tmp_path, "e.toml", MINIMAL.replace('title = "t"', "\n".join(f"extra{n} = 1" for n in range(100))))
    with pytest.raises(RulesError) as caught:
        load_rules(tmp_path)
    problems = caught.value.problems
    assert problems[:6] == (
        "a.toml:9: fires.0: the table has no column 'ment'.",
        "a.toml:12: explains: column 'tool' is not a number.",
        "a.toml:10: text: {pidz} is neither a summary nor a column of reach.",
        "b.toml: not TOML: Expected newline or end of document after a statement (at line 1, column 8).",
        "c.toml:4: title: Input should be a valid string.",
        "c.toml:9: fires.0.condition.op: Input should be 'is', 'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in', 'not_in', "
        "'contains' or 'known'.",
    )
    assert problems[-1] == "e.toml: 81 more problems are not shown."
    assert len(problems) == 6 + MAX_OF_A_FILE + 1


def test_problems_of_many_files_are_bounded(tmp_path: Path) -> None:
    for number in range(MAX_PROBLEMS + 10):
        write(tmp_path, f"{number:03}.toml", "id = 3 4")
    with pytest.raises(RulesError) as caught:
        load_rules(tmp_path)
    assert len(caught.value.problems) == MAX_PROBLEMS + 1
    assert caught.value.problems[-1] == "10 more problems are not shown."


def test_a_file_in_place_of_the_directory_is_told_without_the_system_s_words(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="it is a file; name the directory"):
        load_pack(write(tmp_path, "a.toml", MINIMAL))


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ({"column": "meant", "op": "is", "value": "yes"}, "does not fit"),
        ({"column": "meant", "op": "eq", "value": True}, "does not fit"),
        ({"column": "meant", "op": "known", "value": 1}, "does not fit"),
        ({"column": "tool", "op": "gt", "value": "a"}, "does not fit"),
        ({"column": "tool", "op": "in", "value": []}, "does not fit"),
        ({"column": "tool", "op": "in", "value": ["pkill", 1]}, "does not fit"),
        ({"column": "tool", "op": "contains", "value": "p"}, "does not fit"),
        ({"column": "holds_mib", "op": "gt", "value": "1"}, "does not fit"),
        ({"column": "holds_mib", "op": "gt", "value": True}, "does not fit"),
        ({"column": "holds_mib", "op": "gt", "than": "tool"}, "does not fit"),
        ({"column": "holds_mib", "op": "in", "than": "missed_mib"}, "does not fit"),
        ({"column": "holds_mib", "op": "gt"}, "either value or than"),
        ({"column": "holds_mib", "op": "gt", "value": 1, "than": "missed_mib"}, "either value or than"),
        ({"column": "gpus", "op": "eq", "value": 1}, "does not fit"),
        ({"column": "cites", "op": "contains", "value": "x"}, "does not fit"),
        ({"any": []}, "at least 1"),
        ({"any": [{"any": [{"column": "meant", "op": "is", "value": True}]}]}, "column"),
        ({"sql": "read_csv('/etc/passwd')"}, "column"),
    ],
)
def test_conditions_fit_their_columns(condition: dict[str, Any], says: str) -> None:
    for clause in ("where", "fires", "quiet", "proven", "inferred"):
        with pytest.raises(ValidationError, match=says):
            rule(**{clause: [condition]})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fires": []}, "at least 1"),
        ({"group_by": ["gpus"]}, "is a list"),
        ({"group_by": ["nothing"]}, "no column"),
        ({"explains": "tool"}, "not a number"),
        ({"measures": {"age": "kill_age_s"}}, "no column"),
        ({"text": "{nothing}"}, "neither a summary nor a column"),
        ({"text": "{pids.__class__}"}, "cannot be read"),
        ({"text": "{mib} MiB"}, "needs explains"),
        ({"text": "x" * 401}, "at most 400"),
        ({"missing": [{"columns": ["nothing"], "source": "process table", "collect": "ps"}]}, "no column"),
        ({"missing": [{"columns": ["tool"], "source": "a hunch", "collect": "ps"}]}, "Input should be"),
        ({"missing": [{"source": "process table", "collect": "ps"}]}, "list of columns"),
        ({"missing": [{"columns": ["tool", "tool"], "source": "process table", "collect": "ps"}]}, "twice"),
        ({"case": [{"name": "n", "expect": "fires"}]}, "either an input or a transcript"),
        ({"case": [{"name": "n", "expect": "fires", "input": "a", "transcript": "$ x"}]}, "either an input"),
        ({"case": [{"name": "n", "expect": "fires", "transcript": "$ x", "without": ["a"]}]}, "goes with an input"),
        ({"case": [{"name": "n", "expect": "fires", "input": "../../etc"}]}, "leaves the fixtures"),
        ({"case": [{"name": "n", "expect": "fires", "input": "a", "without": ["/etc/*"]}]}, "leaves the fixtures"),
        ({"doc": rule_fields()["doc"] | {"known_gaps": []}}, "at least 1"),
        ({"rivals": [{"rule": "GPD108", "excluded_when": "always", "because": "b"}]}, "Input should be"),
    ],
)
def test_a_rule_says_only_what_can_be_meant(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        rule(**changes)


def test_missing_is_found_by_column() -> None:
    entry = {"columns": ["tool", "signal"], "source": "kill commands", "collect": "history"}
    tested = rule(missing=[entry])
    assert tested.missing["tool"] == tested.missing["signal"]
    assert tested.missing["tool"].source == "kill commands"


@pytest.mark.parametrize(
    ("earlier", "later"),
    [("GPD401", "GPD601"), ("GPD605", "GPD501"), ("GPD503", "GPD205"), ("GPD302", "GPD101"), ("GPD112", "GPD201")],
)
def test_the_order_of_judgement(earlier: str, later: str) -> None:
    assert rule(id=earlier).order_class < rule(id=later).order_class


def test_the_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    first = write(tmp_path, "a.toml", MINIMAL)
    digests = [rules_digest(tmp_path)]
    write(tmp_path, "a.toml", MINIMAL + "# more")
    digests.append(rules_digest(tmp_path))
    first.rename(tmp_path / "b.toml")
    digests.append(rules_digest(tmp_path))
    (tmp_path / "engines").mkdir()
    write(tmp_path / "engines", "x.toml", "")
    digests.append(rules_digest(tmp_path))
    assert len(set(digests)) == 4
    assert rules_digest(tmp_path) == digests[-1]


def test_rules_cannot_be_changed() -> None:
    loaded: Rule = rule()
    with pytest.raises(ValidationError, match="frozen"):
        loaded.title = "other"  # pyright: ignore[reportAttributeAccessIssue]
