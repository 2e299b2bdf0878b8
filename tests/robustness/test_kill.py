"""Whatever the process table, the command and the gaps of the evidence: nobody is named who must not be killed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpudiag.evidence import Unreadable
from gpudiag.explain import explain
from gpudiag.report import script
from gpudiag.report.contract import Report
from tests.bundle_kit import NOBODY, pack_capture
from tests.golden.scenes import P, Scene, server

Tried = Callable[[str, int, str], None]
CASES = 120
DELIVERED = "KILL was delivered, it cannot go yet"
DAEMONS = (
    ("/usr/bin/nvidia-persistenced --verbose", 0),
    ("/usr/bin/nv-hostengine -n", 0),
    ("/usr/bin/nv-fabricmanager -c /etc/x", 0),
    ("/usr/lib/xorg/Xorg :0", 120),
    ("/usr/bin/gnome-shell", 80),
    ("nvidia-cuda-mps-server", 300),
    ("nvidia-cuda-mps-control -d", 0),
    ("/usr/bin/dcgm-exporter", 10),
    ("sshd: alice [priv]", 0),
    ("/usr/lib/systemd/systemd-logind", 0),
    ("/usr/bin/containerd-shim-runc-v2 -id x", 0),
    ("/usr/sbin/slurmd -D", 0),
)
IMPOSTORS = ("nvidia-persistenced", "sshd", "Xorg", "systemd", "dcgm-exporter", "nv-hostengine", "containerd-shim")


@dataclass(frozen=True)
class Case:
    """A scene, and who is not to be named in it, with the reason."""

    scene: Scene
    forbidden: dict[int, str]
    target: frozenset[int]
    gaps: tuple[str, ...]
    recorder: tuple[int, ...]


def made(dice: random.Random) -> Case:
    """One server of alice, aimed at; around it whoever else may live on such a host."""
    # Blocks of a hundred numbers, so that nobody has the PID of another by accident.
    blocks = dice.sample(range(10, 800), 12)
    base = [block * 100 for block in blocks]
    mine = [replace(one, user="alice") for one in server(base[0], mib=20000)]
    table = [*mine]
    forbidden: dict[int, str] = {}
    orphans: dict[int, str] = {}

    def others(found: Sequence[P], why: str) -> None:
        table.extend(found)
        forbidden.update({one.pid: why for one in found})

    if dice.random() < 0.7:
        tenant = [replace(one, user="bob") for one in server(base[1], mib=9000, port=9000)]
        others(tenant, "another tenant's")
    elif dice.random() < 0.5:
        # Somebody else's dead server; with no command recorded, nothing would tell that it was not meant.
        left = [replace(one, user="bob", ppid=1 if one.ppid == base[1] else one.ppid) for one in server(base[1])[1:]]
        orphans.update({one.pid: "another tenant's orphan" for one in left})
        table.extend(left)
    if dice.random() < 0.7:
        job = P(base[2], 1, base[2], "/usr/bin/python3 train.py", mib=5000, user="bob", comm="python3")
        others([replace(job, line=dice.choice((job.line, "VLLM::Worker_TP0", "VLLM::EngineCore")))], "another tenant's")
    chosen = dice.sample(DAEMONS, dice.randrange(1, 5))
    daemons = [P(base[3] + n, 1, base[3] + n, line, mib=mib) for n, (line, mib) in enumerate(chosen)]
    others(daemons, "a daemon of the system")
    shell = P(base[4], 1, base[4], "-bash", user="alice", comm="bash", mib=dice.choice((0, 500)))
    tool = P(
        base[4] + 1, base[4], base[4], "/usr/bin/python3 -m gpudiag collect", user="alice", mib=100, comm="python3"
    )
    others([shell, tool], "the tool or what started it")

    numbers = [one.pid for one in mine]
    killed = dice.sample(numbers, dice.randrange(1, 5))
    by_number = f"kill -9 {' '.join(map(str, killed))}"
    command, hit = dice.choice(
        (
            ('pkill -9 -f "api_server --port 8000"', {base[0]}),
            ("pkill -9 -u alice -f EngineCore", {base[0] + 2}),
            (by_number, set(killed)),
            (f"kill -9 {base[0]}; sleep 3; fuser -k /dev/nvidia*", {base[0]}),
        )
    )
    after: list[P] = []
    for one in table:
        if one.pid not in hit:
            after.append(one)
            continue
        fate = dice.random()
        if fate < 0.15:
            after.append(replace(one, state="D"))
            forbidden[one.pid] = DELIVERED
        elif fate < 0.3:
            after.append(replace(one, state="Z", mib=0))
            forbidden[one.pid] = "dead"
        elif fate < 0.5:
            again = P(one.pid, 1, one.pid, "/usr/bin/vim notes", user=dice.choice(("alice", "bob")), age_s=-7)
            after.append(replace(again, mib=dice.choice((0, 300)) if again.user == "bob" else 0))
            forbidden[one.pid] = "its number belongs to another process now"
        else:
            forbidden[one.pid] = "dead"
    gone = {one.pid for one in table} - {one.pid for one in after}
    after = [replace(one, ppid=1) if one.ppid in gone else one for one in after]
    files = (
        "before",
        "after/fuser.txt",
        "after/query-apps.csv",
        "after/ps-tree.txt",
        "after/query-gpu.csv",
        "kill-commands.json",
    )
    gaps = tuple(name for name in files if dice.random() < 0.15)
    scene = Scene(table, after, command, user=dice.choice(("root", "alice")), fuser=dice.random() < 0.8)
    # What root sees orphaned is nobody's any more where nothing tells whose server was meant.
    if scene.user != "root" and "kill-commands.json" not in gaps:
        forbidden.update(orphans)
    if "kill-commands.json" in gaps:
        # That KILL was sent, nothing tells; to send it again to who waits in the kernel changes nothing.
        forbidden = {pid: why for pid, why in forbidden.items() if why != DELIVERED}
    return Case(scene, forbidden, frozenset(numbers), gaps, (tool.pid, shell.pid))


def told(case: Case, folder: Path) -> Report | None:
    """The report on what is left of the evidence, as a bundle of a recorder that stood in the scene."""
    import shutil

    root = case.scene.write(folder / "in")
    for name in case.gaps:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if not any(path.is_file() for path in root.rglob("*")):
        return None
    try:
        return explain([pack_capture(root, folder / "b.tgz", NOBODY._replace(pids=case.recorder, uid=0, host="h"))])
    except Unreadable:
        return None


def test_nobody_is_named_who_must_not_be_killed(tmp_path: Path, tried: Tried) -> None:
    named = explained = 0
    for number in range(CASES):
        case = made(random.Random(f"kill {number}"))
        report = told(case, tmp_path / str(number))
        if report is None:
            continue
        explained += 1
        for entry in report.plan.kill:
            assert entry.pid not in case.forbidden, (
                number,
                entry.pid,
                case.forbidden[entry.pid],
                case.scene.command,
                case.gaps,
            )
            assert entry.pid in case.target or case.scene.user == "root" or "kill-commands.json" in case.gaps
            assert entry.command.count(str(entry.pid)) >= 2, "it is checked before it is killed"
            named += 1
    assert explained > CASES * 0.9
    assert named > CASES, "most of these incidents have somebody to name"
    tried(
        "Process tables, commands and gaps of the evidence made up by chance",
        explained,
        "no daemon, no other tenant's process, no dead one, none with KILL delivered, no recycled PID, not the tool",
    )


def test_orphans_of_another_tenant_are_not_named(tmp_path: Path) -> None:
    alice = [replace(one, user="alice") for one in server(2500)]
    bob = [replace(one, user="bob", ppid=max(1, one.ppid * (one.ppid != 43000))) for one in server(43000)[1:]]
    stuck = [replace(alice[0], state="D"), *alice[1:]]
    scene = Scene([*alice, *bob], [*stuck, *bob], 'pkill -9 -f "api_server --port 8000"', user="alice")
    report = told(Case(scene, {}, frozenset(), (), ()), tmp_path)
    assert report is not None
    assert not {entry.pid for entry in report.plan.kill} & {one.pid for one in bob}


def test_orphans_of_another_tenant_are_not_named_where_the_aim_is_gone(tmp_path: Path) -> None:
    """No look before the command, and its number belongs to an editor now: what it was aimed at, nothing tells."""
    alice = [replace(one, user="alice") for one in server(2500, mib=20000)]
    bob = [replace(one, user="bob", ppid=1 if one.ppid == 43000 else one.ppid) for one in server(43000)[1:]]
    left = [
        replace(one, ppid=1 if one.ppid in (2500, 2502) else one.ppid) for one in alice if one.pid not in (2500, 2502)
    ]
    editor = P(2502, 1, 2502, "/usr/bin/vim notes", user="alice", age_s=-7)
    scene = Scene([*alice, *bob], [*left, editor, *bob], "kill -9 2500 2502", user="alice")
    report = told(Case(scene, {}, frozenset(), ("before",), ()), tmp_path)
    assert report is not None
    assert report.actions
    assert not {entry.pid for entry in report.plan.kill} & {one.pid for one in bob}
    assert {one.pid for one in bob if one.mib} <= {entry.pid for entry in report.plan.keep}


def test_names_of_impostors_change_nothing(tmp_path: Path, tried: Tried) -> None:
    """Who gives his worker the name of a daemon is not shielded by it; who gives his job a worker's is not blamed."""
    compared = 0
    for number in range(40):
        dice = random.Random(f"impostor {number}")
        case = made(random.Random(f"kill {number}"))
        if case.gaps:
            continue
        holders = {one.pid for one in case.scene.after if one.pid in case.target and one.mib}

        def renamed(one: P, holders: set[int] = holders, dice: random.Random = dice) -> P:
            if one.pid in holders:
                return replace(one, line=IMPOSTORS[one.pid % len(IMPOSTORS)], comm="")
            return replace(one, line="VLLM::Worker_TP7", comm="") if one.user == "bob" and one.mib else one

        scene = replace(case.scene, before=[*map(renamed, case.scene.before)], after=[*map(renamed, case.scene.after)])
        if "-f EngineCore" in scene.command:
            continue
        plain, other = told(case, tmp_path / f"a{number}"), told(replace(case, scene=scene), tmp_path / f"b{number}")
        assert plain is not None
        assert other is not None
        assert {entry.pid for entry in other.plan.kill} == {entry.pid for entry in plain.plan.kill}, number
        compared += 1
    assert compared >= 5
    tried(
        "Workers with the names of daemons, strangers with those of workers", compared, "the same processes are named"
    )


