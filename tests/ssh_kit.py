"""A real sshd on the loopback interface with keys of its own, and an ``ssh`` that knows how to reach it."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


def missing() -> str | None:
    """Why no sshd can be started here."""
    gone = [name for name in ("ssh", "ssh-keygen") if shutil.which(name) is None]
    gone += [] if os.access(SSHD, os.X_OK) else ["sshd"]
    return f"{', '.join(gone)} not installed: collecting over ssh was not tried" if gone else None


class Network:
    """A folder with keys, a client's configuration, and sshd processes. Ends what it has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._servers: list[subprocess.Popen[bytes]] = []
        for key in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        self._client = folder / "client"
        self._client.write_text(
            f"Host *\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n  IdentityAgent none\n"
            f"  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking accept-new\n"
            "  LogLevel ERROR\n"
        )
        self.home = folder / "home"
        self.home.mkdir()
        self.programs = folder / "programs"
        self.programs.mkdir()
        wrapper = self.programs / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self._client} "$@"\n')
        wrapper.chmod(0o755)

    def host(self, name: str, address: str = "127.0.0.1", port: int = 22) -> None:
        """A host that the client knows by this name."""
        with self._client.open("a") as file:
            file.write(f"Host {name}\n  HostName {address}\n  Port {port}\n  User {getpass.getuser()}\n")

    def serve(self, name: str, path: str, *lines: str, prefix: tuple[str, ...] = ()) -> int:
        """Start one, whose commands have this PATH. ``lines``: of its configuration. ``prefix``: before its own words.

        The answer is the PID of what was started.
        """
        port = free_port()
        config = self.folder / f"{name}.config"
        # Of two lines about one thing sshd takes the first.
        config.write_text(
            "".join(f"{line}\n" for line in lines)
            + f"Port {port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/authorized\nStrictModes no\nPasswordAuthentication no\n"
            f"KbdInteractiveAuthentication no\nPermitRootLogin yes\nMaxStartups 100\nUseDNS no\n"
            # Nothing in that HOME changes PATH again.
            f"SetEnv PATH={path} HOME={self.home}\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd refuses to start without it
        command = [*prefix, SSHD, "-D", "-e", "-f", str(config)]
        with (self.folder / f"{name}.log").open("wb") as log:
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._servers.append(server)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, (self.folder / f"{name}.log").read_text()
            time.sleep(0.02)
        self.host(name, port=port)
        return server.pid

    def close(self) -> None:
        for server in self._servers:
            for pid in [*descendants(server.pid), server.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            server.wait()


def free_port() -> int:
    """One on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def descendants(pid: int) -> list[int]:
    """Processes that descend from this one, nearest first."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, UnicodeDecodeError):
                continue
    found = [pid]
    for parent in found:
        found += [child for child, its in parents.items() if its == parent]
    return found[1:]
