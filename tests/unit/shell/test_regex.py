"""The dialect is the C library's; a bad pattern costs an answer, not the program."""

from __future__ import annotations

import random
import time

import pytest

from gpudiag.shell.literals import required
from gpudiag.shell.regex import RegexError, find, library, match


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("vllm.entrypoints", "python -m vllm.entrypoints", True),
        ("vllm", "VLLM::Worker", False),
        ("[v]llm", "pkill -f [v]llm", False),
        (r"\d", "d", True),
        (r"\d", "7", False),
        (r"\<Worker", "VLLM::Worker", True),
        ("[[:upper:]]{4}", "VLLM", True),
        ("a)", "a)", True),
        ("x|", "anything", True),
        ("", "anything", True),
        (r"a\|b", "a|b", True),
        ("^VLLM::EngineCore$", "VLLM::EngineCore", True),
        ("über", "xüberx", True),
    ],
)
def test_extended_syntax(pattern: str, text: str, found: bool) -> None:
    assert match(pattern, [text]) == [found]


def test_options() -> None:
    assert match("vllm", ["VLLM"], ignore_case=True) == [True]
    assert match("a|VLLM", ["a", "xVLLM", "VLLM"], whole=True) == [True, False, True]
    assert match("a+", ["a+", "aa"], extended=False) == [True, False]


@pytest.mark.parametrize("pattern", ["(?i)x", "x{", "a{32768}", "a\\", "[[:foo:]]", "*a", "("])
def test_what_the_library_refuses_is_invalid(pattern: str) -> None:
    result = match(pattern, ["x"])
    assert isinstance(result, RegexError)
    assert result.kind == "invalid"


@pytest.mark.parametrize(
    "pattern",
    ["(" * 200_000, "((((a{1,255}){1,255}){1,255}){1,255})", r"(a*)*(a*)*(a*)*\1\2b", "a\0b"],
    ids=["long", "nested bounds", "back-references", "NUL"],
)
def test_hostile_patterns_are_unsafe_and_cost_little(pattern: str) -> None:
    started = time.monotonic()
    result = match(pattern, ["a" * 3000])
    assert isinstance(result, RegexError)
    assert result.kind == "unsafe"
    assert time.monotonic() - started < 10


def test_a_miss_in_a_text_that_was_cut_is_unknown() -> None:
    long = "a" * 300_000
    assert match("b", [long + "b", "ab"]) == [None, True]
    assert match("^a", [long]) == [True]


@pytest.mark.parametrize("pattern", ["(((((((((a+)+)+)+)+)+)+)+)+)+b", r"(a*)*\1b", "x" * 4097])
def test_an_unsafe_pattern_says_so_within_two_seconds_and_the_next_one_is_answered(pattern: str) -> None:
    match("(a|b)", ["a"])
    started = time.monotonic()
    result = match(pattern, ["a" * 20_000])
    took = time.monotonic() - started
    assert result == [False] or (isinstance(result, RegexError) and result.kind == "unsafe")
    assert took < 2.5
    assert match("(a|b)+c", ["abc", "c"]) == [True, False]


def test_each_byte_is_a_character_in_the_c_locale() -> None:
    assert match("^.(x|y)", ["üx"]) == [True]
    assert match("^.(x|y)", ["üx"], locale="C") == [False]
    assert match("^.x", ["üx"], locale="C") == [False]


def test_library_is_named() -> None:
    assert (library() or "glibc").startswith("glibc")


def test_operators_are_not_judged_for_another_library() -> None:
    assert match("vllm.entry", ["vllm.entry"], libc="musl 1.2.4") == [True], "the same in every dialect"
    result = match("(a|b)+", ["a"], libc="musl 1.2.4")
    assert isinstance(result, RegexError)
    assert (result.kind, "musl 1.2.4" in result.message) == ("unsafe", True)
    assert match("(a|b)+", ["a"], libc="glibc 2.17") == [True]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("(python|VLLM::Worker_TP1).*--port +[0-9]{2,3}", [["python", "VLLM::Worker_TP1"], ["--port "]]),
        ("abcdef", [["abcdef"]]),
        ("abcx*def", [["abc"], ["def"]]),
        ("abc?def", [["def"]]),
        ("abcd+ef", [["abcd"]]),
        ("abcd{0,2}efgh", [["abc"], ["efgh"]]),
        (r"vllm\.entry", [["vllm.entry"]]),
        ("(abc)?def", [["def"]]),
        ("(abc)*", []),
        ("(abc)+x", [["abc"]]),
        ("abc|", []),
        ("abc|de", []),
        ("abc|def", [["abc", "def"]]),
        ("a[bc]def", [["def"]]),
        ("[[:alpha:]]abc", []),
        (r"(abc)\1", []),
        (r"\<Worker\>", [["Worker"]]),
        ("^VLLM::.*TP0$", [["VLLM::"], ["TP0"]]),
        ("x{", []),
        ("a)bc", []),
        ("(" * 20 + "abc" + ")" * 20, []),
        ("üabc", []),
    ],
)
def test_what_must_be_in_a_match(pattern: str, texts: list[list[str]]) -> None:
    assert required(pattern) == texts


def test_required_text_never_costs_a_match() -> None:
    source = random.Random(3)
    pieces = [
        "abc",
        "def",
        "x",
        "(",
        ")",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{0,1}",
        ".",
        "[ab]",
        "^",
        "$",
        r"\.",
        r"\<",
        "()",
    ]
    texts = [
        "".join(source.choice(("abc", "def", "x", "a", ".", " ")) for _ in range(source.randrange(8)))
        for _ in range(60)
    ]
    for _ in range(300):
        pattern = "".join(source.choice(pieces) for _ in range(source.randrange(1, 8)))
        hits = match(pattern, texts)
        needs = required(pattern)
        if needs and not isinstance(hits, RegexError):
            found = find(pattern, texts)  # asks the library about every text
            assert not isinstance(found, RegexError)
            assert [bool(one) for one in found] == hits, pattern


def test_a_pattern_that_ends_its_worker_costs_the_next_one_nothing() -> None:
    assert match("(a|b)c", ["ac", "c"]) == [True, False]
    for _ in range(2):
        assert isinstance(match(r"(a*)*(a*)*(a*)*\1\2b", ["a" * 3000]), RegexError)
        assert match("(a|b)+d", ["abd", "d"]) == [True, False]
    for number in range(450):  # more than one worker takes
        assert match(f"(a|b){{{number % 50 + 1}}}c", [f"{'a' * (number % 50 + 1)}c"]) == [True]


def test_a_pattern_of_which_a_part_was_taken_out_is_unknown() -> None:
    # Read as it stands, it would be a class of letters, which matches nearly every command line.
    answer = match("vllm --api-key [redacted]", ["vllm --api-key [redacted]", "vllm --api-key d"])
    assert isinstance(answer, RegexError)
    assert answer.kind == "unsafe"
