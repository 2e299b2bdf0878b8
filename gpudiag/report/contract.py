"""The public object ``gpudiag.report/1``: everything that a report says, in one value.

Every output (terminal, HTML, Markdown, JSON) is drawn from a :class:`Report` and from nothing else.
Sizes are MiB, times are RFC 3339 text in UTC, PIDs count in the namespace of the look they come from.
``None`` means *not known*; it never stands for zero or no.

Reading is tolerant, because fields and enum values may be added later: unknown fields are dropped, and
the enums are plain text. The ``*_VALUES`` tuples name the values that this version writes.
Lists are tuples, so that a report cannot be changed after it was made.
"""

from __future__ import annotations

from typing import Annotated, Final, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

SCHEMA: Final = "gpudiag.report/1"

INPUT_KIND_VALUES: Final = ("bundle", "directory", "transcript")
PID_NAMESPACE_VALUES: Final = ("host", "container", "unknown")
SOURCE_OUTCOME_VALUES: Final = ("ok", "absent", "denied", "timed_out", "truncated", "not_understood")
OUTCOME_VALUES: Final = ("memory_held", "releasing", "released", "nothing_held", "inconclusive")
LEDGER_KIND_VALUES: Final = ("process", "dead_process", "driver", "unattributed")
WHOSE_VALUES: Final = ("family", "older_family", "other_tenant", "system", "unknown")
FAMILY_STATE_VALUES: Final = ("running", "orphaned", "stuck", "leaving", "gone")
YES_NO_VALUES: Final = ("yes", "no", "unknown")
CERTAINTY_VALUES: Final = ("proven", "inferred", "possible")
ACTION_SOURCE_VALUES: Final = ("recorded", "trace", "audit", "sudo_log", "history", "watch", "transcript", "stated")
RIVAL_STATUS_VALUES: Final = ("excluded", "less_likely", "open")
STOP_KIND_VALUES: Final = (
    "systemd",
    "docker",
    "kubernetes",
    "slurm",
    "supervisor",
    "launcher",
    "shell_loop",
    "ray",
    "mps",
    "notebook",
    "sidecar",
)
IDENTITY_VALUES: Final = ("strong", "weak")
THEN_KIND_VALUES: Final = (
    "wait",
    "verify",
    "collect",
    "persistence_off",
    "module_reload",
    "gpu_reset",
    "reboot",
    "ask_owner",
)
EVENT_KIND_VALUES: Final = ("log", "kernel", "signal", "fork", "exec", "exit")


