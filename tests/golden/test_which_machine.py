"""Pasted sessions of several machines and containers: what one shows is never taken for the state of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.explain import explain
from gpudiag.report.contract import Report

QUERY = "nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv,noheader"
APPS = "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader"
HELD = "0, 90000 MiB, 97887 MiB\n"
FREE = "0, 4 MiB, 97887 MiB\n"
WORKER = "4151, VLLM::Worker_TP0, 89300 MiB\n"

WAYS = [
    ("ssh a {}", "ssh b {}"),
    ("ssh -p 2222 root@a {}", "ssh -p 2223 root@a {}"),
    ("ssh -p 2222 root@a {}", "ssh root@a {}"),
    ("ssh -o Port=2222 a {}", "ssh -p2223 a {}"),
    ("ssh ssh://root@a:2222 {}", "ssh ssh://root@a:2223 {}"),
    ("sshpass -p x ssh a {}", "sshpass -p x ssh b {}"),
    ("ssh pod1-64@ssh.gpus.example {}", "ssh pod2-64@ssh.gpus.example {}"),
    ("ssh -p 2222 localhost {}", "{}"),
    ("cd /tmp && ssh a {}", "cd /tmp && ssh b {}"),
    ("srun -w a {}", "srun -w b {}"),
    ("srun --nodelist=a --overlap {}", "srun --nodelist b {}"),
    ("srun --jobid=77 --overlap {}", "srun --jobid=78 --overlap {}"),
    ("srun --jobid=77 --overlap {}", "{}"),
    ("ansible a -m shell -a '{}'", "ansible b -m shell -a '{}'"),
    ("ansible -i hosts.ini a -b -m shell -a '{}'", "ansible -i hosts.ini b -b -m shell -a '{}'"),
    ("pdsh -N -w a {}", "pdsh -N -w b {}"),
    ("clush -w a {}", "clush -w b {}"),
    ("docker exec one {}", "docker exec two {}"),
    ("kubectl exec one -- {}", "kubectl exec two -- {}"),
    ("kubectl exec -n x one -- {}", "kubectl exec -n y one -- {}"),
    ("kubectl exec one -c x -- {}", "kubectl exec one -c y -- {}"),
    ("docker -H ssh://x exec one {}", "docker -H ssh://y exec one {}"),
    ("docker compose -p x exec one {}", "docker compose -p y exec one {}"),
    ("ssh -J x a {}", "ssh -J y a {}"),
    ("nsenter -t 41 -m -p {}", "nsenter -t 42 -m -p {}"),
]


def report(tmp_path: Path, text: str) -> Report:
    """The report on a pasted session."""
    path = tmp_path / "session.txt"
    path.write_text(text)
    return explain([path])


def killed_between(way: str, after: str, figure: str, apps: str) -> str:
    """Looks and a kill by one way, and a later look by another."""
    kill = way.format("pkill -9 -f VLLM")
    before = f"$ {way.format(APPS)}\n{WORKER}$ {way.format(QUERY)}\n{HELD}"
    return f"{before}$ {kill}\n$ {after.format(QUERY)}\n{figure}$ {after.format(APPS)}\n{apps}"


@pytest.mark.parametrize(("one", "other"), WAYS)
def test_only_a_later_look_at_the_same_place_shows_that_memory_came_back(tmp_path: Path, one: str, other: str) -> None:
    same = report(tmp_path, killed_between(one, one, FREE, ""))
    assert same.outcome == "released"
    assert same.actions
    elsewhere = report(tmp_path, killed_between(one, other, FREE, ""))
    assert elsewhere.outcome not in ("released", "partly_released")


@pytest.mark.parametrize(("one", "other"), WAYS)
def test_who_holds_memory_elsewhere_was_not_meant(tmp_path: Path, one: str, other: str) -> None:
    text = f"$ {one.format('pkill -9 -f vllm.entrypoints')}\n$ {other.format(QUERY)}\n{HELD}$ {other.format(APPS)}\n"
    assert report(tmp_path, text + WORKER).plan.kill == ()


GPUS = "nvidia-smi --query-gpu=index,{kind},memory.used,memory.total --format=csv"
BEFORE = (
    f"$ {GPUS}\nindex, {{kind}}, memory.used [MiB], memory.total [MiB]\n0, {{one}}, 90000 MiB, 97887 MiB\n"
    "{more}$ nvidia-smi --query-compute-apps={app},pid,process_name,used_memory --format=csv,noheader\n"
    "{one}, 4151, VLLM::Worker_TP0, 89300 MiB\n"
)
AFTER = "$ ./see.sh\nindex, {kind}, memory.used [MiB], memory.total [MiB]\n0, {gpu}, 4 MiB, 97887 MiB\n"
NAMES = {
    "uuid": ("gpu_uuid", "GPU-aaaaaaaa-0000-4000-8000-000000000001", "GPU-bbbbbbbb-0000-4000-8000-000000000002"),
    "pci.bus_id": ("gpu_bus_id", "00000000:01:00.0", "00000000:02:00.0"),
}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("listed", [False, True], ids=["one", "both"])
def test_a_gpu_is_its_uuid_or_bus_id_not_its_number(tmp_path: Path, kind: str, listed: bool) -> None:
    """What a script shows as GPU 0 is another one: a container's only GPU, or another machine's."""
    app, one, other = NAMES[kind]
    more = f"1, {other}, 4 MiB, 97887 MiB\n" if listed else ""
    before = BEFORE.format(kind=kind, app=app, one=one, more=more)
    same = report(tmp_path, f"{before}$ pkill -9 -f VLLM\n{AFTER.format(kind=kind, gpu=one)}")
    assert same.gpus[0].outcome == "released"
    another = report(tmp_path, f"{before}$ pkill -9 -f VLLM\n{AFTER.format(kind=kind, gpu=other)}")
    assert "released" not in {gpu.outcome for gpu in another.gpus}
    assert {gpu.used_mib for gpu in another.gpus} == {None, 4}


@pytest.mark.parametrize("kind", NAMES)
def test_a_number_of_two_gpus_names_none_of_them(tmp_path: Path, kind: str) -> None:
    """Both were shown between two commands: they stay two GPUs."""
    app, one, other = NAMES[kind]
    text = BEFORE.format(kind=kind, app=app, one=one, more="") + AFTER.format(kind=kind, gpu=other)
    assert sorted(gpu.used_mib or 0 for gpu in report(tmp_path, text).gpus) == [4, 90000]


@pytest.mark.parametrize("gpus", ["device=1", "all"])
def test_a_container_made_to_look_is_no_look_at_the_host(tmp_path: Path, gpus: str) -> None:
    way = f"docker run --rm --gpus {gpus} cuda {{}}"
    assert report(tmp_path, killed_between("{}", way, FREE, "")).outcome != "released"


TWO = "4151, VLLM::Worker_TP0, 89300 MiB\n6210, VLLM::EngineCore, 89300 MiB\n"
KILL = "root@h:~# docker exec one pkill -9 -f vllm.entrypoints\n"
LISTED = "root@h:~# docker ps --format '{{.Names}}'\none\n"
TOP = "root@h:~# docker top {}\nUID PID PPID C STIME TTY TIME CMD\nroot 4151 1 0 08:00 ? 00:00:09 VLLM::Worker_TP0\n"
TABLE = """root@h:~# ps -eo pid,ppid,pgid,stat,args
    PID    PPID    PGID STAT COMMAND
      1       0       1 Ss   /sbin/init
   4151       1    4100 Sl   VLLM::Worker_TP0
