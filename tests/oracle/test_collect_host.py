"""``gpudiag collect --host`` over a real sshd, and the collector as one file, with the Pythons that there are."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpudiag.bundle.reader import Contents, read_contents
from gpudiag.collect.far import MARK, Request
from gpudiag.collect.identity import NOBODY
from gpudiag.collect.zipped import LOADER, far_program
from tests.ssh_kit import Network, descendants, free_port, missing

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "tests/fixtures/h200/selfmatch-orphans/after"
CALL = [sys.executable, "-m", "gpudiag.collect"]
SYSTEM = "/usr/bin:/bin:/usr/sbin:/sbin"

needs_no_gpu = pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU: codes would differ")
pytestmark = needs_no_gpu


@pytest.fixture
def network() -> Iterator[Network]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))  # beside /tmp, in whose place some tests put another one
    made = Network(folder)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder)


def interpreter(version: str) -> str:
    """The program itself, where a launcher stands in PATH."""
    if version == "this":
        return str(Path(sys.executable).resolve())
    program, asked = shutil.which(f"python{version}"), {**os.environ, "PYENV_VERSION": version}
    if program is None:
        pytest.skip(f"no Python {version} on this machine: what a far machine may run was not tried")
    done = subprocess.run(
        [program, "-c", "import sys; print(sys.executable)"], env=asked, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no Python {version} on this machine: what a far machine may run was not tried")
    return done.stdout.strip()


def path_with(network: Network, version: str, *folders: Path) -> str:
    """A PATH in which ``python3`` is this version."""
    folder = network.folder / f"python-{version}"
    if not folder.exists():
        folder.mkdir()
        (folder / "python3").symlink_to(interpreter(version))
    return ":".join([*map(str, folders), str(folder), SYSTEM])


def environment(network: Network) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{network.programs}:{os.environ['PATH']}"}


def collect(
    network: Network, cwd: Path, *words: str, call: Sequence[str] = tuple(CALL)
) -> subprocess.CompletedProcess[str]:
    # Without a terminal of its own nothing can ask for a password.
    return subprocess.run(
        [*call, *words],
        cwd=cwd,
        env=environment(network),
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )


def explained(*inputs: Path) -> tuple[int, dict[str, Any]]:
    words = ["explain", "--format", "json", *map(str, inputs)]
    command = [sys.executable, "-c", "from gpudiag.cli import main; main()", *words]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout)


def whole(bundle: Path) -> Contents:
    contents = read_contents(bundle)
    assert contents.flaws == ()
    assert contents.end is not None
    assert contents.start is not None
    return contents


def outcomes(contents: Contents) -> dict[str, str]:
    return {outcome.member: outcome.outcome for _, outcome in contents.outcomes}


def program(network: Network, name: str, text: str) -> Path:
    folder = network.folder / "stubs"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder


def wait_until(true: Callable[[], object], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def seen_one_look(folder: Path) -> bool:
    """A part of a bundle lies there, with the processes of its first look."""
    return any("look-01/proc.json" in outcomes(read_contents(part)) for part in folder.glob("*.partial"))


@contextmanager
def started(network: Network, cwd: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(
        [*CALL, *words],
        cwd=cwd,
        env=environment(network),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with running:
        try:
            yield running
        finally:
            running.kill()


def can_unshare(*words: str) -> tuple[str, ...]:
    command = ["unshare", *words]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip(f"no right to {' '.join(command)}")
    return tuple(command)


@pytest.mark.parametrize("version", ["this", "3.9"])
def test_bundle_of_a_far_host(network: Network, tmp_path: Path, version: str) -> None:
    server = network.serve("far", path_with(network, version))
    words = ["--kill", "pkill -9 -f 'it''s $HOME'; true", "--duration", "0.5"]
    done = collect(network, tmp_path, "--host", "far", *words)
    assert done.returncode == 4, done.stderr
    assert done.stdout == ""
    (bundle,) = tmp_path.iterdir()
    assert re.fullmatch(r"gpudiag-far-\d{8}T\d{6}Z\.tgz", bundle.name)
    assert bundle.stat().st_mode & 0o777 == 0o600
    told = done.stderr.splitlines()
    assert "gpudiag: far: look-2" in told
    assert re.match(r"gpudiag: far  written +\d+\.\d s  no GPU source answered in gpudiag-far-", told[-2])
    assert told[-1] == f"gpudiag: next: gpudiag explain {bundle.name}"
    contents = whole(bundle)
    texts = {member.name: member.data.decode() for member in contents.members}
    stated = json.loads(texts["kill-commands.json"])[-1]
    assert stated["cmd"] == words[1]
    assert contents.start is not None
    assert contents.start.looks == ("look-1", "look-2")
    assert server in contents.start.pids
    there = subprocess.run(
        ["ssh", "far", "python3 -V"], env=environment(network), capture_output=True, text=True, check=True
    )
    expected = "3.9" if version == "3.9" else f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert there.stdout.startswith(f"Python {expected}.")
    code, report = explained(bundle)
    assert code == 11
    assert [host["name"] for host in report["hosts"]] == [os.uname().nodename]
    assert report["inputs"][0]["complete"]


def test_table_says_what_holds_memory_where(network: Network, tmp_path: Path) -> None:
    fake = (
        f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\nwords = ' '.join(sys.argv)\n"
        "name = ('q.xml' if '-x' in words else 'query-apps.csv' if 'compute-apps' in words\n"
        "        else 'query-gpu.csv' if 'query-gpu' in words else 'nvidia-smi.txt')\n"
        f"print(''.join(Path({str(CAPTURE)!r}, name).read_text().splitlines(keepends=True)[2:]), end='')\n"
    )
    network.serve("with-gpu", path_with(network, "this", program(network, "nvidia-smi", fake)))
    network.serve("without", path_with(network, "this"))
    done = collect(network, tmp_path, "--host", "without", "--host", "with-gpu", "--quick")
    assert done.returncode == 0, done.stderr
    without, with_gpu, _ = done.stderr.splitlines()[-3:]
    assert re.match(r"gpudiag: without   written .* no GPU source answered in gpudiag-without-", without)
    assert re.match(r"gpudiag: with-gpu  written .* used: GPU 0 77459 MiB; booked: .* in gpudiag-with-gpu-", with_gpu)
    (bundle,) = tmp_path.glob("gpudiag-with-gpu-*.tgz")
    assert [gpu["used_mib"] for gpu in explained(bundle)[1]["gpus"]] == [77459]


def test_connection_on_one_machine_is_the_tools_own(network: Network, tmp_path: Path) -> None:
    network.serve("far", path_with(network, "this"))
    with started(network, tmp_path, "--host", "far", "--quick", "--kill", "pkill -9 -f vllm.entrypoints") as running:
        _, told = running.communicate(timeout=60)
    assert running.returncode == 4, told
    (bundle,) = tmp_path.iterdir()
    contents = whole(bundle)
    assert contents.start is not None
    # The near side's command line has the pattern in it, and the near side is on the far machine.
    assert running.pid in contents.start.pids
    table = next(member.data for member in contents.members if member.name == "look-1/ps-tree.txt").decode()
    client = [int(line.split()[0]) for line in table.splitlines() if "BatchMode=yes" in line]
    assert client
    assert set(client) & set(contents.start.pids)
    _, report = explained(bundle)
    assert [action["text"] for action in report["actions"]][-1:] == ["pkill -9 -f vllm.entrypoints"]
    hit = [pid for action in report["actions"] for step in action["steps"] for pid in step["hit"] + step["missed"]]
    assert not {running.pid, *client} & set(hit)
    assert not {running.pid, *client} & {row["pid"] for row in report["processes"] if row["family"] is not None}


def test_hosts_that_are_down_cost_the_others_nothing(network: Network, tmp_path: Path) -> None:
    network.serve("far", path_with(network, "this"))
    network.host("down", port=free_port())
    network.host("hole", address="192.0.2.1")
    names = [word for name in ("hole", "down", "mute", "far") for word in ("--host", name)]
    begun = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections and never says a word
        network.host("mute", port=silent.getsockname()[1])
        with started(network, tmp_path, *names, "--quick") as running:
            wait_until(lambda: list(tmp_path.glob("gpudiag-far-*.tgz")))
            assert running.poll() is None  # the others are still waited for
            _, told = running.communicate(timeout=60)
    assert running.returncode == 5, told
    assert time.monotonic() - begun < 40
    hole, down, mute, far, following = told.splitlines()[-5:]
    assert re.match(r"gpudiag: hole  failed  ", hole)
    assert re.match(r"gpudiag: down  failed  .*Connection refused", down)
    assert re.match(r"gpudiag: mute  failed +1\d\.\d s  .*timed out", mute)
    assert re.match(r"gpudiag: far   written ", far)
    assert following.startswith("gpudiag: next: gpudiag explain gpudiag-far-")
    (bundle,) = tmp_path.iterdir()
    whole(bundle)


def test_nvidia_smi_that_hangs_costs_its_deadline(network: Network, tmp_path: Path) -> None:
    # It leaves its group, so that it survives what ends it, and holds what it has inherited.
    text = f"#!{sys.executable}\nimport os, time\nos.setsid() if os.fork() == 0 else 0\ntime.sleep(30)\n"
    stubs = program(network, "nvidia-smi", text)
    server = network.serve("far", path_with(network, "this", stubs))
    begun = time.monotonic()
    done = collect(network, tmp_path, "--host", "far", "--quick")
    took = time.monotonic() - begun
    assert done.returncode == 4, done.stderr
    assert 10 < took < 25  # and the one that was left sleeps for 30
    (bundle,) = tmp_path.iterdir()
    assert outcomes(whole(bundle))["look-1/q.xml"] == "timed_out"
    left = [path for path in Path("/proc").iterdir() if path.name.isdigit() and str(stubs) in _cmdline(path)]
    for path in left:
        os.kill(int(path.name), signal.SIGKILL)
    assert left, "nothing was abandoned: the test shows nothing"
    assert descendants(server) == []


def test_nothing_is_left_behind(network: Network, tmp_path: Path) -> None:
    # A machine on which nothing can be written, but for its folders of temporary files.
    prefix = can_unshare("--mount", "--propagation", "private")
    script = 'mount -t tmpfs none /tmp && mount -o remount,bind,ro / && ! touch /root/x 2>/dev/null && exec "$@"'
    if subprocess.run([*prefix, "sh", "-c", script, "sh", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount: what is left behind was not looked for")
    network.serve("far", path_with(network, "3.9"), prefix=(*prefix, "sh", "-c", script, "sh"))
    client = environment(network)

    def there(command: str) -> str:
        ssh = ["ssh", "far", command]
        return subprocess.run(ssh, env=client, capture_output=True, text=True, check=True).stdout

    listing = "ls -alR --time-style=full-iso /tmp /dev/shm | grep -v '^total'"
    before = there(listing)
    done = collect(network, tmp_path, "--host", "far", "--duration", "0.5")
    assert done.returncode == 4, done.stderr
    whole(next(tmp_path.iterdir()))
    assert there("touch /x 2>&1 || true").endswith("Read-only file system\n")
    assert _without_others(there(listing)) == _without_others(before)
    assert there("ls -A /tmp") == ""


def _without_others(listing: str) -> list[str]:
    """Other programs of this machine have shared memory of their own."""
    return [line for line in listing.splitlines() if "gpudiag" in line or "tmp" in line]


def answer(command: list[str], cwd: Path, request: Request) -> tuple[int, bytes, bytes]:
    """What a far side without an ssh in front of it gives: exit code, output, words."""
    with subprocess.Popen(
        command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdin.write(far_program([request.to_json()]))
        running.stdin.flush()  # and it stays open: its end is that of the connection
        data, told = running.stdout.read(), running.stderr.read()
    return running.returncode, data, told


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "zsh", "fish", "tcsh", "csh", "ksh"])
def test_command_line_is_read_alike_by_every_login_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: how it reads the command line was not tried")
    command = [shell, "-c", f"{sys.executable} -I -c '{LOADER}'"]
    code, data, told = answer(command, tmp_path, Request(("--quick",), NOBODY, 60, "x"))
    assert code == 0, told
    bundle = tmp_path / "x.tgz"
    bundle.write_bytes(data.partition(MARK)[2])
    whole(bundle)


def test_ordinary_user_is_told_what_root_adds(tmp_path: Path, need: Callable[..., None]) -> None:
    need("setpriv")
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [*prefix, "/usr/bin/python3", "-I", "-c"]
    recent = "import sys; sys.exit(sys.version_info < (3, 9))"
    if os.geteuid() or subprocess.run([*command, recent], cwd="/", capture_output=True, check=False).returncode:
        pytest.skip("only root can become another user, and that user needs a Python of the system")
    request = Request(("--quick",), NOBODY, 60, "gpudiag collect --host root@node7")
    code, data, told = answer([*command, LOADER], Path("/"), request)
    assert code == 0, told
    assert b"not root: descriptors" in told
    assert b"`gpudiag collect --host root@node7` adds them" in told
    (tmp_path / "x.tgz").write_bytes(data.partition(MARK)[2])
    assert outcomes(whole(tmp_path / "x.tgz"))["look-1/proc.json"] == "denied"


def test_far_side_ends_by_itself(tmp_path: Path) -> None:
    begun = time.monotonic()
    request = Request(("--duration", "60"), NOBODY, 2, "x")
    code, data, _ = answer([sys.executable, "-I", "-c", LOADER], tmp_path, request)
    assert code == 130
    assert time.monotonic() - begun < 20
    (tmp_path / "x").write_bytes(data.partition(MARK)[2])
    assert read_contents(tmp_path / "x").start is not None


@pytest.mark.parametrize("shell", ["dash", "tcsh", "fish"])
def test_login_shell_behind_sshd(network: Network, tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: how it reads the command line was not tried")
    force = f'ForceCommand echo Welcome to this host; exec {shell} -c "$SSH_ORIGINAL_COMMAND"'
    network.serve("far", path_with(network, "this"), force)
    done = collect(network, tmp_path, "--host", "far", "--quick")
    assert done.returncode == 4, done.stderr
    whole(next(tmp_path.iterdir()))


def test_connection_that_is_cut_leaves_a_readable_part(network: Network, tmp_path: Path) -> None:
    server = network.serve("far", path_with(network, "3.9"))
    with started(network, tmp_path, "--host", "far", "--duration", "60", "--explain") as running:
        wait_until(lambda: seen_one_look(tmp_path))
        there = {pid: _cmdline(Path("/proc", str(pid))) for pid in descendants(server)}
        collector = [pid for pid, words in there.items() if LOADER in words]
        assert collector
        for pid, words in there.items():
            if words.startswith("sshd"):
                os.kill(pid, signal.SIGKILL)
        out, told = running.communicate(timeout=60)
    assert running.returncode == 5, told
    (part,) = tmp_path.iterdir()
    assert part.name.endswith(".tgz.partial")
    end = r"gpudiag: far  cut off .* the connection ended before the bundle did \(.*\) in gpudiag-far-"
    assert re.search(end, told)
    assert "CANNOT BE TOLD" in out  # the report over what came
    code, report = explained(part)
    assert code == 11
    assert [host["name"] for host in report["hosts"]] == [os.uname().nodename]
    assert not report["inputs"][0]["complete"]
    # The far side was told to look for a minute, and has nobody to look for any more.
    wait_until(lambda: not any(Path("/proc", str(pid)).exists() for pid in collector), 10)


def test_deadline_of_a_host(network: Network, tmp_path: Path) -> None:
    server = network.serve("far", path_with(network, "this"))
    begun = time.monotonic()
    done = collect(network, tmp_path, "--host", "far", "--duration", "60", "--deadline", "8")
    assert done.returncode == 5
    assert time.monotonic() - begun < 20
    assert re.search(r"gpudiag: far  cut off +\d\.\d s  no end within 8 s in ", done.stderr)
    assert seen_one_look(tmp_path)
    wait_until(lambda: not descendants(server), 10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_every_part_stays(network: Network, tmp_path: Path, number: signal.Signals) -> None:
    server = network.serve("far", path_with(network, "this"))
    network.host("hole", address="192.0.2.1")
    with started(network, tmp_path, "--host", "far", "--host", "hole", "--duration", "60") as running:
        wait_until(lambda: seen_one_look(tmp_path))
        running.send_signal(number)
        _, told = running.communicate(timeout=10)
    assert running.returncode == 130
    assert re.search(r"gpudiag: far   cut off .* interrupted in gpudiag-far-.*\.partial", told)
    (part,) = tmp_path.iterdir()
    assert explained(part)[0] == 11
    wait_until(lambda: not descendants(server), 10)


def test_one_report_over_all_hosts(network: Network, tmp_path: Path) -> None:
    prefix = can_unshare("--uts")
    for name in ("node-a", "node-b"):
        rename = (*prefix, "sh", "-c", f'hostname {name} && exec "$@"', "sh")
        if subprocess.run([*rename, "true"], capture_output=True, check=False).returncode:
            pytest.skip("no right to give a host name: several hosts were not tried")
        network.serve(name, path_with(network, "this"), prefix=rename)
    done = collect(network, tmp_path, "--host", "node-a", "--host", "node-b", "--quick", "--explain")
    assert done.returncode == 11, done.stderr  # explain's own
    assert "CANNOT BE TOLD" in done.stdout
    bundles = sorted(tmp_path.iterdir())
    _, report = explained(*bundles)
    assert sorted(host["name"] for host in report["hosts"]) == ["node-a", "node-b"]


def test_far_side_without_python(network: Network, tmp_path: Path) -> None:
    empty = network.folder / "empty"
    empty.mkdir()
    network.serve("far", str(empty))
    done = collect(network, tmp_path, "--host", "far", "--quick")
    assert done.returncode == 5
    assert "no python3 in the PATH of a command over ssh there; name one with --python" in done.stderr
    assert list(tmp_path.iterdir()) == []
    again = collect(network, tmp_path, "--host", "far", "--quick", "--python", interpreter("this"))
    assert again.returncode == 4, again.stderr


def test_far_side_with_an_old_python(network: Network, tmp_path: Path) -> None:
    network.serve("far", path_with(network, "3.8"))
    done = collect(network, tmp_path, "--host", "far", "--quick")
    assert done.returncode == 5
    assert "the collector needs Python 3.9 or newer, and this is 3.8" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_refused_key_says_how_to_go_on(network: Network, tmp_path: Path) -> None:
    network.serve("far", path_with(network, "this"))
    (network.folder / "authorized").write_text("")
    done = collect(network, tmp_path, "--host", "far", "--quick")
    assert done.returncode == 5
    assert "Permission denied" in done.stderr
    assert "or load a key" in done.stderr.splitlines()[-1]


def test_one_host_may_ask_on_a_terminal(network: Network, tmp_path: Path) -> None:
    network.serve("far", path_with(network, "this"), "PasswordAuthentication yes")
    (network.folder / "authorized").write_text("")
    words = [*CALL, "--host", "far", "--quick", "--deadline", "1"]
    with subprocess.Popen(
        [sys.executable, "-c", f"import pty, sys; sys.exit(pty.spawn({words!r}) >> 8)"],
        cwd=tmp_path, env=environment(network), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True,
    ) as running:  # fmt: skip
        assert running.stdin is not None
        assert running.stdout is not None
        seen = b""
        while b"password: " not in seen:
            data = os.read(running.stdout.fileno(), 1000)
            assert data, seen
            seen += data
        time.sleep(1.5)  # the clock of the host does not run while a person types
        assert running.poll() is None
        running.stdin.write(b"\x03")
        running.stdin.flush()
        seen += running.stdout.read()
    assert running.returncode == 130, seen
    assert b"interrupted" in seen


def test_without_ssh(network: Network, tmp_path: Path) -> None:
    done = subprocess.run(
        [*CALL, "--host", "far"], cwd=tmp_path, env={"PATH": "/nowhere", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, start_new_session=True,
    )  # fmt: skip
    assert done.returncode == 5
    assert "ssh cannot be started: No such file or directory" in done.stderr


@pytest.mark.parametrize("version", ["this", "3.9"])
def test_single_file(tmp_path: Path, version: str) -> None:
    python, alone = interpreter(version), {"PATH": SYSTEM}
    made = subprocess.run(
        [*CALL, "--print-collector"], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True
    )
    assert made.returncode == 0
    (tmp_path / "json.py").write_text("raise SystemExit('a file of the folder was imported')")
    copy = tmp_path / "copy.py"
    copy.write_bytes(made.stdout)
    kept = subprocess.run(
        [python, "-W", "error", copy, "--quick", "-o", "a.tgz"], cwd=tmp_path, env=alone, capture_output=True
    )
    assert kept.returncode == 4, kept.stderr
    whole(tmp_path / "a.tgz")
    piped = subprocess.run(
        [python, "-", "--quick", "-o", "-"], cwd=tmp_path, env=alone, input=made.stdout, capture_output=True
    )
    assert piped.returncode == 4, piped.stderr
    assert b"wrote to standard output" in piped.stderr.splitlines()[-1]
    (tmp_path / "b.tgz").write_bytes(piped.stdout)
    whole(tmp_path / "b.tgz")
    handed_on = subprocess.run([python, copy, "--print-collector"], cwd=tmp_path, env=alone, capture_output=True)
    assert handed_on.stdout == made.stdout


def test_single_file_reaches_far_hosts(network: Network, tmp_path: Path) -> None:
    network.serve("far", path_with(network, "this"))
    copy = network.folder / "copy.py"
    with copy.open("wb") as file:
        subprocess.run([*CALL, "--print-collector"], env=environment(network), stdout=file, check=True)
    words = ["--host", "far", "--quick", "-o", "my bundle.tgz"]
    done = collect(network, tmp_path, *words, call=[interpreter("3.9"), "-I", str(copy)])
    assert done.returncode == 4, done.stderr
    assert done.stderr.splitlines()[-1] == "gpudiag: next: gpudiag explain 'my bundle.tgz'"
    whole(tmp_path / "my bundle.tgz")


def test_nvml_is_asked_without_packages(network: Network, tmp_path: Path) -> None:
    network.serve("far", path_with(network, "3.9"))
    done = collect(network, tmp_path, "--host", f"{getpass.getuser()}@far", "--quick")
    assert done.returncode == 4, done.stderr
    contents = whole(next(tmp_path.iterdir()))
    (nvml,) = [outcome for _, outcome in contents.outcomes if outcome.member == "look-1/nvml.json"]
    assert "libnvidia-ml.so.1 is not installed" in (nvml.because or "")  # no Python module is missed


def _cmdline(folder: Path) -> str:
    try:
        return (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""
