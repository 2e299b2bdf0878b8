"""Where secrets stand in text: behind names, in headers and URLs, after options of certain programs, by their shape.

The text may be a shell's line, a line of ``ps``, a raw ``cmdline`` with NULs, one of these inside JSON, or a log line.
So quotes may be there or gone, plain or escaped. Every repetition is bounded or cannot overlap with what follows it:
the time stays proportional to the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from gpudiag.redact.hint import REDACTED

_BREAK = r"(?:[\s\x00]|\\u0000)"
"""What parts two words: a NUL too, plain or as JSON writes it."""
# A quote ends a bare value unless a value obviously goes on behind it.
_BARE = r"(?:(?!\\u0000)(?:[^\s\x00'\"]|['\"](?=[\w@#$%^*+=.~/-])))"
_QUOTED = r"(?:\\\"[^\"\\]{0,4096}\\\"|\"(?:[^\"\\]|\\.){0,4096}\"|'[^']{0,4096}')"
# A command substitution is not a secret, and taking a piece of it would change the line.
VALUE = rf"(?P<value>(?!\$\(|`)(?:{_QUOTED}|{_BARE})(?:{_BARE}){{0,8192}})"
_TO_NEXT_ITEM = r"(?:['\"]\s{0,4},\s{0,4}['\"])"
"""Between two items of a list as JSON or Python prints it."""


class Pattern:
    """A regular expression that is compiled when it is first of use: to compile all of these takes longer than to go
    through what a usual machine prints.
    """

    def __init__(self, text: str, needs: Sequence[str] = (), flags: int = 0) -> None:
        """``needs``: strings in lower case of which a text has at least one wherever the expression matches."""
        self._text = text
        self._needs = tuple(needs)
        self._flags = flags

    def may_match(self, folded: str) -> bool:
        """``folded``: the text after ``str.casefold``."""
        return any(need in folded for need in self._needs)

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The expression itself."""
        return re.compile(self._text, self._flags)


class Program(NamedTuple):
    """A program whose short option takes a password; the letter alone means something else everywhere else."""

    in_text: Pattern
    option_in_text: Pattern
    word: Pattern
    option_word: Pattern


