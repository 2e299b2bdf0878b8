"""Pasted sessions in which somebody innocent stands beside the holder: who may be named, and who never."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.explain import explain
from gpudiag.report.contract import Report

FUSER = """                     USER        PID ACCESS COMMAND
/dev/nvidia0:        {one}    4763 F...m python
                     {two}    4764 F...m python{more}
/dev/nvidiactl:      {one}    4763 F...m python
                     {two}    4764 F...m python
/dev/nvidia-uvm:     {one}    4763 F.... python
                     {two}    4764 F.... python
"""
XORG = "\n                     root       1406 F...m Xorg"
DEAD = """$ nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader
4698, [Not Found], 9871 MiB
"""


def report(tmp_path: Path, text: str) -> Report:
    """The report on a pasted session."""
    path = tmp_path / "session.txt"
    path.write_text(text)
    return explain([path])


def planned(found: Report) -> set[int]:
    """PIDs to kill."""
    return {entry.pid for entry in found.plan.kill}


def stopped(found: Report) -> set[str]:
    """Kinds of what is to be stopped first."""
    return {entry.kind for entry in found.plan.stop_first}


def gone(prompt: str) -> str:
    """The dead PID is asked for and is not there."""
    return f"{prompt} kill -9 4698\nbash: kill: (4698) - No such process\n"


def test_heirs_are_named_where_the_list_is_of_the_host(tmp_path: Path) -> None:
    """A display server in root's list shows that it is."""
    text = DEAD + gone("$") + "$ sudo fuser -v /dev/nvidia*\n" + FUSER.format(one="user", two="user", more=XORG)
    assert planned(report(tmp_path, text)) == {4763, 4764}


def test_in_a_container_the_listed_pid_is_the_same_process_under_another_number(tmp_path: Path) -> None:
    """Nothing shows the host here: the driver's PID may be absent and alive, and the holder healthy."""
    text = DEAD + gone("$") + "$ sudo fuser -v /dev/nvidia*\n" + FUSER.format(one="user", two="user", more="")
    assert planned(report(tmp_path, text)) == set()


def test_heirs_of_two_owners_cannot_be_told_apart(tmp_path: Path) -> None:
    """One of them is somebody else's."""
    text = DEAD + gone("$") + "$ sudo fuser -v /dev/nvidia*\n" + FUSER.format(one="ann", two="bob", more=XORG)
    assert planned(report(tmp_path, text)) == set()


def test_what_fuser_lists_for_a_plain_user_is_not_everybody(tmp_path: Path) -> None:
    """Without root's rights the list lacks the heir of another user."""
    text = DEAD + gone("ann@box:~$") + "ann@box:~$ fuser -v /dev/nvidia*\n"
    text = text.replace("$ nvidia-smi", "ann@box:~$ nvidia-smi")
    assert planned(report(tmp_path, text + FUSER.format(one="ann", two="ann", more=XORG))) == set()


ONE_WORKER = "{pid}, VLLM::Worker, 11362 MiB\n"
RM = """root@box:~# docker rm -f {name}
{name}
root@box:~# nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
{rows}root@box:~# docker ps
CONTAINER ID   IMAGE     COMMAND   CREATED   STATUS    PORTS     NAMES
"""


@pytest.mark.parametrize(
    ("name", "rows", "pids"),
    [
        ("tts", ONE_WORKER.format(pid=771), set()),
        ("vllm-tts", ONE_WORKER.format(pid=771) + "900, python3, 500 MiB\n", set()),
        ("vllm-tts", ONE_WORKER.format(pid=771) + ONE_WORKER.format(pid=772), {771, 772}),
    ],
    ids=["a name that tells no engine", "somebody else beside it", "its workers and nobody else"],
)
def test_a_removed_container_means_its_engine_only_where_nobody_else_is(
    tmp_path: Path, name: str, rows: str, pids: set[int]
) -> None:
    """The container's name and the lists have to agree."""
    assert planned(report(tmp_path, RM.format(name=name, rows=rows))) == pids


