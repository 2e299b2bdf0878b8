"""Commands that give text to another shell: which shell, which text, and what its process looks like."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpudiag.shell.lines import Word
from gpudiag.shell.quoting import join, literal
from gpudiag.shell.wrappers import base_name, has_flag, option_value, options_end

SHELLS = ("bash", "sh", "dash", "zsh", "ksh", "mksh", "fish", "ash", "rbash")
_SSH_WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"
_ENGINES = ("docker", "podman", "nerdctl", "crictl")
_EXEC_WITH_VALUE = "euwc"
_EXEC_LONG = ("env", "user", "workdir", "env-file", "container", "namespace", "detach-keys", "context", "kubeconfig")


@dataclass(frozen=True)
class Nested:
    """A shell, or another program, that a command starts."""

    kind: str
    """See ``Carrier.kind``; ``eval`` and ``source`` for text that the same shell reads."""
    shell: str | None
    text: Word | None
    """What it reads; ``None`` where a file or an argument list is read instead."""
    cmdline: Word | None
    """Command line of the shell itself."""
    words: tuple[Word, ...] = ()
    """Command that it executes without a shell (``docker exec c pkill …``)."""
    positional: tuple[Word, ...] = ()
    """``$0``, ``$1`` … of the text."""
    client: str | None = None
    """Kind of a process between the two, with the whole command in its command line."""
    host: str | None = None
    user: str | None = None
    container: str | None = None
    script: bool = False
    """Reads a script file; its text has to be supplied."""
    stops_on_error: bool = False


def nested(words: tuple[Word, ...], stdin_text: Word | None, stdin_file: str | None) -> Nested | None:
    """What the command starts, if it is one of those that start a shell."""
    program = base_name(words[0]) if words else ""
    if program in SHELLS:
        return _shell(program, words, stdin_text, stdin_file)
    if program == "ssh":
        return _ssh(words, stdin_text)
    if program == "su":
        return _su(words)
    if program == "runuser":
        return _runuser(words)
    if program in _ENGINES or program in ("kubectl", "oc"):
        return _container(program, words)
    if program == "srun":
        return _srun(words)
    if program in ("ansible", "pdsh", "clush", "dsh"):
        return _many_hosts(program, words)
    if program == "eval" and len(words) > 1:
        return Nested("eval", None, join(words[1:]), None)
    if program in ("source", ".") and len(words) > 1:
        return Nested("source", None, None, None, script=True)
    if re.search(r"/|\.sh$", words[0].template if words else "") and program.endswith((".sh", ".bash")):
        return Nested("script", None, None, join(words), positional=words, script=True)
    return None


def _shell(program: str, words: tuple[Word, ...], stdin_text: Word | None, stdin_file: str | None) -> Nested:
    end = options_end(words, "oO", ("rcfile", "init-file"))
    options = words[1:end]
    dialect = None if program == "sh" else program
    strict = has_flag(options, "e")
    operands = words[end:]
    if has_flag(options, "c") and operands:
        kind = f"{program} -c"
        return Nested(kind, dialect, operands[0], join(words), positional=operands[1:], stops_on_error=strict)
    if operands and not has_flag(options, "s"):
        return Nested("script", dialect, None, join(words), positional=operands, script=True, stops_on_error=strict)
    if stdin_text is not None:
        whole = words[:1] + operands
        return Nested("script", dialect, stdin_text, join(words), positional=whole, stops_on_error=strict)
    reads_file = stdin_file is not None
    return Nested("script", dialect, None, join(words), positional=words[:1] + operands, script=reads_file)


def _ssh(words: tuple[Word, ...], stdin_text: Word | None) -> Nested | None:
    end = options_end(words, _SSH_WITH_VALUE, ())
    options, operands = words[1:end], words[end:]
    if not operands:
        return None
    later = options_end(operands, _SSH_WITH_VALUE, ())
    options += operands[1:later]
    command = operands[later:]
    user, host = _target(operands[0].text or operands[0].raw, option_value(options, ("-p",)))
    user = user or option_value(options, ("-l",))
    if command:
        text = join(command)
        cmdline = join((literal("bash"), literal("-c"), text))
        return Nested("ssh", None, text, cmdline, client="ssh client", host=host, user=user)
    if stdin_text is not None:
        return Nested("script", None, stdin_text, literal("-bash"), client="ssh client", host=host, user=user)
    return None


def _target(text: str, port: str | None) -> tuple[str | None, str]:
    """User and host; another sshd than the usual one, at its port, may be that of a container: ``node1:2222``."""
    found = re.fullmatch(r"(?:ssh://)?(?:(.*)@)?(.*?)(?::(\d+))?", text, flags=re.DOTALL)
    if found is None:
        return None, text
    port = found[3] or port
    return found[1] or None, f"{found[2]}:{port}" if port and port != "22" else found[2]


def _su(words: tuple[Word, ...]) -> Nested | None:
    with_value, long = "scgGwh", ("shell", "command", "group", "supp-group", "whitelist-environment")
    rest = list(words[1:])
    options: list[Word] = []
    operands: list[Word] = []
    while rest:
        end = options_end((words[0], *rest), with_value, long) - 1
        options.extend(rest[:end])
        operands.extend(rest[end : end + 1])
        rest = rest[end + 1 :]
    command = _option_word(tuple(options), ("-c", "--command"))
    names = [word.text for word in operands if word.text != "-"]
    if command is None:
        return None
    path = option_value(tuple(options), ("-s", "--shell"))
    shell = path.rsplit("/", 1)[-1] if path else None
    login = any(word.text == "-" for word in operands) or has_flag(tuple(options), "l", "login")
    name = literal(("-" if login else "") + (shell or "bash"))
    cmdline = join((name, literal("-c"), command))
    user = names[0] if names else "root"
    return Nested("su -c", shell if shell != "sh" else None, command, cmdline, client="client", user=user)


def _option_word(options: tuple[Word, ...], names: tuple[str, ...]) -> Word | None:
    """Like ``option_value``, but keeps the unknown pieces; also finds the letter at the end of a bundle."""
    for position, word in enumerate(options[:-1]):
        bundled = word.template.startswith("-") and not word.template.startswith("--") and word.template.endswith("c")
        if word.template in names or (bundled and "-c" in names):
            return options[position + 1]
    for word in options:
        if word.template.startswith("--command="):
            return literal(word.template.partition("=")[2])
    return None


def _runuser(words: tuple[Word, ...]) -> Nested | None:
    end = options_end(words, "ucsgGw", ("user", "command", "shell", "group", "supp-group"))
    user = option_value(words[1:end], ("-u", "--user"))
    if user is None:
        return _su(words)
    return Nested("client", None, None, None, words=words[end:], client="client", user=user)


def _container(program: str, words: tuple[Word, ...]) -> Nested | None:
    verb = next((number for number, word in enumerate(words) if word.text == "exec"), None)
    if verb is None:
        return None
    rest = words[verb:]
    long = _EXEC_LONG
    end = options_end(rest, _EXEC_WITH_VALUE + ("n" if program in ("kubectl", "oc") else ""), long)
    if end >= len(rest):
        return None
    name = rest[end].text or rest[end].raw
    command = rest[end + 1 :]
    if program in ("kubectl", "oc"):
        dashes = next((number for number, word in enumerate(command) if word.text == "--"), None)
        command = command if dashes is None else command[dashes + 1 :]
    user = option_value(rest[1:end], ("-u", "--user")) if program in ("docker", "podman", "nerdctl") else None
    return Nested("client", None, None, None, words=command, client="client", container=name, user=user)


_SRUN_WITH_VALUE = "ApqtnNcwxJoeiDMGCLdEgPrBmST"
_SRUN_LONG = (
    "jobid", "nodelist", "nodes", "ntasks", "partition", "time", "account", "qos", "cpus-per-task", "job-name",
    "output", "error", "gres", "chdir", "mem", "exclude", "reservation",
)  # fmt: skip


def _srun(words: tuple[Word, ...]) -> Nested | None:
    """Executes the command on the nodes of a job; which processes a step may see there is not recorded."""
    end = options_end(words, _SRUN_WITH_VALUE, _SRUN_LONG)
    command = words[end:]
    return Nested("client", None, None, None, words=command, client="client", container="srun") if command else None


_ANSIBLE_WITH_VALUE = "aBcefiIlmMPtTu"
_ANSIBLE_LONG = (
    "inventory",
    "limit",
    "user",
    "forks",
    "module-name",
    "args",
    "extra-vars",
    "become-user",
    "become-method",
)


def _many_hosts(program: str, words: tuple[Word, ...]) -> Nested | None:
    """Tools that give one command to a shell on each of many hosts."""
    if program == "ansible":
        position = options_end(words, _ANSIBLE_WITH_VALUE, _ANSIBLE_LONG)
        host = words[position].text or words[position].raw if len(words) > position else None
        rest = words[1:position] + words[position + 1 :]
        text = _option_word(rest, ("-a", "--args"))
        module = option_value(rest, ("-m", "--module-name"))
        if host is None or text is None:
            return None
        if module in (None, "command", "ansible.builtin.command"):
            parts = tuple(literal(part) for part in text.template.split())
            return Nested("client", None, None, None, words=parts, client="client", host=host)
        cmdline = join((literal("/bin/sh"), literal("-c"), text))
        return Nested("sh -c", None, text, cmdline, client="client", host=host)
    end = options_end(words, "wxglfRtu" if program == "pdsh" else "wxglfotu", ())
    host = option_value(words[1:end], ("-w", "-g", "-m"))
    if not words[end:]:
        return None
    text = join(words[end:])
    cmdline = join((literal("bash"), literal("-c"), text))
    return Nested("ssh", None, text, cmdline, client="client", host=host or "many hosts")
