"""What is written of NVML's answers, and what the parsers make of it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from gpudiag.collect import nvml
from gpudiag.collect.libnvml import FUNCTION_NOT_FOUND, NvmlError
from gpudiag.collect.source import Ended
from gpudiag.evidence.exhibit import Exhibit
from gpudiag.model import Accounted, Booking, GpuReading, GpuSample, HostFact
from gpudiag.parse.formats import rows
from tests.unit.collect.stubs import MIB, Nvml, Rows, machine, no_driver


def read(member: str, out: Rows) -> list[object]:
    text = "\n".join(out.rows) + "\n"
    exhibit = Exhibit("I1", member, "h", "I1:look-1", None, None, None, None, 1, text)
    return list(rows(exhibit))


def test_look_is_read_back_with_the_reserve_apart() -> None:
    out = Rows()
    nvml.look(machine(), out)
    found = read("look-1/nvml.json", out)
    (sample,) = [row for row in found if isinstance(row, GpuSample)]
    assert (sample.used_mib, sample.reserved_mib, sample.used_includes_reserve) == (1000, 600, False)
    assert (sample.gpu.index, sample.gpu.bus_id) == (0, "00000000:00:06.0")
    assert [(row.pid, row.mib) for row in found if isinstance(row, Booking)] == [(77, 900), (78, None)]
    facts = {row.name: row.value for row in found if isinstance(row, HostFact)}
    assert facts == {"driver_version": "580.1", "cuda_version": "13.0"}
    (advice,) = [row for row in found if isinstance(row, GpuReading)]
    assert (advice.field, advice.words, advice.gpu.index) == ("recovery_action", "Reset", 0)
    (ended,) = [row for row in found if isinstance(row, Accounted)]
    assert (ended.pid, ended.peak_mib, ended.running) == (41, 70_000, False)
    assert ended.start_ns == 1_771_614_000 * 10**9
    assert ended.end_ns == 1_771_614_061 * 10**9


def test_old_driver_gives_the_gross_figure() -> None:
    class Old(Nvml):
        def memory_v2(self, handle: int) -> SimpleNamespace:
            raise NvmlError(FUNCTION_NOT_FOUND, "Function Not Found")

    out = Rows()
    nvml.look(machine(nvml=Old), out)
    (sample,) = [row for row in read("look-1/nvml.json", out) if isinstance(row, GpuSample)]
    assert (sample.used_mib, sample.reserved_mib, sample.used_includes_reserve) == (1600, None, True)


def test_lists_that_may_not_be_read_are_missing_not_empty() -> None:
    out = Rows()
    nvml.look(machine(nvml=lambda: Nvml(failing=frozenset({"Compute"}))), out)
    (gpu,) = json.loads("\n".join(out.rows))[0]["gpus"]
    assert "Compute" not in gpu
    assert gpu["Compute_error"] == "Insufficient Permissions"


def test_no_driver_is_absent() -> None:
    with pytest.raises(Ended) as end:
        nvml.look(machine(nvml=no_driver), Rows())
    assert (end.value.outcome, end.value.because) == ("absent", "NVML: Driver Not Loaded")


def test_lost_gpu_is_told_and_costs_its_own_row() -> None:
    class Two(Nvml):
        def count(self) -> int:
            return 2

        def gpu(self, index: int) -> int:
            if index == 0:
                raise NvmlError(15, "GPU is lost")
            return index

    out = Rows()
    with pytest.raises(Ended, match="GPU 0: GPU is lost") as end:
        nvml.look(machine(nvml=Two), out)
    assert end.value.outcome == "truncated"
    assert [gpu["index"] for row in json.loads("\n".join(out.rows)) for gpu in row["gpus"]] == [1]


def test_series_writes_changes_and_the_last_sample() -> None:
    steps = iter([1000] * 4 + [400] * 400)
    out = Rows()
    nvml.series(machine(nvml=lambda: Nvml(lambda: next(steps))), out, 0.3, 0.01)
    used = [row["gpus"][0]["used_v2"] // MIB for row in json.loads("\n".join(out.rows))]
    assert used == [1000, 400, 400]
    samples = [row for row in read("nvml-series.json", out) if isinstance(row, GpuSample)]
    assert [sample.used_mib for sample in samples] == [1000, 400, 400]