NAMES = ("key", "token", "pass", "pwd", "secret", "credential", "auth", "bearer")
"""One of them is in every name that announces a secret."""
NAMED_VALUE = Pattern(VALUE)
OPTION = Pattern(
    r"(?:(?<![\w.-])|(?<=\\u0000))(?P<front>--?(?P<name>[A-Za-z][\w.-]{1,60})"
    rf"(?P<sign>{_BREAK}{{1,16}}|{_TO_NEXT_ITEM}))(?!-)",
    needs=NAMES,
)
"""``--api-key VALUE``, up to the value: the name decides whether there is one."""
ASSIGNMENT = Pattern(
    r"(?:(?<![A-Za-z0-9_.])|(?<=\\u0000))(?P<front>-{0,2}(?P<name>[A-Za-z_][\w.-]{1,80})(?:\\?['\"])?"
    rf"(?P<sign>\s{{0,3}}=\s{{0,3}}|\s?:\s{{0,3}})(?:(?!{re.escape(REDACTED)})[\[({{])?)",
    needs=NAMES,
)
"""``HF_TOKEN=VALUE``, ``--token=VALUE``, ``"api_key": "VALUE"``, ``api_key=['VALUE']``, up to the value."""
_SCHEME = rf"(?:bearer|basic|digest|token|apikey){_BREAK}{{1,4}}"
HEADER = Pattern(
    rf"(?P<front>\b(?:proxy-)?authorization(?:\\?['\"])?\s{{0,3}}[:=]{_BREAK}{{0,3}}(?:\\?['\"])?"
    rf"(?:{_SCHEME}|(?!{_SCHEME}))){VALUE}",
    needs=("authorization",),
    flags=re.IGNORECASE,
)
BEARER = Pattern(
    rf"(?P<front>\bbearer{_BREAK}{{1,4}})(?P<value>(?=[A-Za-z_~+/=-]{{0,200}}[0-9.])[\w.~+/=-]{{8,8192}})",
    needs=("bearer",),
    flags=re.IGNORECASE,
)
SENTENCE = Pattern(
    r"(?P<front>\b(?:key|token|secret|password|credential)s?(?:\s(?:is|was|provided|used))?(?:\s?:)?\s['\"]?)"
    r"(?P<value>(?=(?:[A-Za-z_+=-]{0,40}[0-9]){4})(?=[0-9_+=-]{0,40}[A-Za-z])[\w+=-]{16,512})"
    r"(?=\.?(?:[\s\x00'\",;)\]}]|\\|\Z))",
    needs=("key", "token", "secret", "password", "credential"),
    flags=re.IGNORECASE,
)
"""``logged in with key VALUE``, ``Incorrect API key provided: VALUE``: in words, and of a random look."""
URL = Pattern(
    r"(?P<front>(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://)(?P<value>[^\s\x00/'\"<>?#\\]{1,512})(?=@[^\s@])",
    needs=("://",),
)
QUERY = Pattern(
    r"(?P<front>[?&](?:key|code|sig|signature|x-amz-signature|x-goog-signature|x-amz-security-token)=)"
    r"(?P<value>[^&\s\x00'\"#\\]{1,4096})",
    needs=("key=", "code=", "sig=", "signature=", "x-amz-security-token="),
    flags=re.IGNORECASE,
)
WEBHOOK = Pattern(
    r"(?P<front>hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/\d{1,25}/)"
    r"(?P<value>[\w/-]{20,200})",
    needs=("hooks",),
)
"""An address that is itself the secret."""
COOKIE = Pattern(
    r"(?P<front>\b(?:set-)?cookie\s?:\s{0,3})(?P<value>[^\s\x00'\"\\][^\n\x00'\"\\]{0,8192})",
    needs=("cookie",),
    flags=re.IGNORECASE,
)
NETRC = Pattern(rf"(?P<front>\blogin\s{{1,8}}\S{{1,200}}\s{{1,8}}password\s{{1,8}}){VALUE}", needs=("login",))
"""``machine HOST login USER password VALUE``."""
_READS_PASSWORD = r"[ \t]{1,8}-[A-Za-z]{0,8}S(?![\w-])"
_TO_SUDO = rf"[ \t]{{0,8}}\|[ \t]{{0,8}}sudo(?:[ \t]{{1,8}}[^\s|;&]{{1,60}}){{0,6}}?{_READS_PASSWORD}"
PIPED = Pattern(
    rf"(?P<front>\b(?:echo|printf)[ \t]{{1,8}}(?:-[neE]{{1,3}}[ \t]{{1,8}}|['\"]?%s(?:\\{{1,2}}n)?['\"]?[ \t]{{1,8}})?)"
    rf"{VALUE}(?={_TO_SUDO})",
    needs=("sudo",),
)
"""``echo VALUE | sudo -S …``."""
_WORDS_OF_SUDO = rf"(?:[ \t]{{1,8}}[^\s|;&<]{{1,60}}){{0,6}}?{_READS_PASSWORD}[^\n|;&<]{{0,400}}"
HERE_STRING = Pattern(rf"(?P<front>\bsudo{_WORDS_OF_SUDO}<<<[ \t]{{0,8}}){VALUE}", needs=("sudo",))
"""``sudo -S … <<< VALUE``."""
PRIVATE_KEY = Pattern(
    r"(?P<front>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:\\n)?)(?P<value>(?:[^-\"']|-(?!-)){1,20000})",
    needs=("private key-----",),
)
"""In one text; one that goes over several lines is followed by ``rows``."""
VARIABLE_PAIR = Pattern(
    r"(?P<front>\\?\"name\\?\"\s?:\s?\\?\"(?P<name>[A-Za-z_][\w.-]{1,80})\\?\",\s?\\?\"value\\?\"(?P<sign>\s?:\s?))",
    needs=NAMES,
)
"""``{"name": "HF_TOKEN", "value": "VALUE"}`` as Kubernetes writes a variable, up to the value."""
SHAPES = Pattern(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{16,200}|hf_oauth_[\w.-]{16,400}"
    r"|sk-(?=[A-Za-z_-]{0,200}[0-9])[\w-]{16,300}"
    r"|gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_\w{20,255}|glpat-[\w-]{16,100}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"
    r"|eyJ[\w-]{8,8192}(?:\.[\w-]{0,8192}){1,4}"
    r"|xox[a-z]-[\w-]{10,300}|xapp-[\w-]{10,300}"
    r"|ya29\.[\w-]{20,400}|GOCSPX-[\w-]{16,60}|pypi-[\w-]{30,400}|[spr]k_(?:live|test)_[A-Za-z0-9]{16,200}"
    r"|SG\.[\w-]{16,64}\.[\w-]{16,64}|hv[sbr]\.[\w-]{20,300}|do[opr]_v1_[A-Za-z0-9]{32,100}|(?:bot)?\d{8,10}:AA[\w-]{32,40}"
    r"|AIza[\w-]{35}|nvapi-[\w-]{20,200}|npm_[A-Za-z0-9]{30,60}|dckr_pat_[\w-]{20,60}|r8_[A-Za-z0-9]{30,60}"
    r")",
    needs=(
        "hf_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "akia", "asia", "eyj", "xox",
        "xapp-", "aiza", "nvapi-", "npm_", "dckr_pat_", "r8_", "ya29.", "gocspx-", "pypi-", "k_live_", "k_test_", "sg.",
        "hvs.", "hvb.", "hvr.", "_v1_", ":aa",
    ),
)  # fmt: skip
_ATTACHED, _EITHER = rf"-p(?={_BARE})", rf"(?:{_BREAK}{{1,8}}|=)?"
_PROGRAMS = (
    (r"(?:mysql|mariadb)(?:dump|admin|import|check|show|-dump|-admin)?", _ATTACHED, ("mysql", "mariadb")),
    (r"sshpass", "-p" + _EITHER, ("sshpass",)),
    (r"(?:docker|podman|nerdctl)(?:\s|\x00|\\u0000){1,8}login", "-p" + _EITHER, ("login",)),
    (r"mongo(?:sh|dump|restore|export|import)?", "-p" + _EITHER, ("mongo",)),
    (r"redis-cli", "-a" + _EITHER, ("redis-cli",)),
    (r"curl", "(?:-[uUb]|--user|--proxy-user|--cookie)" + _EITHER, ("curl",)),
    (r"ldap(?:search|modify|add|whoami)", "-w" + _EITHER, ("ldap",)),
    (r"sqlcmd|bcp", "-P" + _EITHER, ("sqlcmd", "bcp")),
    (r"(?:un)?zip", "-P" + _EITHER, ("zip",)),
    (r"openssl", "-k" + _EITHER, ("openssl",)),
    (r"wandb", rf"login(?:{_BREAK}{{1,8}}--[\w-]{{1,40}}){{0,4}}" + _EITHER, ("wandb",)),
    (r"smbclient", "-U" + _EITHER, ("smbclient",)),
)
PROGRAMS = tuple(
    Program(
        Pattern(rf"(?:^|(?<=[\s\x00'\"/;|&(])|(?<=\\u0000))(?:{program})(?={_BREAK}|['\"])", needs),
        Pattern(rf"(?:(?<=[\s\x00])|(?<=\\u0000))(?P<front>{option}){VALUE}"),
        Pattern(rf"(?:{program})\Z", needs),
        Pattern(option),
    )
    for program, option, needs in _PROGRAMS
)
REACH = 2000
"""Characters behind a program in which its options are looked for."""
END_OF_COMMAND = re.compile(r"[;|\n]|&&")
