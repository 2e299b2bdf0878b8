"""The report as one HTML file: no script, nothing from elsewhere, readable on a telephone and on paper."""

from __future__ import annotations

from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gpudiag.ranges import number_ranges
from gpudiag.report import causes, chart, ledger, text
from gpudiag.report.chart import Chart
from gpudiag.report.contract import Report
from gpudiag.report.escape import NOT_AS_SHOWN, visible
from gpudiag.report.view import SHARE_WORDS, View, shares

ROW_CAP: Final = 300
"""Rows of a list that a page shows; the plan is never cut."""
TREE_CAP: Final = 100
"""Members of a family that are shown: those with something to kill stand in the plan too."""


def render(report: Report) -> str:
    """The report as a self-contained HTML document."""
    view = View(report)
    template = _environment().get_template("report.html.j2")
    drawn = chart.build(view)
    return template.render(
        report=report, view=view, chart=drawn, label_places=_label_places(drawn), ledger=ledger.rows(view)
    )


def _label_places(drawn: Chart | None) -> list[int]:
    """Whole percents at which the labels of a timeline stand: an attribute must not hold a style here."""
    charts = [each for each in (drawn, drawn.overview if drawn else None) if each is not None]
    return sorted({round(mark.x / 10) for each in charts for mark in (*each.actions, *each.ticks) if mark.label})


@cache
def _environment() -> Environment:
    """Made once: parsing the templates takes longer than filling them."""
    environment = Environment(
        loader=PackageLoader("gpudiag.report"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Jinja types its filters and globals as plain dicts.
    environment.filters.update(  # pyright: ignore[reportUnknownMemberType]
        mib=text.mib,
        size=text.size,
        clip=text.clip,
        pids=number_ranges,
        pid_set=text.pid_set,
        prose=_prose,
        whole=_whole,
    )
    environment.globals.update(  # pyright: ignore[reportUnknownMemberType]
        t=text,
        why=causes,
        shares=shares,
        share_words=SHARE_WORDS,
        cap=ROW_CAP,
        tree_cap=TREE_CAP,
        as_shown=_as_shown,
        not_as_shown=NOT_AS_SHOWN,
    )
    return environment


def _finalize(value: object) -> object:
    """What every expression of a template passes on its way out, before it is escaped."""
    if value is None:
        return text.UNKNOWN
    # Markup comes from our own macros, whose parts have passed here already.
    return visible(text.bounded(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(value: str) -> Markup:
    """Prose with what stands between backticks set as code."""
    parts = (
        Markup("<code>{}</code>").format(visible(part)) if is_code else escape(visible(part))
        for is_code, part in text.spans(text.bounded(value))
    )
    return Markup("").join(parts)


def _whole(command: str) -> Markup:
    """A command of the plan, however long it is."""
    return escape(visible(command))


def _as_shown(commands: tuple[str, ...]) -> bool:
    """Whether the commands can be copied as a page shows them."""
    return all(visible(command) == command for command in commands)
