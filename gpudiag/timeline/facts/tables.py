"""All fact tables of an incident."""

from __future__ import annotations

import polars as pl

from gpudiag.timeline.facts.carrier import carrier_rows
from gpudiag.timeline.facts.elsewhere import elsewhere_rows
from gpudiag.timeline.facts.fault import fault_rows
from gpudiag.timeline.facts.gap import gap_rows
from gpudiag.timeline.facts.gpu import gpu_rows
from gpudiag.timeline.facts.holder import holder_rows
from gpudiag.timeline.facts.host import host_rows, order_rows
from gpudiag.timeline.facts.reach import reach_rows
from gpudiag.timeline.facts.refusal import refusal_rows
from gpudiag.timeline.facts.release import release_rows
from gpudiag.timeline.facts.reuse import reuse_rows
from gpudiag.timeline.facts.rows import frame
from gpudiag.timeline.facts.steps import step_rows
from gpudiag.timeline.facts.stuck import stuck_rows
from gpudiag.timeline.incident import Incident


def build_tables(incident: Incident) -> dict[str, pl.DataFrame]:
    """Every table that does not depend on what the rules found."""
    return {
        "reach": frame("reach", reach_rows(incident)),
        "carrier": frame("carrier", carrier_rows(incident)),
        "holder": frame("holder", holder_rows(incident)),
        "gpu": frame("gpu", gpu_rows(incident)),
        "release": frame("release", release_rows(incident)),
        "fault": frame("fault", fault_rows(incident)),
        "stuck": frame("stuck", stuck_rows(incident)),
        "refusal": frame("refusal", refusal_rows(incident)),
        "host": frame("host", host_rows(incident)),
        "order": frame("order", order_rows(incident)),
        "elsewhere": frame("elsewhere", elsewhere_rows(incident)),
        "step": frame("step", step_rows(incident)),
        "reuse": frame("reuse", reuse_rows(incident)),
    }


def gap_table(incident: Incident, cause_found: bool) -> pl.DataFrame:
    """What is missing, once it is known whether a cause was found without it."""
    return frame("gap", gap_rows(incident, cause_found))
