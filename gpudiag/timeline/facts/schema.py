"""The fact tables that rules read: their columns, types and meaning. This is the rules' whole vocabulary.

A column holds something directly observable or computed from observations by one documented step; none
answers a rule. Every column may be null, and null means *the evidence does not tell*. Rules are linted
against this module, so a column that a rule names cannot silently disappear.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

TEXT = pl.String
FLAG = pl.Boolean
NUMBER = pl.Float64
COUNT = pl.Int64
TEXTS = pl.List(pl.String)


@dataclass(frozen=True)
class Column:
    """One column of a fact table."""

    dtype: pl.DataType | type[pl.DataType]
    meaning: str


@dataclass(frozen=True)
class Table:
    """One fact table: what a row is, and its columns."""

    row: str
    columns: dict[str, Column]

    def polars_schema(self) -> pl.Schema:
        """The columns as polars wants them."""
        return pl.Schema({name: column.dtype for name, column in self.columns.items()})


COMMON: dict[str, Column] = {
    "host": Column(TEXT, "host id, H1"),
    "family": Column(TEXT, "family id, F1; null for a process of no family or a row about no process"),
    "process": Column(TEXT, "process id, P7"),
    "pid": Column(COUNT, "PID in the namespace of the look"),
    "name": Column(TEXT, "title or comm, as people see it in nvidia-smi or ps"),
    "gpus": Column(TEXTS, "ids of the GPUs that the row is about"),
    "step": Column(TEXT, "step id, A1.2"),
    "step_text": Column(TEXT, "the step as written"),
    "cites": Column(pl.List(pl.Int64), "indices into the list of citations"),
}

_PROCESS_NOW: dict[str, Column] = {
    "role": Column(
        TEXT, "server, engine, worker, tracker, launcher, helper, sidecar or null; from titles, command lines and logs"
    ),
    "holds_mib": Column(NUMBER, "device memory that the newest look ties to the process; 0 = it holds none"),
    "listed": Column(FLAG, "a process list of the newest look names it, with or without a figure"),
    "device_untold": Column(FLAG, "the newest look tells of nobody who holds device memory or has a device open"),
    "alive_now": Column(FLAG, "it is in the newest look and not a plain zombie"),
    "state": Column(TEXT, "state letter in the newest look"),
    "target_family": Column(FLAG, "its family is one that the actions were aimed at"),
    "aimed": Column(FLAG, "the actions were aimed at this process: named, hit, or started by what they hit"),
    "same_owner": Column(FLAG, "its user is the user of the family that the actions were aimed at"),
}

REACH = Table(
    "one step of one kill command × one process that it hit, was meant for, or that holds memory",
    COMMON
    | _PROCESS_NOW
    | {
        "tool": Column(TEXT, "pkill, pgrep, killall, kill, fuser"),
        "signal": Column(TEXT, "KILL, TERM …"),
        "pattern": Column(TEXT, "the pattern, where the tool has one"),
        "matched_against": Column(TEXT, "the text the pattern was compared with"),
        "matcher": Column(TEXT, "the program that picks: the tool, or the one whose output kill was given"),
        "text_from": Column(TEXT, "where that text was recorded: proc, ps, nvidia-smi; args: comm taken from there"),
        "ran": Column(FLAG, "the step was started"),
        "ran_proven": Column(FLAG, "ran is shown by a trace, an exit code or a run time, not only by semantics"),
        "alive_then": Column(FLAG, "the process existed when the step ran"),
        "meant": Column(
            FLAG,
            "the step was meant for it: same family as something the step selects, an engine or server that its "
            "pattern names, a PID in its list, or (device tools) any user of the devices",
        ),
        "selected": Column(FLAG, "the tool's own semantics select the process"),
        "permitted": Column(FLAG, "the kernel lets this caller signal it"),
        "blind": Column(FLAG, "the caller cannot see the process's descriptors (not root, other owner)"),
        "signal_fatal": Column(FLAG, "the signal's action is to end this process (not caught, ignored or blocked)"),
        "device_open_then": Column(FLAG, "it had a device file open or mapped when the step ran"),
        "young_then": Column(
            FLAG, "it had started less than a minute before the step, errors of both times included, or after it"
        ),
        "list_from": Column(TEXT, "nvidia-smi, pgrep, ps … where the PIDs come from another program's output"),
        "delivered": Column(FLAG, "the signal reached it (trace, or selected, permitted and gone or dying after)"),
        "delivered_proven": Column(FLAG, "a trace or a recorded state shows the delivery"),
        "died": Column(FLAG, "it is gone, or a zombie, in the newest look"),
        "other_family": Column(FLAG, "it is none of the processes that the command was aimed at"),
        "wanted": Column(
            FLAG,
            "it belongs to a server, job or session that the command was not meant for, and that runs on, or ran until "
            "the command and has nothing to do with a GPU",
        ),
        "device_tie": Column(
            FLAG, "a booking, a mapped device or an engine's own title or log ties it to device memory, in any look"
        ),
        "no_pid": Column(
            TEXT, "a word that kill was given and refused because it is no PID; the row is about no process"
        ),
        "scope": Column(
            TEXT, "what the step covers by structure, in words: process group 1094, the children of 88120, session 7"
        ),
        "orphaned": Column(FLAG, "it lives and the server it belongs to does not (as in the table holder)"),
        "missed_mib": Column(NUMBER, "holds_mib of the process, or what its family holds for the family's engine"),
    },
)

CARRIER = Table(
    "one step × the shell (or sudo, su, ssh …) that carries it",
    COMMON
    | {
        "tool": Column(TEXT, "the tool of the step"),
        "signal": Column(TEXT, "the signal the step sends"),
        "pattern": Column(TEXT, "the pattern of the step"),
        "shell": Column(TEXT, "the carrier in words: the remote shell that ran it, its own sudo …"),
        "shell_text": Column(TEXT, "the shell's own command line"),
        "later_steps": Column(TEXTS, "ids of the steps after this one in the same shell"),
        "later_text": Column(TEXT, "those steps as written, joined by '; '"),
        "later_kills": Column(COUNT, "how many of them kill something"),
        "matches": Column(FLAG, "the pattern matches the shell's own command line"),
        "assumed": Column(FLAG, "whether there is such a shell is not known: a person states that the line was run"),
        "unless": Column(TEXT, "how else it may have been run, in words, where such a shell is assumed"),
        "execs": Column(FLAG, "the shell replaced itself by the tool, so no shell is left to be hit"),
        "signal_fatal": Column(FLAG, "the signal ends this shell"),
        "death_seen": Column(
            FLAG, "a trace, an exit code or a run time shows that the shell died (false: that it did not)"
        ),
        "death_how": Column(TEXT, "what shows it, in words"),
        "family_holds_mib": Column(NUMBER, "what the families that the actions were aimed at still hold"),
    },
)

HOLDER = Table(
    "one process that holds or held device memory, belongs to such a family, or is a zombie the actions named",
    COMMON
    | _PROCESS_NOW
    | {
        "held_mib": Column(NUMBER, "device memory tied to it in an earlier look"),
        "zombie": Column(FLAG, "state Z in the newest look"),
        "live_threads": Column(COUNT, "threads alive besides a zombie leader; 0 = a plain zombie"),
        "stopped": Column(FLAG, "state T or t, or its cgroup frozen"),
        "kill_pending": Column(FLAG, "SIGKILL is pending for it"),
        "kill_delivered": Column(FLAG, "SIGKILL reached it (trace, pending mask of a zombie, or a step that hit it)"),
        "kill_age_s": Column(NUMBER, "seconds from that signal to the newest look"),
        "expected_release_s": Column(NUMBER, "how long a release takes with its pinned memory (about 6 GiB/s)"),
        "within_expected": Column(FLAG, "kill_age_s is below twice expected_release_s plus 2 s"),
        "in_kernel": Column(FLAG, "state D, or SIGKILL pending on a process that is not a zombie"),
        "parent_pid": Column(COUNT, "parent in the newest look"),
        "parent_alive": Column(FLAG, "the parent that started it is alive"),
        "root_pid": Column(COUNT, "root of its family"),
        "root_alive": Column(FLAG, "the root of its family is alive"),
        "orphaned": Column(
            FLAG, "it lives and the server it belongs to does not (what counts as evidence: timeline/orphans.py)"
        ),
        "orphan_shown": Column(
            FLAG, "looks show that an ancestor died or its parent changed; not only titles or times"
        ),
        "adopted": Column(FLAG, "PID 1 took it over: it leads no process group, so its own parent died"),
        "older_family": Column(FLAG, "its family is an earlier server than the one the actions were aimed at"),
        "alive_before": Column(FLAG, "it existed before the first action"),
        "newer_than_actions": Column(FLAG, "it started after the last action"),
        "replaces_pid": Column(
            COUNT, "an earlier process, now dead, whose parent started it, or an ancestor of it, in that one's place"
        ),
        "same_command": Column(FLAG, "both have the same command line; null where only their parent and size agree"),
        "unit": Column(TEXT, "the systemd unit with Restart= that came back after a command ended its main process"),
        "unit_shown": Column(FLAG, "an earlier look names the ended PID as the unit's; false: the time ties the two"),
        "launcher_pid": Column(COUNT, "the living parent that started the dead one and the one in its place"),
        "launcher_name": Column(TEXT, "its name"),
        "inherits_from": Column(COUNT, "PID of the dead process whose device files it has open (forked, not exec'd)"),
        "booked_on": Column(COUNT, "that dead process, where the driver's list still names it"),
        "kept_until_its_end": Column(FLAG, "an earlier look shows it so; it was killed, and the memory came back"),
        "inherit_proven": Column(FLAG, "an earlier look shows it as that process's child"),
        "imports_memory": Column(
            FLAG, "a sidecar by its own words; memory on another host came free with its end; or it took over memory"
        ),
        "freed_elsewhere": Column(FLAG, "a GPU of another host, where nobody was found, fell when it was ended"),
        "freed_elsewhere_mib": Column(NUMBER, "by how much; null where that was not seen"),
        "client_lost": Column(FLAG, "it is a sidecar, and a log says that a server that it works for is unknown now"),
        "took_over_mib": Column(NUMBER, "by how much its figure grew, as much as one that a command ended had there"),
        "took_over_from": Column(COUNT, "PID of that one"),
        "sole_holder": Column(FLAG, "nobody else who may be alive is booked on its GPUs"),
        "device_open": Column(FLAG, "it has a device file open or mapped in the newest look"),
        "user": Column(TEXT, "its user"),
        "other_tenant": Column(FLAG, "another user's job, before and after alike"),
        "start_known": Column(FLAG, "its start time is recorded"),
        "titled_child": Column(FLAG, "its title is one that an engine gives to its children"),
        "server_named": Column(FLAG, "a command picked or names the server that its family belongs to"),
        "family_first_pid": Column(COUNT, "lowest PID of its family"),
        "log_role": Column(TEXT, "role that a server log gives to this PID"),
        "may_hold_mib": Column(
            NUMBER, "memory in use that no process list was taken for, where SIGKILL reached this process not long ago"
        ),
        "falling": Column(FLAG, "the used memory fell from each figure after the command to the next"),
        "falling_gpus": Column(TEXTS, "the GPUs of which that is true"),
        "host_cache": Column(FLAG, "a log says that the server keeps a cache in pinned host memory"),
        "core_dumping": Column(FLAG, "the kernel is writing its core dump"),
        "context_xids": Column(TEXTS, "Xid errors of its own work that the kernel logged with its PID"),
        "context_fault": Column(TEXT, "the last of these messages"),
        "machine_slept": Column(TEXT, "when the machine was last suspended or woken, as the kernel's log prints it"),
        "answers_signal": Column(FLAG, "kill -0 found a process with this PID (false: there is none)"),
        "in_process_table": Column(FLAG, "the process table of the newest look shows it"),
        "in_pool": Column(
            FLAG, "an engine's parent that keeps its children by design started it, or its title says so"
        ),
        "in_service": Column(FLAG, "it runs in a container, a pod or a service"),
        "kept_by": Column(TEXT, "docker, kubernetes, systemd, ray, notebook: what keeps it alive"),
        "kept_as": Column(TEXT, "the name of that container, unit or pool"),
        "keeper_alive": Column(FLAG, "that keeper lives, or says that it runs"),
        "client_ended": Column(FLAG, "the command that started its container is dead"),
        "client_pid": Column(COUNT, "PID of that command"),
        "mps_client": Column(FLAG, "the driver lists it as a client of the multi-process service"),
        "mps_server_pid": Column(COUNT, "PID of that service's server, where one lives"),
        "unlisted_orphan": Column(
            FLAG, "an engine's process left of a server that a command ended; memory is in use, and nobody listed whose"
        ),
        "starting_then": Column(FLAG, "its server was still starting when the first command aimed at it was given"),
        "starting_shown": Column(FLAG, "a command line or a dated line shows that, not only a line that is missing"),
        "starting_how": Column(TEXT, "what tells that, in words"),
        "peer_gone": Column(FLAG, "a rank beside it that a command picked is dead, and nothing was sent to this one"),
        "peer_pid": Column(COUNT, "PID of that rank"),
        "ranks_coupled": Column(FLAG, "what is known of the launcher or engine says that its ranks need each other"),
        "leaves_by_itself": Column(FLAG, "the engine's laws say that it leaves, and its time is not over"),
    },
)

GPU = Table(
    "one GPU in the newest look that has a figure for it",
    COMMON
    | {
        "used_mib": Column(NUMBER, "memory in use, without the driver's reserve where that is known"),
        "booked_mib": Column(NUMBER, "sum over the process list; 0 = the list is there and empty"),
        "unattributed_mib": Column(NUMBER, "used minus booked minus the driver's bound, not below 0"),
        "driver_bound_mib": Column(NUMBER, "most that the driver's own bookkeeping can be"),
        "above_baseline": Column(FLAG, "more is in use than an idle GPU of this kind shows"),
        "list_seen": Column(FLAG, "the look has a process list for this GPU"),
        "list_complete": Column(FLAG, "that list was not cut"),
        "listed_pids_absent": Column(FLAG, "a listed PID is in no process table of the look, which is complete"),
        "list_empty": Column(FLAG, "the list is there and names nobody"),
        "own_namespace": Column(FLAG, "the look was taken outside the host's PID namespace"),
        "left_inside": Column(FLAG, "processes that the look shows are left of a server that a command ended"),
        "proc_hidden": Column(FLAG, "the look could see only the reader's own processes (hidepid)"),
        "as_root": Column(FLAG, "the look was taken as root"),
        "handles_complete": Column(
            FLAG, "all descriptors and mappings of all processes and threads were read, as root"
        ),
        "open_by_count": Column(COUNT, "processes that have a device file open or mapped, monitors aside"),
        "releasing": Column(FLAG, "SIGKILL reached a holder of memory on it, no longer ago than a release may take"),
        "explained": Column(FLAG, "every MiB above the driver's bound has an owner, who lives or whose heirs do"),
        "action_seen": Column(FLAG, "some kill command is known"),
        "utilisation_pct": Column(NUMBER, "utilisation in per cent, as last read"),
        "unreported": Column(FLAG, "a word stands where the size would tell whose memory it is"),
        "unreported_words": Column(TEXT, "those words, as printed"),
        "seen_from": Column(TEXT, "a known limit of the view, in words: under WSL2 …"),
    },
)

FAULT = Table(
    "one GPU, or an address that only the kernel names, with what is said of its state",
    COMMON
    | {
        "fault_gpu": Column(TEXT, "the GPU's id, or its address where no tool shows it"),
        "words": Column(TEXT, "what a tool prints about the GPU as a whole: [GPU requires reset]"),
        "tool_says_fault": Column(FLAG, "a tool says that the GPU needs a reset or is lost"),
        "off_bus": Column(FLAG, "the kernel says that the GPU has fallen off the bus"),
        "recovery": Column(TEXT, "the recovery that the driver wants, in its words"),
        "recovery_wanted": Column(FLAG, "the last word of the driver on it is not None"),
        "reset_xids": Column(TEXTS, "Xid errors in the log after which only a reset helps"),
        "recent": Column(FLAG, "the last of them is near the last command or the newest look"),
        "answers": Column(FLAG, "nvidia-smi gives plain figures of it after the last command (false: it cannot)"),
        "unowned_mib": Column(NUMBER, "memory in use that no living process accounts for"),
    },
)

STUCK = Table(
    "one process that shows a sign of being stuck in the kernel",
    COMMON
    | _PROCESS_NOW
    | {
        "sleeps_in_kernel": Column(FLAG, "state D in the newest look"),
        "in_driver": Column(FLAG, "its stack or wait channel lies in a module of the GPU driver"),
        "driver_function": Column(TEXT, "the function there"),
        "kill_pending": Column(FLAG, "SIGKILL is pending for it"),
        "outlived_kill": Column(FLAG, "SIGKILL was sent to it and it is there in the newest look, no zombie"),
        "outlived_s": Column(NUMBER, "seconds between the two, at least"),
        "within_expected": Column(FLAG, "no longer than a release of its size takes"),
        "hung_s": Column(NUMBER, "seconds for which the kernel says that it is blocked"),
        "uses_driver": Column(FLAG, "something ties it to the GPU driver"),
    },
)

REFUSAL = Table(
    "one refused reset, MIG change or module unload",
    COMMON
    | {
        "kind": Column(TEXT, "what was refused, in words"),
        "module": Column(TEXT, "the module, where one was to be unloaded"),
        "reason": Column(TEXT, "in_use, not_supported or denied"),
        "openers": Column(TEXTS, "processes that have a device open, as name and PID"),
        "nobody_open": Column(FLAG, "a look at the descriptors found nobody"),
        "kernel_clients": Column(TEXTS, "loaded modules that use the driver from inside the kernel"),
    },
)

HOST = Table(
    "one host",
    COMMON
    | {
        "query_timed_out": Column(FLAG, "a query of the driver did not end in its time"),
        "query": Column(TEXT, "that query, or what it printed"),
        "answered_later": Column(FLAG, "a later query was answered"),
    },
)

ORDER = Table(
    "one command and the newest look, from different records",
    COMMON
    | {
        "distance_s": Column(NUMBER, "seconds between them"),
        "error_s": Column(NUMBER, "how far the two times may be off together"),
        "order_known": Column(FLAG, "the distance is larger than the error"),
    },
)

REUSE = Table(
    "one PID of the newest look that a command named, or under which another process was seen before",
    COMMON
    | _PROCESS_NOW
    | {
        "other_before": Column(FLAG, "another process had the number in an earlier look"),
        "by_name_only": Column(FLAG, "only the name tells them apart: an engine's title became a plain command line"),
        "before_name": Column(TEXT, "the name of that one"),
    },
)

ELSEWHERE = Table(
    "one step that reached a client, or a number, and one holder of memory on another host or in another namespace",
    COMMON
    | _PROCESS_NOW
    | {
        "given_on": Column(TEXT, "host where the command took effect"),
        "holder_on": Column(TEXT, "host of the holder"),
        "client_pid": Column(COUNT, "the client that the step reached"),
        "client_name": Column(TEXT, "srun, ssh …"),
        "client_alive": Column(FLAG, "it is alive in the newest look at its host"),
        "tie": Column(
            TEXT,
            "job: client and holder are of one batch job; host: the client names the holder's host; number: the PID "
            "stands in a command that was run in another PID namespace",
        ),
        "job": Column(TEXT, "the batch job that the client names"),
    },
)

STEP = Table(
    "one killing step of a command",
    COMMON
    | {
        "tool": Column(TEXT, "pkill, killall, kill, fuser"),
        "signal": Column(TEXT, "the signal it sends"),
        "pattern": Column(TEXT, "its pattern, where it has one that is known"),
        "hopeless": Column(FLAG, "its pattern can match no process whatever; null: the pattern is not known"),
        "hopeless_why": Column(TEXT, "why"),
        "ran": Column(FLAG, "it was started"),
        "ran_proven": Column(FLAG, "what was observed shows that, not only the rules of the shell"),
        "not_run_why": Column(TEXT, "why it was not, or perhaps not, run; null also where its shell was killed before"),
        "held_mib": Column(NUMBER, "what the processes that it was meant for still hold"),
        "stray_pids": Column(TEXTS, "PIDs that it was given and that were nobody's, or somebody else's by then"),
        "stray_how": Column(TEXT, "which of the two, in words"),
        "stray_shown": Column(FLAG, "kill itself, two looks, or the column that was printed show it"),
        "wrong_column": Column(TEXT, "the column of ps that its list was made of, where that is not the PID"),
        "left_mib": Column(
            NUMBER, "held_mib; where it was meant for nobody who is there, what the host's only owner of any holds"
        ),
    },
)

RELEASE = Table(
    "one family × one GPU on which it held memory in an earlier look",
    COMMON
    | {
        "held_mib": Column(NUMBER, "what the family held"),
        "still_mib": Column(NUMBER, "what it holds in the newest look"),
        "fell_mib": Column(NUMBER, "by how much the used memory fell over the same time"),
        "came_back_mib": Column(NUMBER, "the part of held_mib that is free again or with somebody else"),
        "unowned_mib": Column(NUMBER, "in use on the GPU and booked on nobody, if more than an idle GPU shows"),
        "released_after_s": Column(NUMBER, "seconds from the signal to the first sample without it"),
        "released_by": Column(TEXT, "wall time of that sample"),
        "action_seen": Column(FLAG, "some kill command is known"),
        "bound_only": Column(FLAG, "the time is an upper bound: no sample lies between the looks"),
        "target_family": Column(FLAG, "its family is one that the actions were aimed at"),
    },
)

GAP = Table(
    "one class of evidence that is missing, and what it would tell",
    COMMON
    | {
        "source": Column(TEXT, "the class of evidence"),
        "lacks": Column(TEXT, "the same in words, which say so where some of it was read"),
        "needed_for": Column(TEXTS, "rules that stay unknown without it"),
        "collect": Column(TEXT, "the one command that gets it"),
        "memory_held": Column(FLAG, "the newest figure is above what the driver keeps, or there is none"),
        "cause_found": Column(FLAG, "some rule that explains held memory fired"),
    },
)

TABLES: dict[str, Table] = {
    "reach": REACH,
    "carrier": CARRIER,
    "holder": HOLDER,
    "gpu": GPU,
    "release": RELEASE,
    "fault": FAULT,
    "stuck": STUCK,
    "refusal": REFUSAL,
    "host": HOST,
    "order": ORDER,
    "reuse": REUSE,
    "elsewhere": ELSEWHERE,
    "step": STEP,
    "gap": GAP,
}
