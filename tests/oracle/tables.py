"""Random process tables and random command lines of the kill tools, the same ones for the same seed."""

from __future__ import annotations

import random
from typing import Any

Spec = dict[str, Any]
TITLES = (
    "VLLM::EngineCore", "VLLM::EngineCore_DP0", "VLLM::Worker_TP0", "VLLM::Worker_TP1", "VLLM::Worker_TP13",
    "sglang::scheduler_TP0", "ray::IDLE", "ray::RayWorkerWrapper.execute_method",
    "python\0-m\0vllm.entrypoints.openai.api_server\0--model\0meta/Llama-3\0--port\08000\0",
    "/opt/vllm-env/bin/python3\0-c\0from multiprocessing.resource_tracker import main;main(5)\0",
    "/usr/bin/python3\0-u\0train.py\0--lr\00.1\0", "nvidia-cuda-mps-server\0", "sleeper\0infinity\0", "[kthread]", "x",
    "a\0\0b\0", "tab\there\0nl\nend\0", "esc\x1b[31m\0del\x7f\0", "gr\xc3\xbc\xc3\x9fe\0\xe6\x97\xa5\0", " leading\0",
    "trailing \0", "two  blanks", "(odd) name) S 1", "python3\0-\0", "bash\0-c\0sleep 99\0", "a+b*c\0", "$HOME\0`x`\0",
    "\xe2\x82\xac\0", "back\\slash\0",
)  # fmt: skip
COMMS = (
    "python", "python3", "VLLM::EngineCore", "VLLM::Worker_TP0", "ray::IDLE", "cuda-EvtHandlr", "pt_main_thread",
    "nvidia-cuda-mps-server", "a b", "(x", "y)", "gr\xc3\xbcn", "tab\tx", "exactlyfifteen_", "q",
)  # fmt: skip
STATES = (None, None, None, None, "zombie", "stopped")
UIDS = (0, 0, 0, 1, 65534)


def table(source: random.Random, size: int = 24) -> list[Spec]:
    return [process(source, depth=0) for _ in range(size)]


def process(source: random.Random, depth: int) -> Spec:
    kind = source.random()
    spec: Spec = {"uid": source.choice(UIDS)}
    if kind < 0.12:
        return {**spec, "exec": [*_words(source, 1), "-c", "read x", *_words(source, source.randrange(4))]}
    spec["title"] = _title(source)
    spec["comm"] = source.choice(COMMS) if source.random() < 0.5 else spec["title"].split("\0")[0][:40] or "empty"
    state = source.choice(STATES)
    if state is not None:
        spec["state"] = state
    if source.random() < 0.15:
        spec["session"] = True
    if depth == 0 and state is None and source.random() < 0.2:
        inner = [process(source, 1) for _ in range(source.randrange(1, 3))]
        # Only root may become somebody else.
        spec["children"] = inner if spec["uid"] == 0 else [{**one, "uid": spec["uid"]} for one in inner]
    return spec


def _title(source: random.Random) -> str:
    if source.random() < 0.7:
        return source.choice(TITLES)
    title = "\0".join(_words(source, source.randrange(1, 5))) + "\0"
    return title if source.random() < 0.9 else title + "z" * source.choice((100, 4096, 9000)) + "\0end\0"


def _words(source: random.Random, count: int) -> list[str]:
    alphabet = "abVLMpy0159:._-/=+*?()[]{}|^$\\ \t\n'\"#~!,;&<>"
    return [
        source.choice(TITLES).split("\0")[0]
        if source.random() < 0.4
        else "w" + "".join(source.choice(alphabet) for _ in range(source.randrange(12)))
        for _ in range(count)
    ]


def texts_of(specs: list[Spec]) -> list[str]:
    """What a pattern may be compared with: command lines and comms."""
    lines = ["\0".join(spec["exec"]) if "exec" in spec else spec["title"].rstrip("\0") for spec in specs]
    comms = [spec.get("comm", "dash") for spec in specs]
    return [text.encode("latin-1").decode("utf-8", "replace").replace("\0", " ") for text in [*lines, *comms, "init"]]


def pattern(source: random.Random, texts: list[str]) -> str:
    """A pattern that has a chance: a piece of a recorded text, bent and quoted in the ways people do."""
    text = source.choice(texts) or "x"
    start = source.randrange(len(text))
    piece = text[start : start + source.choice((1, 3, 6, 12, 20, 40))]
    bends = (
        lambda: piece,
        lambda: "".join("\\" + char if char in r".[]*+?(){}|^$\\" else char for char in piece),
        lambda: f"[{piece[0]}]{piece[1:]}" if piece[0].isalnum() else piece,
        lambda: f"^{text[: source.randrange(1, 12)]}",
        lambda: f"{text[-source.randrange(1, 12) :]}$",
        lambda: f"{piece[:4]}.*{piece[-3:]}",
        lambda: f"nosuch|{piece}",
        lambda: f"({piece}|x{{2}})",
        lambda: piece.replace(" ", "[[:space:]]"),
        lambda: piece.swapcase(),
        lambda: rf"\<{piece[:5]}",
        lambda: f"{piece[:5]}+",
        lambda: f"{piece[:3]}{{1,3}}",
        lambda: source.choice(("", ".", "^$", "^", "[0-9]+$", r"\d", r"\w+::", "(", "a{", "x|", "*a", "[[:foo:]]", "a)",
                               r"(.)\1", "[^a-z]$", "^.{15}$", "^.{16,}$", r"\bTP", "[", "[]a]", "a**", "[b-a]", r"\t",
                               "?", "é", "ü", "€", r"^[[]", "<defunct>", r"\'", "a\\")),
    )  # fmt: skip
    return source.choice(bends)()


