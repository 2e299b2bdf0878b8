"""The forms in which people show processes, containers, jobs and ports besides ``ps`` and nvidia-smi."""

from __future__ import annotations

import pytest

from tests.unit.parse.exhibits import parsed

NVITOP = """\
Fri Feb 20 19:00:06 2026
╒═════════════════════════════════════════════════════════════════════════════╕
│ NVITOP 1.3.2       Driver Version: 535.129.03      CUDA Driver Version: 12.2 │
├───────────────────────────────┬──────────────────────┬──────────────────────┤
│ GPU  Name        Persistence-M│ Bus-Id        Disp.A │ Volatile Uncorr. ECC │
│ Fan  Temp  Perf  Pwr:Usage/Cap│         Memory-Usage │ GPU-Util  Compute M. │
╞═══════════════════════════════╪══════════════════════╪══════════════════════╡
│   0  Tesla V100-PCIE...  On   │ 00000000:3B:00.0 Off │                    0 │
│ MAX   32C    P0    41W / 250W │  18.50GiB / 31.75GiB │      0%      Default │
╘═══════════════════════════════╧══════════════════════╧══════════════════════╛
[ CPU: ██ 3.9%                           ]  ( Load Average:  1.08  1.03  0.79 )
[ MEM: █▊ 7.9%                           ]  [ SWP: ▏ 0.0%                     ]

╒═════════════════════════════════════════════════════════════════════════════╕
│ Processes:                                                      user@node16 │
│ GPU     PID      USER  GPU-MEM %SM  %CPU  %MEM  TIME  COMMAND               │
╞═════════════════════════════════════════════════════════════════════════════╡
│   0  205220 C someon+ 18440MiB   0   0.0   0.3  0:42  python3 train.py      │
│   0  205221 C     N/A   497MiB   0   N/A   N/A   N/A  No Such Process       │
╘═════════════════════════════════════════════════════════════════════════════╛
"""


def test_nvitop() -> None:
    found = parsed(NVITOP, "nvitop -1")
    (sample,) = found.samples
    assert (sample.gpu.index, sample.gpu.bus_id) == (0, "00000000:3b:00.0")
    assert (sample.used_mib, sample.total_mib) == (18.5 * 1024, 31.75 * 1024)
    assert [(row.pid, row.mib, row.name, row.name_missing) for row in found.bookings] == [
        (205220, 18440.0, "python3 train.py", None),
        (205221, 497.0, None, "No Such Process"),
    ]
    assert [(row.source, row.outcome, row.complete) for row in found.coverage] == [
        ("gpu memory", "ok", True),
        ("compute processes", "ok", True),
    ]


def test_nvitop_cut_in_the_list() -> None:
    found = parsed("\n".join(NVITOP.split("\n")[:-3]), "nvitop -1")
    assert [row.pid for row in found.bookings] == [205220]
    assert [row.outcome for row in found.coverage if row.source == "compute processes"] == ["truncated"]


GPUSTAT = """\
gpu-node                 Fri Feb 20 19:00:06 2026  590.48.01
[0] NVIDIA A100 80GB PCIe | 52'C, 100 % | 10151 / 81920 MB | user:python3/4711(10142M) root:Xorg/1406(4M)
[1] NVIDIA A100 80GB PCIe | ??'C,  ?? % |    ?? /    ?? MB |
"""


def test_gpustat() -> None:
    found = parsed(GPUSTAT, "gpustat -cup")
    assert [(row.gpu.index, row.used_mib, row.total_mib) for row in found.samples] == [
        (0, 10151.0, 81920.0),
        (1, None, None),
    ]
    assert [(row.pid, row.name, row.mib) for row in found.bookings] == [(4711, "python3", 10142.0), (1406, "Xorg", 4.0)]
    assert {fact.name: fact.value for fact in found.facts}["driver_version"] == "590.48.01"
    assert [(row.source, row.complete) for row in found.coverage] == [
        ("gpu memory", True),
        ("compute processes", False),
    ]


def test_gpu_names() -> None:
    found = parsed(
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-6f1c0f1e-2b3d)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-1d2e3f40-5162)\n"
        "Unable to determine the device handle for gpu 0000:41:00.0: Unknown Error\n"
        "GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-7f1c0f1e-2b3d)\n",
        "nvidia-smi -L",
    )
    assert [(row.gpu.index, row.gpu.uuid, row.mig_uuids) for row in found.gpu_names] == [
        (0, "GPU-6f1c0f1e-2b3d", ("MIG-1d2e3f40-5162",)),
        (2, "GPU-7f1c0f1e-2b3d", ()),
    ]
    assert [row.complete for row in found.coverage] == [False]
    assert [row.line for row in found.damage] == [5]


TOP = """\
top - 09:31:18 up 5 days,  1:02,  2 users,  load average: 1.00, 1.01, 1.05
Tasks: 512 total,   2 running, 509 sleeping,   0 stopped,   1 zombie
%Cpu(s):  3.1 us,  0.4 sy,  0.0 ni, 96.4 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st
MiB Mem : 515738.1 total, 402113.5 free,  50112.2 used,  63512.4 buff/cache
MiB Swap:      0.0 total,      0.0 free,      0.0 used. 461203.9 avail Mem

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
   4239 root      20   0   98.1g   5.2g   1.1g R 100.0   1.0  71:04.12 VLLM::EngineCor
   4102 verylon+  20   0   30.5g   1.2g 320104 S   0.3   0.2   0:44.10 python3
   4300 root      rt   0       0      0      0 Z   0.0   0.0   0:00.00 python3
"""


def test_top() -> None:
    found = parsed(TOP, "top -b -n 1")
    assert [(row.pid, row.user, row.state, row.comm, row.cmdline) for row in found.processes] == [
        (4239, "root", "R", "VLLM::EngineCor", None),
        (4102, None, "S", "python3", None),
        (4300, "root", "Z", "python3", None),
    ]
    assert [(row.source, row.complete) for row in found.coverage] == [("process table", False)]


def test_top_with_command_lines_may_be_cut() -> None:
    text = TOP.replace("VLLM::EngineCor", "python3 -m vllm.entrypoints.openai.api_s+")
    row = parsed(text, "top -c").processes[0]
    assert (row.comm, row.cmdline, row.cmdline_cut) == (None, "python3 -m vllm.entrypoints.openai.api_s+", True)


def test_a_list_of_threads_is_no_list_of_processes() -> None:
    found = parsed(TOP, "top -H -b -n 1")
    assert found.processes == ()
    assert [row.outcome for row in found.coverage] == ["not_understood"]


def test_htop_shows_threads_as_rows() -> None:
    found = parsed(
        "  PID USER      PRI  NI  VIRT   RES   SHR S CPU% MEM%   TIME+  Command\n"
        " 2400 root       20   0 30.5G 1200M  320M S  0.0  0.2  0:44.10 python train.py\n"
        " 2403 root       20   0 30.5G 1200M  320M S  0.0  0.2  0:01.10 ├─ python train.py\n"
        " 2404 root       20   0 30.4G 1100M  320M D  0.0  0.2  0:02.10 └─ python train.py\n"
    )
    assert [(row.pid, row.state, row.cmdline) for row in found.processes] == [
        (2400, "S", "python train.py"),
        (2404, "D", "python train.py"),
    ]


PSTREE = """\
systemd(1)-+-sshd(900)---bash(1001)
           |-python3(4102)-+-VLLM::EngineCor(4239)-+-VLLM::Worker_TP(4301)---{VLLM::Worker_TP}(4310)
           |               |                       `-VLLM::Worker_TP(4302)
           |               `-{python3}(4104)
           `-(sd-pam)(1400)
"""


def test_pstree() -> None:
    found = parsed(PSTREE, "pstree -p")
    assert {row.pid: row.ppid for row in found.processes} == {
        1: None, 900: 1, 1001: 900, 4102: 1, 4239: 4102, 4301: 4239, 4302: 4239, 1400: 1,
    }  # fmt: skip
    assert {row.pid: row.threads for row in found.processes if row.threads} == {4301: 2, 4102: 2}
    assert next(row.comm for row in found.processes if row.pid == 1400) == "(sd-pam)"


def test_pstree_in_box_drawing_characters() -> None:
    text = PSTREE.replace("-+-", "─┬─").replace("---", "───").replace("|-", "├─").replace("`-", "└─").replace("|", "│")
    assert parsed(text, "pstree -p").processes[4].ppid == 4102
    assert {row.pid: row.ppid for row in parsed(text, "pstree -p").processes}[1400] == 1


def test_pstree_with_arguments() -> None:
    found = parsed(
        "python3,4102 -m vllm.entrypoints\n  |-VLLM::EngineCor,4239\n  `-{python3},4104\n", "pstree -pa 4102"
    )
    assert [(row.pid, row.ppid, row.cmdline, row.threads) for row in found.processes] == [
        (4102, None, "python3 -m vllm.entrypoints", 2),
        (4239, 4102, None, None),
    ]


