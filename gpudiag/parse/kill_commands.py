"""``kill-commands.json``: the commands that were given, with times, exit code and output where recorded."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from gpudiag.evidence.header import instant_ns
from gpudiag.model import Citation, KillAction
from gpudiag.parse.jsontext import JsonText, elements, integer, items, mapping, number, text_of
from gpudiag.parse.parsed import Row
from gpudiag.parse.source import QUOTE_CAP, Segment

RECORDED = "recorded"
_SOURCES = frozenset({RECORDED, "trace", "audit", "sudo_log", "history", "watch", "transcript", "stated"})
_HOW = {"history": "prompt", "stated": "stated"}
"""How ``shell.syntax`` reads a line of these sources."""
_ERROR_CAP_S = 1e9


def rows(segment: Segment) -> Iterator[Row]:
    """One action a record. ``after_look`` stays open: only all looks together tell it."""
    document = JsonText("\n".join(segment.lines))
    if document.problem:
        yield segment.damage(0, document.problem)
    records = elements(document.value)
    understood = 0
    gathered = False
    offset = 0
    for record in records:
        key = '"cmd"' if "cmd" in mapping(record) else '"argv"'
        offset = document.find(key, offset)
        line = segment.cite_json(document, offset).line
        offset += 1
        action = _action(segment, line, mapping(record))
        if action is None:
            yield segment.damage(0, "a record without a command")
        else:
            understood += 1
            gathered = gathered or action.source != RECORDED
            yield action
    if records and not understood:
        yield segment.coverage("kill commands", outcome="not_understood", because="no record holds a command")
    else:
        # A history or a log never tells that it has every command; a recorder that ran them does.
        yield segment.coverage("kill commands", complete=None if gathered else document.problem is None)


def _action(segment: Segment, line: int | None, record: Mapping[str, object]) -> KillAction | None:
    command = text_of(record.get("cmd"))
    argv = _argv(record.get("argv"))
    if argv is None and command is not None and (shell := _argv(record.get("shell"))):
        argv = (*shell, command)
    if argv is None and not command:
        return None
    text = command if command else shlex.join(argv or ())
    source = text_of(record.get("source")) or RECORDED
    source = source if source in _SOURCES else RECORDED
    time_ns = _time(record, "t0")
    return KillAction(
        host=segment.place.host,
        text=text,
        argv=argv,
        how="argv" if argv is not None else _HOW.get(source, "shell"),
        time_ns=time_ns,
        end_ns=_time(record, "t1"),
        time_error_ns=_error_ns(record) if time_ns is not None else 0,
        after_look=None,
        user=text_of(record.get("user")),
        exit_code=integer(record.get("rc")),
        output=_output(record),
        script_text=text_of(record.get("script_text")),
        source=source,
        pid=integer(record.get("pid")),
        cited=Citation(segment.exhibit.input, segment.exhibit.member, line, text[:QUOTE_CAP]),
    )


def _argv(value: object) -> tuple[str, ...] | None:
    words = items(value)
    if not words or not all(isinstance(word, str) or integer(word) is not None for word in words):
        return None
    return tuple(str(word) for word in words)


def _time(record: Mapping[str, object], key: str) -> int | None:
    text = text_of(record.get(key))
    return None if text is None else instant_ns(text)


def _error_ns(record: Mapping[str, object]) -> int:
    seconds = number(record.get("time_error_s"))
    return round(seconds * 1e9) if seconds is not None and 0 <= seconds <= _ERROR_CAP_S else 0


def _output(record: Mapping[str, object]) -> str | None:
    """All that was printed; of output of which only the beginning was kept nothing is concluded."""
    if record.get("output_cut") is True:
        return None
    out, err = text_of(record.get("out")), text_of(record.get("err"))
    return None if out is None and err is None else (out or "") + (err or "")
