"""``gpudiag collect``, with nothing but the standard library: it also runs where no other package is."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from gpudiag.bundle.sinks import PARTIAL
from gpudiag.collect.ahead import NOTHING_BEGUN, Begun, forget
from gpudiag.collect.explaining import explain_here
from gpudiag.collect.extras import sources as extra_sources
from gpudiag.collect.machine import Machine
from gpudiag.collect.options import Chosen, chosen
from gpudiag.collect.recording import STANDARD_OUTPUT, Recorded, record
from gpudiag.collect.secrets import RowSecrets
from gpudiag.collect.telling import Progress, holds, say, without_root

EXIT_WRITTEN = 0
EXIT_WRITE = 1
EXIT_NO_GPU = 4
EXIT_HOST_FAILED = 5
EXIT_INTERRUPTED = 130


def main(
    arguments: Sequence[str] | None = None,
    machine: Machine | None = None,
    begun: Mapping[str, Begun] = NOTHING_BEGUN,
) -> int:
    """Collect and say where it is; the exit code. ``begun``: what is at work since before these words were read."""
    try:
        asked = chosen(list(sys.argv[1:] if arguments is None else arguments))
    except SystemExit:
        forget(begun)
        raise
    if asked.print_collector:
        return _print_collector()
    signal.signal(signal.SIGTERM, _interrupt)
    # A session that drops is the kind of thing that is being recorded.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if asked.hosts:
        return _far(asked)
    say("gpudiag: looking; nothing on this machine is changed")
    return _here(asked, Machine() if machine is None else machine, begun)


def _here(asked: Chosen, machine: Machine, begun: Mapping[str, Begun]) -> int:
    options = asked.recording
    try:
        done = record(options, machine, extra_sources, RowSecrets if asked.redact else None, Progress(), begun)
    except KeyboardInterrupt:
        say(f"gpudiag: interrupted; what was seen until then is in {_name(options.path, PARTIAL)}")
        return EXIT_INTERRUPTED
    except OSError as error:
        if asked.own_name and isinstance(error, FileExistsError):
            # Another collector has taken the name in the same second; nothing has been looked at yet.
            return _here(asked.beside(), machine, begun)
        name = _name(options.path)
        say(f"gpudiag: {name} cannot be written: {error.strerror or error}. {_rest(options.path)}")
        return EXIT_WRITE
    _report(done, root=machine.root)
    code = EXIT_WRITTEN if done.answered else EXIT_NO_GPU
    return explain_here([done.path], code) if asked.explain else code


def _far(asked: Chosen) -> int:
    from gpudiag.collect import remote

    done = remote.collect(asked)
    failed, interrupted = not all(host.written for host in done.hosts), done.interrupted
    code = EXIT_INTERRUPTED if interrupted else EXIT_HOST_FAILED if failed else EXIT_WRITTEN
    if code == EXIT_WRITTEN and not any(host.answered for host in done.hosts):
        code = EXIT_NO_GPU
    if not asked.explain or interrupted or not done.paths:
        return code
    told = explain_here(done.paths, code)
    # A report that lacks a host must not pass for an all-clear.
    return code if failed else told


def _report(done: Recorded, *, root: bool) -> None:
    if not root:
        say(without_root("sudo gpudiag collect"))
    piped = done.path == STANDARD_OUTPUT
    where, following = (
        ("to standard output", "") if piped else (done.path, f"; next: gpudiag explain {shlex.quote(str(done.path))}")
    )
    say(f"gpudiag: wrote {where} in {done.seconds:.1f} s; {holds(done)}{following}")


def _name(path: Path, mark: str = "") -> str:
    return "standard output" if path == STANDARD_OUTPUT else f"{path}{mark}"


def _rest(path: Path) -> str:
    if path == STANDARD_OUTPUT:
        return "What was written until then can be explained."
    partial = Path(f"{path}{PARTIAL}")
    return f"What was seen until then is readable: {partial}" if partial.exists() else "Nothing was written."


def _print_collector() -> int:
    try:
        from gpudiag.collect.zipped import single_file

        sys.stdout.write(single_file())
        sys.stdout.flush()
    except OSError as error:
        say(f"gpudiag: standard output cannot be written: {error.strerror}")
        return EXIT_WRITE
    return EXIT_WRITTEN


def _interrupt(number: int, frame: object) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt
