"""The host's nouns: what was seen on a machine, before anybody explains it.

Everything here is a frozen dataclass of plain values and stays importable on Python 3.9 with the
standard library alone, because the collector runs on machines where nothing can be installed.

``None`` always means *not known from this evidence*. It never means zero, no, or empty.
Times are nanoseconds since the Unix epoch in UTC; sizes are MiB unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Tuple


@dataclass(frozen=True)
class Citation:
    """Where a fact was read, so that a reader can look it up."""

    input: str
    """Id of the input, ``I1`` for the first one named on the command line."""
    member: str
    """File inside the input, with forward slashes: ``after/query-apps.csv``."""
    line: Optional[int]
    """One-based line in that file; ``None`` where a format has no lines (one JSON value)."""
    quote: str
    """The text itself, at most 300 characters, not escaped for any output."""


@dataclass(frozen=True)
class Place:
    """Where and when a row was seen."""

    host: str
    """Host name as the evidence gives it, ``""`` where it gives none."""
    look: Optional[str]
    """Name of the look (``before``, ``after``, ``look-2``); ``None`` for a file of the whole incident."""
    time_ns: Optional[int]
    """When the tool that printed the row was started."""
    time_error_ns: int = 0
    """How far the time may be off, in either direction."""


@dataclass(frozen=True)
class GpuRef:
    """The names a source gives to a GPU; one is enough, and different sources give different ones."""

    index: Optional[int] = None
    uuid: Optional[str] = None
    bus_id: Optional[str] = None
    """Normalised to lower case with a domain of eight digits: ``00000000:00:06.0``."""


@dataclass(frozen=True)
class GpuSample:
    """Memory of one GPU at one moment."""

    at: Place
    gpu: GpuRef
    used_mib: Optional[float]
    total_mib: Optional[float]
    reserved_mib: Optional[float]
    """What the driver keeps for itself (``memory.reserved``)."""
    used_includes_reserve: bool
    """NVML's first memory call counts the reserve as used; nvidia-smi does not."""
    name: Optional[str]
    cited: Citation
    busy_s: Optional[float] = None
    """How long the NVML call took; a call that blocks for seconds overlaps a release."""


@dataclass(frozen=True)
class Booking:
    """Memory that the driver books on a PID: one row of a process list of NVML or nvidia-smi."""

    at: Place
    gpu: GpuRef
    pid: int
    mib: Optional[float]
    """``None`` for every non-value (``[N/A]``, ``[Insufficient Permissions]`` …), never 0 for it."""
    name: Optional[str]
    """The process name as printed; ``None`` where a non-value stands in its place."""
    name_missing: Optional[str]
    """The non-value that stood there, as printed: ``[No data]``, ``[Not Found]``."""
    kind: str
    """``compute``, ``graphics``, ``both``, ``mps``, ``unknown``, or ``reported``: an out-of-memory message names it."""
    cited: Citation
    withheld: Optional[str] = None
    """The words in place of the size, as printed: ``[N/A]``, ``[Insufficient Permissions]``."""


@dataclass(frozen=True)
class Refusal:
    """A tool says that it could not reset a GPU, change its MIG layout, or unload a module."""

    at: Place
    kind: str
    """``gpu_reset``, ``mig_change`` or ``module_unload``."""
    reason: Optional[str]
    """``in_use``, ``not_supported``, ``denied``; ``None`` where the message does not say."""
    gpu: GpuRef
    module: Optional[str]
    cited: Citation


@dataclass(frozen=True)
class KernelModule:
    """One loaded kernel module: a row of ``lsmod``."""

    at: Place
    name: str
    uses: int
    """Users that the kernel counts, modules among them."""
    used_by: Tuple[str, ...]
    """Modules that use it."""
    cited: Citation


@dataclass(frozen=True)
class PidProbe:
    """Somebody asked for one PID only, and this is the answer."""

    at: Place
    pid: int
    exists: bool
    how: str
    """``signal`` (``kill -0``: the kernel answers) or ``table`` (``ps``, ``/proc``: what can be listed)."""
    cited: Citation


@dataclass(frozen=True)
class Interrupt:
    """Ctrl-C was typed while a command was in the foreground."""

    at: Place
    command: str
    """The foreground job, as it was typed or as ``fg`` printed it."""
    pids: Tuple[int, ...]
    """What the job's own log calls its processes."""
    user: Optional[str]
    cited: Citation


@dataclass(frozen=True)
class PidFile:
    """A PID file held this number when somebody printed it."""

    at: Place
    path: str
    """As printed or as typed."""
    pid: int
    cited: Citation


@dataclass(frozen=True)
class Printout:
    """What nvidia-smi printed, whole: a command that picks PIDs out of such a text is tried on it."""

    at: Place
    kind: str
    """``table``, ``pmon`` or ``compute-apps``."""
    columns: tuple[str, ...]
    """Names of the columns; empty for the table."""
    lines: tuple[str, ...]
    """Of ``compute-apps`` without a heading."""
    cited: Citation


@dataclass(frozen=True)
class RefusedWord:
    """``kill`` was given a word that is no PID, and said so."""

    at: Place
    word: str
    cited: Citation


@dataclass(frozen=True)
class GpuReading:
    """One figure of a GPU besides its memory, or what a tool prints where it has no figure."""

    at: Place
    gpu: GpuRef
    field: str
    """nvidia-smi's name of it: ``utilization.gpu`` (per cent), ``memory.used`` …; ``recovery_action`` for what the
    driver wants done; ``device`` for a complaint about the GPU as a whole; ``status`` for a cell of the table."""
    value: Optional[float]
    words: Optional[str]
    """As printed, at most 300 characters; ``None`` where there is a value."""
    cited: Citation


@dataclass(frozen=True)
class Accounted:
    """What the driver's accounting remembers of one process on one GPU; the process may have ended long ago."""

    at: Place
    gpu: GpuRef
    pid: int
    peak_mib: Optional[float]
    """The most that it had at a time."""
    start_ns: Optional[int]
    """Its first use of the GPU."""
    end_ns: Optional[int]
    """``None`` while it runs, or where the driver does not tell."""
    running: Optional[bool]
    cited: Citation


@dataclass(frozen=True)
class Process:
    """One process in one look of one source; timeline joins the rows of several sources."""

    at: Place
    pid: int
    cited: Citation
    text_from: str
    """Which source the row is from: ``proc``, ``ps`` or ``fuser``."""
    ppid: Optional[int] = None
    pgid: Optional[int] = None
    sid: Optional[int] = None
    user: Optional[str] = None
    uid: Optional[int] = None
    state: Optional[str] = None
    """First letter of the state: R S D T t Z X I."""
    threads: Optional[int] = None
    """Threads that are alive, the leader included even when it is a zombie."""
    sleeping_threads: Optional[int] = None
    """Threads besides the leader in state S, T or t, where a list of threads shows their states."""
    start_ticks: Optional[int] = None
    """Field 22 of ``/proc/PID/stat``: clock ticks (1/100 s) since boot."""
    elapsed_s: Optional[float] = None
    """Age at the time of the look, as ``ps`` prints it; whole seconds."""
    started_local_s: Optional[int] = None
    """Start on the host's own clock (``ps -o lstart``): seconds since the epoch, read as if that clock showed UTC."""
    start_shown: Optional[str] = None
    """Start as ps shortens it (``STIME``, ``START``): ``09:03`` of the last day, ``Feb19`` before that, or a year."""
    comm: Optional[str] = None
    """At most 15 bytes."""
    comm_cut: bool = False
    """The tool may have shortened ``comm`` to fit a column (``ps --forest``); it is then a prefix only."""
    cmdline: Optional[str] = None
    """Arguments joined by one space, trailing NULs gone; ``""`` for a zombie or a kernel thread."""
    cmdline_cut: bool = False
    """The tool may have cut the line (``--cols``, terminal width)."""
    kernel_thread: Optional[bool] = None
    rss_shmem_kib: Optional[int] = None
    """``RssShmem``; pinned host memory shows here."""
    sig_pending: Optional[int] = None
    """``SigPnd | ShdPnd`` as a bit mask; bit 8 is SIGKILL."""
    sig_blocked: Optional[int] = None
    sig_ignored: Optional[int] = None
    sig_caught: Optional[int] = None
    wchan: Optional[str] = None
    cgroup: Optional[str] = None
    """Path of the unified hierarchy, ``/system.slice/x.service``."""
    ns_pids: Tuple[int, ...] = ()
    """``NSpid``: this PID in each PID namespace, the reader's first."""
    core_dumping: Optional[bool] = None
    environ: Tuple[Tuple[str, str], ...] = ()
    """Variables that were recorded, by an allow-list: ranks, visible devices, batch job, notebook."""


