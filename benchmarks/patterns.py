"""Patterns against a process table: 500 patterns over 2,000 processes, and what a hostile pattern costs.

``.venv/bin/python benchmarks/patterns.py`` prints seconds of wall time; the start of the helper is in the first line.
``typed`` is the mixture that people type (four of five have no operator and need no C library), ``operators`` is only
operators.
"""

from __future__ import annotations

import random
import time

from gpudiag.shell.regex import RegexError, library, match

PATTERNS = 500
PROCESSES = 2000
HOSTILE = {
    "200,000 brackets": "(" * 200_000,
    "3,000 brackets": "(" * 3000 + ")" * 3000,
    "nested bounds": "((((a{1,255}){1,255}){1,255}){1,255})",
    "back-references": r"(a*)*(a*)*(a*)*\1\2b",
}
NAMES = ("python -m vllm.entrypoints.openai.api_server", "VLLM::Worker_TP", "ray::IDLE", "/usr/lib/systemd/systemd")


def table() -> list[str]:
    source = random.Random(5)
    return [
        f"{source.choice(NAMES)}{n} --port {source.randrange(65536)} {'x' * source.randrange(300)}"
        for n in range(PROCESSES)
    ]


def plain(number: int) -> str:
    return f"vllm.entry{number}" if number % 2 else f"^[p]ython -m vllm{number}"


def operators(number: int) -> str:
    return f"(python|VLLM::Worker_TP{number}).*--port +[0-9]{{2,{number % 7 + 3}}}"


def seconds(patterns: list[str], texts: list[str]) -> float:
    start = time.perf_counter()
    for pattern in patterns:
        answer = match(pattern, texts)
        assert not isinstance(answer, RegexError), (pattern, answer)
    return time.perf_counter() - start


def main() -> None:
    texts = table()
    print(f"{library() or 'a C library other than GNU'}; {PATTERNS} patterns, {PROCESSES} processes")
    typed = [operators(n) if n % 5 == 0 else plain(n) for n in range(PATTERNS)]
    print(f"typed      {seconds(typed, texts):6.2f}")
    print(f"operators  {seconds([operators(n) for n in range(1, PATTERNS + 1)], texts):6.2f}")
    for name, pattern in HOSTILE.items():
        start = time.perf_counter()
        answer = match(pattern, ["a" * 3000])
        said = answer.message if isinstance(answer, RegexError) else str(answer)
        print(f"{name:<18} {time.perf_counter() - start:6.2f}  {said}")


if __name__ == "__main__":
    main()