"""


@pytest.mark.parametrize(
    ("before", "holders", "table", "pids"),
    [
        (LISTED + "two\n", TWO, "", set()),
        (LISTED + "two\n", WORKER, TABLE, set()),
        (LISTED, TWO, "", set()),
        ("", TWO, "", set()),
        ("", WORKER, TABLE, {4151}),
        (LISTED, WORKER, TABLE, {4151}),
        (LISTED + "two\n" + TOP.format("one"), WORKER, TABLE, {4151}),
        (LISTED + TOP.format("two"), WORKER, TABLE, set()),
    ],
)
def test_a_command_inside_a_container_is_about_those_in_it(
    tmp_path: Path, before: str, holders: str, table: str, pids: set[int]
) -> None:
    """Whose container the host's list does not tell, the command may not have been about."""
    look = f"root@h:~# {QUERY}\n{HELD}root@h:~# {APPS}\n{holders}{table}"
    assert {entry.pid for entry in report(tmp_path, before + KILL + look).plan.kill} == pids


@pytest.mark.parametrize("enter", ["docker exec -it one bash", "ssh -p 2222 h", "srun --jobid=7 --pty bash"])
def test_a_shell_elsewhere_is_about_nobody_here(tmp_path: Path, enter: str) -> None:
    shell = f"root@h:~# {enter}\nroot@in:~# pkill -9 -f vllm.entrypoints\nroot@in:~# exit\n"
    look = f"root@h:~# {QUERY}\n{HELD}root@h:~# {APPS}\n{TWO}"
    assert report(tmp_path, shell + look).plan.kill == ()


