"""Whole lines, run by real shells: does the line survive its own kill, and does its second command run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpudiag.shell.replay import Observed, replay
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.world import Caller, Candidate, World

SERVER = ["python", "-m", "vllm.entrypoints.openai.api_server"]
NEXT = "echo SECOND"
LINES: list[list[str]] = [
    ["bash", "-c", f'pkill -9 -f "vllm.entrypoints" 2>/dev/null; sleep 0.1; {NEXT}'],
    ["bash", "-c", f"pkill -9 -f vllm.entrypoints && {NEXT}"],
    ["bash", "-c", f"pkill -9 -f vllm.entrypoints || true; {NEXT}"],
    ["bash", "-c", f"pkill -f vllm.entrypoints; {NEXT}"],
    ["bash", "-c", f"pkill -HUP -f vllm.entrypoints; {NEXT}"],
    ["bash", "-c", f"pkill -INT -f vllm.entrypoints; {NEXT}"],
    ["bash", "-c", f"{NEXT}; pkill -9 -f vllm.entrypoints"],
    ["bash", "-c", f"{NEXT} && pkill -9 -f vllm.entrypoints"],
    ["bash", "-c", "pkill -9 -f vllm.entrypoints"],
    ["bash", "-c", "pkill -9 -f vllm.entrypoints 2>/dev/null"],
    ["bash", "-c", "trap : EXIT; pkill -9 -f vllm.entrypoints"],
    ["bash", "-c", "(pkill -9 -f vllm.entrypoints)"],
    ["bash", "-c", "! pkill -9 -f vllm.entrypoints"],
    ["bash", "-c", "echo x | pkill -9 -f vllm.entrypoints"],
    ["dash", "-c", "pkill -9 -f vllm.entrypoints"],
    ["dash", "-c", f"pkill -INT -f vllm.entrypoints; {NEXT}"],
    ["bash", "-c", f'pkill -9 -f "[v]llm.entrypoints"; {NEXT}'],
    ["bash", "-c", f'pkill -9 -f "[v]llm.entrypoints"; {NEXT}; : python -m vllm.entrypoints'],
    ["bash", "-c", f'pkill -9 -f "vllm\\.entrypoints"; {NEXT}'],
    ["bash", "-c", f'pkill -9 -f "^python -m vllm.entrypoints"; {NEXT}'],
    ["bash", "-c", f'P=vllm.entrypoints; pkill -9 -f "$P"; {NEXT}'],
    ["bash", "-c", f'P=vllm; pkill -9 -f "$P.entrypoints"; {NEXT}'],
    ["bash", "-c", f'pkill -9 -f "$1"; {NEXT}', "x", "vllm.entrypoints"],
    ["bash", "-c", f"bash -c 'pkill -9 -f vllm.entrypoints; {NEXT}'; echo OUTER"],
    ["bash", "-c", "bash -c 'pkill -9 -f vllm.entrypoints'"],
    ["bash", "-c", f"timeout 5 pkill -9 -f vllm.entrypoints; {NEXT}"],
    ["bash", "-c", f"pgrep -f vllm.entrypoints | xargs kill -9; {NEXT}"],
    ["bash", "-c", f"kill -9 $(pgrep -f vllm.entrypoints); {NEXT}"],
    ["bash", "-c", f"ps aux | grep vllm | grep -v grep | awk '{{print $2}}' | xargs -r kill -9; {NEXT}"],
    ["bash", "-c", f"ps -ef | grep vllm.entry | awk '{{print $2}}' | xargs -r kill -9 2>/dev/null; {NEXT}"],
    ["bash", "-c", f"pkill -A -9 -f vllm.entrypoints; {NEXT}"],
    ["bash", "-c", f"pkill -9 -n -f vllm.entrypoints; {NEXT}"],
    ["bash", "-c", f"pkill -9 -f nosuchthing.x; {NEXT}"],
    ["bash", "-c", f"pkill -9 vllm || {NEXT}"],
    ["bash", "-c", f"pkill -9 vllm && {NEXT}"],
    ["bash", "-c", f"set -e; pkill -9 vllm; {NEXT}"],
    ["bash", "-ec", f"pkill -9 vllm; {NEXT}"],
    ["bash", "-c", f"set -e; pkill -9 vllm || true; {NEXT}"],
    ["bash", "-c", f"exit 3; {NEXT}"],
    ["bash", "-c", f"exec true; {NEXT}"],
    ["bash", "-c", f"pkill -9 bash; {NEXT}"],
    ["bash", "-c", f"killall -9 bash; {NEXT}"],
    ["bash", "-c", f"for p in nosuch vllm.entry; do pkill -9 -f $p; done; {NEXT}"],
    ["bash", "-c", f"stop() {{ pkill -9 -f vllm.entry; }}; stop; {NEXT}"],
    ["bash", "-c", f"eval 'pkill -9 -f vllm.entry'; {NEXT}"],
    ["bash", "-c", f"pkill -9 -x -f vllm.entrypoints; {NEXT}"],
    # The outer shell makes the list, and is in it; the inner one is not.
    ["bash", "-c", f"bash <<EOF\nkill -9 $(pgrep -f vllm.entrypoints)\nEOF\n{NEXT}"],
    ["bash", "-c", f"bash <<EOF\nkill -9 `pgrep -f vllm.entrypoints`\nEOF\n{NEXT}"],
    ["bash", "-c", f"bash <<'EOF'\nkill -9 $(pgrep -f nosuch.thing)\nEOF\n{NEXT}"],
    ["bash", "-c", f'bash -c "kill -9 $(pgrep -f vllm.entrypoints); true"; {NEXT}'],
    ["bash", "-c", f"eval kill -9 $(pgrep -f vllm.entrypoints); {NEXT}"],
    # Its own kill does not wait for anybody.
    ["bash", "-c", f"kill -INT $(pgrep -f vllm.entrypoints); {NEXT}"],
    ["dash", "-c", f"kill -INT $(pgrep -f vllm.entrypoints); {NEXT}"],
    ["bash", "-c", f"kill -QUIT $(pgrep -f vllm.entrypoints); {NEXT}"],
    # && and || decide about a whole pipeline.
    ["bash", "-c", f"true || pgrep -f vllm.entrypoints | while read p; do kill -9 $p; done; {NEXT}"],
    ["bash", "-c", f"false && echo x | pkill -9 -f vllm.entrypoints; {NEXT}"],
    ["pkill", "-9", "-f", "vllm.entrypoints"],
    ["timeout", "5", "pkill", "-9", "-f", "vllm.entrypoints"],
]


def predicted(argv: list[str], answer: dict[str, Any], script: str | None = None) -> tuple[bool | None, bool | None]:
    """Whether the second command runs, and whether the first process of the line dies of its own signal."""
    row = next(one for one in answer["table"] if one["pid"] == answer["pids"][0])
    server = Candidate(
        row["pid"], row["ppid"], row["pgid"], row["sid"], 0, "root", row["comm"], False, row["cmdline"], False, "S",
        row["start"], False,
    )  # fmt: skip
    line = parse_line("", how="argv", argv=tuple(argv), script_text=script)
    result = replay(line, World((server,), True), Caller("root", 0), Observed(None, None, None))
    second = next((one.ran for one in result.steps if "SECOND" in one.step.text), None)
    first = [one for one in result.carriers if one.carrier.parent is None and result.steps[one.step].ran]
    died = any(one.matches and not one.execs and one.signal_fatal for one in first)
    return second, died


@pytest.mark.parametrize("argv", LINES, ids=lambda argv: " ".join(argv))
def test_line_ends_as_in_a_real_shell(argv: list[str], in_namespace: Any, need: Any) -> None:
    need(argv[0], "pkill", "pgrep", "killall")
    answer = in_namespace({"spawn": [{"argv": SERVER}], "run": [argv], "settle": 0.05})
    real = answer["results"][0]
    second, died = predicted(argv, answer)
    assert second is None or second == ("SECOND" in real["out"])
    assert (second is None) == ("SECOND" not in " ".join(argv)), "the second command is decided"
    assert died == (real["code"] < 0)


@pytest.mark.parametrize("name", ["stop.sh", "stop-vllm.entrypoints.sh"])
def test_script_survives_unless_its_name_matches(name: str, in_namespace: Any, need: Any, tmp_path: Path) -> None:
    need("bash", "pkill")
    text = f"pkill -9 -f vllm.entrypoints\n{NEXT}\n"
    (tmp_path / name).write_text(text)
    argv = ["bash", str(tmp_path / name)]
    answer = in_namespace({"spawn": [{"argv": SERVER}], "run": [argv], "settle": 0.05})
    second, died = predicted(argv, answer, text)
    assert second == ("SECOND" in answer["results"][0]["out"])
    assert died == (answer["results"][0]["code"] < 0)
