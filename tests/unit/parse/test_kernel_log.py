"""Kernel messages in the forms in which dmesg, the journal and syslog print them."""

from __future__ import annotations

import pytest

from gpudiag.model import KernelEvent
from gpudiag.parse import Parsed
from tests.unit.parse.exhibits import parsed

XID = "NVRM: Xid (PCI:0000:41:00): 45, pid=1234, name=python, Ch 00000008"


def kernel(text: str, command: str | None = "dmesg", member: str = "after/dmesg.txt") -> tuple[KernelEvent, ...]:
    return parsed(text, command, member=member).kernel_events


@pytest.mark.parametrize(
    ("front", "boot_s", "stamp"),
    [
        ("[  123.456789] ", 123.456789, None),
        ("<6>[  123.456789] ", 123.456789, None),
        ("kern  :info  : [  123.456789] ", 123.456789, None),
        ("[Mon Nov 30 11:00:06 2026] ", None, "Mon Nov 30 11:00:06 2026"),
        ("2026-11-30T11:00:06,123456+00:00 ", None, "2026-11-30T11:00:06,123456+00:00"),
        ("[Nov30 11:00] ", None, "Nov30 11:00"),
        ("[  +0.000049] ", None, None),
        ("Nov 30 11:00:06 gpu-3 kernel: ", None, "Nov 30 11:00:06"),
        ("Nov 30 11:00:06.123456 gpu-3 kernel: ", None, "Nov 30 11:00:06.123456"),
        ("2026-11-30T11:00:06+0000 gpu-3 kernel: ", None, "2026-11-30T11:00:06+0000"),
        ("Nov 30 11:00:06 gpu-3 kernel: [  123.456789] ", 123.456789, "Nov 30 11:00:06"),
        ("", None, None),
    ],
)
@pytest.mark.parametrize("member", ["after/dmesg.txt", "kern.log"])
def test_forms_of_time(front: str, boot_s: float | None, stamp: str | None, member: str) -> None:
    command = None if member == "kern.log" else "dmesg"
    (event,) = kernel(f"{front}{XID}\n", command, member)
    assert (event.boot_s, event.stamp) == (boot_s, stamp)
    assert (event.kind, event.xid, event.bus_id, event.pid, event.comm) == (
        "xid",
        45,
        "00000000:41:00.0",
        1234,
        "python",
    )
    assert event.text == XID
    assert (event.time_ns is None) == (stamp is None)
    zoned = stamp is not None and "+0000" in stamp.replace(":", "").replace(",123456", "")
    assert (event.time_error_ns < 2 * 10**9) == (zoned or stamp is None)


@pytest.mark.parametrize(
    ("text", "kind", "xid", "bus", "pid", "comm"),
    [
        (
            "NVRM: Xid (PCI:0000:3b:00): 119, pid='<unknown>', name=<unknown>, Timeout waiting for RPC from GSP!",
            "xid",
            119,
            "00000000:3b:00.0",
            None,
            None,
        ),
        ("NVRM: Xid (PCI:0000:01:00): 31, Ch 00000003, engmask 00000101", "xid", 31, "00000000:01:00.0", None, None),
        ("NVRM: Xid (0000:03:00): 8, Channel 00000020", "xid", 8, "00000000:03:00.0", None, None),
        (
            "NVRM: Xid (PCI:0000:41:00 GPU-I:05): 43, pid=9, name=a b, Ch 0000000a",
            "xid",
            43,
            "00000000:41:00.0",
            9,
            "a b",
        ),
        ("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", "xid", 79, "00000000:41:00.0", None, None),
        ("NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.", "off_bus", None, "00000000:41:00.0", None, None),
        (
            "Out of memory: Killed process 7899 (python) total-vm:26184840kB, anon-rss:1kB",
            "oom",
            None,
            None,
            7899,
            "python",
        ),
        (
            "Out of memory: Kill process 12 (VLLM::Worker_TP) score 9 or sacrifice child",
            "oom",
            None,
            None,
            12,
            "VLLM::Worker_TP",
        ),
        ("Memory cgroup out of memory: Killed process 6 (uwsgi) total-vm:1kB", "cgroup_oom", None, None, 6, "uwsgi"),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,task_memcg=/a,task=python,pid=7,uid=0",
            "cgroup_oom",
            None,
            None,
            7,
            "python",
        ),
        ("INFO: task a:b c:15277 blocked for more than 120 seconds.", "hung_task", None, None, 15277, "a:b c"),
        ("python3[88]: segfault at 0 ip 00007f sp 00007f error 4 in libc.so", "segfault", None, None, 88, "python3"),
        ("traps: python3[88] general protection fault ip:7f sp:7f error:0", "segfault", None, None, 88, "python3"),
        ("NVRM: _kgspLogXid119: ********** GSP Timeout **********", "gsp", None, None, None, None),
        ("nvidia-uvm: Loaded the UVM driver, major device number 511.", "uvm", None, None, None, None),
        ("NVRM: The NVIDIA probe routine failed for 1 device(s).", "nvrm", None, None, None, None),
    ],
)
def test_kinds(text: str, kind: str, xid: int | None, bus: str | None, pid: int | None, comm: str | None) -> None:
    (event,) = kernel(f"[    1.000000] {text}\n")
    assert (event.kind, event.xid, event.bus_id, event.pid, event.comm) == (kind, xid, bus, pid, comm)


