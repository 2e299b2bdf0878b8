"""PIDs picked out of what nvidia-smi printed: the recorded text goes through the command's own filters."""

from __future__ import annotations

import pytest

from gpudiag.shell.replay import Observed, StepReplay, replay
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.world import Caller, Candidate, Printed, World

NEW = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |
|   0  NVIDIA H200                    On  |   00000000:00:06.0 Off |                    0 |
| N/A   39C    P0            128W /  700W |   77459MiB / 143771MiB |      5%      Default |
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A              10      C   python                                21090MiB |
|    0   N/A  N/A              12      C   VLLM::Worker_TP0                       8802MiB |
|    0   N/A  N/A              30      G   /usr/lib/xorg/Xorg                        4MiB |
+-----------------------------------------------------------------------------------------+
"""
OLD = """\
| NVIDIA-SMI 440.33.01    Driver Version: 440.33.01    CUDA Version: 10.2     |
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0        10      C   python                                     21090MiB |
|    0        12      C   VLLM::Worker_TP0                            8802MiB |
|    0        30      G   /usr/lib/xorg/Xorg                             4MiB |
+-----------------------------------------------------------------------------+
"""
PMON = """\
# gpu         pid   type     sm    mem    enc    dec    command
# Idx           #    C/G      %      %      %      %    name
    0          10     C      -      -      -      -    python
    0          12     C      0      0      -      -    VLLM::Worker_TP
    1           -     -      -      -      -      -    -
