"""The HTML report in a real browser: it renders, keeps to its policy, and fits a telephone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudiag.report import html
from tests.browser.conftest import Seen
from tests.unit.report import sample

pytestmark = pytest.mark.browser

Look = Callable[[Path, int], Seen]
REPORTS = {
    "selfmatch": sample.selfmatch,
    "ghost-workers": sample.ghost_workers,
    "hostile": sample.hostile,
    "empty": sample.empty,
}


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", REPORTS)
def test_page_fits_and_is_quiet(name: str, width: int, look: Look, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html.render(REPORTS[name]()), encoding="utf-8")
    seen = look(page, width)
    assert seen.console == ()
    measured = json.loads(seen.measured)
    assert measured["view"] == width
    assert measured["width"] <= width
    assert measured["wide"] == []
    assert measured["loaded"] == []
    assert float(measured["font"].removesuffix("px")) > 20, "the style sheet did not apply"


@pytest.mark.parametrize("name", REPORTS)
def test_headings_step_down_one_at_a_time(name: str, look: Look, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html.render(REPORTS[name]()), encoding="utf-8")
    levels = json.loads(look(page, 1280).measured)["headings"]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))


def test_the_look_notices_a_page_that_breaks_its_policy(look: Look, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    policy = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"
    page.write_text(f"{policy}<h1>x</h1><script>1</script><div style='width:2000px'>x</div>", encoding="utf-8")
    assert look(page, 360).console != ()