@dataclass(frozen=True)
class Handle:
    """A process has a device file open or mapped."""

    at: Place
    pid: int
    path: str
    how: str
    """``fd`` (open descriptor), ``map`` (mapped) or ``open`` (the tool does not tell which)."""
    cited: Citation


@dataclass(frozen=True)
class GpuName:
    """One GPU with the names that one source gives to it: index beside UUID, as ``nvidia-smi -L`` prints them."""

    at: Place
    gpu: GpuRef
    name: Optional[str]
    """The model, as printed."""
    mig_uuids: Tuple[str, ...]
    """The UUIDs of its MIG devices, in the order printed."""
    cited: Citation


@dataclass(frozen=True)
class Container:
    """One container as its engine describes it."""

    at: Place
    cited: Citation
    id: Optional[str] = None
    """As printed, usually the first twelve digits."""
    name: Optional[str] = None
    image: Optional[str] = None
    status: Optional[str] = None
    """``Up 3 hours``, ``running``, ``Exited (137) 2 minutes ago``: as printed."""
    main_pid: Optional[int] = None
    """PID of its first process on the host."""
    restart: Optional[str] = None
    """Restart policy: ``no``, ``always``, ``unless-stopped``, ``on-failure``."""
    pids: Tuple[int, ...] = ()
    """Processes of it on the host, where they were listed (``docker top``)."""


@dataclass(frozen=True)
class Unit:
    """One systemd unit."""

    at: Place
    cited: Citation
    name: Optional[str]
    """``ollama.service``; ``None`` where the output does not tell which of several it is about."""
    active: Optional[str] = None
    """``active``, ``inactive``, ``failed``, ``activating``, ``deactivating``."""
    sub: Optional[str] = None
    """``running``, ``dead``, ``exited``, ``auto-restart``."""
    main_pid: Optional[int] = None
    restart: Optional[str] = None
    """``Restart=``: ``no``, ``always``, ``on-failure`` …"""
    pids: Tuple[int, ...] = ()
    """Processes of its control group, where they were listed."""


@dataclass(frozen=True)
class Job:
    """One job of a batch system (Slurm)."""

    at: Place
    cited: Citation
    id: str
    """With the array index or the step, as printed."""
    name: Optional[str] = None
    """``squeue`` cuts it to eight characters."""
    user: Optional[str] = None
    state: Optional[str] = None
    """``R``, ``PD``, ``CG`` …, as printed."""
    nodes: Optional[str] = None
    """Node list, or the reason in brackets."""


@dataclass(frozen=True)
class Pod:
    """One Kubernetes pod."""

    at: Place
    cited: Citation
    name: str
    namespace: Optional[str] = None
    status: Optional[str] = None
    restarts: Optional[int] = None
    node: Optional[str] = None


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket."""

    at: Place
    cited: Citation
    address: str
    """Local address as printed, without the port."""
    port: int
    pids: Tuple[int, ...]
    """Who has the socket open; empty where the reader had no right to see it."""
    comm: Optional[str]
    """Of the first one, as printed."""


@dataclass(frozen=True)
class KernelStack:
    """Where in the kernel a task is: ``/proc/PID/stack``."""

    at: Place
    cited: Citation
    pid: int
    frames: Tuple[str, ...]
    """Function names, innermost first, without offsets; the module in brackets is kept."""


@dataclass(frozen=True)
class KillAction:
    """A command that somebody gave, as it was recorded. What it does is the shell stage's business."""

    host: str
    text: str
    """The command as a shell would read it."""
    argv: Optional[Tuple[str, ...]]
    """Set where the record has an argument vector: no shell stood between, except those it names."""
    how: str
    """``argv`` (executed as it stands), ``shell`` (given to some shell's ``-c``), ``prompt`` (typed) or ``stated`` (one
    of the last two)."""
    time_ns: Optional[int]
    end_ns: Optional[int]
    time_error_ns: int
    after_look: Optional[str]
    """Order by position where there is no time: the look that it follows, ``None`` if it precedes all."""
    user: Optional[str]
    exit_code: Optional[int]
    """As recorded; negative is a signal number (Python's convention), 128 + n the shell's."""
    output: Optional[str]
    """What it printed, standard output and error together; ``None`` where that was not recorded."""
    script_text: Optional[str]
    source: str
    """``recorded``, ``trace``, ``audit``, ``sudo_log``, ``history``, ``watch``, ``transcript`` or ``stated``."""
    cited: Citation
    local_s: Optional[int] = None
    """When, on the host's own clock, where that was printed (``date``): in the terms of ``Process.started_local_s``."""
    pid: Optional[int] = None
    """Of the process that the recorder started for it; everything local that the command does descends from it."""
    called: Optional[str] = None
    """What the line itself calls ``host``: the target of its ssh; ``None`` where that is where the line was typed."""