def _whole(value: object) -> object:
    """A size that is whole is written as an integer: 8802, not 8802.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Mib = Annotated[int | float, BeforeValidator(_whole)]
"""A size in MiB; whole sizes are integers in JSON."""


def _without_surrogates(value: object) -> object:
    """Half of a surrogate pair (odd names, ``\\ud800`` in somebody's JSON) is no text and cannot be encoded."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, (list, tuple)):
        return tuple(_without_surrogates(item) for item in cast("tuple[object, ...]", value))
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {_without_surrogates(key): _without_surrogates(item) for key, item in items}
    return value


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _clean(cls, data: object) -> object:
        return _without_surrogates(data)


ContractModel = _Model
"""What every public object is made of."""


class Tool(_Model):
    """The program that made the report."""

    name: str
    version: str
    rules_digest: str
    """Digest over the rule files that were in force."""


class DamageRef(_Model):
    """A part of an input that could not be read."""

    member: str
    line: int | None = None
    """One-based; ``None`` where the whole member is meant."""
    reason: str


class InputRef(_Model):
    """One input as named on the command line."""

    id: str
    """``I1`` for the first."""
    path: str
    kind: str
    """One of INPUT_KIND_VALUES."""
    complete: bool
    """False if the input was cut off or damaged."""
    damage: tuple[DamageRef, ...] = ()


class Host(_Model):
    """A machine that the evidence speaks of."""

    id: str
    name: str
    """Empty where the evidence names none."""
    boot_id: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    privileged: bool | None = None
    """Whether the looks were taken as root."""
    pid_namespace: str = "unknown"
    """One of PID_NAMESPACE_VALUES."""


class LookRef(_Model):
    """One look at a host."""

    id: str
    host: str
    """A ``Host.id``."""
    time: str | None = None
    time_error_s: float | None = None
    """How far ``time`` may be off, in either direction."""
    recalled: bool = False
    """Nobody looked then: it is put together from what a flight recorder (``gpudiag watch``) had written."""


class SourceRef(_Model):
    """One kind of evidence in one look: whether it could be read."""

    input: str
    """An ``InputRef.id``."""
    look: str | None = None
    """A ``LookRef.id``; ``None`` for a source of the whole incident, such as a server log."""
    source: str
    """Plain name: ``open handles``."""
    outcome: str
    """One of SOURCE_OUTCOME_VALUES."""
    because: str | None = None


class LedgerEntry(_Model):
    """One share of a GPU's used memory, and who holds it."""

    kind: str
    """One of LEDGER_KIND_VALUES."""
    whose: str
    """One of WHOSE_VALUES."""
    process: str | None = None
    """A ``ProcessRef.id``."""
    pid: int | None = None
    name: str | None = None
    mib: Mib | None = None
    held_by: tuple[str, ...] = ()
    """``ProcessRef.id`` of live processes that hold the descriptors of a dead one."""
    because: str = ""


class Gpu(_Model):
    """One GPU in the newest look, and the ledger of its used memory."""

    id: str
    """The UUID where one is known."""
    host: str
    """A ``Host.id``."""
    index: int | None = None
    uuid: str | None = None
    name: str | None = None
    total_mib: Mib | None = None
    used_mib: Mib | None = None
    reserved_mib: Mib | None = None
    """What the driver keeps for itself; not part of ``used_mib``."""
    baseline_mib: Mib | None = None
    """What is in use when no job runs, as far as the evidence shows it."""
    outcome: str
    """One of OUTCOME_VALUES."""
    ledger: tuple[LedgerEntry, ...] = ()


class Family(_Model):
    """A server with everything that belongs to it."""

    id: str
    host: str
    """A ``Host.id``."""
    engine: str | None = None
    """``vllm``, ``sglang`` …"""
    root_pid: int | None = None
    state: str
    """One of FAMILY_STATE_VALUES."""
    members: tuple[str, ...] = ()
    """``ProcessRef.id`` of each."""
    holds_mib: dict[str, Mib | None] = Field(default_factory=dict)
    """MiB by ``Gpu.id``."""
    outcome: str
    """One of OUTCOME_VALUES."""
    primary: str | None = None
    """The rule that explains this family best: ``GPD101``."""


class Fate(_Model):
    """What one step did to one process."""

    step: str
    """An ``ActionStep.id``."""
    reached: str
    """One of YES_NO_VALUES."""
    certainty: str
    """One of CERTAINTY_VALUES."""
    because: str = ""


class ProcessRef(_Model):
    """One process of the incident, in its last known state."""

    id: str
    host: str
    """A ``Host.id``."""
    pid: int
    start_time: str | None = None
    start_ticks: int | None = None
    """Clock ticks (1/100 s) since boot."""
    user: str | None = None
    state: str | None = None
    """State letter as ``ps`` prints it: R S D T Z; ``None`` where it was not recorded."""
    name: str | None = None
    cmdline: str | None = None
    role: str | None = None
    """``api_server``, ``engine``, ``worker`` … as the engine's rules name it."""
    family: str | None = None
    """A ``Family.id``."""
    parent_pid: int | None = None
    parent_alive: bool | None = None
    last_seen: str | None = None
    """The ``LookRef.id`` of the newest look that has this process."""
    holds_mib: dict[str, Mib | None] = Field(default_factory=dict)
    """MiB by ``Gpu.id``."""
    fate: tuple[Fate, ...] = ()


class ActionStep(_Model):
    """One simple command inside an action."""

    id: str
    """``A1.1``: first step of the first action."""
    text: str
    tool: str | None = None
    signal: str | None = None
    """Without ``SIG``: ``KILL``."""
    runs_on: str | None = None
    """A ``Host.id``."""
    ran: str
    """One of YES_NO_VALUES."""
    because: str = ""
    hit: tuple[int, ...] = ()
    missed: tuple[int, ...] = ()
    """PIDs that the step was meant for and did not hit."""
    collateral: tuple[int, ...] = ()
    """PIDs hit that belong to another family or tenant."""
    hit_shells: tuple[str, ...] = ()
    """Shells that carried the command and were hit by it, in words."""
    not_permitted: tuple[int, ...] = ()
    error: str | None = None
    exit_code: int | None = None


class Action(_Model):
    """A clean-up command that somebody gave."""

    id: str
    time: str | None = None
    time_error_s: float | None = None
    text: str
    source: str
    """One of ACTION_SOURCE_VALUES."""
    exit_code: int | None = None
    steps: tuple[ActionStep, ...] = ()


class Evidence(_Model):
    """A line of an input, word for word."""

    input: str
    """An ``InputRef.id``."""
    member: str
    line: int | None = None
    quote: str = ""


class Rival(_Model):
    """Another cause that could look the same, and how it stands."""

    rule: str
    title: str | None = None
    """The rule's title; ``None`` for a rule that this version does not have."""
    status: str
    """One of RIVAL_STATUS_VALUES."""
    because: str = ""


class Finding(_Model):
    """A rule that fired."""

    rule: str
    title: str
    certainty: str
    """One of CERTAINTY_VALUES; about the cause."""
    primary: bool = False
    families: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    steps: tuple[str, ...] = ()
    explains_mib: Mib | None = None
    measures: dict[str, int | float | str | bool | None] = Field(default_factory=dict)
    """Numbers behind the finding; the unit is the suffix of the key."""
    text: str
    evidence: tuple[Evidence, ...] = ()
    rivals: tuple[Rival, ...] = ()
    settled_by: str | None = None
    """What would prove or disprove it, as a command where there is one."""


class UnknownRule(_Model):
    """A rule that could still change the verdict, and how to get the evidence it lacks."""

    rule: str
    title: str | None = None
    """The rule's title."""
    missing: tuple[str, ...] = ()
    collect: str
    """One command."""


class StopFirst(_Model):
    """A supervisor that would start the server again, or an engine's own way to stop it."""

    kind: str
    """One of STOP_KIND_VALUES."""
    id: str
    command: str
    run_in: str = "host"
    """``host``, or the name of the container."""


class KillEntry(_Model):
    """One process to kill."""

    process: str
    """A ``ProcessRef.id``."""
    pid: int
    start_time: str | None = None
    start_ticks: int | None = None
    boot_id: str | None = None
    identity: str
    """One of IDENTITY_VALUES."""
    name: str | None = None
    signal: str
    order: int
    """1 comes first."""
    frees_mib: Mib | None = None
    certainty: str
    """``proven`` or ``inferred``; about holding."""
    because: str = ""
    check: str
    """A shell condition: true while the PID is still this process."""
    command: str
    """The check, and then the kill."""
    run_in: str = "host"
    host: str
    """A ``Host.id``."""


class KeepEntry(_Model):
    """A process that must not be killed, though it may look like one."""

    process: str
    """A ``ProcessRef.id``."""
    pid: int
    name: str | None = None
    because: str = ""


class ThenEntry(_Model):
    """What to do after the kills, or instead of them."""

    kind: str
    """One of THEN_KIND_VALUES."""
    command: str | None = None
    because: str = ""


class NextTime(_Model):
    """A command that would have cleaned up this incident at once."""

    command: str
    matches: tuple[int, ...] = ()
    misses: tuple[int, ...] = ()
    because: str = ""
    of_this_run: bool = False
    """It names PIDs, groups or a session of this run: those of another run have to be read first."""
    again: str | None = None
    """Beside a command of this run: one that names none of its numbers and would have hit the same processes."""
    again_because: str = ""


class Plan(_Model):
    """What to do, in order."""

    stop_first: tuple[StopFirst, ...] = ()
    kill: tuple[KillEntry, ...] = ()
    keep: tuple[KeepEntry, ...] = ()
    then: tuple[ThenEntry, ...] = ()
    next_time: NextTime | None = None
    no_next_time: str | None = None
    """Why no command is proposed for next time; ``None`` where one is, or where no server was aimed at."""


class Sample(_Model):
    """Used memory of one GPU at one moment."""

    gpu: str
    """A ``Gpu.id``."""
    time: str | None = None
    used_mib: Mib | None = None


class Event(_Model):
    """Something that happened, from a log or a trace."""

    time: str | None = None
    time_error_s: float | None = None
    """How far the time may be off; ``None`` where there is no time, and for the trace, whose clock is exact."""
    kind: str
    """One of EVENT_KIND_VALUES."""
    process: str | None = None
    """A ``ProcessRef.id``."""
    text: str
    evidence: Evidence | None = None


class Report(_Model):
    """Why GPU memory is still allocated after a clean-up, and what to do about it."""

    schema_: str = Field(default=SCHEMA, alias="schema")
    tool: Tool
    inputs: tuple[InputRef, ...] = ()
    hosts: tuple[Host, ...] = ()
    looks: tuple[LookRef, ...] = ()
    sources: tuple[SourceRef, ...] = ()
    outcome: str
    """One of OUTCOME_VALUES: the state of the newest look."""
    summary: str
    """One or two sentences."""
    gpus: tuple[Gpu, ...] = ()
    families: tuple[Family, ...] = ()
    processes: tuple[ProcessRef, ...] = ()
    actions: tuple[Action, ...] = ()
    findings: tuple[Finding, ...] = ()
    unknown: tuple[UnknownRule, ...] = ()
    plan: Plan = Field(default_factory=Plan)
    samples: tuple[Sample, ...] = ()
    events: tuple[Event, ...] = ()

    def to_json(self) -> str:
        """The report as JSON text, with the public key names."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"
