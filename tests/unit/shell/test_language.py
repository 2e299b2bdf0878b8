"""What people type, form by form: whom each hits, or that this is not known."""

from __future__ import annotations

import pytest

from gpudiag.shell.replay import Observed, Replay, replay
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.tools.stops import Stop
from gpudiag.shell.world import Caller, Candidate, World

SERVER = Candidate(
    10, 1, 10, 10, 0, "root", "python", False, "python -m vllm.entrypoints.x --port 8000", False, "S", 1.0, False
)  # fmt: skip
WORKER = Candidate(
    12, 10, 10, 10, 0, "root", "VLLM::Worker_TP", False, "VLLM::Worker_TP0", False, "S", 2.0, False
)  # fmt: skip
DESKTOP = Candidate(30, 1, 30, 30, 0, "root", "Xorg", False, "/usr/lib/xorg/Xorg", False, "S", 2.0, False)
CUDA = {"/dev/nvidiactl", "/dev/nvidia-uvm"}
WORLD = World(
    (SERVER, WORKER, DESKTOP),
    True,
    {10: frozenset(CUDA), 12: frozenset({"/dev/nvidia0", *CUDA}), 30: frozenset({"/dev/nvidia1"})},
    frozenset({10, 12}),
)
NOTHING = Observed(None, None, None)


def run(text: str, how: str = "prompt") -> Replay:
    return replay(parse_line(text, how=how), WORLD, Caller("root", 0), NOTHING)


def hits(result: Replay) -> str:
    """One letter for the server, the worker and the desktop: ``h``it, ``-`` not hit, ``?`` not known."""
    order: dict[int, list[bool | None]] = {}
    for one in result.steps:
        for verdict in one.selection.verdicts if one.selection is not None else ():
            order.setdefault(verdict.pid, []).append(verdict.selected if one.ran else None)
    found = [order[pid] for pid in sorted(order)]
    return "".join("h" if True in several else ("?" if None in several else "-") for several in found)