RAY = """ann@box:~$ python tune.py
^CStopped.
ann@box:~$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
{rows}ann@box:~$ ps -eo user,pid,args | grep ray:: | grep -v grep
{table}"""


def test_a_ray_of_one_user_is_stopped_by_its_own_command(tmp_path: Path) -> None:
    """No actor by its PID."""
    text = RAY.format(rows="230, ray::T.train, 9417 MiB\n", table="ann          230 ray::T.train\n")
    found = report(tmp_path, text)
    assert (planned(found), stopped(found)) == (set(), {"ray"})


def test_a_ray_that_two_users_share_is_not_stopped(tmp_path: Path) -> None:
    """Its stop command would end the other one's work."""
    rows = "230, ray::T.train, 9417 MiB\n240, ray::U.train, 9417 MiB\n"
    table = "ann          230 ray::T.train\nbob          240 ray::U.train\n"
    found = report(tmp_path, RAY.format(rows=rows, table=table))
    assert (planned(found), stopped(found)) == (set(), set())


TRITON = """{who} ps -C tritonserver -o user,pid,ppid,stat,lstart,cmd
USER         PID    PPID STAT                  STARTED CMD
{server}        7120    7093 Sl   Wed Jul 24 08:41:17 2024 tritonserver --model-repository=/models
{who} kill 7120
{who} sleep 30; ps -C tritonserver
    PID TTY          TIME CMD
{who} nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
7388, /usr/bin/python3, 72718 MiB
{who} ps -o user,pid,ppid,stat,lstart,comm -p 7388
USER         PID    PPID STAT                  STARTED COMMAND
{owner}        7388       1 Sl   Wed Jul 24 {start} 2024 pt_main_thread
"""


@pytest.mark.parametrize(
    ("owner", "start", "pids"),
    [("ann", "08:41:52", {7388}), ("bob", "08:41:52", set()), ("ann", "11:20:00", set())],
    ids=["started with the server", "another user's", "started hours later"],
)
def test_a_stray_is_tied_to_the_server_by_owner_and_start(
    tmp_path: Path, owner: str, start: str, pids: set[int]
) -> None:
    """PID 1 has it, and no look shows who started it."""
    text = TRITON.format(who="root@box:~#", server="ann", owner=owner, start=start)
    assert planned(report(tmp_path, text)) == pids


def test_a_failed_question_proves_no_absence(tmp_path: Path) -> None:
    """``ps`` that could not run shows nobody, and says nothing about who is there."""
    text = """$ ps -eo pid,ppid,args | grep -e ollama | grep -v grep
   4411    4398 ollama serve
   4467    4411 ollama runner --model m
$ kill -9 4411
$ ps -eo pid,ppid,args | grep -e ollama | grep -v grep
bash: ps: command not found
$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
4467, ollama, 6212 MiB
"""
    found = report(tmp_path, text)
    assert not [f for f in found.findings if f.rule == "GPD201" and f.certainty == "proven"]


def test_mps_is_kept_whoever_runs_it(tmp_path: Path) -> None:
    """The command was aimed at everything that the user owns; the server of MPS is still not in the plan."""
    comm = "nvidia-cuda-mps-server"
    text = f"""ann@box:~$ ps -eo user,pid,ppid,args | grep -e python -e {comm} | grep -v grep
ann          900       1 {comm}
ann          950       1 python3 train.py
ann@box:~$ pkill -TERM -u ann
ann@box:~$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
900, {comm}, 300 MiB
950, python3, 9000 MiB
"""
    found = report(tmp_path, text)
    assert 900 not in planned(found)
    assert 900 in {entry.pid for entry in found.plan.keep}


ONE_CONTAINER = """$ docker ps --format '{{{{.Names}}}} {{{{.Image}}}} {{{{.Status}}}}'
{containers}
$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
41877, python3, 20710 MiB
$ ps -o pid,ppid,stat,args -p 41877
    PID    PPID STAT COMMAND
  41877   {ppid} {stat}  python3 -m vllm.entrypoints.openai.api_server --model /models/m
"""
VLLM = "chat vllm/vllm-openai:v0.5.4 Up 9 hours"


