"""Which shell may read a step, and which of the several programs called kill it runs."""

from __future__ import annotations

from gpudiag.shell.lines import Line, Step


def shells_of(line: Line, step: Step) -> tuple[str, ...]:
    """The shells that may read the step, as far as they differ here: ``bash`` stands for zsh as well."""
    carrier = line.carriers[step.carrier]
    if carrier.shell == "dash":
        return ("dash",)
    # What people type, at a prompt or for ssh, is read by bash or zsh; `sh` is dash on some systems and bash on others.
    typed = carrier.kind in ("prompt", "stated", "none")
    return ("bash",) if typed or carrier.shell is not None else ("bash", "dash")


def kill_dialects(line: Line, step: Step) -> tuple[str, ...]:
    """Which kill the step runs: the built-in of its shell, or the program behind a wrapper or a path."""
    path = "/" in (step.words[0].text or "")
    carrier = line.carriers[step.carrier]
    outside = [name for name in step.wrappers if name not in ("command", "builtin", "time")]
    if path or outside or step.xargs is not None or carrier.kind in ("none", "client"):
        return ("program",)
    return shells_of(line, step)