def test_docker_ps() -> None:
    found = parsed(
        "CONTAINER ID   IMAGE                     COMMAND                CREATED       STATUS       PORTS   NAMES\n"
        '5f0c2b7d91aa   vllm/vllm-openai:v0.9.2   "python3 -m vllm.e…"   3 hours ago   Up 3 hours           vllm-a\n',
        "docker ps",
    )
    (row,) = found.containers
    assert (row.id, row.image, row.status, row.name) == (
        "5f0c2b7d91aa",
        "vllm/vllm-openai:v0.9.2",
        "Up 3 hours",
        "vllm-a",
    )
    assert [(row.source, row.complete) for row in found.coverage] == [("containers", True)]


@pytest.mark.parametrize(
    ("command", "line", "expected"),
    [
        (
            "docker ps --format '{{.ID}} {{.Image}} {{.Status}} {{.Names}}'",
            "5f0c2b7d91aa serve:1.4 Up 3 hours serve",
            ("5f0c2b7d91aa", "serve", "serve:1.4", "Up 3 hours", None, None),
        ),
        (
            "docker inspect -f '{{.State.Status}} {{.State.Pid}} {{.HostConfig.RestartPolicy.Name}}' vllm-serve",
            "running 2713345 unless-stopped",
            (None, "vllm-serve", None, "running", 2713345, "unless-stopped"),
        ),
        (
            "podman ps --format '{{.Names}}\\t{{.Status}}'",
            "vllm  Up 9 hours",
            (None, "vllm", None, "Up 9 hours", None, None),
        ),
    ],
)
def test_container_templates(command: str, line: str, expected: tuple[object, ...]) -> None:
    (row,) = parsed(line + "\n", command).containers
    assert (row.id, row.name, row.image, row.status, row.main_pid, row.restart) == expected


def test_docker_top_shows_host_pids_of_one_container() -> None:
    found = parsed(
        "UID                 PID                 PPID                C                   STIME               TTY"
        "                 TIME                CMD\n"
        "root                2713345             2713320             0                   09:12               ?"
        "                   00:00:11            python3 -m vllm.entrypoints.openai.api_server\n",
        "docker top vllm-serve",
    )
    (row,) = found.processes
    assert (row.pid, row.ppid, row.cmdline) == (2713345, 2713320, "python3 -m vllm.entrypoints.openai.api_server")
    assert [(box.name, box.pids) for box in found.containers] == [("vllm-serve", (2713345,))]
    assert [(row.source, row.complete) for row in found.coverage] == [("process table", False)]


def test_pods() -> None:
    found = parsed(
        "NAMESPACE   NAME                     READY   STATUS             RESTARTS      AGE   IP           NODE\n"
        "serving     vllm-0                   1/1     Running            3 (5m ago)    2d    10.0.3.17    gpu-7\n"
        "serving     vllm-1                   0/1     CrashLoopBackOff   12            2d    <none>       <none>\n",
        "kubectl get pods -A -o wide",
    )
    assert [(row.namespace, row.name, row.status, row.restarts, row.node) for row in found.pods] == [
        ("serving", "vllm-0", "Running", 3, "gpu-7"),
        ("serving", "vllm-1", "CrashLoopBackOff", 12, None),
    ]


def test_jobs() -> None:
    found = parsed(
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        "              5512       gpu    serve     user  R      41:31      1 gpu-node-4\n"
        "           5513_[1-4]     gpu    sweep     user PD       0:00      1 (Resources)\n",
        "squeue -u user",
    )
    assert [(row.id, row.state, row.nodes) for row in found.jobs] == [
        ("5512", "R", "gpu-node-4"),
        ("5513_[1-4]", "PD", "(Resources)"),
    ]


STATUS = """\
● ollama.service - Ollama Service
     Loaded: loaded (/etc/systemd/system/ollama.service; enabled; preset: enabled)
     Active: active (running) since Thu 2025-12-04 09:40:15 CET; 1min ago
   Main PID: 1342366 (ollama)
      Tasks: 41 (limit: 154123)
     CGroup: /system.slice/ollama.service
             ├─1342366 /usr/local/bin/ollama serve
             └─1342391 /usr/local/bin/ollama runner --model /usr/share/ollama/.ollama/models/blobs/sha256-4c27…
"""


