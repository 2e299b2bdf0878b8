"""The public object ``gpudiag.simulation/1``: what a command would do to the recorded processes.

``hit``, ``survivors`` and ``collateral`` speak of one look, the newest that still has the server. Reading is tolerant,
as it is for a report; ``None`` means *not known*.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field, TypeAdapter

from gpudiag.report.contract import ActionStep, ContractModel, Fate, Mib

SCHEMA: Final = "gpudiag.simulation/1"
VERDICT_VALUES: Final = ("clean", "not_clean", "cannot_be_told")
PART_VALUES: Final = ("hit", "survivor", "collateral", "undecided")


class Follow(ContractModel):
    """A survivor that would leave as a consequence."""

    pid: int
    because: str
    certainty: str
    """``inferred`` or ``possible``."""


class Affected(ContractModel):
    """One process, and what each step does to it."""

    pid: int
    name: str | None = None
    user: str | None = None
    role: str | None = None
    family: str | None = None
    """Id of its server, as in the report."""
    part: str
    """One of PART_VALUES."""
    because: str
    """Why the command reaches it, or why not."""
    ends: bool | None = None
    """Whether what reaches it ends it; ``None`` for one that is not reached, or that has a handler for the signal."""
    holds_mib: dict[str, Mib | None] = Field(default_factory=dict)
    """MiB by GPU."""
    fate: tuple[Fate, ...] = ()


class Server(ContractModel):
    """A server that the command may be meant for."""

    family: str
    engine: str | None = None
    root_pid: int | None = None
    user: str | None = None
    members: tuple[int, ...] = ()
    holds_mib: dict[str, Mib | None] = Field(default_factory=dict)
    hit: tuple[int, ...] = ()
    """Those of its members that the command would hit."""


class Simulation(ContractModel):
    """What one command would do."""

    schema_: str = Field(default=SCHEMA, alias="schema")
    command: str
    steps: tuple[ActionStep, ...] = ()
    hit: tuple[int, ...] = ()
    """Every recorded process that is signalled, those of ``collateral`` included."""
    survivors: tuple[int, ...] = ()
    """Members of the server that are not hit directly."""
    collateral: tuple[int, ...] = ()
    """Processes hit that belong to another server, tenant or session."""
    releases_mib: dict[str, Mib | None] = Field(default_factory=dict)
    """Memory of the server that would come back, by GPU."""
    leaves_mib: dict[str, Mib | None] = Field(default_factory=dict)
    """Memory of the server that would stay, by GPU."""
    follows: tuple[Follow, ...] = ()
    verdict: str
    """One of VERDICT_VALUES."""
    because: str
    """The verdict in a sentence."""
    undecided: tuple[int, ...] = ()
    """Processes of which it cannot be told whether they are hit."""
    undecided_mib: dict[str, Mib | None] = Field(default_factory=dict)
    """Memory of the server of which it cannot be told whether it comes back, by GPU."""
    outlive: tuple[int, ...] = ()
    """Members that are hit by a signal that does not end them."""
    hit_shells: tuple[str, ...] = ()
    """Shells and clients that carry the command and are ended by it, in words."""
    family: str | None = None
    """Id of the server that is judged; ``None`` if it cannot be told which one is meant."""
    engine: str | None = None
    root_pid: int | None = None
    look: str | None = None
    """Name of the look that the processes are from."""
    host: str | None = None
    user: str | None = None
    """Who gives the command."""
    carried_by: str = "prompt"
    """``prompt``, ``ssh``, or the shell that gets the command with ``-c``."""
    notes: tuple[str, ...] = ()
    """What was assumed, and what limits the answer."""
    processes: tuple[Affected, ...] = ()
    servers: tuple[Server, ...] = ()
    """Where it cannot be told which server is meant: all that may be."""

    def to_json(self) -> str:
        """The simulation as JSON text, with the public key names."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


_SEVERAL: Final = TypeAdapter(tuple[Simulation, ...])


def several_to_json(simulations: tuple[Simulation, ...]) -> str:
    """A JSON array, in the order of the commands."""
    return _SEVERAL.dump_json(simulations, by_alias=True, indent=2).decode() + "\n"
