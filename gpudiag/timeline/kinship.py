"""Parents, process groups and observers: the structure that ties processes together, whatever their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpudiag.timeline.lives import LOCAL_ERROR_S, Census, Key, Life

SHELLS = frozenset(
    {"bash", "sh", "dash", "zsh", "fish", "ksh", "tmux", "screen", "sshd", "login", "su", "sudo", "nohup", "setsid"}
)
"""Programs that start unrelated things: the death of one does not tie its children together."""

MAX_DEPTH = 32
"""Generations that are looked at where each costs a walk over all processes; no server is that deep."""

MAX_GENERATIONS = 64
"""Ancestors of one process that are believed: many walks go up the whole line, for each process anew."""


SUPERVISORS = frozenset(
    {
        "systemd", "init", "containerd-shim", "containerd-shim-runc-v2", "conmon", "dockerd", "slurmstepd", "slurmd",
        "supervisord", "tini", "dumb-init", "docker-init", "s6-svscan", "runsv", "kubelet", "cron", "atd", "pm2",
        "jupyter-server", "jupyter-lab", "jupyter-notebook",
    }
)  # fmt: skip
"""Programs that start other people's jobs: a common parent of this kind ties nothing together."""


def is_supervisor(life: Life) -> bool:
    """It starts jobs that are none of each other's business."""
    return life.pid == 1 or _is_named_supervisor(life)


def starts_no_engine(first: Life) -> bool:
    """PID 1 is an init or a shell by its name: an engine below it is there because its server died.

    Any other program as PID 1 may be the server itself, in a container.
    """
    return _is_named_supervisor(first) or is_shell(first)


def _is_named_supervisor(life: Life) -> bool:
    line = (life.cmdline or "").split(" ", 1)[0].rsplit("/", 1)[-1]
    names = {(text or "").rstrip(":") for text in (life.program, line, life.comm)}
    return bool(names & SUPERVISORS)


def is_shell(life: Life) -> bool:
    """It is a shell or a terminal by its name (``-bash``, ``tmux: server``, ``SCREEN``)."""
    line = (life.cmdline or "").split(" ", 1)[0].rsplit("/", 1)[-1]
    names = {(text or "").lstrip("-").split(":", 1)[0].split(" ", 1)[0].lower() for text in (life.program, line)}
    return bool(names & SHELLS)


class Kinship:
    """Parents, groups and observers over all looks."""

    def __init__(self, census: Census, observers: Mapping[str, frozenset[int]]):
        self.census = census
        self.observers = {pid for pids in observers.values() for pid in pids}
        self._parents = self._believed()
        self._guessed: set[Key] = set()
        self._heads = {
            above.key
            for life in census.lives
            if life.integer("pgid") is None and (above := self._parents.get(life.key)) is not None
        }
        self._observer_groups = {
            (life.host, group)
            for life in census.lives
            if life.pid in self.observers and (group := life.integer("pgid")) is not None
        }

    def parent(self, life: Life) -> Life | None:
        """The process that started it, if some look shows it and it is old enough to have done so."""
        return self._parents.get(life.key)

    def adopt(self, life: Life, parent: Life) -> None:
        """Take a process as the parent of one whose descent nothing shows."""
        self._parents[life.key] = parent
        self._guessed.add(life.key)
        self._heads.add(parent.key)

    def is_guessed(self, life: Life) -> bool:
        """Its parent follows from start times only."""
        return life.key in self._guessed

    def ancestors(self, life: Life) -> Iterator[Life]:
        """Its parent and so on, nearest first."""
        above = self.parent(life)
        while above is not None:
            yield above
            above = self.parent(above)

    def _find_parent(self, life: Life) -> Life | None:
        if life.born_ppid in (None, 0):
            return None
        named = self.census.named(life.host, life.born_ppid or 0)
        older = [above for above in named if above is not life and _not_younger(above, life)]
        together = [above for above in older if above.sightings.keys() & _with_parent(life)]
        return (together or older)[-1] if older else None

    def _believed(self) -> dict[Key, Life]:
        """Torn or forged tables can make two processes each other's ancestor; no edge of such a ring is believed.

        Nor is every ``MAX_GENERATIONS``-th edge of a line that is longer than any machine's.
        """
        found = {life.key: above for life in self.census.lives if (above := self._find_parent(life)) is not None}
        depths: dict[Key, int] = {}
        for start in list(found):
            line: dict[Key, None] = {}
            key = start
            while key in found and key not in depths and key not in line:
                line[key] = None
                key = found[key].key
            if key in line:
                upwards = list(line)
                for ring in upwards[upwards.index(key) :]:
                    del found[ring]
            for one in reversed(line):
                depths[one] = depths.get(found[one].key, 0) + 1 if one in found else 0
                if depths[one] > MAX_GENERATIONS:
                    del found[one]
                    depths[one] = 0
        return found

    def has_children_without_group(self, life: Life) -> bool:
        """A process whose group no look shows was started by it."""
        return life.key in self._heads

    def root_by_descent(self, life: Life) -> Life:
        """The farthest ancestor of one user that is neither a shell nor a supervisor."""
        top = life
        while True:
            above = self.parent(top)
            if above is None or self.is_observer(above) or is_shell(above) or is_supervisor(above):
                return top
            if not _same_user(above, top):
                return top
            top = above

    def is_observer(self, life: Life) -> bool:
        """It is the tool that looked, or an ancestor of it."""
        return life.pid in self.observers

    def shares_group_with_observer(self, life: Life) -> bool:
        """Its process group also holds the tool that looked: the group is a script's, not a server's."""
        return (life.host, life.integer("pgid")) in self._observer_groups

    def root_in_group(self, life: Life) -> Life:
        """The oldest ancestor in the same process group that is not an ancestor of the observer."""
        top = life
        while True:
            above = self.parent(top)
            if above is None or self.is_observer(above) or above.pid == 1:
                return top
            if above.integer("pgid") != life.integer("pgid"):
                return top
            top = above


def _same_user(one: Life, other: Life) -> bool:
    """Nothing says that they have different owners."""
    return len({one.string("user"), other.string("user")} - {None}) <= 1


def _with_parent(life: Life) -> set[str]:
    """The first look that shows whose child it is: of several processes with that number it is the one of this look."""
    first = next((look for look, seen in life.sightings.items() if seen.first("ppid") is not None), None)
    return set() if first is None else {first}


def _not_younger(parent: Life, child: Life) -> bool:
    if parent.start_ticks is not None and child.start_ticks is not None:
        return parent.start_ticks <= child.start_ticks
    if parent.local_start_s is not None and child.local_start_s is not None:
        return parent.local_start_s <= child.local_start_s + LOCAL_ERROR_S
    if parent.start_ns is None or child.start_ns is None:
        return True
    return parent.start_ns <= child.start_ns + parent.start_error_ns + child.start_error_ns