@pytest.mark.parametrize(
    ("containers", "ppid", "stat", "stops"),
    [
        (VLLM, 41854, "Ssl", {"docker"}),
        (f"{VLLM}\nold vllm/vllm-openai:v0.5.3 Exited (0) 2 days ago", 41854, "Ssl", {"docker"}),
        (f"{VLLM}\nother vllm/vllm-openai:v0.5.4 Up 2 hours", 41854, "Ssl", set()),
        ("db postgres:16 Up 9 hours", 41854, "Ssl", set()),
        (VLLM, 1, "Ssl", set()),
        (VLLM, 41854, "Sl+", set()),
    ],
    ids=["the only one", "another has exited", "two run", "another image", "PID 1 started it", "a terminal's job"],
)
def test_a_container_is_taken_by_its_image_only_where_nothing_else_can_be(
    tmp_path: Path, containers: str, ppid: int, stat: str, stops: set[str]
) -> None:
    """No control group is shown; whose container it is follows from what there is."""
    found = report(tmp_path, ONE_CONTAINER.format(containers=containers, ppid=ppid, stat=stat))
    assert stopped(found) == stops
    assert planned(found) == set()


TREE = """  21950   21913   21950 Sat Sep  5 10:11:02 2026 {python}vllm serve acme/m --tensor-parallel-size 2
  22061   {parent}   21950 Sat Sep  5 10:11:20 2026 VLLM::EngineCore
  22133   22061   21950 Sat Sep  5 10:11:31 2026 VLLM::Worker_TP0
"""
LISTING = "dev@desk:~$ ps -eo pid,ppid,pgid,lstart,args | grep -e VLLM:: -e 'vllm serve' | grep -v grep\n"
IN_USE = """dev@desk:~$ nvidia-smi --query-gpu=index,memory.used --format=csv,noheader
0, {mib} MiB
"""
APPS = "dev@desk:~$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader\n"
BEFORE = LISTING + TREE.format(python="/usr/bin/python3 /usr/bin/", parent=21950)
AFTER = LISTING + TREE.format(python="", parent=21913).split("\n", 1)[1]


@pytest.mark.parametrize(
    ("text", "pids"),
    [
        (BEFORE + "dev@desk:~$ kill -9 21950\n" + AFTER + IN_USE.format(mib=13842), {22061, 22133}),
        (BEFORE + "dev@desk:~$ kill -9 21950\n" + AFTER + IN_USE.format(mib=2), set()),
        (BEFORE + "dev@desk:~$ kill -9 21950\n" + AFTER, set()),
        (BEFORE + "dev@desk:~$ kill -9 999\n" + BEFORE + IN_USE.format(mib=13842), set()),
        (AFTER + IN_USE.format(mib=13842), set()),
        (
            BEFORE + APPS + "31, python3, 13800 MiB\ndev@desk:~$ kill -9 21950\n" + AFTER + IN_USE.format(mib=13842),
            set(),
        ),
        (
            BEFORE
            + "dev@desk:~$ kill -9 21950\n"
            + AFTER
            + IN_USE.format(mib=13842)
            + APPS
            + "31, python3, 13800 MiB\n",
            set(),
        ),
    ],
    ids=[
        "left of the killed server",
        "the GPU is idle",
        "no figure",
        "the server lives",
        "no command",
        "an earlier list names somebody else",
        "the list names somebody else",
    ],
)
def test_who_is_left_of_a_killed_server_is_named_without_a_list_only_while_memory_is_in_use(
    tmp_path: Path, text: str, pids: set[int]
) -> None:
    """Where no list of the holders was taken, an engine's own orphans are all that is known."""
    assert planned(report(tmp_path, text)) == pids


PS_IN = """    PID    PPID    PGID STAT COMMAND
      1       0       1 Ss   bash
     44       1      44 Ssl  python3 -m vllm.entrypoints.openai.api_server --model /models/m
     64      44      44 Sl   VLLM::EngineCore
     75      64      44 Sl   VLLM::Worker_TP0
"""
LEFT_IN = PS_IN.replace(PS_IN.splitlines(keepends=True)[2], "").replace("     64      44 ", "     64       1 ", 1)


