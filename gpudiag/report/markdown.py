"""The report as Markdown for a ticket: GitHub's dialect, tables and fenced commands, no raw HTML of others.

A comment on GitHub holds 65,536 characters. What does not fit is left out in this order: the quoted evidence, the
families, long tables, whole sections from the end. The plan comes first and its commands are never shortened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gpudiag.report import causes, ledger
from gpudiag.report.contract import Action, Family, Finding, Gpu, KillEntry, Report
from gpudiag.report.escape import NOT_AS_SHOWN, markdown_code, markdown_fence, markdown_text, visible
from gpudiag.report.text import (
    FAMILY_STATE_WORDS,
    OUTCOME_WORDS,
    RIVAL_WORDS,
    SOURCE_WORDS,
    STATE_WORDS,
    THEN_WORDS,
    UNKNOWN,
    WHOSE_WORDS,
    bounded,
    clip,
    common_check,
    look_time,
    measure,
    mib,
    place,
    plural,
    step_outcomes,
    titled,
    tried,
    tried_again,
    when,
    why,
    word,
)
from gpudiag.report.view import KillGroup, View

COMMENT_CAP: Final = 65_536
"""Characters that a comment on GitHub may have."""
_COMMAND_CAP: Final = 4_000
"""Characters of a recorded command; those of the plan are never cut."""


@dataclass(frozen=True)
class Detail:
    """How much is shown."""

    rows: int
    """Of a table outside the plan."""
    plan_rows: int | None
    """Of the table beside the plan's commands; the commands are all there. 0 for no table."""
    quotes: bool
    families: bool
    fence_rows: int | None = None
    """Of one block of the plan's commands; ``None`` for all in one block, to be copied at once."""


_DETAILS: Final = (
    Detail(rows=200, plan_rows=None, quotes=True, families=True),
    Detail(rows=200, plan_rows=None, quotes=False, families=True),
    Detail(rows=100, plan_rows=None, quotes=False, families=False),
    Detail(rows=20, plan_rows=50, quotes=False, families=False),
)
_LAST_RESORT: Final = Detail(rows=20, plan_rows=0, quotes=False, families=False, fence_rows=20)
"""Where the plan's commands alone are too long: as many as fit."""
_CUT: Final = "This report was too long for a comment. {what} left out here; the JSON report has everything."


def render(report: Report) -> str:
    """The report as Markdown, at most as long as a comment may be."""
    view = View(report)
    text = _page(view, _DETAILS[0], "")
    for detail in _DETAILS[1:]:
        if len(text) <= COMMENT_CAP:
            return text
        text = _page(view, detail, _CUT.format(what=_left_out(detail)))
    return text if len(text) <= COMMENT_CAP else _first_blocks(view)


def _page(view: View, detail: Detail, note: str) -> str:
    blocks = [block for section in _SECTIONS for block in section(view, detail)]
    return "\n\n".join([*blocks, *([note] if note else [])]) + "\n"


def _left_out(detail: Detail) -> str:
    rest = " and the families" if not detail.families else ""
    rows = f", and what is behind row {detail.rows} of a table," if detail.rows < _DETAILS[0].rows else ""
    return f"Quotes of the evidence{rest}{rows} are"


def _first_blocks(view: View) -> str:
    """As many blocks as fit, whole ones only: half a command is worse than none."""
    note = _CUT.format(what="Everything behind this line, perhaps a part of the plan too, is")
    left = COMMENT_CAP - len(note) - len(_FOLD_END) - 6
    kept: list[str] = []
    for block in (block for section in _SECTIONS for block in section(view, _LAST_RESORT)):
        left -= len(block) + 2
        if left < 0:
            break
        kept.append(block)
    open_folds = sum(block.startswith(_FOLD) - (block == _FOLD_END) for block in kept)
    return "\n\n".join([*kept, *[_FOLD_END] * open_folds, note]) + "\n"


_FOLD: Final = "<details>"
_FOLD_END: Final = "</details>"


def _folded(summary: str, blocks: Iterable[str]) -> Iterator[str]:
    """Blocks behind a line to click on. The blank lines around them make GitHub read Markdown in there."""
    inner = list(blocks)
    if inner:
        # The summary is this module's own words: it stands in HTML.
        yield f"{_FOLD}<summary>{summary}</summary>"
        yield from inner
        yield _FOLD_END


def _text(value: str) -> str:
    return markdown_text(bounded(value))


def _code(value: str | None) -> str:
    return UNKNOWN if value is None else markdown_code(clip(value))


def _commands(*commands: str) -> str:
    block = markdown_fence(commands, "sh")
    return block if all(visible(command) == command for command in commands) else f"{block}\n\n{NOT_AS_SHOWN}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], cap: int | None) -> str:
    """Cells come escaped; nothing in them can be a line end."""
    body = tuple(rows)
    shown = body[:cap]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *shown)]
    if len(shown) < len(body):
        lines.append(f"\n… and {plural(len(body) - len(shown), 'more row')}, in the JSON report.")
    return "\n".join(lines)


