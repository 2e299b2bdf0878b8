"""The HTML output: self-contained, escaped, complete. How it looks is tested in tests/browser."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from gpudiag.report.contract import Gpu
from gpudiag.report.html import render
from tests.unit.report import sample

REPORTS = [sample.selfmatch, sample.ghost_workers, sample.hostile, sample.empty]
VOID = {"meta", "br"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on a tag that does not match."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text.append(data)


@pytest.mark.parametrize("make", REPORTS)
def test_page_is_well_formed_and_needs_nothing(make: object) -> None:
    page = Page(render(make()))  # type: ignore[operator]
    names = {name for name, _ in page.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a", "use", "image"}
    attributes = {name for _, attrs in page.tags for name in attrs}
    assert not attributes & {"src", "href", "xlink:href", "style", "srcset", "action"}
    assert not any(name.startswith("on") for name in attributes)
    assert ("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}) in page.tags


def test_hostile_text_adds_no_tag_and_no_attribute() -> None:
    page = Page(render(sample.hostile()))
    plain = {name for report in (sample.selfmatch(), sample.ghost_workers()) for name, _ in Page(render(report)).tags}
    assert {name for name, _ in page.tags} <= plain
    classes = {value for _, attrs in page.tags for name, value in attrs.items() if name == "class"}
    assert not any("<" in (value or "") for value in classes)
    assert "{{7*7}}" in "".join(page.text)
    assert "49" not in "".join(page.text)


@pytest.mark.parametrize("make", REPORTS)
def test_no_control_or_bidi_characters(make: object) -> None:
    assert all(line.isprintable() for line in render(make()).split("\n"))  # type: ignore[operator]


def test_everything_of_the_plan_is_on_the_page() -> None:
    report = sample.selfmatch()
    text = "".join(Page(render(report)).text)
    for entry in report.plan.kill:
        assert entry.command in text
    assert "systemctl stop vllm.service" in text
    assert "a monitor, not of this server" in text
    assert text.index("What to do") < text.index("What happened") < text.index("Who holds it") < text.rindex("Why\n")


def test_every_fate_and_every_quote_is_on_the_page() -> None:
    report = sample.selfmatch()
    text = "".join(Page(render(report)).text)
    for process in report.processes:
        assert all(fate.because in text for fate in process.fate)
    for finding in report.findings:
        assert all(evidence.quote in text and evidence.member in text for evidence in finding.evidence)


def test_chart_has_a_text_alternative() -> None:
    page = Page(render(sample.selfmatch()))
    drawn = [attrs for tag, attrs in page.tags if tag == "svg" and attrs.get("aria-hidden") != "true"]
    assert drawn
    assert all(attrs.get("role") == "img" and attrs.get("aria-label") for attrs in drawn)
    assert "78,074 MiB at 19:40:09, 77,459 MiB at 19:40:12 UTC" in "".join(page.text)


def test_samples_without_times_are_said_not_drawn() -> None:
    text = "".join(Page(render(sample.ghost_workers())).text)
    assert "no times to its memory figures" in text


def test_unknown_is_never_zero() -> None:
    gpu = Gpu(id="g", host="H1", index=3, outcome="inconclusive")
    text = "".join(Page(render(sample.empty().model_copy(update={"gpus": (gpu,)}))).text)
    assert "used not known, total not known" in text
    assert "0 MiB" not in text


def test_a_large_host_makes_a_page_that_a_ticket_takes() -> None:
    report = sample.crowded(gpus=8, workers=60, hours=6)
    page = render(report)
    assert len(page.encode()) < 300_000
    text = "".join(Page(page).text)
    assert all(entry.command in text for entry in report.plan.kill)
    assert "and 417 more processes, in the JSON report" in text


def test_the_first_screen_says_why_and_how_sure() -> None:
    text = "".join(Page(render(sample.selfmatch())).text)
    cause = text.index("Why: The kill command stopped its own shell (GPD102), 35,208 MiB. Proven")
    assert cause < text.index("What to do") < text.index("816") < text.index("The processes to kill, in order")


def test_without_a_cause_it_says_so() -> None:
    report = sample.selfmatch().model_copy(update={"findings": ()})
    assert "this evidence names no cause" in "".join(Page(render(report)).text)
