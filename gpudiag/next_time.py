"""A sturdier command for next time: found by trying candidates on the recorded processes, never guessed.

Every candidate is replayed on the newest look that still has the server, once typed at a prompt and once given to ssh.
Only one that reaches every process of the server, nobody else, and no shell that carries it is proposed. Of those the
safest wins; safe is what still names the right processes when PIDs, titles and versions have changed:

1. the supervisor's own stop (unit, container): it knows its processes by control group, and starts nothing again;
2. the process groups: they outlive their leader, and no name can be in the wrong place;
3. the session: the same for a server whose children lead groups of their own;
4. an anchored pattern over the titles: whoever is titled like that is hit, so it is right only for this table;
5. each PID with a check that it is still the same process: exact, and of use for this incident only.

Where the safest names numbers of this run, the first that names none stands beside it. What a recorded command has
tried in vain is not proposed again, in whatever spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpudiag.report.contract import NextTime
from gpudiag.rules.engines import shipped_engines
from gpudiag.shell.printable import quoted
from gpudiag.shell.replay import StepReplay
from gpudiag.shell.signals import KILL
from gpudiag.simulation.choose import ASSUMED_USER, Pick
from gpudiag.simulation.command import Asked, caller_of
from gpudiag.simulation.effect import effect_of
from gpudiag.simulation.outcome import CLEAN, judge, parts_of
from gpudiag.simulation.scene import Scene, Stage, members_in, scene_of, server_look
from gpudiag.timeline.families import GENERAL, Family
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.lives import Life

MAX_NAMED = 64
"""PIDs, groups or titles in one command; a longer one is nothing to type."""
_STEM = re.compile(r"[^\s:]{1,60}::|[^\s:]{1,40}: [a-z]{1,20}(?= )")
"""Beginning of a title that a program gave itself: ``VLLM::``, ``gunicorn: worker``."""

NONE_CLEAN = "no single command was found that would have reached all of this server and nobody else"
NO_TABLE = "no look has a table of all processes, so no command can be shown to hit this server and nobody else"

ByPid = Callable[[Incident, Life, str], str]
"""Makes a command that checks a process's identity and kills it with the named signal."""


@dataclass(frozen=True)
class Candidate:
    """A command that may be proposed."""

    command: str
    because: str
    of_this_run: bool = False
    """It names numbers that the next run does not have."""
    replayed: str | None = None
    """What is replayed in its place: the same command without the checks in front, which the table fulfils."""


@dataclass(frozen=True)
class Found:
    """The proposal, or why there is none; both are ``None`` where no server was aimed at."""

    command: NextTime | None
    because_none: str | None


def find_next_time(incident: Incident, by_pid: ByPid) -> Found:
    """The safest command that would have reached exactly the server that the recorded commands were aimed at."""
    stage = Stage(incident, shipped_engines())
    family = _aimed_at(stage)
    look = server_look(incident, family) if family is not None else None
    if family is None or look is None:
        return Found(None, None)
    scene = scene_of(incident, look)
    members = members_in(incident, scene, family, incident.aims.lives)
    if not members:
        return Found(None, NONE_CLEAN)
    if not scene.world.complete:
        return Found(None, NO_TABLE)
    tried = _tried(incident, scene, family)
    candidates = _candidates(incident, scene, family, list(members.values()), by_pid)
    clean = (one for one in candidates if _is_clean(stage, scene, family, members, one, tried))
    first = next(clean, None)
    if first is None:
        return Found(None, NONE_CLEAN)
    again = next((one for one in clean if not one.of_this_run), None) if first.of_this_run else None
    return Found(_proposal(first, again, tuple(sorted(members))), None)


def _proposal(first: Candidate, again: Candidate | None, hit: tuple[int, ...]) -> NextTime:
    return NextTime(
        command=first.command,
        matches=hit,
        misses=(),
        because=first.because,
        of_this_run=first.of_this_run,
        again=again.command if again is not None else None,
        again_because=again.because if again is not None else "",
    )


def _aimed_at(stage: Stage) -> Family | None:
    incident = stage.incident
    targets = incident.aims.targets

    def is_target(life: Life) -> bool:
        family = incident.family_of(life)
        return family is not None and family.id in targets and family.root_pid is not None

    return next((family for family in stage.families if any(map(is_target, family.members))), None)


# -- candidates ------------------------------------------------------------------------------------------------


def _candidates(
    incident: Incident, scene: Scene, family: Family, members: Sequence[Life], by_pid: ByPid
) -> Iterator[Candidate]:
    """Safest first."""
    yield from _supervised(scene, members)
    yield from _groups(members)
    yield from _session(members)
    yield from _pattern(family, members)
    if len(members) <= MAX_NAMED:
        ordered = sorted(members, key=lambda life: life.pid)
        yield Candidate(
            "; ".join(by_pid(incident, life, "KILL") for life in ordered),
            "no group, session or pattern covers exactly this server, so its processes have to be named one by one, "
            "each with a check that it is still the same",
            of_this_run=True,
            replayed=f"kill -KILL {' '.join(str(life.pid) for life in ordered)}",
        )