FORMS = [
    ("hh-", "kill -9 10 12"),
    ("hh-", "kill -- -10"),
    ("hh-", "kill -9 -10"),
    ("hh-", "sudo kill -9 -- -10"),
    ("???", "sudo kill -9 -10"),
    ("???", "sudo kill -- -10"),
    ("???", "/bin/kill -KILL -10"),
    ("???", "kill -9 %1"),
    ("hhh", "kill -9 -1"),
    ("h--", "for p in {10..11}; do kill -9 $p; done"),
    ("hh-", "kill -9 {10..12}"),
    ("h--", "killall -9 python"),
    ("hh-", "killall -g VLLM::Worker_TP0"),
    ("hhh", "killall -s KILL -u root"),
    ("-h-", "pkill -9 -P 10"),
    ("???", "pkill -9 -t pts/0"),
    ("-h-", "pgrep -f VLLM | xargs kill -9"),
    ("-h-", "pgrep -f VLLM | xargs -r sudo kill -9"),
    ("-h-", "pgrep -f VLLM | xargs -n1 -I{} kill -9 {}"),
    ("-h-", "pgrep -f VLLM | while read p; do kill -9 $p; done"),
    ("???", "while read p; do kill -9 $p; done < pids.txt"),
    ("-h-", "for p in $(pgrep -f VLLM); do kill -9 $p; done"),
    ("-h-", "ps aux | grep VLLM | grep -v grep | awk '{print $2}' | xargs -r sudo kill -9"),
    ("-h-", "ps -ef | grep [V]LLM | awk '{print $2}' | xargs kill -9"),
    ("h--", "ps -ef | grep VLLM | awk '{print $3}' | xargs kill -9"),
    ("-h-", "ps -ef | awk '/VLLM/{print $2}' | xargs kill -9"),
    ("???", "ps aux | awk '$11 ~ /VLLM/ {print $2}' | xargs kill -9"),
    ("-h-", "ps -eo pid,comm | grep VLLM | awk '{print $1}' | xargs kill -9"),
    ("???", "ps -eo pid,cmd | grep VLLM | cut -d' ' -f1 | xargs kill -9"),
    ("hh-", "ps aux | grep -E 'VLLM|vllm' | grep -v grep | tr -s ' ' | cut -d' ' -f2 | xargs kill"),
    ("???", "kill $(lsof -t -i:8000)"),
    ("???", "kill -9 $(lsof -ti:8000)"),
    ("???", "fuser -k 8000/tcp"),
    ("-h-", "kill -9 $(lsof -t /dev/nvidia0)"),
    ("-h-", "lsof /dev/nvidia0 | awk 'NR>1 {print $2}' | sort -u | xargs -r kill -9"),
    ("hhh", "fuser -k /dev/nvidia*"),
    ("-hh", "fuser -kv /dev/nvidia{0,1}"),
    ("???", "fuser -v /dev/nvidia* 2>&1 | awk '{print $2}' | xargs kill"),
    ("hhh", "for pid in $(fuser -v /dev/nvidia* 2>/dev/null); do kill -9 $pid; done"),
    ("hh-", "kill -9 $(nvidia-smi --query-compute-apps=pid --format=csv,noheader)"),
    ("hh-", "nvidia-smi --query-compute-apps=pid --format=csv | tail -n +2 | xargs kill -9"),
    ("hh-", "nvidia-smi --query-compute-apps=pid --format=csv | sed 1d | xargs kill -9"),
    ("??-", "nvidia-smi --query-compute-apps=pid,name --format=csv,noheader | grep VLLM | cut -d, -f1 | xargs kill"),
    ("???", "nvidia-smi | grep python | awk '{print $5}' | xargs kill -9"),
    ("???", "nvidia-smi pmon -c 1 | awk 'NR>2 {print $2}' | xargs kill -9"),
    ("h--", "nohup pkill -9 python &"),
    ("h--", "timeout -s KILL 5 setsid env -i pkill -9 python"),
    ("???", "docker exec c1 pkill -9 python"),
    ("???", "srun -w node1 bash -c 'pkill -9 python; echo hi'"),
    ("h--", "ansible gpu -m shell -a 'pkill -9 python; echo hi'"),
    ("h--", "ansible all -a 'pkill -9 python'"),
    ("h--", "pdsh -w n[1-4] pkill -9 python"),
    ("h--", "ssh -p 2222 -i k root@h sudo pkill -9 python"),
    ("-h-", "until ! pgrep -f VLLM; do pkill -9 -f VLLM; sleep 1; done"),
    ("---", "if pgrep -f nosuch; then pkill -9 python; else pkill -9 nosuch; fi".replace("pkill -9 python", "true")),
    ("???", "kill -9 $(cat /tmp/pid)"),
]


@pytest.mark.parametrize(("expected", "text"), FORMS, ids=[text for _, text in FORMS])
def test_form(expected: str, text: str) -> None:
    assert hits(run(text)) == expected


def test_a_group_after_a_signal_and_two_dashes_is_no_number_to_dash() -> None:
    assert [
        one.error for one in (step.selection for step in run_argv("dash", "-c", "kill -9 -- -10").steps) if one
    ] == ["Illegal number: --"]
    assert hits(run("kill -9 -- -10", how="shell")) == "??-", "which shell reads it is not known"
    assert hits(run_argv("bash", "-c", "kill -9 -- -10")) == "hh-"


def run_argv(*argv: str) -> Replay:
    return replay(parse_line("", how="argv", argv=argv), WORLD, Caller("root", 0), NOTHING)


def test_braces_need_bash() -> None:
    assert hits(run_argv("bash", "-c", "kill -9 {10..12}")) == "hh-"
    assert hits(run_argv("dash", "-c", "kill -9 {10..12}")) == "???"
    assert hits(run_argv("dash", "-c", "kill -9 ${P}10")) == "???"


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ("docker kill c1", Stop("container", "kill", ("c1",), True, 9)),
        ("docker stop -t 5 $(docker ps -q)", Stop("container", "stop", (), False, 15)),
        ("sudo docker rm -f c1 c2", Stop("container", "rm", ("c1", "c2"), True, 9)),
        ("docker compose -f x.yml down", Stop("container", "down", (), True, 15)),
        ("podman kill -s TERM c1", Stop("container", "kill", ("c1",), True, 15)),
        ("kubectl -n ns delete pod p1 --force", Stop("pod", "delete", ("pod", "p1"), True, 15)),
        ("scancel -u bob", Stop("job", "scancel", (), True, None)),
        ("scancel 123", Stop("job", "scancel", ("123",), True, None)),
        ("ray stop --force", Stop("ray", "stop", (), True, 15)),
        ("systemctl --user stop vllm", Stop("unit", "stop", ("vllm",), True, 15)),
        ("systemctl kill -s KILL vllm.service", Stop("unit", "kill", ("vllm.service",), True, 9)),
        ("service ollama restart", Stop("unit", "restart", ("ollama",), True, 15)),
        ("docker ps", None),
        ("systemctl status vllm", None),
        ("kubectl get pods", None),
    ],
)
def test_what_others_are_told_to_stop_is_named_not_evaluated(text: str, stop: Stop | None) -> None:
    (step,) = run(text).steps
    assert (step.stop, step.selection) == (stop, None)