def options(source: random.Random, specs: list[Spec]) -> list[str]:
    """Selecting options of pgrep and pkill, bundled and spelled in several ways."""
    found: list[str] = []
    for word, chance in (("-f", 0.55), ("-i", 0.15), ("-x", 0.15), ("-n", 0.06), ("-o", 0.06), ("-A", 0.04)):
        if source.random() < chance:
            found.append(word)
    if source.random() < 0.1 and found:
        found = ["-" + "".join(word[1:] for word in found)]
    if source.random() < 0.1:
        longs = {"-f": "--full", "-x": "--exact", "-n": "--newest", "-o": "--oldest", "-i": "--ignore-case"}
        found = [longs.get(word, word) for word in found]
    one, other = (source.randrange(len(specs)) for _ in range(2))
    uid = specs[one]["uid"]
    narrowing = (
        ["-u", str(uid)], ["-u", "root"], ["-u", "daemon,nobody"], ["-U", "nobody"], ["--euid", "root"],
        ["-P", f"{{p{one}}}"], ["-P", f"{{p{one}}},{{p{other}}}"], ["--parent=1"], ["-g", f"{{p{one}}}"],
        ["-s", f"{{p{one}}}"], ["-r", "RSD"], ["-r", "Z,T"], ["-g", "0"], ["-s", "0"], ["-G", str(uid)],
        ["-u", "no-such-user"], ["-t", "pts/0"], ["-P", "x"], ["-s", "0,1"], ["-P", "1,"], [f"-u{uid}"],
    )  # fmt: skip
    while source.random() < 0.25:
        found.extend(source.choice(narrowing))
    return found


def pgrep(source: random.Random, specs: list[Spec]) -> list[str]:
    words = options(source, specs)
    if source.random() < 0.05:
        words.append(source.choice(("-v", "-c", "-l", "-a", "--inverse", "-w")))
    if source.random() < 0.93:
        wanted = pattern(source, texts_of(specs))
        words.insert(source.randrange(len(words) + 1) if not _has_values(words) else len(words), wanted)
        if wanted.startswith("-"):
            words.remove(wanted)
            words += ["--", wanted]
    if source.random() < 0.02:
        words.append("second")
    return ["pgrep", *words]


SIGNALS = (
    "-9", "-9", "-KILL", "-SIGKILL", "-TERM", "-15", "-HUP", "-1", "-INT", "-2", "-USR1", "-STOP", "-CONT", "-0",
    "--signal=9", "--signal=sigterm", "-kill", "-QUIT", "-CHLD", "-WINCH", "-RTMIN", "-34", "-64", "-FOO", "-9x", "-99",
)  # fmt: skip


def masked(source: random.Random, spec: Spec) -> Spec:
    """The process ignores, blocks or catches some of the usual signals."""
    if source.random() < 0.4:
        for name in ("ignore", "block", "catch"):
            if source.random() < 0.5:
                spec[name] = source.sample((1, 2, 3, 10, 15, 28), 2)
    return spec


def pkill(source: random.Random, specs: list[Spec]) -> list[str]:
    words = pgrep(source, specs)[1:]
    for _ in range(source.choice((0, 1, 1, 1, 2))):
        position = words.index("--") if "--" in words else len(words)
        words.insert(source.choice((0, position)), source.choice(SIGNALS))
    return ["pkill", "-e", *words]


def killall(source: random.Random, specs: list[Spec]) -> list[str]:
    """killall by names that are there, almost there, or too long to be whole in comm."""
    words: list[str] = []
    for word, chance in (("-e", 0.2), ("-I", 0.2), ("-r", 0.3), ("-q", 0.1), ("-g", 0.03)):
        if source.random() < chance:
            words.append(word)
    if source.random() < 0.15:
        words += source.choice((["-u", "root"], ["-u", "nobody"], ["-u", "no-such-user"], ["--user", "daemon"]))
    texts = texts_of(specs)
    names = [name for name in (_name(source, source.choice(texts), "-r" in words) for _ in range(2)) if name]
    if source.random() < 0.95:
        words += names[: source.choice((1, 1, 1, 2))]
    return ["killall", "-s", "0", "-v", *words]


def _name(source: random.Random, text: str, regex: bool) -> str:
    whole = text.split(" ")[0].rsplit("/", 1)[-1]
    bends = (
        lambda: whole, lambda: whole[:15], lambda: whole[:14], lambda: whole + "x", lambda: whole.swapcase(),
        lambda: text, lambda: text.split(" ")[0], lambda: text[:15],
    )  # fmt: skip
    name = pattern(source, [text]) if regex else source.choice(bends)()
    return "" if name.startswith("-") or ("/" in name and source.random() < 0.8) else name


def _has_values(words: list[str]) -> bool:
    return any(word[:2] in ("-u", "-U", "-P", "-g", "-s", "-r", "-G", "-t") or word.startswith("--e") for word in words)
