"""The library through ctypes: layouts as in NVIDIA's own module, calls against a compiled stand-in."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpudiag.collect import libnvml
from gpudiag.collect.libnvml import Library, NvmlError
from tests.unit.collect.driver import compiled

ROOT = Path(__file__).parents[3]
LOOK = """
import json, sys
from gpudiag.collect import nvml
from gpudiag.collect.machine import Machine
from gpudiag.collect.source import Ended

class Out:
    rows = []
    def line(self, text): self.rows.append(text)

try:
    nvml.look(Machine(), Out())
    end = None
except Ended as found:
    end = [found.outcome, found.because]
print(json.dumps({"rows": json.loads("".join(Out.rows) or "[]"), "end": end}))
"""
PYNVML = """
import json, pynvml
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
memory = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
listed = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
pci = pynvml.nvmlDeviceGetPciInfo(gpu).busId
stats = pynvml.nvmlDeviceGetAccountingStats(gpu, 41)
field = pynvml.nvmlDeviceGetFieldValues(gpu, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]
print(json.dumps([memory.used, memory.reserved, [[row.pid, row.usedGpuMemory] for row in listed],
    pci if isinstance(pci, str) else pci.decode(), stats.maxMemoryUsage, stats.startTime, field.value.uiVal]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return compiled(tmp_path_factory.mktemp("driver"))


def run(code: str, environment: dict[str, str], behaviour: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment, "NVML_STUB": behaviour},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return json.loads(done.stdout)


def look(environment: dict[str, str], behaviour: str) -> tuple[list[dict[str, Any]], list[str] | None]:
    """The GPUs that were written, and how it ended."""
    found = run(LOOK, environment, behaviour)
    return [gpu for row in found["rows"] for gpu in row["gpus"]], found["end"]


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (libnvml.Memory, pynvml.c_nvmlMemory_t),
        (libnvml.MemoryV2, pynvml.c_nvmlMemory_v2_t),
        (libnvml.ProcessV2, pynvml.c_nvmlProcessInfo_v2_t),
        (libnvml.ProcessV2, pynvml.c_nvmlProcessInfo_v3_t),
        (libnvml.PciInfo, pynvml.nvmlPciInfo_t),
        (libnvml.AccountingStats, pynvml.c_nvmlAccountingStats_t),
        (libnvml.FieldValue, pynvml.c_nvmlFieldValue_t),
    ],
)
def test_layouts_are_those_of_nvidias_module(own: Any, theirs: Any) -> None:
    assert ctypes.sizeof(own) == ctypes.sizeof(theirs)
    for name, *_ in own._fields_:
        assert getattr(own, name).offset == getattr(theirs, name).offset
        assert getattr(own, name).size == getattr(theirs, name).size


def test_numbers_are_those_of_nvidias_module() -> None:
    assert libnvml.RECOVERY_ACTION == pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    assert pynvml.nvmlMemory_v2 == libnvml._MEMORY_V2
    for name in ("NOT_SUPPORTED", "NO_PERMISSION", "NOT_FOUND", "INSUFFICIENT_SIZE", "DRIVER_NOT_LOADED"):
        assert getattr(libnvml, name) == getattr(pynvml, f"NVML_ERROR_{name}")
    assert libnvml.LIBRARY_NOT_FOUND == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    assert libnvml.FUNCTION_NOT_FOUND == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    assert libnvml.VERSION_MISMATCH == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH


def test_nvidias_module_reads_the_same_from_the_same_library(environment: dict[str, str]) -> None:
    behaviour = "accounting recovery"
    (gpu,), end = look(environment, behaviour)
    assert end is None
    peak, started = gpu["accounted"][0][1:3]
    own = [gpu["used_v2"], gpu["reserved"], gpu["Compute"], gpu["bus_id"], peak, started, 1]
    assert run(PYNVML, environment, behaviour) == own
    assert gpu["recovery_action"] == "Reset"


def test_lists_longer_than_the_room_for_them(environment: dict[str, str]) -> None:
    (gpu,), _ = look(environment, "many")
    assert [pid for pid, _ in gpu["Compute"]] == list(range(77, 377))
    assert gpu["Graphics"] == []
    assert gpu["MPSCompute_error"] == "Not Supported"
    assert "MPSCompute" not in gpu


def test_driver_with_odd_entries_is_asked_by_the_older_call(environment: dict[str, str]) -> None:
    (gpu,), _ = look(environment, "driver535")
    assert [pid for pid, _ in gpu["Compute"]] == [77, 78]


def test_old_driver_has_the_gross_figure_only(environment: dict[str, str]) -> None:
    (gpu,), end = look(environment, "old")
    assert end is None
    assert gpu["used"] == 1600 << 20
    assert "used_v2" not in gpu


def test_what_the_driver_remembers_of_ended_processes(environment: dict[str, str]) -> None:
    (gpu,), _ = look(environment, "accounting")
    assert gpu["accounted"] == [
        [41, 70000 << 20, 1771614000000000, 61000, False],
        [42, None, 1771614000000000, 0, True],
    ]  # 43 was pushed out between the two calls
    (plain,), _ = look(environment, "")
    assert plain["accounting"] is False
    assert "accounted" not in plain


def test_divided_gpu_without_the_right_to_see_the_whole(environment: dict[str, str]) -> None:
    (gpu,), end = look(environment, "mig user")
    assert end is None
    assert (gpu["used"], gpu["memory_error"]) == (None, "Insufficient Permissions")
    assert gpu["Compute"] == [[77, None]]
    (device,) = gpu["mig_devices"]
    assert (device["uuid"][:4], device["gi"], device["ci"], device["Compute"]) == ("MIG-", 9, 0, [[77, 900 << 20]])


@pytest.mark.parametrize(
    ("behaviour", "outcome", "because"),
    [
        ("nodriver", "absent", "NVML: Driver Not Loaded"),
        ("mismatch", "absent", "NVML: Driver/library version mismatch"),
        ("denied", "denied", "NVML: Insufficient Permissions"),
        ("nogpu", "absent", "NVML: the driver has no GPU"),
        ("lost", "truncated", "GPU 1: GPU is lost"),
    ],
)
def test_errors_and_what_they_are_called(
    environment: dict[str, str], behaviour: str, outcome: str, because: str
) -> None:
    gpus, end = look(environment, behaviour)
    assert end == [outcome, because]
    assert len(gpus) == (behaviour == "lost")


def test_library_that_is_not_there() -> None:
    with pytest.raises(NvmlError, match="is not installed") as error:
        Library("libnothing-of-this-name.so.1")
    assert error.value.code == libnvml.LIBRARY_NOT_FOUND


def test_library_where_the_loader_does_not_look(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NVML_STUB", raising=False)
    (folder,) = environment.values()
    stand_in = Path(folder, "libstand-in.so.1")
    stand_in.write_bytes(Path(folder, libnvml.LIBRARY).read_bytes())
    assert Library(stand_in.name, ("/nowhere", folder)).count() == 1
