"""What shells and simple commands say around the output of tools. It is understood without being a row."""

from __future__ import annotations

import re

from gpudiag.parse.source import is_omission

_REPLIES = (
    # A shell about a job or a command of its own.
    r"(?:-?(?:ba|da|z|k)?sh|-bash): (?:line \d{1,6}: )?(?:\d{1,6}: )?(?:kill|fg|bg|jobs|wait)\b.*",
    r"(?:-?(?:ba|da|z|k)?sh): .{1,200}: (?:command not found|No such file or directory|[Pp]ermission denied)",
    r"\[\d{1,5}\][+-]?\s+(?:\d{1,10}|(?:Running|Stopped|Done|Exit \d{1,3}|Terminated|Killed|Hangup|Interrupt)\b.*)",
    r"(?:\^[A-Z\\]\s*)+",
    r"(?:Killed|Terminated|Hangup|Interrupt|Alarm clock|Aborted|logout|exit)(?: \(core dumped\))?",
    r"(?:bash|sh): (?:cannot set terminal process group|no job control in this shell).*",
    # ssh, sudo, pkill, killall, fuser.
    r"Connection to \S{1,253} closed(?: by remote host)?\.",
    r"(?:Shared connection to|Warning: Permanently added|client_loop: send disconnect|Pseudo-terminal will not).*",
    r"\[sudo\] password for .{1,64}:.*",
    r"pkill: (?:killing pid|pattern that searches) .*",
    r"kill: (?:\(?-?\d{1,10}\)?|sending signal to) .*",
    r"killall: .*|\S{1,64}\(\d{1,10}\): (?:Operation not permitted|No such process)",
    r"\S{1,64}: no process found",
    # date, echo of an exit code, watch, a frame that somebody pasted around it.
    r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[AP]M )?(?:(?:[A-Z]{2,5}|[+-]\d{2,4}) )?\d{4}",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,16}|\d\d:\d\d:\d\d",
    r"(?:rc|exit(?: code)?|status)\s?[=:]?\s?\d{1,3}",
    r"Every \d{1,6}(?:[.,]\d)?s: .*",
    r"[╭┌]─{1,4}\(?[\w.-]{1,64}[@㉿][\w.-]{1,253}.{0,200}",
    r"`{3,}\w{0,20}",
    # nvidia-smi, lsof.
    r"NVML library version: [\d.]{1,20}",
    r"\S{1,60}: error while loading shared libraries: .*",
    r"lsof: WARNING: .*|\s+Output information may be incomplete\.",
)
_REPLY = re.compile(r"\s*(?:" + "|".join(_REPLIES) + r")\s*\Z")
_LINE_CAP = 1000


def is_reply(line: str) -> bool:
    """The line is such a message, or a mark for lines left out."""
    return is_omission(line) or (len(line) <= _LINE_CAP and bool(_REPLY.match(line)))
