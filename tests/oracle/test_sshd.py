"""A real sshd on a loopback of its own, in another PID namespace than the client: what comes back is predicted."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from gpudiag.shell.replay import Observed, Replay, replay
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.world import Caller, Candidate, World
from tests.oracle.arena import need

pytestmark = pytest.mark.oracle

SERVER = Candidate(7, 1, 7, 7, 0, "root", "sleep", False, "vllm.entrypoints 99", False, "S", 1.0, False)
SETUP = """
ip link set lo up 2>/dev/null || ifconfig lo up 2>/dev/null
mkdir -p /run/sshd
cd "$0"
unshare --pid --fork --mount-proc --kill-child bash -c '
    (exec -a vllm.entrypoints sleep 99) &
    exec /usr/sbin/sshd -D -f "$0/sshd_config" -E "$0/log"
' "$0" &
for i in 1 2 3 4 5 6 7 8 9 10; do
    ssh -F "$0/ssh_config" h true 2>/dev/null && break
    sleep 0.2
done
ssh -F "$0/ssh_config" h true || exit 99
while IFS= read -r -d '' command; do
    ssh -n -F "$0/ssh_config" h "$command" >"$0/out" 2>"$0/err"
    printf '%s\\0%s\\0' "$?" "$(cat "$0/out")"
done <"$0/commands"
"""
COMMANDS = {
    "pkill -9 -f vllm.entrypoints 2>/dev/null; sleep 0.3; echo second": (255, ""),
    "pkill -9 -f '[v]llm.entrypoints' 2>/dev/null; echo second": (0, "second"),
    "pkill -9 -f vllm.nosuch || echo second": (255, ""),
    "pgrep -f vllm.entrypoints | xargs -r kill -9; echo second": (255, ""),
    "pkill -INT -f vllm.entrypoints; echo second": (0, "second"),
    # The server is gone by now; 1 is the code of pkill itself, in whose place the login shell has been.
    "pkill -9 -f vllm.entrypoints": (1, ""),
}


@pytest.fixture
def answers(tmp_path: Path) -> dict[str, tuple[int, str]]:
    need("unshare", "ssh", "ssh-keygen", "bash")
    if not Path("/usr/sbin/sshd").exists():
        pytest.skip("sshd is not installed: what ssh shows cannot be compared")
    os.chmod(tmp_path, 0o700)  # noqa: PTH101
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    shutil.copy(tmp_path / "user_key.pub", tmp_path / "authorized_keys")
    (tmp_path / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort 2222\nHostKey {tmp_path}/host_key\nPidFile {tmp_path}/pid\nStrictModes no\n"
        f"AuthorizedKeysFile {tmp_path}/authorized_keys\nPermitRootLogin yes\nUsePAM no\nUseDNS no\n"
        "PasswordAuthentication no\n"
    )
    (tmp_path / "ssh_config").write_text(
        f"Host h\n HostName 127.0.0.1\n Port 2222\n User root\n IdentityFile {tmp_path}/user_key\n"
        f" StrictHostKeyChecking no\n UserKnownHostsFile {tmp_path}/known\n LogLevel ERROR\n BatchMode yes\n"
        " GSSAPIAuthentication no\n"
    )
    (tmp_path / "commands").write_text("".join(command + "\0" for command in COMMANDS))
    job = ["unshare", "--pid", "--net", "--fork", "--mount-proc", "--kill-child", "bash", "-c", SETUP, str(tmp_path)]
    done = subprocess.run(job, capture_output=True, text=True, timeout=60, check=False)
    if "\0" not in done.stdout:
        log = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
        pytest.skip(f"sshd does not run here: {(done.stderr + log)[-300:]}")
    fields = done.stdout.split("\0")
    return {
        command: (int(code), output) for command, code, output in zip(COMMANDS, fields[::2], fields[1::2], strict=False)
    }


def predicted(command: str) -> Replay:
    line = parse_line(f"ssh root@h {shlex.quote(command)}", how="prompt")
    return replay(line, World((SERVER,), True), Caller("root", 0), Observed(None, None, None))


def test_what_comes_back_over_ssh(answers: dict[str, tuple[int, str]]) -> None:
    assert answers == COMMANDS
    for command, (code, output) in COMMANDS.items():
        result = predicted(command)
        second = next((one.ran for one in result.steps if one.step.text == "echo second"), None)
        login = [row for row in result.carriers if row.carrier.kind == "ssh"]
        if "echo second" in command:
            # An interrupt is decided by which shell it is, which the line does not tell.
            assert second is ("second" in output) or (second is None and "-INT" in command), command
        if code == 255:
            assert any(row.matches and not row.execs and row.signal_fatal for row in login), command


def test_the_observed_end_proves_what_did_not_run(answers: dict[str, tuple[int, str]]) -> None:
    command = next(iter(COMMANDS))
    code, output = answers[command]
    line = parse_line(f"ssh root@h {shlex.quote(command)}", how="prompt")
    result = replay(line, World((SERVER,), True), Caller("root", 0), Observed(code, 0.2, output))
    assert [(one.ran, one.ran_proven) for one in result.steps] == [(True, True), (False, True), (False, True)]