def _verdict(view: View, _: Detail) -> Iterator[str]:
    yield f"# {_text(word(OUTCOME_WORDS, view.report.outcome))}"
    yield _text(view.report.summary)
    for cause in causes.causes(view.report):
        yield f"**{cause.label}:** {_text(cause.told)}"
    if setting := view.setting():
        yield _text(setting)


def _gpus(view: View, detail: Detail) -> Iterator[str]:
    if view.report.gpus:
        head = ("GPU", "model", "used", "total", "reserve", "baseline", "state")
        yield _table(head, (_gpu_row(view, gpu) for gpu in view.report.gpus), detail.rows)


def _gpu_row(view: View, gpu: Gpu) -> tuple[str, ...]:
    sizes = (gpu.used_mib, gpu.total_mib, gpu.reserved_mib, gpu.baseline_mib)
    outcome = _text(word(OUTCOME_WORDS, gpu.outcome))
    return (_text(view.gpu_name(gpu.id)), _code(gpu.name), *(mib(size) for size in sizes), outcome)


def _plan(view: View, detail: Detail) -> Iterator[str]:
    plan = view.report.plan
    yield "## What to do"
    for stop in plan.stop_first:
        where = view.stop_place(stop)
        yield f"First stop {_text(word({}, stop.kind))} {_code(stop.id)} {_text(where)}".strip() + ":"
        yield _commands(stop.command)
    yield _text(view.kill_line())
    for group in view.kill_groups():
        yield from _kill_group(view, group, detail)
    if plan.keep:
        yield "**Do not kill:**"
        rows = ((str(keep.pid), _code(keep.name), _text(keep.because)) for keep in plan.keep)
        yield _table(("PID", "name", "because"), rows, detail.rows)
    if plan.then:
        yield "**Then:**" if plan.kill or plan.stop_first else "**Next:**"
    for then in plan.then:
        because = f": {_text(then.because)}" if then.because else ""
        yield f"{_text(word(THEN_WORDS, then.kind))}{because}"
        if then.command:
            yield _commands(then.command)


def _kill_group(view: View, group: KillGroup, detail: Detail) -> Iterator[str]:
    where = view.place(group.host, group.run_in)
    yield f"Paste {_text(where)}".strip() + ":"
    step = detail.fence_rows or max(len(group.commands), 1)
    for first in range(0, len(group.commands), step):
        yield _commands(*group.commands[first : first + step])
    if detail.plan_rows == 0:
        return
    check = common_check(group.entries)
    if check:
        yield _text(f"For all {len(group.entries)}: {check}.")
    table = _table(_PLAN_HEAD, (_kill_row(entry, check) for entry in group.entries), detail.plan_rows)
    yield from _folded(f"{plural(len(group.entries), 'process', 'processes')}, each with the reason", [table])


_PLAN_HEAD: Final = ("order", "PID", "name", "signal", "frees", "started", "why")


def _kill_row(entry: KillEntry, check: str) -> tuple[str, ...]:
    """``check`` is what stands above the table for all of them, if anything does."""
    return (
        str(entry.order),
        str(entry.pid),
        _code(entry.name),
        _text(entry.signal),
        mib(entry.frees_mib),
        _text(when(entry.start_time)),
        _text(why(entry, check)),
    )


def _actions(view: View, detail: Detail) -> Iterator[str]:
    if view.report.actions:
        yield "## What happened"
    for action in view.report.actions:
        yield from _action(view, action, detail)


def _action(view: View, action: Action, detail: Detail) -> Iterator[str]:
    code = "" if action.exit_code is None else f", exit code {action.exit_code}"
    time = when(action.time, action.time_error_s)
    about = f"{time}. {word(SOURCE_WORDS, action.source)}{code}."
    yield f"**{_text(action.id)}** {_text(about)}"
    yield _commands(clip(action.text, _COMMAND_CAP))
    if action.steps:
        rows = (
            (
                _text(step.id),
                _code(step.text),
                _text(view.host_name(step.runs_on)),
                _text(outcome),
            )
            for step, outcome in zip(action.steps, step_outcomes(action.steps), strict=True)
        )
        yield _table(("step", "command", "on", "what it did"), rows, detail.rows)


def _ledger(view: View, detail: Detail) -> Iterator[str]:
    rows = ledger.rows(view)
    if not rows:
        return
    yield "## Who holds it"
    cells = (
        (
            _text(row.gpus),
            row.size,
            row.pids,
            "" if row.name is None else _code(row.name),
            _text(row.held_by),
            _text(word(WHOSE_WORDS, row.whose)),
            _text(row.because),
        )
        for row in rows
    )
    yield _table(("GPU", "size", "PID", "name", "held by", "whose", "because"), cells, detail.rows)


