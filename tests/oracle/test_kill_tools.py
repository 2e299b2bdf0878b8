"""The selections computed here against those of the real pgrep, pkill, killall, fuser and kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpudiag.shell.quoting import literal
from gpudiag.shell.tools import fuser, kill, killall, pgrep
from gpudiag.shell.tools.listing import Looking
from gpudiag.shell.world import Caller, Candidate, World

ROOT = Caller("root", 0)
SPAWN: list[dict[str, Any]] = [
    {"argv": ["python", "-m", "vllm.entrypoints.openai.api_server"]},
    {"argv": ["VLLM::EngineCore", "9"], "comm": "VLLM::EngineCore"},
    {"argv": ["VLLM::Worker_TP0", "9"], "comm": "VLLM::Worker_TP0"},
    {"argv": ["/opt/vllm-env/bin/python", "a  b", "", "99"], "comm": "tracker"},
    {"argv": ["nl", "x\nend", "tab\tend", "99"], "comm": "odd (name) x"},
    {"argv": ["über", "99"], "comm": "short"},
    {"argv": ["sleeper-that-is-a-zombie", "99"]},
]


def world_of(answer: dict[str, Any], held: dict[int, frozenset[str]] | None = None) -> World:
    processes = tuple(
        Candidate(
            pid=row["pid"],
            ppid=row["ppid"],
            pgid=row["pgid"],
            sid=row["sid"],
            uid=0,
            user="root",
            comm=row["comm"],
            cmdline=row["cmdline"],
            state=row["state"],
            start=row["start"],
            kernel_thread=False,
        )
        for row in answer["table"]
    )
    return World(processes, True, held)


PGREP = [
    ["-f", "vllm.entrypoints"],
    ["-f", "vllm"],
    ["-if", "vllm"],
    ["vllm"],
    ["VLLM"],
    ["VLLM::EngineCore"],
    ["VLLM::EngineCor"],
    ["(VLLM::EngineC.*)"],
    ["-x", "VLLM::EngineCor"],
    ["-x", "nothing|VLLM::EngineCor"],
    ["-x", "-f", "VLLM::Worker_TP0"],
    ["-f", "-x", "VLLM::Worker_TP0 -c .*"],
    ["-f", "^VLLM::"],
    ["-f", "99$"],
    ["-f", "a  b  99"],
    ["-f", "x end"],
    ["-f", "tab[?]end"],
    ["-f", "über"],
    ["odd .name. x"],
    ["-f", "sleeper"],
    ["-f", "^\\[sleep\\] <defunct>$"],
    ["-f", "-x", "\\[sleep\\]"],
    ["sleep"],
    ["-n", "-f", "VLLM"],
    ["-o", "-f", "VLLM"],
    ["-f", "[[:upper:]]+::Worker"],
    ["-f", "\\<Worker"],
    ["-f", "\\d"],
    ["-f", "(?i)x"],
    ["-f", "x{"],
    ["-f", "a{32768}"],
    ["-f", "a\\"],
    ["-f", "[[:foo:]]"],
    ["-f", "a)"],
    ["-f", ""],
    ["-u", "root", "VLLM"],
    ["-u", "0", "-f", "Worker"],
    ["-u", "daemon", "VLLM"],
    ["-r", "Z"],
    ["-r", "RSD", "VLLM"],
    ["-v", "-f", "VLLM"],
    ["foo", "bar"],
    [],
    ["-n", "-o", "x"],
    ["--nonsense", "x"],
    ["--full", "--exact", "nope"],
    ["--ful", "EngineCore"],
]


def test_pgrep_selects_as_the_real_one_does(in_namespace: Any, need: Any) -> None:
    need("pgrep")
    answer = in_namespace({"spawn": SPAWN, "zombies": [6], "run": [["pgrep", *arguments] for arguments in PGREP]})
    ours = set(answer["pids"])
    wrong: list[str] = []
    for arguments, result in zip(PGREP, answer["results"], strict=True):
        selection = pgrep.select((literal("pgrep"), *map(literal, arguments)), world_of(answer), ROOT, frozenset())
        real = {int(row) for row in result["out"].split()} & ours
        computed = {one.pid for one in selection.verdicts if one.selected} & ours
        unsure = [one.pid for one in selection.verdicts if one.selected is None]
        # Whether the tool ran in the C locale is not recorded, so that names beyond ASCII may stay unknown.
        undecided = bool(unsure) and not " ".join(arguments).isascii() and computed <= real <= computed | set(unsure)
        if not undecided and (real != computed or unsure or selection.exit_code != result["code"]):
            wrong.append(
                f"{arguments}: real {real} {result['code']}, computed {computed} {selection.exit_code} {unsure}"
            )
    assert not wrong, "\n".join(wrong)


PKILL = [
    ["-9", "-f", "vllm.entrypoints"],
    ["-f", "VLLM::Worker", "-9", "-e"],
    ["-9f", "VLLM"],
    ["-f9", "VLLM"],
    ["--signal", "KILL", "nosuch"],
    ["-NOSUCH", "VLLM"],
    ["-v", "VLLM"],
    ["-SIGTERM", "VLLM::EngineCor"],
    ["-0", "tracker"],
    ["a", "b"],
]


def test_pkill_reads_its_signal_and_refuses_as_the_real_one_does(in_namespace: Any, need: Any) -> None:
    need("pkill")
    commands = [["pkill", *arguments] for arguments in PKILL]
    for arguments, command in zip(PKILL, commands, strict=True):
        answer = in_namespace({"spawn": SPAWN[:4], "run": [command], "settle": 0.1})
        selection = pgrep.select(tuple(map(literal, command)), world_of(answer), ROOT, frozenset())
        computed = {one.pid for one in selection.verdicts if one.selected and selection.signal}
        real = set(answer["pids"]) - set(answer["results"][0]["alive"])
        assert computed == real, arguments
        assert selection.exit_code == answer["results"][0]["code"], arguments


LATER_ARGUMENT: dict[str, Any] = {"argv": ["first", "x/VLLM::Worker_TP9"], "comm": "VLLM::Worker_TP"}
"""Its comm is full, and its long name stands in a later argument."""
PATH_IN_COMM: dict[str, Any] = {"argv": ["/usr/bin/python3", "-u"], "comm": "/usr/bin/python3"}
KILLALL = [
    ["VLLM::EngineCore"],
    ["VLLM::EngineCor"],
    ["VLLM::Worker_TP0"],
    ["VLLM::Worker_TP"],
    ["vllm::enginecore"],
    ["-I", "vllm::enginecore"],
    ["tracker"],
    ["python"],
    ["sleep"],
    ["-r", "^VLLM"],
    ["-r", "Worker"],
    ["-e", "VLLM::EngineCore"],
    ["nosuch"],
    ["-u", "root", "tracker"],
    ["odd (name) x"],
    ["VLLM::Worker_TP9"],
    ["-r", "TP9$"],
    ["-r", "^.{15}$"],
]


def test_killall_selects_as_the_real_one_does(in_namespace: Any, need: Any) -> None:
    need("killall")
    commands = [["killall", "-s", "0", "-v", *arguments] for arguments in KILLALL]
    answer = in_namespace({"spawn": [*SPAWN, LATER_ARGUMENT, PATH_IN_COMM], "zombies": [6], "run": commands})
    ours = set(answer["pids"])
    for command, result in zip(commands, answer["results"], strict=True):
        selection = killall.select(tuple(map(literal, command)), world_of(answer), ROOT)
        real = {pid for pid in ours if f"({pid})" in result["out"] + result["err"]}
        assert {one.pid for one in selection.verdicts if one.selected} & ours == real, command
        assert not [one for one in selection.verdicts if one.selected is None], command
        assert selection.exit_code == result["code"], command


def test_fuser_kills_the_holders_only(in_namespace: Any, need: Any) -> None:
    need("fuser")
    held, free = "/dev/shm/gpudiag-oracle-held", "/dev/shm/gpudiag-oracle-free"
    spawn = [{"argv": ["holder", "99"], "open": held}, {"argv": ["other", "99"]}]
    for files, code in (([held], 0), ([free], 1), ([held, free], 0)):
        answer = in_namespace({"spawn": spawn, "run": [["fuser", "-k", *files]], "settle": 0.2})
        holder, other = answer["pids"]
        world = world_of(answer, {row["pid"]: frozenset([held] * (row["pid"] == holder)) for row in answer["table"]})
        selection = fuser.select(tuple(map(literal, ["fuser", "-k", *files])), world, ROOT)
        computed = {one.pid for one in selection.verdicts if one.selected}
        assert computed == set(answer["pids"]) - set(answer["results"][0]["alive"])
        assert selection.exit_code == answer["results"][0]["code"] == code
        assert other not in computed
    Path(held).unlink(missing_ok=True)


def test_kill_of_the_shell_reaches_pids_and_groups(in_namespace: Any, need: Any) -> None:
    need("bash")
    spawn = [{"argv": [f"p{number}", "99"]} for number in range(3)]
    first = in_namespace({"spawn": spawn, "run": []})["pids"]
    lines = [
        ["kill", "-9", str(first[0])],
        ["kill", "-s", "KILL", str(first[1]), "999999"],
        ["kill", "-SIGKILL", "--", f"-{first[2]}"],
        ["kill", "-9", "999999"],
        ["kill", "-9"],
        ["kill", "-n", "9", str(first[0]), str(first[2])],
        ["kill", "-0", str(first[0])],
        ["kill", "-NOSUCH", str(first[0])],
        ["kill", "-123"],
    ]
    for line in lines:
        answer = in_namespace({"spawn": spawn, "run": [["bash", "-c", " ".join(line)]], "settle": 0.1})
        assert answer["pids"] == first, "PIDs of a fresh namespace repeat"
        selection = kill.select(tuple(map(literal, line)), None, Looking(world_of(answer), ROOT))
        computed = {one.pid for one in selection.verdicts if one.selected and selection.signal}
        assert computed == set(first) - set(answer["results"][0]["alive"]), line
        assert selection.exit_code in (None, answer["results"][0]["code"]), line