@pytest.mark.parametrize(
    ("prompt", "inside", "name"),
    [
        ("root@box:~#", "docker exec chat ", "chat"),
        ("root@box:~#", "kubectl exec chat-7f9c -- ", "chat-7f9c"),
        ("root@3f1c9a5be210:/#", "", "3f1c9a5be210"),
        ("root@box:~#", "", "host"),
    ],
    ids=["docker exec", "kubectl exec", "a container's prompt", "the host"],
)
def test_a_command_with_the_pids_of_a_container_says_where_to_run_it(
    tmp_path: Path, prompt: str, inside: str, name: str
) -> None:
    """Outside, the same numbers are other processes."""
    ps = f"{prompt} {inside}ps -eo pid,ppid,pgid,stat,args\n"
    smi = f"{prompt} {inside}nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader\n"
    holder = "75, VLLM::Worker_TP0, 9000 MiB\n"
    text = ps + PS_IN + smi + holder + f"{prompt} {inside}pkill -9 -f vllm.entrypoints\n" + ps + LEFT_IN + smi + holder
    found = report(tmp_path, text)
    assert planned(found) == {64, 75}
    assert {entry.run_in for entry in found.plan.kill} == {name}


DESKTOP = """ann@desk:~$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
{rows}ann@desk:~$ fuser -k -TERM /dev/nvidia0
/dev/nvidia0: {pids}
ann@desk:~$ ps -eo pid,ppid,pgid,user:12,stat,comm,args | grep -e PID -e gnome-shell -e serve.py | grep -v grep
    PID    PPID    PGID USER         STAT COMMAND         COMMAND
   1406    1390    1406 ann          Ssl  gnome-shell     /usr/bin/gnome-shell
{table}ann@desk:~$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
{rows}"""
SHELL, SERVER = "1406, /usr/bin/gnome-shell, {mib} MiB\n", "4201, python3, 21090 MiB\n"
SERVED = "   4201    4180    4201 ann          Sl   python3         python3 serve.py\n"


@pytest.mark.parametrize(
    ("rows", "pids", "table", "named"),
    [
        (SHELL.format(mib=310) + SERVER, "1406 4201", SERVED, {4201}),
        (SHELL.format(mib=9000), "1406", "", {1406}),
    ],
    ids=["beside a server", "nobody hides behind a name"],
)
def test_a_desktop_that_computes_is_kept_beside_a_server(
    tmp_path: Path, rows: str, pids: str, table: str, named: set[int]
) -> None:
    """Its user's session would end with it."""
    found = report(tmp_path, DESKTOP.format(rows=rows, pids=pids, table=table))
    assert planned(found) == named
    kept = {entry.pid: entry.because for entry in found.plan.keep}
    assert ("desktop" in kept.get(1406, "")) == (1406 not in named)


OTHER_RUNS = '0a1b2c3d4e5f   vllm/vllm-openai   "vllm"   9 hours ago   Up 9 hours             chat\n'


@pytest.mark.parametrize(
    "text",
    [
        RM.format(name="vllm-tts", rows=ONE_WORKER.format(pid=771)) + OTHER_RUNS,
        RM.format(name="vllm-tts", rows=ONE_WORKER.format(pid=771)).split("root@box:~# docker ps")[0],
        RM.format(name="vllm-tts", rows=ONE_WORKER.format(pid=771)).replace("docker ps", "docker ps -f name=tts"),
        RM.format(name="vllm-tts", rows=ONE_WORKER.format(pid=771))
        + "root@box:~# ps -eo pid,ppid,stat,args | grep vllm | grep -v grep\n"
        + "    760       1 Ssl  python3 -m vllm.entrypoints.openai.api_server --model m\n",
    ],
    ids=["another container runs", "no list of containers", "a list of some", "a server of that engine is there"],
)
def test_a_removed_container_names_nobody_who_may_be_of_something_else(tmp_path: Path, text: str) -> None:
    """Only where no container runs any more, and every user of a GPU is a worker of that engine without a server."""
    assert planned(report(tmp_path, text)) == set()


