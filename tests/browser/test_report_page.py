"""The HTML report in a real browser: it renders, keeps to its policy, and fits a telephone."""

from __future__ import annotations

import itertools

import pytest

from gpudiag.report import html
from tests.browser.conftest import Open
from tests.browser.pages import PAGES
from tests.unit.report import sample

pytestmark = pytest.mark.browser

WIDTHS = (360, 768, 1280)
_TOO_WIDE = """() => [...document.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((e) => e.tagName)"""
_OUT_OF_ITS_BOX = """() => [...document.querySelectorAll("table, pre, ul, ol, svg")].filter((e) => {
    const box = e.parentElement, padding = parseFloat(getComputedStyle(box).paddingRight);
    return e.getBoundingClientRect().right > box.getBoundingClientRect().right - padding + 1;
}).map((e) => e.outerHTML.slice(0, 80))"""
_HEADINGS = '() => [...document.querySelectorAll("h1,h2,h3,h4")].map((e) => +e.tagName[1])'


@pytest.mark.parametrize("name", PAGES)
def test_page_fits_and_is_quiet(name: str, open_page: Open) -> None:
    source = PAGES[name]()
    for width in WIDTHS:
        opened = open_page(source, width)
        opened.unfold()
        assert opened.console == []
        assert [address.rpartition("/")[2] for address in opened.requests] == ["report.html"]
        assert opened.page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert opened.page.evaluate(_TOO_WIDE) == []
        assert opened.page.evaluate(_OUT_OF_ITS_BOX) == []
        size = opened.page.evaluate("() => getComputedStyle(document.querySelector('h1')).fontSize")
        assert float(size.removesuffix("px")) > 20, "the style sheet did not apply"


@pytest.mark.parametrize("name", PAGES)
def test_headings_step_down_one_at_a_time(name: str, open_page: Open) -> None:
    levels = open_page(PAGES[name]()).page.evaluate(_HEADINGS)
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))


def test_a_page_that_breaks_its_policy_is_noticed(open_page: Open) -> None:
    policy = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"
    opened = open_page(f"{policy}<h1>x</h1><script>1</script><div style='width:2000px'>x</div>", 360)
    assert any("Content Security Policy" in message for message in opened.console)
    loaded = open_page("<h1>x</h1><img src=missing.png><div style='width:2000px'>x</div>", 360)
    assert len(loaded.requests) == 2
    assert loaded.page.evaluate(_TOO_WIDE) == ["DIV"]


def test_paper_shows_what_is_folded(open_page: Open) -> None:
    source = html.render(sample.crowded(gpus=2, workers=20, hours=1))
    heights = "() => [...document.querySelectorAll('details:not([open])')].map((e) => e.clientHeight)"
    folded = open_page(source).page.evaluate(heights)
    printed = open_page(source, media="print").page.evaluate(heights)
    assert len(folded) == len(printed) > 0
    assert all(paper > 1.5 * screen for paper, screen in zip(printed, folded, strict=True))


def test_paper_is_light(open_page: Open) -> None:
    page = open_page(html.render(sample.selfmatch()), scheme="dark", media="print").page
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_escaping_alone_keeps_scripts_out(open_page: Open) -> None:
    """The policy is the second lock: without it nothing runs and nothing is loaded either."""
    opened = open_page(html.render(sample.hostile()), bypass_csp=True)
    assert opened.console == []
    assert opened.dialogs == []
    assert len(opened.requests) == 1
    assert opened.page.evaluate("() => document.scripts.length") == 0
    bad = open_page("<h1>x</h1><script>alert(1)</script>", bypass_csp=True)
    assert bad.dialogs == ["1"]
