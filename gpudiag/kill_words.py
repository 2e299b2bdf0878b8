"""Which command lines end something: the words that kill, stop or restart, and where in a line they count.

What exactly is killed is the shell stage's business. Here it only matters where one look ends and the next begins, and
which lines of a shell's history may leave the machine.
"""

from __future__ import annotations

import re
from typing import Optional

_TEXT_CAP = 65536
# Every repetition is bounded, so that the time stays proportional to the length of the text.
# Options, each perhaps with a value of its own: -u root.
_OPTIONS = r"(?:-{1,2}\S{1,100}\s{1,20}(?:[^-\s;|&'\"]\S{0,100}\s{1,20})?){0,6}"
_ASSIGNMENTS = r"(?:\w{1,60}=\S{0,200}\s{1,20}){0,5}"
_END = r"(?=[\s;&|)'\"]|$)"
# A word counts as a command where a command may stand: at the start, after a separator, an opening quote or
# bracket, or behind a program that runs another one, here or on another host.
_AT_COMMAND = (
    r"(?:^|[;&|(`'\"{\n!]|\b(?:then|do|else|exec|sudo|nohup|command|xargs|time|env|setsid)\s"
    r"|\b(?:ssh|srun|pdsh|clush|mpirun|mpiexec|nsenter|chroot|(?:docker|podman|nerdctl|crictl|kubectl|oc)\s{1,20}"
    r"(?:[^\s;|&'\"]{1,100}\s{1,20}){0,8}?exec)\s{1,20}"
    r"(?:(?!grep|echo|cat|man|which|less)[^\s'\"]{1,100}\s{1,20}){1,12}?)"
    r"\s{0,20}"
    + _ASSIGNMENTS
    + _OPTIONS
    + r"(?:timeout\s{1,20}"
    + _OPTIONS
    + r"[\d.]{1,9}[smh]?\s{1,20})?(?:[\w./-]{0,200}/)?"
)
_KILLERS = (
    r"(?:pkill|kill|killall|skill|xkill|scancel)" + _END,
    r"fuser\s[^;|&]{0,500}?(?:--kill|-[a-zA-Z]{0,20}k[a-zA-Z]{0,20})" + _END,
    r"(?:docker|podman)\s{1,20}" + _OPTIONS + r"(?:(?:container|compose)\s{1,20}" + _OPTIONS + r")?"
    r"(?:kill|stop|rm|restart|down)\b",
    r"systemctl\s{1,20}" + _OPTIONS + r"(?:stop|kill|restart)\b",
    r"ray\s{1,20}stop\b",
    r"kubectl\s{1,20}" + _OPTIONS + r"delete\b",
    r"tmux\s{1,20}kill-\w{1,20}",
    r"nvidia-smi\s[^;|&]{0,500}?(?:--gpu-reset|-r)" + _END,
)
_KILLS = re.compile(_AT_COMMAND + "(?:" + "|".join(_KILLERS) + ")")
_LISTS_ONLY = re.compile(r"\bkill\s+-[lL]\b|\bkill\s+-0\b")
_ALSO_STOP = re.compile(
    _AT_COMMAND
    + r"(?:supervisorctl\s[^;|&]{0,200}?(?:stop|restart|shutdown|signal)\b"
    + r"|service\s{1,20}\S{1,100}\s{1,20}(?:stop|restart)\b|screen\s[^;|&]{0,200}?-X\s[^;|&]{0,200}?(?:quit|kill)\b"
    + r"|helm\s{1,20}(?:uninstall|delete)\b|(?:qdel|bkill)\b"
    + r"|(?:nerdctl|crictl|lxc|virsh)\s{1,20}"
    + _OPTIONS
    + r"(?:kill|stopp?|rmp?|restart|down|destroy)\b|pm2\s{1,20}(?:stop|delete|kill|restart)\b"
    + r"|(?:reboot|shutdown|poweroff)"
    + _END
    + r")"
)
"""Others that end a server, but do not part the looks of a session."""
_ANYWHERE = re.compile(
    r"(?<![\w.-])(?:pkill|killall|killall5|skill|scancel)(?=[\s'\"])|(?<![\w.-])(?:/usr)?(?:/bin/)?kill\s{1,20}[-%$\"'`\d]"
    r"|\bos\.kill(?:pg)?\("
)
"""Words that mean it even behind a program that is not known to run another: ``pdsh -a pkill -9 python``."""
_LOOK_UP = re.compile(
    r"\s{0,20}(?:man|which|type|whatis|apropos|info|grep|rg|vim?|nano|less|more|cat|head|tail|echo|history|apt(?:-get)?"
    r"|yum|dnf|git|alias)\s[^;|&$`]{0,4000}\Z"
)
_LINE_CAP = 8192


def first_kill(text: str) -> Optional[int]:
    """Where the first command stands that ends processes or their container, job, session or GPU state."""
    match = _KILLS.search(_LISTS_ONLY.sub(lambda found: ":" * len(found[0]), text[:_TEXT_CAP]))
    return match.end() if match else None


def may_kill(text: str) -> bool:
    """The line holds a word that kills, stops or restarts, at a place where it probably means that."""
    text = text[:_LINE_CAP]
    if _LOOK_UP.match(text):
        return False
    if first_kill(text) is not None or _ALSO_STOP.search(text):
        return True
    found = _ANYWHERE.search(text)
    return found is not None and not _LISTS_ONLY.match(text, found.start())