def test_unit_status() -> None:
    found = parsed(STATUS, "systemctl status ollama")
    (unit,) = found.units
    assert (unit.name, unit.active, unit.sub, unit.main_pid) == ("ollama.service", "active", "running", 1342366)
    assert unit.pids == (1342366, 1342391)
    assert [(row.pid, row.cgroup, row.cmdline_cut) for row in found.processes] == [
        (1342366, "/system.slice/ollama.service", False),
        (1342391, "/system.slice/ollama.service", True),
    ]


def test_unit_properties_and_states() -> None:
    found = parsed("Restart=always\nMainPID=1342366\n", "systemctl show -p Restart -p MainPID ollama")
    assert [(row.name, row.restart, row.main_pid) for row in found.units] == [("ollama", "always", 1342366)]
    found = parsed("inactive\nactive\n", "systemctl is-active vllm-a vllm-b")
    assert [(row.name, row.active) for row in found.units] == [("vllm-a", "inactive"), ("vllm-b", "active")]


LSOF = """\
COMMAND       PID   USER   FD   TYPE   DEVICE SIZE/OFF  NODE NAME
Xorg         1406   root  mem    CHR    195,0            512 /dev/nvidia0
Xorg         1406   root   12u   CHR    195,0      0t0   512 /dev/nvidia0
python3     14763  user1  mem    CHR    195,0            512 /dev/nvidia0
python3     14763  user1   31u   CHR  195,255      0t0   510 /dev/nvidiactl
VLLM::Eng   14764   1002   31u   CHR  195,255      0t0   510 /dev/nvidiactl
"""


def test_lsof() -> None:
    found = parsed(LSOF, "sudo lsof /dev/nvidia*")
    assert [(row.pid, row.path, row.how) for row in found.handles] == [
        (1406, "/dev/nvidia0", "map"),
        (1406, "/dev/nvidia0", "fd"),
        (14763, "/dev/nvidia0", "map"),
        (14763, "/dev/nvidiactl", "fd"),
        (14764, "/dev/nvidiactl", "fd"),
    ]
    assert [(row.pid, row.user, row.uid, row.comm, row.comm_cut) for row in found.processes] == [
        (1406, "root", 0, "Xorg", False),
        (14763, "user1", None, "python3", False),
        (14764, None, 1002, "VLLM::Eng", True),
    ]
    assert [(row.source, row.complete, row.as_root) for row in found.coverage] == [("open handles", True, True)]


def test_lsof_terse_and_silent() -> None:
    found = parsed("14763\n14764\n", "lsof -t /dev/nvidia0")
    assert [(row.pid, row.path, row.how) for row in found.handles] == [
        (14763, "/dev/nvidia0", "open"),
        (14764, "/dev/nvidia0", "open"),
    ]
    assert [(row.source, row.outcome) for row in parsed("", "lsof /dev/nvidia*").coverage] == [("open handles", "ok")]


def test_listening_ports() -> None:
    found = parsed(
        "State   Recv-Q  Send-Q   Local Address:Port    Peer Address:Port  Process\n"
        "LISTEN  0       2048           0.0.0.0:8000         0.0.0.0:*      "
        'users:(("python3",pid=884,fd=27),("python3",pid=886,fd=27))\n'
        "LISTEN  0       128               [::]:22              [::]:*\n",
        "ss -ltnp",
    )
    assert [(row.address, row.port, row.pids, row.comm) for row in found.listeners] == [
        ("0.0.0.0", 8000, (884, 886), "python3"),
        ("[::]", 22, (), None),
    ]
    text = "tcp        0      0 127.0.0.1:8000          0.0.0.0:*               LISTEN      884/python3\n"
    assert [(row.port, row.pids) for row in parsed(text, "netstat -ltnp").listeners] == [(8000, (884,))]


STACK = """\
[<0>] uvm_spin_loop+0xb4/0x100 [nvidia_uvm]
[<0>] uvm_ioctl+0x10ba/0x1990 [nvidia_uvm]
[<0>] __x64_sys_ioctl+0x92/0xd0
"""