@pytest.mark.parametrize(
    ("text", "ran"),
    [
        ("false || (true; echo a); echo b", [True, True, True, True]),
        ("true || (true; echo a); echo b", [True, False, False, True]),
        ("(exit 3); echo b", [True, True]),
        ("exit 3 & echo b", [True, True]),
        ("{ exit 3; }; echo b", [True, False]),
        ("! pkill nosuch && echo b", [True, True]),
        ("if pgrep -f VLLM; then echo a; else echo b; fi; echo c", [True, True, False, True]),
        ("if pgrep nosuch; then echo a; fi && echo c", [True, False, True]),
        ("if false; then echo a; elif true; then echo b; else echo c; fi", [True, False, True, True, False]),
        ("for i in 1 2; do break; echo a; done; echo b", [True, False, False, False, True]),
        ("f() { return; echo a; }; f; echo b", [True, False, True]),
        ("while pgrep -f VLLM; do sleep 1; done; echo b", [True, True, None]),
        ("until pgrep -f VLLM; do sleep 1; done; echo b", [True, False, True]),
        ("set -e; (false; echo a); echo b", [True, True, None, None]),
        ("pkill -9 -f VLLM && pkill -9 -f VLLM && echo b", [True, True, None]),
        ("true || echo a | cat; echo b", [True, False, False, True]),
        ("echo M || f() { pgrep VLLM | while read p; do kill $p; done; }; f", [True, None, None, None]),
        ("for p in $(pgrep nosuch); do echo a; kill $p; done || echo b", [None, True, False]),
        ("pkill nosuch && f() { echo a; }; f; echo b", [True, None, True]),
        ("f() { echo a; } && f", [None]),
    ],
)
def test_what_runs(text: str, ran: list[bool | None]) -> None:
    assert [one.ran for one in run(text).steps] == ran


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X=VLLM && pkill -f $X", "-h-"),
        ("true || X=VLLM; pkill -f $X", "???"),
        ("true && X=VLLM; pkill -f $X", "???"),
        ("true && X=VLLM && pkill -f $X", "-h-"),
        ("(X=VLLM); pkill -f $X", "???"),
        ("X=python; (X=VLLM); pkill $X", "h--"),
        ("X=VLLM & pkill -f $X", "???"),
        ("X=VLLM | true; pkill -f $X", "???"),
        ("true && { X=VLLM; }; pkill -f $X", "???"),
    ],
)
def test_a_variable_has_the_value_only_where_it_was_surely_set(text: str, expected: str) -> None:
    assert hits(run(text)) == expected


def test_the_variable_of_a_loop_in_a_here_document_is_filled_in_by_the_outer_shell() -> None:
    text = "pgrep -f VLLM | while read p; do kill -9 $p; done"
    assert hits(run(f"bash <<'EOF'\n{text}\nEOF\n")) == "-h-"
    assert hits(run(f"bash <<EOF\n{text}\nEOF\n")) == "???"


@pytest.mark.parametrize(
    ("mark", "expected"), [("'EOF'", "-h-"), ("EOF", "???")], ids=["quoted", "expanded by the outer shell"]
)
def test_here_document_is_expanded_unless_its_mark_is_quoted(mark: str, expected: str) -> None:
    text = f"bash <<{mark}\nps -ef | grep VLLM | grep -v grep | awk '{{print $2}}' | xargs kill -9\nEOF\n"
    assert hits(run(text)) == expected
