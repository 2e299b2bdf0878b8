"""Hostile words in evidence, read as ever and shown in each output: they are text there and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

from gpudiag.explain import explain
from gpudiag.report import html, markdown, script, terminal
from gpudiag.report.contract import Report
from tests.bundle_kit import NOBODY, pack

TRICKS: Final = {
    "terminal colour": "\x1b[31mred",
    "window title": "\x1b]0;title\x07",
    "terminal link": "\x1b]8;;https://evil.example\x1b\\x\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "C1 control": "a\x9b2Jb\x9d0;x\x9c",
    "bidi override": "\u202egnp.exe",
    "bidi isolate": "\u2066a\u2069",
    "zero width": "a\u200bb\u200d\ufeff",
    "substitution": "$(touch OWNED)${IFS}x",
    "backticks": "`touch OWNED`",
    "quotes": "'\"; touch OWNED; '\"",
    "script": "<script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "CDATA end": "]]>",
    "comment end": "--><b>x</b>",
    "style end": "</style></pre></code><b>x</b>",
    "entity": "&lt;b&gt;&#60;i>",
    "bar": "a|b|c",
    "Markdown link": "[x](javascript:alert(1))",
    "fence": "```x~~~",
    "lone surrogate": b"a\xed\xa0\x80\xffb".decode("utf-8", "surrogateescape"),
}
BENIGN: Final = "plain"
_SGR: Final = re.compile(r"\x1b\[[\d;]*m")


class Elements(HTMLParser):
    """Elements of a page, in order, with the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))


def report_with(word: str, folder: Path) -> Report:
    """What is said of a server that was killed and left its worker, with this word wherever a machine's text stands."""
    ps = (
        "# 2026-02-20T19:00:06Z $ ps -eo pid,ppid,user,args\n"
        "    PID    PPID USER     COMMAND\n"
        f"    150       1 root     VLLM::EngineCore {word}\n"
        f"    160       1 root     python3 -m {word} serve {word}\n"
    )
    apps = f"pid, process_name, used_gpu_memory [MiB]\n150, VLLM::EngineCore {word}, 92958 MiB\n"
    gpus = "index, memory.used [MiB], memory.total [MiB]\n0, 92967 MiB, 97887 MiB\n"
    kills = json.dumps([{"text": f"pkill -9 -f 'vllm serve' # {word}", "time": "2026-02-20T19:00:00+00:00"}])
    log = f"INFO 02-20 18:59:00 [api_server.py:1] {word}\nERROR 02-20 18:59:01 CUDA out of memory {word}\n"
    texts = {
        "after/ps.txt": ps,
        "after/query-apps.csv": apps,
        "after/query-gpu.csv": gpus,
        "kill-commands.json": kills,
        "server.log": log,
    }
    files = {name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()}
    folder.mkdir()
    return explain([pack(files, folder / "a.tgz", NOBODY._replace(host="node"))])


def _without_code(elements: list[tuple[str, tuple[str, ...]]]) -> list[tuple[str, tuple[str, ...]]]:
    return [element for element in elements if element != ("code", ())]


def _columns(text: str) -> list[int]:
    """Cells of each row of each table."""
    return [len(re.findall(r"(?<!\\)\|", line)) for line in text.split("\n") if line.startswith("|")]


def test_hostile_words_are_only_text(tmp_path: Path, tried: Callable[[str, int, str], None]) -> None:
    twin = report_with(BENIGN, tmp_path / "twin")
    assert twin.plan.kill, "the twin has a plan, so that there is a script"
    elements, columns = Elements(html.render(twin)).found, _columns(markdown.render(twin))
    sh = shutil.which("sh")
    for position, (trick, word) in enumerate(TRICKS.items()):
        report = report_with(word, tmp_path / str(position))
        assert [entry.pid for entry in report.plan.kill] == [entry.pid for entry in twin.plan.kill], trick
        page, comment = html.render(report), markdown.render(report)
        found = Elements(page).found
        if "`" in word:
            # A pair of backticks in what a log said is shown as code, which is harmless: code and nothing else.
            assert _without_code(found) == _without_code(elements), trick
        else:
            assert found == elements, trick
        assert Report.model_validate_json(report.to_json()) == report, trick
        assert _columns(comment) == columns, trick
        plain, coloured = terminal.render(report), terminal.render(report, colour=True)
        assert _SGR.sub("", coloured) == plain, trick
        code = script.render(report)
        commands = "\n".join(entry.command for entry in report.plan.kill)
        for text in (page, comment, plain, code, commands):
            assert all(line.expandtabs().isprintable() for line in text.split("\n")), trick
            text.encode("utf-8")
        assert sh is not None
        # It may refuse early, as for another machine; what it does reach starts nothing of a trick.
        subprocess.run([sh, "-n"], input=code, text=True, check=True, cwd=tmp_path)
        subprocess.run(
            [sh, "-s", "--", "--dry-run"], input=code, text=True, cwd=tmp_path, capture_output=True, check=False
        )
        assert not (tmp_path / "OWNED").exists(), trick
    tried(
        "Hostile words in names, command lines, a log and a kill command",
        len(TRICKS),
        "text on page, terminal, Markdown and in the script, which starts none of it",
    )