def test_proc_by_hand() -> None:
    found = parsed(STACK, "sudo cat /proc/77637/stack")
    (stack,) = found.stacks
    assert stack.pid == 77637
    assert stack.frames == ("uvm_spin_loop [nvidia_uvm]", "uvm_ioctl [nvidia_uvm]", "__x64_sys_ioctl")
    assert [(row.pid, row.wchan) for row in found.processes] == [(77637, "uvm_spin_loop")]
    status = "State:\tR (running)\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000100\n"
    (row,) = parsed(status, "grep -e State -e Pnd /proc/77637/status").processes
    assert (row.pid, row.state, row.sig_pending, row.text_from) == (77637, "R", 0x100, "ps")
    whole = "Name:\tVLLM::EngineCor\nState:\tD (disk sleep)\nTgid:\t7\nPid:\t7\nPPid:\t1\nThreads:\t12\n"
    (row,) = parsed(whole, None).processes
    assert (row.pid, row.ppid, row.state, row.threads, row.comm) == (7, 1, "D", 12, "VLLM::EngineCor")
    assert parsed("futex_wait_queue", "cat /proc/7/wchan").processes[0].wchan == "futex_wait_queue"
    assert parsed("0", "cat /proc/7/wchan").processes[0].wchan is None


def test_descriptors_listed_by_hand() -> None:
    text = (
        "total 0\n"
        "lrwx------ 1 root root 64 Feb 20 19:00 31 -> /dev/nvidiactl\n"
        "lrwx------ 1 root root 64 Feb 20 19:00 32 -> /dev/nvidia0\n"
        "lrwx------ 1 root root 64 Feb 20 19:00 33 -> /dev/nvidia0\n"
        "lrwx------ 1 root root 64 Feb 20 19:00 34 -> 'socket:[81]'\n"
    )
    found = parsed(text, "ls -l /proc/4239/fd")
    assert [(row.pid, row.path) for row in found.handles] == [(4239, "/dev/nvidiactl"), (4239, "/dev/nvidia0")]
    assert parsed(text, "ls -l").handles == ()


def test_a_command_line_whose_arguments_ran_together_is_not_guessed() -> None:
    assert parsed("python3-mvllm.entrypoints", "cat /proc/7/cmdline").processes == ()
    shown = parsed("python3 -m vllm.entrypoints ", "tr '\\0' ' ' < /proc/7/cmdline")
    assert shown.processes == ()
    shown = parsed("python3 -m vllm.entrypoints ", "cat /proc/7/cmdline | tr '\\0' ' '")
    assert [(row.pid, row.cmdline) for row in shown.processes] == [(7, "python3 -m vllm.entrypoints")]


def test_driver_version_files() -> None:
    text = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs@build)\n"
        "GCC version:  gcc\n"
    )
    found = parsed(text, "cat /proc/driver/nvidia/version")
    assert [(row.name, row.value) for row in found.facts] == [("driver_version", "580.159.04")]
    assert found.coverage == ()
    found = parsed("595.71.05\n", "cat /sys/module/nvidia/version")
    assert [row.value for row in found.facts] == ["595.71.05"]


def test_csv_goes_on_behind_an_error_line() -> None:
    error = "Unable to determine the device handle for GPU1: 0000:41:00.0: Unknown Error"
    command = "nvidia-smi --query-gpu=index,memory.used --format=csv"
    for text, shown in (
        (f"index, memory.used [MiB]\n0, 10 MiB\n{error}\n2, 30 MiB\n", command),
        (f"0, 10 MiB\n{error}\n2, 30 MiB\n", command + ",noheader"),
    ):
        found = parsed(text, shown)
        assert [(row.gpu.index, row.used_mib) for row in found.samples] == [(0, 10.0), (2, 30.0)]
        assert [(row.source, row.complete) for row in found.coverage] == [("gpu memory", False)]
        assert [row.reason for row in found.damage] == [error]


@pytest.mark.parametrize(
    "line",
    [
        "No devices were found",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126",
        "Unable to determine the device handle for GPU 0000:41:00.0: Unknown Error",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ],
)
def test_a_failing_nvidia_smi_is_absent_evidence(line: str) -> None:
    found = parsed(line + "\n", "nvidia-smi --query-gpu=index,memory.used --format=csv,noheader")
    assert [(row.source, row.outcome) for row in found.coverage] == [("gpu memory", "absent")]
    assert found.samples == ()


WRAPPED = """\
    PID    PPID STAT COMMAND
   4102    4077 Sl   python3 -m vllm.entrypoints.openai.api_server --model /models/policy --por
8000 --tensor-parallel-size 8 --gpu-memory-utilization 0.95
   4239    4102 Sl   VLLM::EngineCore
"""


def test_rows_that_a_terminal_wrapped() -> None:
    found = parsed(WRAPPED, "ps -eo pid,ppid,stat,args")
    assert [(row.pid, row.cmdline_cut) for row in found.processes] == [(4102, True), (4239, False)]