"""
APPS = "12, VLLM::Worker_TP0, 8802 MiB\n10, python, 21090 MiB\n"


def world(table: str) -> World:
    people = [(10, "python", "python -m x"), (12, "VLLM::Worker_TP", "VLLM::Worker_TP0"), (30, "Xorg", "/usr/lib/Xorg")]
    rows = tuple(
        Candidate(pid, 1, pid, pid, 0, "root", comm, False, cmdline, False, "S", 1.0, False)
        for pid, comm, cmdline in people
    )
    columns = tuple(PMON.splitlines()[0].lstrip("# ").split())
    texts = {
        "table": Printed((), tuple(table.splitlines())),
        "pmon": Printed(columns, tuple(PMON.splitlines())),
        "compute-apps": Printed(("pid", "process_name", "used_gpu_memory"), tuple(APPS.splitlines())),
    }
    return World(rows, True, None, frozenset({10, 12}), printouts=texts)


def kill_step(text: str, table: str = NEW, argv: tuple[str, ...] | None = None) -> StepReplay:
    line = parse_line(text, how="prompt" if argv is None else "argv", argv=argv)
    done = replay(line, world(table), Caller("root", 0), Observed(None, None, None))
    return next(step for step in done.steps if step.selection is not None)


def hits(step: StepReplay) -> str:
    assert step.selection is not None
    marks = {True: "h", False: "-", None: "?"}
    return "".join(marks[one.selected] for one in step.selection.verdicts)


FORMS = [
    ("hhh", "---", "kill -9 $(nvidia-smi | grep MiB | grep -v NVIDIA | grep -v Default | awk '{print $5}')", ""),
    ("---", "hhh", "kill -9 $(nvidia-smi | grep -v Default | grep MiB | awk '{print $3}')", ""),
    ("hh-", "---", "nvidia-smi | awk '/ C /{print $5}' | xargs -r kill -9", ""),
    ("hh-", "---", "nvidia-smi | grep ' C ' | tr -s ' ' | cut -d' ' -f5 | xargs kill", ""),
    ("hh-", "hh-", "nvidia-smi | sed -n 's/^|  *0[^0-9]*\\([0-9]*\\)  *C .*/\\1/p' | xargs -n1 kill -9", ""),
    ("hhh", "---", "kill $(nvidia-smi | tail -n +9 | head -n -1 | awk '{print $5}')", ""),
    ("hhh", "---", "nvidia-smi | grep -oP 'N/A +N/A +\\K[0-9]+' | while read p; do kill -9 $p; done", ""),
    ("hhh", "hhh", "for p in $(nvidia-smi | grep -oE ' [0-9]+ +[CG] ' | awk '{print $1}'); do kill $p; done", ""),
    ("-h-", "-h-", "kill -9 $(nvidia-smi --query-compute-apps=pid --format=csv,noheader | head -1)", ""),
    ("-h-", "-h-", "nvidia-smi --query-compute-apps=pid,name --format=csv | grep VLLM | cut -d, -f1 | xargs kill", ""),
    ("hh-", "hh-", "kill -9 $(nvidia-smi --query-compute-apps=pid --format=csv)", ""),
    ("hh-", "hh-", "kill -9 $(nvidia-smi pmon -c 1 | awk '$2 ~ /^[0-9]+$/ {print $2}')", ""),
    ("hh-", "hh-", "nvidia-smi pmon -c 1 | awk 'NR>2 && $2 != \"-\" {print $2}' | sort -u | xargs -r kill -9", ""),
    ("---", "---", "nvidia-smi pmon -c 1 | awk '{print $2}' | xargs kill -9", "the program stops at `gpu`"),
    ("hh-", "hh-", "nvidia-smi pmon -c 1 | awk '{print $2}' | xargs -n1 kill -9", "each word is a kill of its own"),
]


@pytest.mark.parametrize(("new", "old", "text"), [form[:3] for form in FORMS], ids=[form[2] for form in FORMS])
def test_the_filters_pick_what_they_would_pick(new: str, old: str, text: str) -> None:
    assert (hits(kill_step(text, NEW)), hits(kill_step(text, OLD))) == (new, old)


def test_the_column_of_an_old_table_is_the_instance_in_a_new_one() -> None:
    text = "kill -9 $(nvidia-smi | grep python | awk '{print $3}')"
    old, new = kill_step(text, OLD), kill_step(text, NEW)
    assert (hits(old), old.exit_code) == ("h--", 0)
    assert new.selection is not None
    assert (hits(new), new.exit_code) == ("---", 1)
    assert new.selection.error == "N/A: arguments must be process or job IDs"
    text = "nvidia-smi | grep python | awk '{print $5}' | xargs kill -9"
    assert (hits(kill_step(text, NEW)), hits(kill_step(text, OLD))) == ("h--", "---")


@pytest.mark.parametrize(
    ("argv", "said", "code"),
    [
        (("bash", "-c"), "N/A: arguments must be process or job IDs", 1),
        (("dash", "-c"), "Illegal number: N/A", 2),
        (("bash", "-c", "/bin/"), "failed to parse argument: 'N/A'", 1),
    ],
)
def test_each_kill_complains_in_its_own_words(argv: tuple[str, ...], said: str, code: int) -> None:
    text = f"{''.join(argv[2:])}kill -9 $(nvidia-smi | grep python | awk '{{print $3}}'); true"
    step = kill_step("", NEW, (*argv[:2], text))
    assert step.selection is not None
    assert (step.selection.error, step.exit_code) == (said, code)


def test_numbers_of_a_list_are_not_written_in_the_command() -> None:
    step = kill_step("kill -9 12 $(nvidia-smi | awk '/python/{print $5}')")
    assert step.selection is not None
    assert (hits(step), step.selection.literal_pids) == ("hh-", (12,))


def test_the_gpu_number_is_the_group_of_the_shell() -> None:
    argv = ("bash", "-c", "kill -9 $(nvidia-smi | grep python | awk '{print $2}'); echo second")
    done = replay(parse_line("", how="argv", argv=argv), world(NEW), Caller("root", 0), Observed(None, None, None))
    assert done.carriers[0].matches is True
    assert [step.ran for step in done.steps] == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        "kill -9 $(nvidia-smi -i 0 | awk '{print $5}')",
        "kill -9 $(nvidia-smi | awk '{system(\"id\"); print $5}')",
        "kill -9 $(nvidia-smi | python3 parse.py)",
        'kill -9 $(nvidia-smi | awk "{print $COLUMN}")',
        "docker exec c sh -c 'kill -9 $(nvidia-smi | awk \"/python/{print \\$5}\")'",
    ],
)
def test_what_is_not_read_stays_unknown(text: str) -> None:
    assert hits(kill_step(text)) == "???"


def test_without_a_recorded_text_nothing_is_known() -> None:
    line = parse_line("kill $(nvidia-smi | awk '/ C /{print $5}')", how="prompt")
    bare = World(world(NEW).processes, True, None, frozenset({10, 12}))
    done = replay(line, bare, Caller("root", 0), Observed(None, None, None))
    assert hits(done.steps[0]) == "???"
