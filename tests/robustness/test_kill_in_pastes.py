"""Pasted sessions of one user with two servers, of which one was meant: the other is never named."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpudiag.explain import explain
from tests.golden.pastes import Holder, smi

Tried = Callable[[str, int, str], None]
SESSIONS = 240
PROMPT = "ann@box:~$ "
SERVE = "python3 -m vllm.entrypoints.openai.api_server"


@dataclass(frozen=True)
class Row:
    """One process."""

    pid: int
    ppid: int
    start: str
    line: str
    user: str = "ann"
    gpu: int | None = None
    mib: int = 0


@dataclass(frozen=True)
class Server:
    """What one start of vLLM makes; ``rows[0]`` is its root."""

    rows: tuple[Row, ...]
    port: int

    @property
    def pids(self) -> set[int]:
        """All of it."""
        return {row.pid for row in self.rows}

    @property
    def gpus(self) -> list[int]:
        """Those that it holds memory on."""
        return [row.gpu for row in self.rows if row.gpu is not None]


def served(base: int, ranks: int, first_gpu: int, port: int, start: str) -> Server:
    """``ranks`` 1: the engine holds the memory itself."""
    root = Row(base, 1, start, f"{SERVE} --port {port} --tensor-parallel-size {ranks}")
    if ranks == 1:
        return Server((root, Row(base + 7, base, start, "VLLM::EngineCore", gpu=first_gpu, mib=70000)), port)
    engine = Row(base + 7, base, start, "VLLM::EngineCore")
    workers = [
        Row(base + 9 + n, base + 7, start, f"VLLM::Worker_TP{n}", gpu=first_gpu + n, mib=70000) for n in range(ranks)
    ]
    return Server((root, engine, *workers), port)


def bystanders(dice: random.Random, gpu: int) -> Iterator[Row]:
    """Who else may be there."""
    if dice.random() < 0.5:
        yield Row(300, 1, "07:10", "/usr/bin/python3 /usr/bin/jupyter-lab")
        yield Row(310, 300, "07:20", "/usr/bin/python3 -m ipykernel_launcher -f k.json", gpu=gpu, mib=1600)
    if dice.random() < 0.5:
        yield Row(400, 1, "07:00", "/usr/lib/xorg/Xorg", user="root", gpu=0, mib=90)
        yield Row(420, 1, "07:30", "/opt/browser/browser", gpu=0, mib=700)
    if dice.random() < 0.4:
        yield Row(500, 1, "06:00", "python3 train.py", user="bob", gpu=gpu, mib=9000)
    if dice.random() < 0.4:
        yield Row(600, 599, "08:00", "python3 batch_infer.py")
        yield Row(610, 600, "08:00", "VLLM::EngineCore", gpu=gpu, mib=3000)


def commands(server: Server, dice: random.Random) -> list[tuple[str, str, set[int]]]:
    """Ways to mean this server alone: what is typed, what is printed, and who is hit by SIGKILL."""
    root, *rest = server.rows
    holders = {row.pid for row in server.rows if row.gpu is not None}
    gpus = ",".join(map(str, server.gpus))
    gpu, last = server.gpus[0], dice.choice(rest)
    query = "--query-compute-apps=pid --format=csv,noheader"
    cell = f"nvidia-smi | awk '$2=={gpu} && $6==\"C\" {{print $5}}'"
    on_gpu = {row.pid for row in server.rows if row.gpu == gpu}
    return [
        (f"kill -9 {root.pid}", "", {root.pid}),
        (f"kill -9 {root.pid} {last.pid}", "", {root.pid, last.pid}),
        (f"fuser -k {server.port}/tcp", f"{server.port}/tcp:            {root.pid}\n", {root.pid}),
        (f"pkill -9 -f 'api_server --port {server.port}'", "", {root.pid}),
        (f"kill -9 $(pgrep -f 'port {server.port}')", "", {root.pid}),
        (f"kill -9 $(lsof -t -i:{server.port})", "", {root.pid}),
        (f"kill -9 $(nvidia-smi -i {gpus} {query})", "", holders),
        (f"kill -9 $({cell})", "", on_gpu),
        (f"ps aux | grep 'port {server.port}' | grep -v grep | awk '{{print $2}}' | xargs kill -9", "", {root.pid}),
        (f"pkill -0 -f 'api_server --port {server.port}'", "", set()),
        (f"kill -9 {root.pid}", f"bash: kill: ({root.pid}) - Die Operation ist nicht erlaubt\n", set()),
        (f"for p in {root.pid} {last.pid}; do kill -9 $p; done", "", {root.pid, last.pid}),
    ]


def listing(rows: Sequence[Row], form: int) -> str:
    """One of the usual forms of ps."""
    base = [Row(1, 0, "06:00", "/sbin/init", "root"), Row(2, 0, "06:00", "[kthreadd]", "root")]
    base.append(Row(3, 2, "06:00", "[pool_workqueue_release]", "root"))
    everybody = [*base, *rows]
    if form == 0:
        lines = [f"{r.user:8s}{r.pid:8d}{r.ppid:8d}  3 {r.start} ?        00:01:20 {r.line}\n" for r in everybody]
        return "ps -ef\nUID          PID    PPID  C STIME TTY          TIME CMD\n" + "".join(lines)
    if form == 1:
        head = "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
        lines = [
            f"{r.user:8s}{r.pid:8d}  3.0  0.9 26000 98000 ?        Sl   {r.start}   0:41 {r.line}\n" for r in everybody
        ]
        return "ps aux\n" + head + "".join(lines)
    lines = [f"{r.pid:7d} {r.ppid:7d} {r.user:8s} {r.line}\n" for r in everybody]
    return "ps -eo pid,ppid,user,args\n    PID    PPID USER     COMMAND\n" + "".join(lines)


def table(rows: Sequence[Row], gpus: int) -> str:
    """What nvidia-smi shows of these."""
    kinds = {"/usr/lib/xorg/Xorg": "G:", "/opt/browser/browser": "C+G:"}
    held: list[Holder] = [
        (r.gpu, r.pid, kinds.get(r.line, "") + shown(r.line), r.mib) for r in rows if r.gpu is not None
    ]
    used = [4 + sum(mib for gpu, _, _, mib in held if gpu == n) for n in range(gpus)]
    return "nvidia-smi\n" + smi(used, held)


def shown(line: str) -> str:
    """nvidia-smi prints the program of a plain command line, and a title as it is."""
    return line if "::" in line else line.split(" ", 1)[0]


def session(dice: random.Random) -> tuple[str, set[int], str]:
    """A session, who may be named in it, and what was typed."""
    ranks = dice.choice((1, 2)), dice.choice((1, 2))
    first = served(4100, ranks[0], 0, 8000, "09:00")
    second = served(dice.choice((4200, 5100, 91000)), ranks[1], ranks[0], 8001, dice.choice(("09:00", "10:30")))
    others = list(bystanders(dice, sum(ranks)))
    meant, spared = (first, second) if dice.random() < 0.5 else (second, first)
    typed, printed, hit = dice.choice(commands(meant, dice))
    before = [*others, *first.rows, *second.rows]
    gone = {pid for pid in hit if dice.random() < 0.9}
    if meant.rows[0].pid in gone and dice.random() < 0.3:
        gone |= meant.pids  # the rest left by itself
    after = [replace(row, ppid=1 if row.ppid in gone else row.ppid) for row in before if row.pid not in gone]
    if dice.random() < 0.2:
        stranger = dice.choice(sorted(meant.pids))
        new = Row(stranger, 3900, "11:45", "python3 eval.py", gpu=sum(ranks), mib=4000)
        after = [row for row in after if row.pid != stranger] + [new]
    form, gpus = dice.randrange(3), sum(ranks) + 1
    looks = [listing(before, form), table(before, gpus)]
    dice.shuffle(looks)
    parts = [*(look for look in looks if dice.random() < 0.8), f"{typed}\n{printed}"]
    looks = [listing(after, form), table(after, gpus)]
    dice.shuffle(looks)
    parts += [look for look in looks if dice.random() < 0.8]
    living = {row.pid for row in after if row.pid in meant.pids and row.line != "python3 eval.py"}
    assert not living & spared.pids
    return "".join(PROMPT + part for part in parts), living, typed


def test_the_other_server_is_never_named(tmp_path: Path, tried: Tried) -> None:
    named = 0
    for number in range(SESSIONS):
        text, may_be_named, typed = session(random.Random(f"pasted {number}"))
        path = tmp_path / f"{number}.txt"
        path.write_text(text)
        planned = {entry.pid for entry in explain([path]).plan.kill}
        assert planned <= may_be_named, (number, typed, planned - may_be_named)
        named += bool(planned)
    assert named > SESSIONS / 6, "some of these sessions have somebody to name"
    tried(
        "Pasted sessions with two servers of one user, of which one command meant one",
        SESSIONS,
        "nobody of the other server, no notebook, browser, other tenant or new process under an old number is named",
    )