def test_a_number_at_the_start_of_a_wrapped_line_is_no_pid() -> None:
    text = (
        "    PID COMMAND\n"
        "   4102 python3 -m vllm.entrypoints.openai.api_server --model /models/policy --port\n"
        "8000 --seed 1\n"
        "   4239 VLLM::EngineCore\n"
    )
    assert [row.pid for row in parsed(text, "ps -eo pid,args").processes] == [4102, 4239]


def test_threads_are_counted_for_their_process() -> None:
    text = (
        "    PID     TID STAT COMMAND\n"
        " 624410  624410 Zl   python3 <defunct>\n"
        " 624410  624433 Sl   python3\n"
        " 624410  624434 Sl   python3\n"
    )
    # The leader counts although it is a zombie.
    (row,) = parsed(text, "ps -L -o pid,tid,stat,comm -p 624410").processes
    assert (row.pid, row.state, row.threads, row.sleeping_threads) == (624410, "Z", 3, 2)


def test_threads_that_are_on_their_way_out_do_not_sleep() -> None:
    text = (
        "    PID     TID S COMMAND\n  52000   52000 Z python3\n  52000   52011 D python3\n  52000   52012 Z python3\n"
    )
    (row,) = parsed(text, "ps -L -o pid,tid,s,comm -p 52000").processes
    assert (row.threads, row.sleeping_threads) == (3, 0)


def test_threads_in_full_format_without_a_heading() -> None:
    text = (
        "root        4239    4102    4239  0    2 09:12 ?        00:00:11 VLLM::EngineCore\n"
        "root        4239    4102    4240  0    2 09:12 ?        00:00:11 VLLM::EngineCore\n"
    )
    found = parsed(text, "ps -eLf | grep VLLM")
    assert [(row.pid, row.ppid, row.cmdline, row.threads) for row in found.processes] == [
        (4239, 4102, "VLLM::EngineCore", 2)
    ]


def test_jobs_format_of_ps() -> None:
    text = (
        "   PPID     PID    PGID     SID TTY        TPGID STAT   UID   TIME COMMAND\n"
        "      1    4102    4102    4077 ?             -1 Sl       0   0:44 python3 -m vllm.entrypoints\n"
        "   4102    4239    4102    4077 ?             -1 Rl       0  71:04  \\_ VLLM::EngineCore\n"
    )
    found = parsed(text, "ps axjf")
    assert [(row.pid, row.ppid, row.pgid, row.sid, row.cmdline) for row in found.processes] == [
        (4102, 1, 4102, 4077, "python3 -m vllm.entrypoints"),
        (4239, 4102, 4102, 4077, "VLLM::EngineCore"),
    ]


def test_what_is_not_known_is_counted_and_named() -> None:
    found = parsed(
        "5331 MiB\nsome words\nmore words\nKilled\n", "nvidia-smi --query-gpu=memory.used --format=csv,noheader; x"
    )
    left = [row for row in found.coverage if row.source == "text"]
    assert [(row.outcome, row.because) for row in left] == [
        ("not_understood", "after/output.txt from line 4: 2 lines that no parser knows, printed by nvidia-smi or x")
    ]
    assert left[0].cited is not None
    assert left[0].cited.quote == "some words"


@pytest.mark.parametrize("mark", ["...", "[...]", "<snip>", "…"])
def test_a_table_with_lines_left_out_is_read_on_and_not_complete(mark: str) -> None:
    text = f"    PID    PPID STAT COMMAND\n      1       0 Ss   init\n{mark}\n   4239       1 Sl   VLLM::EngineCore\n"
    found = parsed(text, "ps -eo pid,ppid,stat,args")
    assert [(row.pid, row.cmdline_cut) for row in found.processes] == [(1, False), (4239, False)]
    assert [(row.source, row.complete) for row in found.coverage] == [("process table", False)]
    text = f"index, memory.used [MiB]\n0, 10 MiB\n{mark}\n7, 10 MiB\n"
    found = parsed(text, "nvidia-smi --query-gpu=index,memory.used --format=csv")
    assert [row.gpu.index for row in found.samples] == [0, 7]
    assert [(row.source, row.complete) for row in found.coverage] == [("gpu memory", False)]
    assert found.damage == ()


def test_a_template_of_one_word_takes_nobody_else_s_lines() -> None:
    found = parsed("vllm\n4711\n", "docker ps --format '{{.Names}}'; pgrep -x x")
    assert found.containers == ()
    assert [row.pid for row in found.processes] == [4711]
    found = parsed("vllm\n", "sleep 9; docker ps --format '{{.Names}}'")
    assert [row.name for row in found.containers] == ["vllm"]