@dataclass(frozen=True)
class Inquiry:
    """A question about chosen processes. What it asks for and does not show was not there."""

    at: Place
    cited: Citation
    pids: Tuple[int, ...] = ()
    """Asked for by number."""
    comms: Tuple[str, ...] = ()
    """Every process with one of these comms was asked for (``ps -C``)."""
    pipeline: Optional[str] = None
    """A list passed through filters, or ``pgrep``, as a shell would read it: every process that it lets through."""


@dataclass(frozen=True)
class TraceEvent:
    """Something that a recorder heard of the kernel: a line of its trace (tracefs), or a process event.

    PIDs are those of the initial PID namespace, except where the recorder looked through /proc (``polled``).
    """

    kind: str
    """``signal_generate``, ``signal_deliver``, ``fork``, ``exec`` or ``exit``."""
    clock_s: float
    """The boot clock, seconds; ``ClockPair`` ties it to wall time."""
    pid: int
    """The task that the line is about: the sender of a generated signal, the one that forks, execs, exits."""
    comm: str
    cited: Citation
    signal: Optional[int] = None
    target_pid: Optional[int] = None
    """Receiver of a generated signal; the child of a fork."""
    target_comm: Optional[str] = None
    result: Optional[int] = None
    """``signal_generate``'s res: 0 delivered, 1 ignored by the target, above that lost or already pending."""
    filename: Optional[str] = None
    """Of an exec; a process event has its last part only."""
    group_dead: Optional[bool] = None
    """On exit: the last thread of the process went."""
    status: Optional[int] = None
    """On exit: as ``waitpid`` gives it. Only netlink tells."""
    origin: str = "trace"
    """``trace``, ``netlink``, or ``polled``: seen in rounds through /proc, so that the time is that of the round."""


@dataclass(frozen=True)
class Ending:
    """A process ended while a flight recorder ran."""

    host: str
    pid: int
    start_ticks: int
    time_ns: int
    """When, at the latest."""
    time_error_ns: int
    """How much earlier it may have been; 0 where the kernel told the recorder."""
    signal: Optional[int]
    """The signal that ended it, by the kernel's word; ``None``: none did, or nobody told."""
    exit_code: Optional[int]
    cited: Citation


@dataclass(frozen=True)
class ClockPair:
    """The same instant on two clocks."""

    boot_s: float
    wall_ns: int
    cited: Citation


@dataclass(frozen=True)
class LogRole:
    """A server log names a role for a PID; that outlives the process."""

    pid: int
    role: str
    """As printed: ``Worker_TP0``, ``EngineCore_DP0``, ``APIServer``."""
    cited: Citation
    host: str = ""


