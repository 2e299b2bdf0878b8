"""Laws of an engine that hold only where the server's log says so."""

from __future__ import annotations

import pytest

from gpudiag.rules.engines import shipped_engines
from gpudiag.timeline.leaving import told_by_log

SYNC, UVICORN = "Using worker: sync", "Using worker: uvicorn.workers.UvicornWorker"


@pytest.mark.parametrize(
    ("log", "leave", "stay"),
    [([SYNC], True, False), ([UVICORN], False, True), ([SYNC, UVICORN], False, False), ([], False, False)],
    ids=["sync", "uvicorn", "two servers", "no log"],
)
def test_the_class_of_gunicorns_workers_is_read_from_its_log(log: list[str], leave: bool, stay: bool) -> None:
    (gunicorn,) = (engine for engine in shipped_engines() if engine.name == "gunicorn")
    asked = [law for law in told_by_log(gunicorn.couplings, log) if law.if_log is not None]
    assert any(law.leave for law in asked) == leave
    assert any(law.stay for law in asked) == stay