def test_a_message_of_several_lines_keeps_its_gpu_and_time() -> None:
    found = kernel(
        "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "               NVRM: fallen off the bus and is not responding to commands.\n"
        "[ 1843.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
    )
    assert [(event.kind, event.bus_id, event.boot_s) for event in found] == [
        ("nvrm", "00000000:b3:00.0", 1843.308145),
        ("nvrm", "00000000:b3:00.0", 1843.308145),
        ("off_bus", "00000000:b3:00.0", 1843.308145),
        ("nvrm", None, 1843.439662),
    ]


def session() -> Parsed:
    return parsed(
        f"Nov 30 11:00:06 gpu-3 kernel: {XID}\n"
        "root         884       1  0 10:00 ?        00:00:01 grep NVRM: Xid (PCI:0000:41:00): 45,\n",
        "journalctl -k | grep Xid; ps -ef | grep NVRM",
    )


def test_a_session_shows_kernel_lines_and_a_process_row_is_not_one() -> None:
    found = session()
    assert [(event.kind, event.cited.line) for event in found.kernel_events] == [("xid", 3)]
    assert [row.pid for row in found.processes] == [884]


def test_a_kernel_log_is_covered_as_one() -> None:
    found = parsed(f"Nov 30 11:00:06 gpu-3 kernel: {XID}\n", member="kern.log")
    assert [row.source for row in found.coverage] == ["kernel log"]


@pytest.mark.parametrize("text", ["NVRM version: NVIDIA UNIX x86_64", "task blocked", "memory: Killed"])
def test_other_lines_say_nothing(text: str) -> None:
    assert kernel(f"[    1.000000] {text}\n") == ()


MINUTE = 1_796_036_400_000_000_000
"""2026-11-30 11:00 UTC."""
RELATIVE = f"""[  +0.500000] {XID}
[Nov30 11:00] usb 1-1: new device
[  +2.000000] {XID}
[  +0.250000] usb 1-1: gone
[  +0.000049] {XID}
[Nov30 11:05] {XID}
[ +30.000000] usb 1-1: new device
[ +20.000000] {XID}
[ +20.000000] {XID}
"""


@pytest.mark.parametrize(("command", "member"), [("dmesg -H", "after/dmesg.txt"), (None, "kern.log")])
def test_seconds_since_the_line_before_count_from_the_last_minute(command: str | None, member: str) -> None:
    found = parsed(RELATIVE, command, member=member).kernel_events
    assert [None if event.time_ns is None else (event.time_ns - MINUTE) / 1e9 for event in found] == [
        None, pytest.approx(2), pytest.approx(2.250049), 300, 350, None,
    ]  # fmt: skip
    assert [event.time_error_ns // 10**9 for event in found if event.stamp and "+" in event.stamp] == [
        14 * 3600 + 60
    ] * 3


@pytest.mark.parametrize(
    "text",
    [
        f"[Nov30 11:00] {XID}\n[  +0.500000] {XID}\n",  # picked out by somebody: the lines between are gone
        f"[Nov30 11:00] x\n[...]\n[  +0.500000] {XID}\n",
        f"[Nov30 11:00] x\n[  123.456789] x\n[  +0.500000] {XID}\n",
        f"[  +0.100000] x\n[  +0.500000] {XID}\n",
    ],
)
@pytest.mark.parametrize("member", ["after/dmesg.txt", "kern.log"])
def test_seconds_since_a_line_that_is_not_there_are_no_time(text: str, member: str) -> None:
    found = parsed(text, None, member=member).kernel_events
    assert (found[-1].time_ns, found[-1].stamp) == (None, None)


HUNG = """[ 7200.000100] INFO: task worker:620917 blocked for more than 120 seconds.
[ 7200.000110]       Tainted: P           OE     5.15.0-97-generic #107-Ubuntu
[ 7200.000120] task:worker          state:D stack:    0 pid:620917 ppid:620571 flags:0x00000002
[ 7200.000130] Call Trace:
[ 7200.000140]  <TASK>
[ 7200.000150]  __schedule+0x24e/0x590
[ 7200.000160]  ? os_release_spinlock+0x5/0x50 [nvidia]
[ 7200.000170]  os_acquire_rwlock_read+0x35/0x50 [nvidia]
[ 7200.000180]  _nv042330rm+0x10/0x40 [nvidia]
"""


def test_where_in_the_driver_a_hung_task_is() -> None:
    """The innermost frame of the driver; one with a question mark is a leftover on the stack."""
    hung, frame = kernel(HUNG)
    assert (hung.kind, frame.kind) == ("hung_task", "driver_frame")
    assert (frame.pid, frame.comm) == (620917, "worker")
    assert frame.text == "os_acquire_rwlock_read+0x35/0x50 [nvidia]"


@pytest.mark.parametrize(
    "text",
    [
        "[ 7200.000170]  os_acquire_rwlock_read+0x35/0x50 [nvidia]\n",
        HUNG.split("[ 7200.000150]")[0] + "[ 7290.000170]  os_acquire_rwlock_read+0x35/0x50 [nvidia]\n",
        HUNG.split("[ 7200.000150]")[0] + "[ 7200.000150]  nfs_wait_bit_killable+0x21/0xb0 [nfs]\n",
    ],
    ids=["nobody's", "of a later trace", "another module"],
)
def test_a_frame_that_is_not_of_a_hung_task_in_the_driver_tells_nothing(text: str) -> None:
    assert not [event for event in kernel(text) if event.kind == "driver_frame"]
