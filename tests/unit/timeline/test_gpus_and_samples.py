"""One identity a GPU, one figure a moment."""

from __future__ import annotations

import pytest

from gpudiag.model import Booking, GpuName, GpuRef, GpuSample
from gpudiag.timeline.gpus import index_gpus
from gpudiag.timeline.order import order_looks
from gpudiag.timeline.samples import Memory, driver_bound_mib, expected_release_s
from tests.unit.timeline.rows import CITED, NOW, SECOND, at, look_names, sample


def test_names_in_one_row_tie_index_bus_and_uuid_together() -> None:
    full = GpuRef(index=3, uuid="GPU-a", bus_id="00000000:41:00.0")
    rows = [GpuSample(at("L"), full, 5, 100, None, False, "X", CITED)]
    index = index_gpus(rows, [Booking(at("L"), GpuRef(bus_id="00000000:41:00.0"), 7, 5, "j", None, "compute", CITED)])
    assert [gpu.id for gpu in index.gpus] == ["GPU-a"]
    assert {index.of("box", ref) for ref in (GpuRef(index=3), GpuRef(uuid="GPU-a"))} == set(index.gpus)


def test_a_list_of_gpus_ties_an_index_to_a_uuid() -> None:
    rows = [GpuSample(at("L"), GpuRef(index=n), 5, 100, None, False, None, CITED) for n in (0, 1)]
    bookings = [Booking(at("L"), GpuRef(uuid=f"GPU-{n}"), 7 + n, 5, "j", None, "compute", CITED) for n in (1, 0)]
    assert len(index_gpus(rows, bookings).gpus) == 4
    names = [GpuName(at("L"), GpuRef(index=n, uuid=f"GPU-{n}"), "H200", (), CITED) for n in (0, 1, 2)]
    index = index_gpus(rows, bookings, names)
    assert [(gpu.index, gpu.uuid, gpu.name) for gpu in index.gpus] == [(0, "GPU-0", "H200"), (1, "GPU-1", "H200")]


def test_a_list_of_gpus_that_contradicts_ties_nothing() -> None:
    full = GpuRef(index=0, uuid="GPU-0")
    rows = [GpuSample(at("L"), full, 5, 100, None, False, None, CITED)]
    index = index_gpus(rows, [], [GpuName(at("L"), GpuRef(index=0, uuid="GPU-9"), "H200", (), CITED)])
    assert [(gpu.index, gpu.uuid) for gpu in index.gpus] == [(0, "GPU-0")]


def test_two_hosts_have_two_gpus_zero() -> None:
    other = GpuSample(at("L"), GpuRef(index=0), 5, 100, None, False, None, CITED)
    rows = [other, GpuSample(type(other.at)("other", "L", NOW), GpuRef(index=0), 6, 100, None, False, None, CITED)]
    assert len(index_gpus(rows, []).gpus) == 2


def test_a_list_without_any_gpu_name_means_the_only_gpu() -> None:
    bare = Booking(at("L"), GpuRef(), 7, 5, "j", None, "compute", CITED)
    index = index_gpus([], [bare])
    assert len(index.gpus) == 1
    assert index.of("box", GpuRef()) is index.gpus[0]


def test_a_list_without_gpu_names_on_a_host_with_two_is_ambiguous() -> None:
    rows = [GpuSample(at("L"), GpuRef(index=n), 5, 100, None, False, None, CITED) for n in (0, 1)]
    assert index_gpus(rows, []).of("box", GpuRef()) is None


def test_reserve_is_the_difference_of_two_sources_of_one_look() -> None:
    rows = [sample("L", 77459), sample("L", 78075, gross=True)]
    assert index_gpus(rows, []).gpus[0].reserved_mib == pytest.approx(616)


def test_reserve_is_not_made_up_where_memory_moved_between_the_sources() -> None:
    rows = [sample("L", 77459), sample("L", 78075, gross=True), sample("M", 100), sample("M", 9000, gross=True)]
    assert index_gpus(rows, []).gpus[0].reserved_mib is None


def _memory(*rows: GpuSample) -> Memory:
    looks = order_looks(look_names("L", "M"), [row.at for row in rows])
    return Memory(rows, index_gpus(rows, []), looks)


def test_newest_figure_is_later_than_the_last_command() -> None:
    memory = _memory(sample("L", 9000), sample("M", 50, seconds=9))
    gpu = memory.gpus.gpus[0]
    figure = memory.newest(gpu, 0.5, NOW + 5 * SECOND)
    assert figure is not None
    assert figure.used_mib == 50
    assert memory.newest(gpu, 1.5, NOW + 99 * SECOND) is None


def test_the_tools_own_figure_is_preferred_to_nvmls_gross_one() -> None:
    memory = _memory(sample("M", 700, gross=True), sample("M", 90, reserved=616))
    figure = memory.newest(memory.gpus.gpus[0], -1, None)
    assert figure is not None
    assert (figure.used_mib, figure.net) == (90, True)


def test_gross_figure_without_a_known_reserve_says_so() -> None:
    memory = _memory(sample("M", 700, gross=True))
    figure = memory.newest(memory.gpus.gpus[0], -1, None)
    assert figure is not None
    assert not figure.net


def test_release_is_the_first_sample_below_the_level() -> None:
    memory = _memory(
        sample(None, 9000), sample(None, 9000, seconds=1), sample(None, 40, seconds=2.5), sample(None, 40, seconds=3)
    )
    gpu = memory.gpus.gpus[0]
    assert memory.first_at_or_below(gpu, NOW, 1000) == NOW + round(2.5 * SECOND)
    assert memory.first_at_or_below(gpu, NOW, 10) is None


def test_pinned_memory_makes_a_release_slow() -> None:
    assert expected_release_s(64 << 20) == pytest.approx(11.2, abs=0.1)
    assert expected_release_s(None) is None


def test_drivers_bound_covers_what_was_measured() -> None:
    """137 MiB beside one process of 62,050 MiB with 64 GiB pinned; 71 beside six with 16."""
    assert driver_bound_mib(62187, 1, 64) >= 137
    assert driver_bound_mib(77459, 6, 16) >= 71