@dataclass(frozen=True)
class LogEvent:
    """Something that a server's log says about the life of a process or about memory."""

    kind: str
    """``role``, ``loading``, ``startup_complete``, ``shutdown``, ``death`` (ended unexpectedly), ``parent_exited``,
    ``oom``, ``memory_in_use`` (what an out-of-memory message says of another process), ``low_memory_start``,
    ``memory_freed`` (a start saw somebody else's memory come free), ``still_in_use`` (a wait for an idle GPU ended in
    vain), ``host_cache`` (the server keeps a cache in pinned host memory), ``address_in_use``,
    ``client_lost`` (a sidecar is asked about a server that it does not know any more)."""
    pid: Optional[int]
    """The process that the line is about, in the server's PID namespace; ``None`` if the line does not name it."""
    role: Optional[str]
    """Its role or name as printed."""
    time_ns: Optional[int]
    time_error_ns: int
    text: str
    """The message without its front, at most 300 characters."""
    cited: Citation
    host: str = ""
    stamp: Optional[str] = None
    """The time as printed; often without a zone, or without a year."""
    mib: Optional[float] = None
    """Memory of ``pid``, where the line gives it; for ``memory_freed`` what came free, for ``still_in_use`` what is
    left."""
    free_mib: Optional[float] = None
    """Free memory of the device at a start that failed for lack of it."""
    total_mib: Optional[float] = None
    gpu_index: Optional[int] = None
    """The GPU that the line names, in the numbering of the process that writes."""
    waited_s: Optional[float] = None
    """Of ``still_in_use``: how long it had waited."""
    fatal: bool = False
    """The line is written when SIGKILL is sent to ``pid``."""
    picked: bool = False
    """A filter chose the line: what stood between it and the next one is not shown."""


@dataclass(frozen=True)
class KernelEvent:
    """One message of the kernel or its GPU driver that bears on held memory."""

    kind: str
    """``xid``, ``off_bus``, ``gsp``, ``uvm``, ``nvrm`` (another message of the driver), ``oom``, ``cgroup_oom``,
    ``hung_task``, ``driver_frame`` (where in the driver a hung task is), ``segfault``, ``suspend`` (the machine was
    suspended or woken)."""
    xid: Optional[int]
    bus_id: Optional[str]
    """In the form of ``GpuRef.bus_id``; an Xid line leaves the function out, which is 0 for a GPU."""
    pid: Optional[int]
    """The process concerned, in the initial PID namespace."""
    comm: Optional[str]
    time_ns: Optional[int]
    boot_s: Optional[float]
    """Seconds since boot, where the kernel printed its own clock."""
    time_error_ns: int
    text: str
    """The message without its front, at most 300 characters."""
    cited: Citation
    host: str = ""
    stamp: Optional[str] = None
    """The time as printed."""


@dataclass(frozen=True)
class HostFact:
    """One thing that a tool says about the whole host."""

    at: Place
    name: str
    """``driver_version``, ``cuda_version``, ``shown_time`` (nvidia-smi's own clock, no zone); of a bundle also what
    its ``host.txt`` names (``version_procps``, ``core_pattern``, ``hidepid`` …)."""
    value: str
    cited: Citation


@dataclass(frozen=True)
class Coverage:
    """Whether a class of evidence was there at a look, and how far it reaches. Absence is evidence only with this."""

    at: Place
    source: str
    """``gpu memory``, ``compute processes``, ``process table``, ``open handles``, ``kernel trace``, ``process events``,
    ``kill commands``, ``server log``, ``kernel log``; also ``containers``, ``units``, ``jobs``, ``pods``,
    ``listening ports``, ``kernel stack``, ``gpu names``, and ``text`` for lines that no parser knows."""
    outcome: str
    """``ok``, ``absent``, ``denied``, ``timed_out``, ``truncated`` or ``not_understood``."""
    because: Optional[str]
    cited: Optional[Citation]
    complete: Optional[bool] = None
    """The source lists everything of its kind that its reader may see (``ps -e``, not a ``grep`` of it)."""
    as_root: Optional[bool] = None
    """The reader had root's rights; ``None`` if that cannot be told."""
    names_missing: Tuple[str, ...] = field(default=())
    """Kinds of rows that this source leaves out on purpose (nvidia-smi's table has no row for a dead PID)."""


@dataclass(frozen=True)
class Recorder:
    """The tool that took the looks of one input, as it describes itself."""

    host: str
    """As in ``Place``."""
    boot_id: Optional[str]
    """Of the running kernel at that time; start ticks count from this boot."""
    pids: Tuple[int, ...]
    """Its own processes: itself, its ancestors, and its children, those that it could not end included."""
    uid: Optional[int]
    user: Optional[str]
    pid_namespace: Optional[str]
    """``pid:[4026531836]`` is the initial one on every Linux."""
    cited: Citation


@dataclass(frozen=True)
class Damage:
    """A part of an input that could not be used."""

    input: str
    member: str
    line: Optional[int]
    reason: str
