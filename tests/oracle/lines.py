"""Random shell lines made of what people type, the same ones for the same seed. ``echo Mn`` marks what ran."""

from __future__ import annotations

import random
from typing import Any

SPAWN: list[dict[str, Any]] = [
    {"title": "python\0-m\0vllm.entrypoints.openai.api_server\0--port\08000\0", "comm": "python"},
    {"title": "VLLM::EngineCore", "comm": "VLLM::EngineCore"},
    {"title": "VLLM::Worker_TP0", "comm": "VLLM::Worker_TP0"},
    {"title": "VLLM::Worker_TP1", "comm": "VLLM::Worker_TP1", "ignore": [15]},
    {"title": "/opt/vllm-env/bin/python\0train.py\0", "comm": "python", "catch": [1]},
    {"title": "ray::IDLE", "comm": "ray::IDLE", "state": "stopped"},
    {"title": "gone", "comm": "gone", "state": "zombie"},
]
PATTERNS = (
    "vllm.entrypoints", "vllm", "VLLM", "VLLM::Worker", "[v]llm.entrypoints", "^VLLM::", "python", "train.py", "nosuch",
    "vllm.entry|ray", "TP[01]$", "ray::", "-m vllm", "^python", "gone", "bash", "api_server --port",
)  # fmt: skip
SIGNALS = ("-9", "-9", "-9", "-KILL", "", "-TERM", "-15", "-HUP", "-INT", "-0", "-s KILL")


class Lines:
    """Makes one line after the other."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.marks = 0

    def command(self) -> dict[str, Any]:
        """A command as the driver runs it, with the text of its script if it has one."""
        self.marks = 0
        text = self.text(self.source.randrange(1, 5))
        shell = self.source.choice(("bash", "bash", "dash"))
        way = self.source.random()
        if way < 0.72:
            return {"argv": [shell, "-c", text]}
        if way < 0.82:
            return {"argv": [shell, "-s"], "stdin": text + "\n"}
        return {"argv": [shell, "{script}"], "script": text + "\n"}

    def text(self, length: int, depth: int = 0) -> str:
        made = self.statement(depth)
        for _ in range(length - 1):
            made += self.pick("; ", "; ", "; ", " && ", " || ", " & ") + self.statement(depth)
        return made

    def pick(self, *choices: str) -> str:
        return self.source.choice(choices)

    def mark(self) -> str:
        self.marks += 1
        return f"echo M{self.marks}"

    def statement(self, depth: int) -> str:
        roll = self.source.random()
        if roll < 0.34:
            return self.mark()
        if roll < 0.72 or depth > 1:
            return self.redirected(self.killer())
        if roll < 0.82:
            return self.pick("true", "false", "sleep 0.01", "set -e", "exit 3", "exec true", "trap : EXIT", "wait",
                             "set +e", "cd /", "nosuchprogram", "exec pkill -9 -f train", "X=vllm",
                             "trap '' TERM", ":")  # fmt: skip
        return self.compound(depth + 1)

    def compound(self, depth: int) -> str:
        inner = self.text(self.source.randrange(1, 3), depth)
        pattern = self.pattern()
        return self.pick(
            f"({inner})", f"{{ {inner}; }}", f"! {self.killer()}",
            f"if pgrep -f {pattern} >/dev/null; then {inner}; else {self.mark()}; fi",
            f"if {self.killer()}; then {inner}; fi",
            f"for p in {pattern} nosuch; do pkill -9 -f $p; done",
            f"for p in $(pgrep -f {pattern}); do kill -9 $p; done",
            f"pgrep -f {pattern} | while read p; do kill -9 $p; done",
            f"for i in 1 2; do {inner}; done",
            f"f() {{ {inner}; }}; f",
            f"bash -c '{self.no_quotes(inner)}'", f"sh -c '{self.no_quotes(inner)}'",
            f"dash -c '{self.no_quotes(inner)}'",
            f"eval '{self.no_quotes(inner)}'",
            f"{inner} | cat", f"while ! pgrep -f nosuch; do {inner}; break; done", f"until true; do {inner}; done",
            f"until ! pgrep -f {pattern}; do {inner}; break; done",
            f"bash <<EOF\n{inner}\nEOF\n:", f"X={pattern}; pkill -9 -f $X", f"true | {inner}",
        )  # fmt: skip

    def no_quotes(self, text: str) -> str:
        return text.replace("'", '"')

    def pattern(self) -> str:
        pattern = self.pick(*PATTERNS)
        return f"'{pattern}'" if any(char in pattern for char in "|[]^$ ") else self.pick(pattern, f'"{pattern}"')

    def killer(self) -> str:
        signal, pattern = self.pick(*SIGNALS), self.pattern()
        pkill_signal = "--signal KILL" if signal == "-s KILL" else signal
        full = self.pick("-f ", "-f ", "-f ", "")
        numbers = self.pick("{p0}", "{p1}", "{p1} {p2}", "{p0} {p1} {p2} {p3}", "{p4}", "{p6}", "999999", "{p2} 999999")
        wrapper = self.pick("", "", "", "", "", "timeout 5 ", "nohup ", "env A=1 ", "nice ", "command ", "setsid -w ")
        plain = self.pick(
            f"pkill {pkill_signal} {full}{pattern}", f"pkill {pkill_signal} {full}-- {pattern}",
            f"pkill {full}{pattern} {pkill_signal}", f"pkill {pkill_signal} {full}{pattern}",
            f"pkill {pkill_signal} {full}-n {pattern}", f"killall {signal} python",
            f"killall {signal} VLLM::EngineCore",
            f"killall {signal} -r '^VLLM'", f"killall {signal} bash",
        )  # fmt: skip
        listed = self.pick(
            f"kill {signal} {numbers}", f"kill {signal} {numbers}", f"kill {signal} $(pgrep {full}{pattern})",
            f"kill {signal} `pgrep {full}{pattern}`", f"kill {signal} -- -{{p{self.source.randrange(5)}}}",
            f"pgrep {full}{pattern} | xargs kill {signal}", f"pgrep {full}{pattern} | xargs -r kill {signal}",
            f"ps aux | grep {pattern} | grep -v grep | awk '{{print $2}}' | xargs -r kill {signal}",
            f"ps -ef | grep {pattern} | grep -v grep | awk '{{print $2}}' | xargs kill {signal}",
            f"kill {signal} $(ps aux | grep {pattern} | awk '{{print $2}}')",
            f"kill {signal} $(ps -eo pid,args | grep {pattern} | grep -v grep | awk '{{print $1}}')",
            f"kill {signal} $(pidof python)", f"kill {signal} $(pgrep -d' ' {full}{pattern})",
            f"pgrep {full}{pattern} | head -1 | xargs kill {signal}", f"/bin/kill {signal} {numbers}",
        )  # fmt: skip
        return (wrapper + plain if self.source.random() < 0.6 else listed).replace("  ", " ")

    def redirected(self, text: str) -> str:
        return text + self.pick("", "", "", " 2>/dev/null", " >/dev/null 2>&1", " || true", " 2>&1")
