"""Reports made by hand: one GPU with two servers' orphans, eight GPUs from a thin transcript, a hostile one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gpudiag.report.contract import (
    Action,
    ActionStep,
    DamageRef,
    Event,
    Evidence,
    Family,
    Fate,
    Finding,
    Gpu,
    Host,
    InputRef,
    KeepEntry,
    KillEntry,
    LedgerEntry,
    LookRef,
    NextTime,
    Plan,
    ProcessRef,
    Report,
    Rival,
    Sample,
    SourceRef,
    StopFirst,
    ThenEntry,
    Tool,
    UnknownRule,
)

TOOL = Tool(name="gpudiag", version="0.1.0", rules_digest="sha256:5d41402abc4b")
GPU = "GPU-5e1f0a00-0000-4000-8000-000000000001"
BOOT = "0b2f6a1c-1111-4222-8333-abcdefabcdef"
KILL_TEXT = 'pkill -9 -f "vllm.entrypoints" 2>/dev/null; sleep 3; fuser -k /dev/nvidia* 2>/dev/null; sleep 5'


def _worker(pid: int, name: str, parent: int, family: str, mib: int, ticks: int, fate: tuple[Fate, ...]) -> ProcessRef:
    return ProcessRef(
        id=f"P{pid}",
        host="H1",
        pid=pid,
        start_time="2026-11-30T19:40:02.100Z",
        start_ticks=ticks,
        user="root",
        state="S",
        name=name,
        cmdline=name,
        role="engine" if "Engine" in name else "worker",
        family=family,
        parent_pid=parent,
        parent_alive=True,
        last_seen="L2",
        holds_mib={GPU: mib} if mib else {},
        fate=fate,
    )


def _kill(order: int, process: ProcessRef) -> KillEntry:
    return KillEntry(
        process=process.id,
        pid=process.pid,
        start_time=process.start_time,
        start_ticks=process.start_ticks,
        boot_id=BOOT,
        identity="strong",
        name=process.name,
        signal="KILL",
        order=order,
        frees_mib=process.holds_mib.get(GPU, 0),
        certainty="proven",
        because="it would start workers again" if process.role == "engine" else "the driver books the memory on it",
        check="true",
        command=(
            f"grep -qx {BOOT} /proc/sys/kernel/random/boot_id && "
            f"[ \"$(tr '\\n' ' ' </proc/{process.pid}/stat | sed 's/.*) //' | cut -d' ' -f20)\" = "
            f"{process.start_ticks} ] && kill -KILL {process.pid} || echo '{process.pid}: not killed' >&2"
        ),
        host="H1",
    )


def selfmatch() -> Report:
    """pkill killed its own shell; one engine with four workers lives, and three older orphans."""
    missed = (
        Fate(step="A1.1", reached="no", certainty="proven", because="the pattern is not in its command line"),
        Fate(step="A1.3", reached="no", certainty="proven", because="the step never ran"),
    )
    own = [_worker(886, "VLLM::EngineCore", 1, "F1", 0, 7003, missed)]
    own += [_worker(887 + rank, f"VLLM::Worker_TP{rank}", 886, "F1", 8802, 7010 + rank, missed) for rank in range(4)]
    older = [_worker(698, "VLLM::EngineCore", 1, "F2", 0, 4503, missed)]
    older += [_worker(699 + rank, f"VLLM::Worker_TP{rank}", 698, "F2", 21090, 4510 + rank, missed) for rank in range(2)]
    root = ProcessRef(
        id="P884",
        host="H1",
        pid=884,
        start_ticks=6990,
        user="root",
        name="python3",
        cmdline="/opt/venv/bin/python3 -m vllm.entrypoints.openai.api_server --model m",
        role="api_server",
        family="F1",
        parent_pid=1,
        last_seen="L1",
        fate=(Fate(step="A1.1", reached="yes", certainty="proven", because="gone in the next look"),),
    )
    holders = [p for p in (*own, *older) if p.holds_mib]
    ledger = tuple(
        LedgerEntry(
            kind="process",
            whose="family" if p.family == "F1" else "older_family",
            process=p.id,
            pid=p.pid,
            name=p.name,
            mib=p.holds_mib[GPU],
            because="booked by the driver on this PID",
        )
        for p in holders
    )
    driver = LedgerEntry(kind="driver", whose="system", mib=71, because="contexts and rounding")
    return Report(
        tool=TOOL,
        inputs=(InputRef(id="I1", path="gpudiag-gpu-node.tgz", kind="bundle", complete=True),),
        hosts=(
            Host(
                id="H1",
                name="gpu-node",
                boot_id=BOOT,
                driver_version="590.48.01",
                cuda_version="13.1",
                privileged=True,
                pid_namespace="host",
            ),
        ),
        looks=(
            LookRef(id="L1", host="H1", time="2026-11-30T19:40:09.377Z", time_error_s=0.001),
            LookRef(id="L2", host="H1", time="2026-11-30T19:40:13.057Z", time_error_s=0.001),
        ),
        sources=(
            SourceRef(input="I1", look="L2", source="GPU processes", outcome="ok"),
            SourceRef(input="I1", look="L2", source="open handles", outcome="ok"),
            SourceRef(input="I1", look=None, source="kernel log", outcome="denied", because="dmesg is restricted"),
        ),
        outcome="memory_held",
        summary=(
            "pkill hit 884 and the shell that ran it; fuser never started. 886–890 and the older 698–700 still "
            "hold 77,388 MiB."
        ),
        gpus=(
            Gpu(
                id=GPU,
                host="H1",
                index=0,
                uuid=GPU,
                name="NVIDIA H200",
                total_mib=143771,
                used_mib=77459,
                reserved_mib=616,
                baseline_mib=None,
                outcome="memory_held",
                ledger=(*ledger, driver),
            ),
        ),
        families=(
            Family(
                id="F1",
                host="H1",
                engine="vllm",
                root_pid=884,
                state="orphaned",
                members=("P884", *(p.id for p in own)),
                holds_mib={GPU: 35208},
                outcome="memory_held",
                primary="GPD102",
            ),
            Family(
                id="F2",
                host="H1",
                engine="vllm",
                state="orphaned",
                members=tuple(p.id for p in older),
                holds_mib={GPU: 42180},
                outcome="memory_held",
                primary="GPD210",
            ),
        ),
        processes=(root, *own, *older),
        actions=(
            Action(
                id="A1",
                time="2026-11-30T19:40:09.876Z",
                time_error_s=0.01,
                text=f"bash -c '{KILL_TEXT}'",
                source="recorded",
                exit_code=-9,
                steps=(
                    ActionStep(
                        id="A1.1",
                        text='pkill -9 -f "vllm.entrypoints"',
                        tool="pkill",
                        signal="KILL",
                        runs_on="H1",
                        ran="yes",
                        because="the shell ended by signal 9",
                        hit=(884,),
                        missed=(886, 887, 888, 889, 890),
                        hit_shells=("its own shell",),
                    ),
                    ActionStep(
                        id="A1.3",
                        text="fuser -k /dev/nvidia*",
                        tool="fuser",
                        signal="KILL",
                        runs_on="H1",
                        ran="no",
                        because="the shell was dead by then",
                        missed=(887, 888, 889, 890),
                    ),
                ),
            ),
        ),
        findings=(
            Finding(
                rule="GPD102",
                title="The kill command stopped its own shell",
                certainty="proven",
                primary=True,
                families=("F1",),
                gpus=(GPU,),
                processes=("P884",),
                pids=(884,),
                steps=("A1.1",),
                explains_mib=35208,
                measures={"ran_s": 0.013, "expected_s": 8},
                text='The pattern of `pkill -9 -f "vllm.entrypoints"` is in the command line of its own shell.',
                evidence=(Evidence(input="I1", member="kill-commands.json", line=10, quote='"rc": -9,'),),
                rivals=(Rival(rule="GPD302", status="excluded", because="fuser never ran"),),
                settled_by="the exit code of the command",
            ),
            Finding(
                rule="GPD101",
                title="The pattern does not match the holder",
                certainty="proven",
                families=("F1",),
                gpus=(GPU,),
                processes=("P887",),
                pids=(887, 888, 889, 890),
                steps=("A1.1",),
                explains_mib=35208,
                text="The workers renamed themselves; `vllm.entrypoints` is not in `VLLM::Worker_TP0`.",
                evidence=(
                    Evidence(
                        input="I1",
                        member="after/query-apps.csv",
                        line=8,
                        quote="2026/11/30 19:40:13.050, GPU-5e1f, 00000000:00:06.0, 887, VLLM::Worker_TP0, 8802 MiB",
                    ),
                ),
            ),
        ),
        unknown=(UnknownRule(rule="GPD205", missing=("a later look",), collect="gpudiag collect -o later.tgz"),),
        plan=Plan(
            stop_first=(
                StopFirst(kind="systemd", id="vllm.service", command="systemctl stop vllm.service", run_in="host"),
            ),
            kill=tuple(_kill(order, process) for order, process in enumerate((*older, *own), start=1)),
            keep=(KeepEntry(process="P816", pid=816, name="python3", because="a monitor, not of this server"),),
            then=(ThenEntry(kind="verify", command="gpudiag verify --wait 60", because="see the memory come back"),),
            next_time=NextTime(
                command="pkill -9 -f '[v]llm.entrypoints|^VLLM::'",
                matches=(884, 886, 887, 888, 889, 890),
                because="The brackets keep the pattern out of its own command line.",
            ),
        ),
        samples=(
            Sample(gpu=GPU, time="2026-11-30T19:40:09.377Z", used_mib=78074),
            Sample(gpu=GPU, time="2026-11-30T19:40:12.963Z", used_mib=77459),
        ),
        events=(
            Event(
                time="2026-11-30T19:40:09.889Z",
                kind="exit",
                process="P884",
                text="884 ended by signal 9",
                evidence=Evidence(input="I1", member="trace.txt", line=9, quote="sig=9 comm=pkill pid=884"),
            ),
        ),
    )


def ghost_workers() -> Report:
    """Eight GPUs, no time stamps, no process table: only what a pasted terminal shows."""
    names = [(186520 + rank, f"VLLM::Worker_TP{rank}") for rank in range(8)]
    return Report(
        tool=TOOL,
        inputs=(InputRef(id="I1", path="ghost-workers.txt", kind="transcript", complete=True),),
        hosts=(Host(id="H1", name="gpu-node"),),
        looks=(LookRef(id="L1", host="H1"),),
        sources=(
            SourceRef(input="I1", look="L1", source="GPU processes", outcome="ok"),
            SourceRef(input="I1", look="L1", source="process table", outcome="absent"),
            SourceRef(input="I1", look="L1", source="open handles", outcome="absent"),
        ),
        outcome="memory_held",
        summary="The eight workers live and hold 92,967 MiB on every GPU; the second command never ran.",
        gpus=tuple(
            Gpu(
                id=f"{rank}",
                host="H1",
                index=rank,
                used_mib=92967,
                total_mib=97887 if rank < 7 else None,
                outcome="memory_held",
                ledger=(LedgerEntry(kind="process", whose="family", process=f"P{pid}", pid=pid, name=name, mib=None),),
            )
            for rank, (pid, name) in enumerate(names)
        ),
        families=(
            Family(
                id="F1",
                host="H1",
                engine="vllm",
                state="orphaned",
                members=tuple(f"P{pid}" for pid, _ in names),
                holds_mib={f"{rank}": None for rank in range(8)},
                outcome="memory_held",
                primary="GPD102",
            ),
        ),
        processes=tuple(
            ProcessRef(
                id=f"P{pid}",
                host="H1",
                pid=pid,
                name=name,
                role="worker",
                family="F1",
                holds_mib={f"{rank}": None},
                fate=(Fate(step="A1.1", reached="no", certainty="inferred", because="still listed"),),
            )
            for rank, (pid, name) in enumerate(names)
        ),
        actions=(
            Action(
                id="A1",
                text='pkill -9 -f "vllm.entrypoints"; sleep 2; kill -9 $(nvidia-smi --query-compute-apps=pid)',
                source="transcript",
                steps=(
                    ActionStep(
                        id="A1.1",
                        text='pkill -9 -f "vllm.entrypoints"',
                        tool="pkill",
                        signal="KILL",
                        ran="yes",
                        missed=tuple(pid for pid, _ in names),
                        hit_shells=("the remote shell",),
                    ),
                    ActionStep(
                        id="A1.3", text="kill -9 $(nvidia-smi --query-compute-apps=pid)", tool="kill", ran="unknown"
                    ),
                ),
            ),
        ),
        findings=(
            Finding(
                rule="GPD102",
                title="The kill command stopped its own shell",
                certainty="inferred",
                primary=True,
                families=("F1",),
                pids=tuple(pid for pid, _ in names),
                text="The remote shell's own command line has the pattern in it, so the second kill never ran.",
                evidence=(Evidence(input="I1", member="ghost-workers.txt", line=1, quote="$ ssh root@gpu-node …"),),
                rivals=(Rival(rule="GPD104", status="less_likely", because="the list may have been empty"),),
                settled_by="the exit code of ssh: 255 or 137",
            ),
        ),
        unknown=(UnknownRule(rule="GPD104", missing=("exit code",), collect="echo $?"),),
        plan=Plan(
            kill=tuple(
                KillEntry(
                    process=f"P{pid}",
                    pid=pid,
                    identity="weak",
                    name=name,
                    signal="KILL",
                    order=order,
                    certainty="inferred",
                    because="nvidia-smi names it",
                    check="true",
                    command=f"grep -qx {name[:15]} /proc/{pid}/comm && kill -KILL {pid}",
                    host="H1",
                )
                for order, (pid, name) in enumerate(names, start=1)
            ),
            then=(ThenEntry(kind="collect", command="ps -eo pid,ppid,comm", because="an EngineCore likely lives"),),
        ),
        samples=tuple(Sample(gpu=f"{rank}", used_mib=92967) for rank in range(8)),
    )


HOSTILE = (
    "<script>alert(1)</script>\x1b[31m\x9b2J`` ` ```|\n| x\r\n# head\n\u202egnp.exe\u2066\u200b$(rm -rf ~)"
    "</style></pre>{{7*7}}{% raw %}@everyone https://evil.example ![x](javascript:1) \x00 &lt; '\" --> ]]>"
)
"""Every trick at once: markup, terminal sequences, bidi, Markdown, shell, template."""


def hostile() -> Report:
    """The same words in every place that text from the machine can reach."""
    text = HOSTILE
    evidence = Evidence(input=text, member=text, line=3, quote=text)
    return Report(
        tool=Tool(name=text, version=text, rules_digest=text),
        inputs=(
            InputRef(
                id=text, path=text, kind=text, complete=False, damage=(DamageRef(member=text, line=1, reason=text),)
            ),
            InputRef(id="I2", path=text, kind=text, complete=False),
        ),
        hosts=(
            Host(id="H1", name=text, boot_id=text, driver_version=text, cuda_version=text, pid_namespace=text),
            Host(id="H2", name=text),
        ),
        looks=(LookRef(id=text, host=text, time=text), LookRef(id="L2", host="H1", time="2026-11-30T19:40:09Z")),
        sources=(
            SourceRef(input=text, look=text, source=text, outcome=text, because=text),
            SourceRef(input="I2", source=text, outcome="ok"),
        ),
        outcome=text,
        summary=text,
        gpus=(
            Gpu(
                id=text,
                host="H1",
                index=0,
                uuid=text,
                name=text,
                total_mib=100,
                used_mib=90,
                outcome=text,
                ledger=(
                    LedgerEntry(
                        kind=text, whose=text, process="P1", pid=7, name=text, mib=1, held_by=("P1",), because=text
                    ),
                ),
            ),
            Gpu(id=text + "2", host="H2", outcome=text),
        ),
        families=(
            Family(
                id=text,
                host="H1",
                engine=text,
                root_pid=7,
                state=text,
                members=("P1", "P2"),
                holds_mib={text: 1},
                outcome=text,
                primary=text,
            ),
        ),
        processes=(
            ProcessRef(
                id="P1",
                host="H1",
                pid=7,
                start_time=text,
                user=text,
                state=text,
                name=text,
                cmdline=text,
                role=text,
                family=text,
                parent_pid=8,
                parent_alive=False,
                last_seen=text,
                holds_mib={text: 1},
                fate=(Fate(step=text, reached=text, certainty=text, because=text),),
            ),
            # 7 and 8 name each other as parent: a tree without a root.
            ProcessRef(id="P2", host="H1", pid=8, parent_pid=7),
        ),
        actions=(
            Action(
                id=text,
                time=text,
                text=text,
                source=text,
                steps=(
                    ActionStep(
                        id=text,
                        text=text,
                        tool=text,
                        signal=text,
                        runs_on="H1",
                        ran=text,
                        because=text,
                        hit=(7,),
                        missed=(8,),
                        collateral=(9,),
                        hit_shells=(text,),
                        not_permitted=(10,),
                        error=text,
                    ),
                ),
            ),
        ),
        findings=(
            Finding(
                rule=text,
                title=text,
                certainty=text,
                primary=True,
                families=(text,),
                gpus=(text,),
                steps=(text,),
                measures={text: text},
                text=text,
                evidence=(evidence,),
                rivals=(Rival(rule=text, status=text, because=text),),
                settled_by=text,
            ),
        ),
        unknown=(UnknownRule(rule=text, missing=(text, text), collect=text),),
        plan=Plan(
            stop_first=(StopFirst(kind=text, id=text, command=text, run_in=text),),
            kill=(
                KillEntry(
                    process="P1",
                    pid=7,
                    start_time=text,
                    boot_id=text,
                    identity=text,
                    name=text,
                    signal=text,
                    order=1,
                    certainty=text,
                    because=text,
                    check="true",
                    command=text,
                    run_in=text,
                    host="H1",
                ),
            ),
            keep=(KeepEntry(process="P2", pid=8, name=text, because=text),),
            then=(ThenEntry(kind=text, command=text, because=text),),
            next_time=NextTime(command=text, matches=(7,), misses=(8,), because=text),
        ),
        samples=(
            Sample(gpu=text, time="2026-11-30T19:40:09Z", used_mib=90),
            Sample(gpu=text, time=text, used_mib=80),
            Sample(gpu="never-named", time="2026-11-30T19:40:10Z", used_mib=5),
        ),
        events=(
            Event(time=text, kind=text, process="P1", text=text, evidence=evidence),
            Event(time="2026-11-30T19:40:11Z", kind=text, text=text),
        ),
    )


def empty() -> Report:
    """Nothing but a verdict."""
    return Report(tool=TOOL, outcome="inconclusive", summary="There is no memory figure in this evidence.")


def crowded(gpus: int = 8, workers: int = 60, hours: int = 6) -> Report:
    """A large host: as many workers on each GPU, all missed, and memory sampled every five seconds for hours."""
    base = selfmatch()
    missed = base.processes[1].fate
    uuids = [f"GPU-5e1f0a00-0000-4000-8000-{rank:012d}" for rank in range(gpus)]
    engine = _worker(10_000, "VLLM::EngineCore", 1, "F1", 0, 7000, missed)
    held = {uuid: [20_000 + rank * workers + n for n in range(workers)] for rank, uuid in enumerate(uuids)}
    crowd = tuple(
        _worker(pid, f"VLLM::Worker_TP{rank}_{n}", 10_000, "F1", 0, pid, missed).model_copy(
            update={"holds_mib": {uuid: 1200 + n}}
        )
        for rank, (uuid, numbers) in enumerate(held.items())
        for n, pid in enumerate(numbers)
    )
    ledgers = {
        uuid: tuple(
            LedgerEntry(
                kind="process",
                whose="family",
                process=process.id,
                pid=process.pid,
                name=process.name,
                mib=process.holds_mib[uuid],
                because="booked by the driver on this PID",
            )
            for process in crowd
            if uuid in process.holds_mib
        )
        for uuid in uuids
    }
    start = datetime(2026, 11, 30, 13, 40, tzinfo=UTC)
    samples = tuple(
        Sample(gpu=uuid, time=(start + timedelta(seconds=second)).isoformat(), used_mib=75_000 + second % 997 * rank)
        for rank, uuid in enumerate(uuids)
        for second in range(0, hours * 3600, 5)
    )
    own = (engine, *crowd)
    return base.model_copy(
        update={
            "gpus": tuple(
                base.gpus[0].model_copy(
                    update={"id": uuid, "uuid": uuid, "index": rank, "used_mib": 77459, "ledger": ledgers[uuid]}
                )
                for rank, uuid in enumerate(uuids)
            ),
            "families": (base.families[0].model_copy(update={"members": tuple(process.id for process in own)}),),
            "processes": own,
            "plan": base.plan.model_copy(update={"kill": tuple(_kill(n, who) for n, who in enumerate(own, start=1))}),
            "samples": samples,
        }
    )