BOTH = "".join(f"$ ssh {name} {APPS}\n{{{name}}}" for name in ("a", "b"))


@pytest.mark.parametrize(
    ("line", "hit"),
    [
        ("ssh a kill -9 4151; ssh b kill -9 9999", {("a", (4151,)), ("b", ())}),
        ("ssh a 'kill -9 9999' & ssh b kill -9 4151", {("a", ()), ("b", (4151,))}),
        ("ssh -p 2222 a kill -9 4151; ssh a kill -9 9999", {("a:2222", ()), ("a", ())}),
        ("kill -9 4151; ssh b kill -9 9999", {("", ()), ("b", ())}),
        ("for h in a b; do ssh $h kill -9 4151; done", {("a", (4151,)), ("b", (4151,))}),
    ],
)
def test_each_step_of_a_line_is_of_its_own_host(
    tmp_path: Path, line: str, hit: set[tuple[str, tuple[int, ...]]]
) -> None:
    found = report(tmp_path, BOTH.format(a=WORKER, b=WORKER) + f"$ {line}\n" + BOTH.format(a=WORKER, b=WORKER))
    names = {host.id: host.name for host in found.hosts}
    steps = [step for action in found.actions for step in action.steps if step.tool == "kill"]
    assert {(names[step.runs_on or ""] or "", step.hit) for step in steps} == hit


def captured(folder: Path, before: str, after: str) -> Report:
    """The report on a directory whose files were taken by these ways, with a kill between."""
    for look, way, figure, apps in (("before", before, HELD, WORKER), ("after", after, FREE, "")):
        (folder / look).mkdir(parents=True)
        for name, query, text in (("gpu.txt", QUERY, figure), ("apps.txt", APPS, apps)):
            (folder / look / name).write_text(f"# $ {way.format(query)}\n# rc=0\n{text}")
    return explain([folder])


@pytest.mark.parametrize(
    ("before", "after", "hosts"),
    [
        ("ssh a {}", "ssh a {}", [""]),
        ("{}", "ssh a {}", [""]),
        ("ssh a {}", "ssh b {}", ["a", "b"]),
        ("ssh -p 2222 a {}", "ssh -p 2223 a {}", ["a:2222", "a:2223"]),
        ("{}", "docker exec one {}", ["", "one"]),
        ("docker exec one {}", "docker exec two {}", ["one", "two"]),
        ("ssh a docker exec one {}", "ssh a {}", ["", "one"]),
    ],
)
def test_files_of_a_directory_are_of_the_machine_that_their_header_names(
    tmp_path: Path, before: str, after: str, hosts: list[str]
) -> None:
    found = captured(tmp_path / "incident", before, after)
    assert sorted(host.name for host in found.hosts) == hosts
    assert (found.outcome == "released") == (len(hosts) == 1)
