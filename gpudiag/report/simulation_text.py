"""A simulation for a terminal: the verdict first, then step by step who is hit and why the others are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpudiag.report.contract import ActionStep, Mib
from gpudiag.report.page import BOLD, MIN_WIDTH, Page
from gpudiag.report.simulation import Affected, Follow, Simulation
from gpudiag.report.text import UNKNOWN, by_reason, clip, listed, mib, pid_set, plural, sentence, size, total, word

VERDICT_WORDS: Final = {
    "clean": "Hits the whole server and nothing else",
    "not_clean": "Not a clean stop",
    "cannot_be_told": "Cannot be told from this evidence",
}
_COLOURS: Final = {"clean": "\x1b[1;32m", "not_clean": "\x1b[1;31m", "cannot_be_told": "\x1b[1;35m"}
_RUNS: Final = {"yes": "Would run", "no": "Would not run", "unknown": "Not known whether it would run"}
_ENDED: Final = {
    True: "",
    False: ", and lives on: the signal does not end it",
    None: ", and may live on: it has a handler",
}
_PARTS: Final = (
    ("hit", "Hit:"),
    ("survivor", "Not hit, though of this server:"),
    ("collateral", "Hit, though not of this server:"),
    ("undecided", "Not known whether hit:"),
)
_NAMES_SHOWN: Final = 3


def render(simulations: Sequence[Simulation], width: int = 80, colour: bool = False) -> str:
    """The answer about one command, or a table that compares several."""
    page = Page(max(width, MIN_WIDTH), colour)
    if len(simulations) == 1:
        _one(page, simulations[0])
    else:
        _table(page, simulations)
    return page.text()


def _one(page: Page, answer: Simulation) -> None:
    page.paint(word(VERDICT_WORDS, answer.verdict).upper(), _COLOURS.get(answer.verdict, BOLD))
    page.say(sentence(answer.because[:1].upper() + answer.because[1:]), 0)
    page.say(_setting(answer), 0)
    for server in answer.servers:
        held = total(server.holds_mib.values()) if server.holds_mib else "no memory seen"
        hit = pid_set(server.hit) or "nobody"
        members = f"{plural(len(server.members), 'process', 'processes')}: {pid_set(server.members)}"
        owner = f", of {server.user}" if server.user else ""
        page.say(
            f"{_title(server.engine, server.root_pid)}{owner}, {held}; {members}. Hits {hit}.", 2, f"{server.family}  "
        )
    _steps(page, answer)
    _people(page, answer)
    _follows(page, answer.follows)
    _memory(page, answer)
    if answer.notes:
        page.heading("To be known")
    for note in answer.notes:
        page.say(sentence(note[:1].upper() + note[1:]), 2)


def _setting(answer: Simulation) -> str:
    given = {"prompt": "typed at a prompt", "ssh": "given to ssh"}.get(
        answer.carried_by, f"run by {answer.carried_by} -c"
    )
    user = f" by {answer.user}" if answer.user else ""
    parts = [f"Taken as {given}{user}; nothing was run."]
    if answer.family is not None:
        where = f" on {answer.host}" if answer.host else ""
        title = _title(answer.engine, answer.root_pid)
        parts.append(f"The server is {answer.family} ({title}), as look {answer.look}{where} shows it.")
    return " ".join(parts)


def _title(engine: str | None, root_pid: int | None) -> str:
    return f"{engine or 'engine not known'}, root PID {UNKNOWN if root_pid is None else root_pid}"


def _steps(page: Page, answer: Simulation) -> None:
    if not answer.steps:
        return
    page.heading("Step by step")
    page.rows(answer.steps, lambda step: _step(page, step), "step")


def _step(page: Page, step: ActionStep) -> None:
    signal = f"  (signal {step.signal})" if step.signal else ""
    page.say(f"{clip(step.text)}{signal}", 2, f"{step.id.rpartition('.')[2]}. ")
    page.say(_step_outcome(step), 5)


def _step_outcome(step: ActionStep) -> str:
    runs = word(_RUNS, step.ran)
    parts = [sentence(f"{runs}: {step.because}" if step.because else runs)]
    hit = ([pid_set(step.hit)] if step.hit else []) + list(step.hit_shells)
    if hit:
        parts.append(f"Hits {listed(hit)}.")
    elif step.tool is not None and step.ran != "no":
        parts.append("Hits nobody for sure." if step.ran == "unknown" else "Hits nobody that is recorded.")
    if step.missed and step.tool is not None and step.ran != "no":
        parts.append(f"Misses {pid_set(step.missed)}.")
    if step.not_permitted:
        parts.append(f"Not permitted: {pid_set(step.not_permitted)}.")
    if step.error:
        parts.append(f"It says: {sentence(clip(step.error))}")
    if step.tool is not None and step.ran != "no":
        parts.append("Exit code not known." if step.exit_code is None else f"Exit code {step.exit_code}.")
    return " ".join(parts)


def _people(page: Page, answer: Simulation) -> None:
    if answer.processes:
        page.heading("Who is hit")
    for part, title in _PARTS:
        _group(page, title, [process for process in answer.processes if process.part == part])


def _group(page: Page, title: str, group: Sequence[Affected]) -> None:
    if not group:
        return
    page.say(title)
    pairs = [(process.pid, f"{process.because}{_end(process)}") for process in group]
    page.rows(by_reason(pairs), lambda row: page.say(f"{_names(group, row[1])}{row[1]}", 4, f"{row[0]} "), "reason")


def _end(process: Affected) -> str:
    return _ENDED[process.ends] if process.part in ("hit", "collateral") else ""


def _names(group: Sequence[Affected], reason: str) -> str:
    """The names of those that share a reason, if they are few."""
    named = (process.name or UNKNOWN for process in group if f"{process.because}{_end(process)}" == reason)
    names = list(dict.fromkeys(clip(name, 60) for name in named))
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{', '.join(names[:_NAMES_SHOWN])}{more}: "


def _follows(page: Page, follows: Sequence[Follow]) -> None:
    if not follows:
        return
    page.heading("What follows of itself")
    pairs = ((follow.pid, f"leaves ({follow.certainty}): {sentence(follow.because)}") for follow in follows)
    page.rows(by_reason(pairs), lambda row: page.say(row[1], 2, f"{row[0]} "), "process")


def _memory(page: Page, answer: Simulation) -> None:
    gpus = sorted({*answer.releases_mib, *answer.leaves_mib, *answer.undecided_mib})
    if not gpus:
        return
    page.heading("Memory of this server")
    page.rows(gpus, lambda gpu: page.say(_gpu(answer, gpu), 2, f"{_gpu_name(gpu)}: "), "GPU")


def _gpu_name(gpu: str) -> str:
    return "GPU not known" if gpu == "?" else gpu


def _gpu(answer: Simulation, gpu: str) -> str:
    parts = [
        f"{mib(answer.releases_mib.get(gpu, 0))} would come back",
        f"{mib(answer.leaves_mib.get(gpu, 0))} would stay",
    ]
    if answer.undecided_mib.get(gpu, 0) != 0:
        parts.append(f"{size(answer.undecided_mib.get(gpu))} cannot be told")
    return ", ".join(parts)


def _table(page: Page, answers: Sequence[Simulation]) -> None:
    page.paint(f"{len(answers)} commands compared; nothing was run", BOLD)
    for number, answer in enumerate(answers, 1):
        page.say("")
        page.command(answer.command, 2)
        page.say(f"{word(VERDICT_WORDS, answer.verdict)}: {sentence(answer.because)}", 2, f"{number}. ")
        page.say(_row(answer), 5)


def _row(answer: Simulation) -> str:
    lists = (("hits", answer.hit), ("leaves alive", answer.survivors), ("hits others", answer.collateral))
    parts = [f"{name} {pid_set(pids) or 'nobody'}" for name, pids in lists]
    if answer.hit_shells:
        parts.append(f"kills {listed(answer.hit_shells)}")
    parts.append(f"memory back {_sum(answer.releases_mib)}, stays {_sum(answer.leaves_mib)}")
    if any(mib != 0 for mib in answer.undecided_mib.values()):
        parts.append(f"not known of {_sum(answer.undecided_mib)}")
    return sentence("; ".join(parts))


def _sum(sizes: dict[str, Mib | None]) -> str:
    return total(sizes.values()) if sizes else UNKNOWN