def _supervised(scene: Scene, members: Sequence[Life]) -> Iterator[Candidate]:
    units = {scene.groups.unit_of(life.pid) for life in members}
    unit = next(iter(units)) if len(units) == 1 else None
    if unit is not None:
        why = "systemd stops all that is in the unit's control group, whatever it is called, and starts nothing again"
        yield Candidate(f"systemctl stop {quoted(unit)}", why)
    boxes = {scene.groups.container_of(life.pid) for life in members}
    box = next(iter(boxes)) if len(boxes) == 1 else None
    names = sorted(name for name, number in scene.groups.containers.items() if number == box)
    if box is not None and names:
        name = next((name for name in names if name != box), box)
        engine = "podman" if any("libpod" in scene.groups.paths.get(life.pid, "") for life in members) else "docker"
        why = "the container engine ends everything inside, and a restart policy does not start it again"
        yield Candidate(f"{engine} stop {quoted(name)}", why)


def _groups(members: Sequence[Life]) -> Iterator[Candidate]:
    groups = {life.integer("pgid") for life in members}
    known = sorted(group for group in groups if group is not None and group > 1)
    if known and len(known) == len(groups) <= MAX_NAMED:
        # Not `kill -KILL --`: dash refuses that.
        what = "the process group still names" if len(known) == 1 else "the process groups still name"
        yield Candidate(
            f"kill -s KILL -- {' '.join(f'-{group}' for group in known)}",
            f"{what} every member after the first process died; read it before stopping: ps -o pgid= -p PID",
            of_this_run=True,
        )


def _session(members: Sequence[Life]) -> Iterator[Candidate]:
    sessions = {life.integer("sid") for life in members}
    session = next(iter(sessions)) if len(sessions) == 1 else None
    if session is not None and session > 1:
        yield Candidate(
            f"pkill -KILL -s {session}",
            "all its processes are of one session, whatever they are called; read it before stopping: "
            "ps -o sid= -p PID",
            of_this_run=True,
        )


def _pattern(family: Family, members: Sequence[Life]) -> Iterator[Candidate]:
    stems = {_stem(life) for life in members}
    known = sorted(stem for stem in stems if stem is not None)
    if len(known) < len(stems) or len(known) > MAX_NAMED:
        return
    pattern = f"^({'|'.join(map(_escaped, known))})"
    owner = f"-u {quoted(family.user)} " if family.user is not None else ""
    yield Candidate(
        f"pkill -KILL {owner}-f {quoted(pattern)}",
        "it names the title of every process of the server; it is anchored, so it does not match the shell that runs "
        "it; other servers with these titles would be hit too",
    )


def _stem(life: Life) -> str | None:
    """The beginning of a command line that tells this server's process from others; ``None`` if none does."""
    cmdline, cut = life.recorded_cmdline
    if not cmdline or not cmdline.isascii() or not cmdline.isprintable() or "'" in cmdline[:200]:
        return None
    titled = _STEM.match(cmdline)
    if titled is not None:
        return titled[0]
    words = cmdline.split(" ")
    general = any(e.name in GENERAL and e.role_of(None, cmdline) is not None for e in shipped_engines())
    if general or len(words) < 2 or cut or len(cmdline) > 400:
        return None  # any program's children look like that, or nothing but a program's name is known
    return " ".join(words[:4])


def _escaped(text: str) -> str:
    """Literal text as an extended regular expression."""
    return re.sub(r"[][\\.^$*+?(){}|]", r"\\\g<0>", text)


# -- proof -----------------------------------------------------------------------------------------------------


def _is_clean(
    stage: Stage,
    scene: Scene,
    family: Family,
    members: dict[int, Life],
    candidate: Candidate,
    tried: frozenset[tuple[object, ...]],
) -> bool:
    """Reaches all of the server and nobody else however it is given, and was not tried before."""
    text = candidate.replayed or candidate.command
    owner = caller_of(ASSUMED_USER, scene.world)
    for asked in (Asked(text), Asked(text, over_ssh=True)):
        effect = effect_of(asked, scene, owner, stage.book)
        if any(shape in tried for step in effect.replay.steps if (shape := _shape(step)) is not None):
            return False
        pick = Pick(family, effect, members, True)
        if judge(pick, parts_of(stage, pick))[0] != CLEAN:
            return False
    return True


def _tried(incident: Incident, scene: Scene, family: Family) -> frozenset[tuple[object, ...]]:
    """The kill steps of the recorded commands, unless the server is gone: then they did what they should."""
    if all(incident.alive(life) is False for life in family.members):
        return frozenset()
    steps = (step.replay for action in incident.actions if action.host == scene.look.host for step in action.steps)
    return frozenset(shape for step in steps if (shape := _shape(step)) is not None)


def _shape(step: StepReplay) -> tuple[object, ...] | None:
    """What a kill step says, whatever its spelling: the signal's name and the order of the words do not matter.

    A group that a ``kill`` named is the same as one that ``pkill -g`` named.
    """
    words = [word.text or word.raw for word in step.step.words[1:]]
    if step.stop is not None:
        return (step.stop.kind, step.stop.verb, frozenset(name.removesuffix(".service") for name in step.stop.names))
    selection = step.selection
    if step.tool is None or selection is None:
        return None
    if step.tool == "kill":
        first = next((n for n, word in enumerate(words) if word == "--"), 2 if words[:1] == ["-s"] else 1)
        targets = words[first:]
        groups = frozenset(word for word in targets if re.fullmatch(r"-\d+", word))
        return ("group", groups) if groups else ("kill", step.signal or KILL, frozenset(targets) - {"--"})
    options = frozenset(word for word in words if not re.fullmatch(r"-(?:\d+|[A-Z]{2,})", word))
    if step.tool == "pkill" and selection.pattern is None and options & {"-g", "--pgroup"}:
        return ("group", frozenset(f"-{word}" for word in options if word.isdigit()))
    return (step.tool, step.signal, options)