HOSTILE = (
    "it's",
    '"q"',
    "$(touch owned)",
    "`touch owned`",
    "a\tb",
    "; touch owned;",
    "\u202egnp",
    "&& touch owned",
    "-rf",
)


def dry_run(text: str, folder: Path) -> str:
    """All that the script prints."""
    import subprocess

    done = subprocess.run(["sh", "-s", "--", "-n"], input=text, text=True, capture_output=True, cwd=folder, check=False)
    return done.stdout + done.stderr


def is_plain(printed: str) -> bool:
    """No escape, no sign that turns a line around."""
    return all(character.isprintable() for character in printed.replace("\n", ""))


def test_a_host_that_is_not_this_one_is_named_without_its_escapes(tmp_path: Path) -> None:
    before = server(2500, mib=20000)
    left = [replace(one, ppid=1 if one.ppid == 2500 else one.ppid) for one in before[1:]]
    report = told(Case(Scene(before, left, "kill -9 2500", user="root"), {}, frozenset(), (), ()), tmp_path)
    assert report is not None
    assert report.plan.kill
    for boot_id in (None, "0f0e0d0c-0b0a-0908-0706-050403020100"):
        hosts = tuple(
            host.model_copy(update={"name": "gpu\u202e\x1b[31m", "boot_id": boot_id}) for host in report.hosts
        )
        printed = dry_run(script.render(report.model_copy(update={"hosts": hosts})), tmp_path)
        assert "Refused" in printed
        assert is_plain(printed)


def test_scripts_are_the_shells_own_language(tmp_path: Path, tried: Tried) -> None:
    """Every script of these incidents is read by the shell, with names in it that try to be more than names."""
    import subprocess

    checked = 0
    for number in range(40):
        case = made(random.Random(f"kill {number}"))
        word = HOSTILE[number % len(HOSTILE)]
        after = [replace(one, line=f"{one.line} {word}") for one in case.scene.after]
        scene = replace(case.scene, after=after, before=[])
        report = told(replace(case, scene=scene), tmp_path / str(number))
        if report is None or not report.plan.kill:
            continue
        text = script.render(report)
        done = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        # A dry run goes through every check and signals nobody.
        assert is_plain(dry_run(text, tmp_path))
        assert not (tmp_path / "owned").exists()
        checked += 1
    assert checked >= 15
    tried(
        "Scripts with quotes, substitutions and bidi signs in their names, run dry", checked, "nothing of a name is run"
    )