def _families(view: View, detail: Detail) -> Iterator[str]:
    if view.report.families and detail.families:
        yield "## Servers and their processes"
        blocks = (block for family in view.report.families for block in _family(view, family, detail))
        yield from _folded(plural(len(view.report.families), "family", "families"), blocks)


def _family(view: View, family: Family, detail: Detail) -> Iterator[str]:
    title = f"{family.engine or 'engine not known'}, {word(FAMILY_STATE_WORDS, family.state)}"
    yield f"**{_text(family.id)}: {_text(title)}**"
    yield _text(view.about(family))
    rows = (
        (
            f"{'↳ ' * member.depth}{member.process.pid}",
            _code(member.process.name),
            _text(member.process.role or ""),
            UNKNOWN if member.process.state is None else _text(word(STATE_WORDS, member.process.state[:1])),
            _text(view.holds(member.process)),
        )
        for member in view.members(family)
    )
    yield _table(("PID", "name", "role", "state", "memory"), rows, detail.rows)
    reasons = tuple((pids, _text(fate)) for pids, fate in view.fates(family))
    if reasons:
        yield _table(("PIDs", "what a step did to them"), reasons, detail.rows)


def _findings(view: View, detail: Detail) -> Iterator[str]:
    if view.report.findings:
        yield "## Why"
    for finding in view.report.findings:
        yield from _finding(view, finding, detail)


def _finding(view: View, finding: Finding, detail: Detail) -> Iterator[str]:
    yield f"### {_text(finding.rule)} {_text(finding.title)}"
    about = list(causes.standing(finding))
    if finding.explains_mib is not None:
        about.append(f"explains {mib(finding.explains_mib)}")
    about.extend(measure(key, value) for key, value in finding.measures.items())
    if about:
        yield _text(", ".join(about))
    yield _text(finding.text)
    if detail.quotes:
        quotes = (
            f"{_code(place(view.report, item))}\n\n{markdown_fence((clip(item.quote),))}"
            for item in causes.quotes(finding)
        )
        yield from _folded(f"evidence, {plural(len(finding.evidence), 'line')}", quotes)
    if finding.rivals:
        rows = (
            (
                _text(titled(rival.rule, rival.title)),
                _text(word(RIVAL_WORDS, rival.status)),
                _text(rival.because),
            )
            for rival in finding.rivals
        )
        yield _table(("what else it could be", "is", "because"), rows, detail.rows)
    if finding.settled_by:
        yield f"What would settle it: {_text(finding.settled_by)}"


def _unknown(view: View, _: Detail) -> Iterator[str]:
    if view.report.unknown:
        yield "## What is not known"
    for ask in causes.asks(view.report):
        yield _text(ask.words)
        yield "\n".join(f"- {_text(titled(rule.rule, rule.title))}" for rule in ask.rules)
        yield "To find out:"
        yield _commands(ask.collect)


def _next_time(view: View, _: Detail) -> Iterator[str]:
    following = view.report.plan.next_time
    without = view.report.plan.no_next_time
    if following is None and without is None:
        return
    yield "## Next time"
    if following is None:
        yield _text(f"No command is proposed: {without}.")
        return
    yield _commands(following.command)
    yield _text(tried(following))
    if following.again is not None:
        yield _commands(following.again)
        yield _text(tried_again(following))


def _evidence(view: View, detail: Detail) -> Iterator[str]:
    report = view.report
    yield "## Machine and evidence"
    yield from _folded("hosts, inputs and what was read of them", _sources(view, detail))
    yield _text(f"{report.tool.name} {report.tool.version}, rules {report.tool.rules_digest}")


def _sources(view: View, detail: Detail) -> Iterator[str]:
    report = view.report
    if report.hosts:
        rows = (
            (
                _code(host.name),
                _code(host.driver_version),
                _code(host.cuda_version),
                {True: "yes", False: "no", None: UNKNOWN}[host.privileged],
                _text(word({}, host.pid_namespace)),
            )
            for host in report.hosts
        )
        yield _table(("host", "driver", "CUDA", "seen as root", "PID namespace"), rows, detail.rows)
    if report.inputs:
        inputs = (
            (_code(ref.id), _code(ref.path), _text(ref.kind), "yes" if ref.complete else "no") for ref in report.inputs
        )
        yield _table(("input", "path", "kind", "complete"), inputs, detail.rows)
    if report.looks:
        looks = ((_text(look.id), _text(look_time(look))) for look in report.looks)
        yield _table(("look", "time"), looks, detail.rows)
    if read := view.read_sources():
        yield f"Read: {_text(read)}"
    if gaps := view.evidence_gaps():
        yield _table(
            ("not read", "how", "because"),
            ((_text(gap.what), _text(gap.how), _text(gap.because)) for gap in gaps),
            detail.rows,
        )


_SECTIONS: Final = (
    _verdict,
    _gpus,
    _plan,
    _actions,
    _ledger,
    _families,
    _findings,
    _unknown,
    _next_time,
    _evidence,
)
