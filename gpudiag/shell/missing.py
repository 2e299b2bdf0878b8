"""Programs that were not found: what the shell, sudo and other callers say of a program that they cannot start."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpudiag.shell.carriers import chain
from gpudiag.shell.lines import Line, Step, Substitution
from gpudiag.shell.syntax import program_of
from gpudiag.shell.words import first_program
from gpudiag.shell.wrappers import strip

NOT_FOUND = 127
"""The exit code for it, of every shell."""
_MAX_OUTPUT = 64 * 1024
_LINE_CAP = 500
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "busybox", "fish"})
_CALLERS = frozenset(
    {
        "sudo", "doas", "timeout", "env", "nohup", "nice", "ionice", "setsid", "stdbuf", "xargs", "taskset", "chrt",
        "runuser", "flock", "strace",
    }
)  # fmt: skip
"""Programs that start another one and speak for themselves where it is missing."""
_INSTALLERS = frozenset(
    {"apt", "apt-get", "aptitude", "yum", "dnf", "microdnf", "apk", "pacman", "zypper", "conda", "snap", "pip"}
)
_CONTAINER = "container"
_SHELL = "shell"
_NAME = r"(?P<program>[^\s:'\"`‘’]{1,200})"
_MESSAGES = (
    # bash, dash, ksh, busybox, sudo, xargs; a script's shell calls itself by the script's path and names the line.
    re.compile(
        rf"(?P<speaker>[^\s:'\"]{{1,200}}): (?P<line>(?:line )?\d{{1,6}}: )?(?:exec: )?{_NAME}: "
        r"(?P<words>command not found|not found|No such file or directory)\.{0,3}"
    ),
    re.compile(
        rf"(?P<speaker>-?(?:[\w./]{{1,100}}/)?zsh)(?::\d{{1,6}})?: "
        rf"(?:command not found|no such file or directory): {_NAME}"
    ),
    re.compile(rf"(?P<speaker>fish): Unknown command:? '?{_NAME}'?"),
    re.compile(rf"Command '{_NAME}' not found.{{0,200}}"),
    re.compile(rf"{_NAME}: command not found"),
    # timeout, env, nohup, setsid …
    re.compile(
        r"(?P<speaker>[\w-]{1,40}): (?:failed to (?:run command|execute) |cannot run )?"
        rf"['‘`\"]?{_NAME}['’\"]?: No such file or directory"
    ),
    # runc and crun, by way of docker, podman and kubectl.
    re.compile(
        rf'(?P<runtime>.{{0,300}}?)exec: "{_NAME}": (?:executable file not found|stat .{{1,200}}: no such).{{0,200}}'
    ),
)


@dataclass(frozen=True)
class _Place:
    """Where a program is looked for: what is missing there is missing for every command there."""

    host: str | None
    container: str | None
    user: str | None


@dataclass(frozen=True)
class _Site:
    """A command of the line that needs a program."""

    step: int
    place: _Place
    list_text: str | None = None
    """It stands in this substitution, and not as a step."""
    hidden: bool = False
    """Its errors go to ``/dev/null``."""


@dataclass(frozen=True)
class Absent:
    """One step whose program was not found, or may not have been."""

    program: str
    certain: bool
    """``False``: it was not found in one of several places, and which that is is not known."""
    proven: bool


@dataclass(frozen=True)
class Missing:
    """All that the output says about programs that were not found."""

    steps: Mapping[int, Absent]
    lists: frozenset[str]
    """Texts of the substitutions that printed nothing for that reason."""


NOTHING_MISSING = Missing({}, frozenset())


def missing(line: Line, output: str | None) -> Missing:
    """Which steps and lists of the line could not be started, by the messages in its whole output."""
    said: dict[tuple[str, str], int] = defaultdict(int)
    for program, voice in _messages(output):
        said[program, voice] += 1
    if not said:
        return NOTHING_MISSING
    steps: dict[int, Absent] = {}
    lists: set[str] = set()
    for (program, voice), count in said.items():
        sites = list(_sites(line, program, voice))
        for number, site in enumerate(_silenced(line, sites, count)):
            certain = len({one.place for one in sites}) == 1 or count >= len(sites)
            if site.list_text is None:
                steps[site.step] = Absent(program, certain, proven=certain and not site.hidden and number < count)
            elif certain:
                lists.add(site.list_text)
    return Missing(steps, frozenset(lists))


def _silenced(line: Line, sites: list[_Site], count: int) -> list[_Site]:
    """Those that the messages can be about, the ones that were seen to print first.

    What is missing in a place is missing for all commands there, unless something may have installed it on the way.
    """
    ordered = sorted(sites, key=lambda site: (site.hidden, site.step))
    installs = any(program_of(step) in _INSTALLERS for step in line.steps)
    return ordered[:count] if installs else ordered


def _messages(output: str | None) -> Iterator[tuple[str, str]]:
    """(program, who says that it was not found)"""
    for row in (output or "")[:_MAX_OUTPUT].split("\n"):
        text = row.strip()
        if len(text) > _LINE_CAP:
            continue
        found = next((match for shape in _MESSAGES if (match := shape.fullmatch(text)) is not None), None)
        voice = None if found is None else _voice(found)
        if found is not None and voice is not None:
            yield found["program"].rsplit("/", 1)[-1], voice


def _voice(found: re.Match[str]) -> str | None:
    """Who speaks; ``None`` where it is a program that misses a file."""
    parts = found.groupdict()
    if parts.get("runtime") is not None:
        return _CONTAINER
    speaker = (parts.get("speaker") or "").rsplit("/", 1)[-1].lstrip("-")
    if speaker in _CALLERS:
        return speaker
    known = not speaker or speaker in _SHELLS or parts.get("line") or parts.get("words") == "command not found"
    return _SHELL if known else None


def _sites(line: Line, program: str, voice: str) -> Iterator[_Site]:
    """The commands of the line that this message may be about."""
    for step in line.steps:
        place = _Place(step.host, step.container, step.user)
        if program in _above(line, step) or (program == program_of(step) and voice in _voices(line, step)):
            yield _Site(step.index, place, hidden=step.hides_errors)
        elif voice != _CONTAINER:
            for one in _lists(step):
                if program in _programs(one):
                    yield _Site(step.index, place, one.text.strip())


def _above(line: Line, step: Step) -> set[str]:
    """Programs that have to be found before the step's own: sudo, ssh, timeout, a shell."""
    started = ("ssh client", "client", "sudo", "timeout", *(f"{shell} -c" for shell in _SHELLS))
    clients = [one for one in chain(line, step) if one.cmdline and one.kind in started]
    names = [(one.cmdline or "").split(" ", 1)[0].rsplit("/", 1)[-1] for one in clients]
    return {*names, *step.wrappers, *(("xargs",) if step.xargs is not None else ())}


def _voices(line: Line, step: Step) -> set[str]:
    """Who says so where the step's program is missing."""
    if step.xargs is not None:
        return {"xargs"}
    inner = step.wrappers[-1] if step.wrappers else None
    if inner in _CALLERS:
        return {inner}
    by_client = line.carriers[step.carrier].kind in ("client", "none")
    return {_SHELL, _CONTAINER, *_CALLERS} if by_client else {_SHELL}


def _lists(step: Step) -> Iterator[Substitution]:
    yield from (one for word in step.words for one in word.substitutions)
    if step.fed_by is not None:
        yield step.fed_by


def _programs(one: Substitution) -> set[str | None]:
    """Every program of the pipeline: without one of them nothing comes out at its end."""
    stages = [strip(words) for words in one.pipeline]
    return {
        one.program,
        *(first_program(stage.words) for stage in stages),
        *(n for stage in stages for n in stage.names),
    }