CGROUP = """root@box:~# docker ps
CONTAINER ID   IMAGE              COMMAND   CREATED       STATUS       PORTS     NAMES
3f1c9a5be210   vllm/vllm-openai   "vllm"    9 hours ago   Up 9 hours             chat
root@box:~# docker {verb} chat
chat
root@box:~# ps -o pid,ppid,stat,cgroup:120,args -p 771
    PID    PPID STAT CGROUP                                     COMMAND
    771     700 Sl   0::/system.slice/docker-3f1c9a5be210aaaaaaaa.scope VLLM::Worker
root@box:~# nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader
771, VLLM::Worker, 11362 MiB
"""


def test_who_is_of_a_killed_container_has_its_sigkill(tmp_path: Path) -> None:
    """It is leaving or stuck; another kill changes nothing."""
    assert planned(report(tmp_path, CGROUP.format(verb="kill"))) == set()


FORKS = "$ sudo fuser -v /dev/nvidia*\n" + FUSER.format(one="user", two="user", more="")


@pytest.mark.parametrize(
    ("command", "pids"),
    [
        ("user@box:~$ kill 4698\n", {4763, 4764}),
        ("user@box:~$ kill 4698\n[1]+  Terminated              python train.py\n", {4763, 4764}),
        ("user@box:~$ scancel 40217\n", {4763, 4764}),
        ("user@box:~$ kill 4698\nbash: kill: (4698) - No such process\n", set()),
        ("user@box:~$ kill 4600\n", set()),
        ("user@box:~$ scancel 40217\nbash: scancel: command not found\n", set()),
        ("user@box:~$ kill -0 4698\n", set()),
        ("", set()),
    ],
    ids=[
        "kill found the number",
        "and the shell says that its job ended",
        "the batch system's own machine",
        "kill did not find it",
        "another number",
        "no batch system here",
        "a question is no proof of whose it is",
        "nothing tells",
    ],
)
def test_forks_are_named_where_the_drivers_number_is_the_readers_own(
    tmp_path: Path, command: str, pids: set[int]
) -> None:
    """Else the number may be that of a healthy process in this container."""
    after = (DEAD + FORKS).replace("$ ", "user@box:~$ ")
    assert planned(report(tmp_path, command + after)) == pids


QUERY = "root@box:~# nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv,noheader\n"
TWO_JOBS = "4100, python3, 9000 MiB\n5200, python3, 9000 MiB\n"
TAKEN = "root@box:~# kill $(nvidia-smi --query-compute-apps=pid --format=csv{how})\n"


@pytest.mark.parametrize(
    ("how", "pids"),
    [
        (",noheader", {5200}),
        (" | tail -n +2", {5200}),
        (",noheader | head -1", set()),
        (",noheader | tail -n 1", {5200}),
        (",noheader | shuf", set()),
    ],
    ids=["all of them", "without the heading", "the first", "the last", "any"],
)
def test_a_list_that_was_thinned_was_not_meant_for_everybody(tmp_path: Path, how: str, pids: set[int]) -> None:
    """Whoever was left out may have been left out on purpose; the last one is picked as the list before shows it."""
    text = QUERY + TWO_JOBS + TAKEN.format(how=how) + QUERY + TWO_JOBS.split("\n", 1)[1]
    assert planned(report(tmp_path, text)) == pids


@pytest.mark.parametrize(
    ("second", "mib", "pids"),
    [(4104, 9000, {4100, 4104}), (4104, 21000, set()), (95200, 9000, set())],
    ids=["alike", "of another size", "started much later"],
)
def test_ranks_of_two_tenants_are_not_one_server(tmp_path: Path, second: int, mib: int, pids: set[int]) -> None:
    """TP0 of one and TP1 of another: their titles are those of one server."""
    rows = f"4100, VLLM::Worker_TP0, 9000 MiB\n{second}, VLLM::Worker_TP1, {mib} MiB\n"
    assert planned(report(tmp_path, "root@box:~# pkill -9 -f vllm.entrypoints\n" + QUERY + rows)) == pids
