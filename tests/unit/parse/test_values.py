"""Values as tools print them, and what stands where one is missing."""

from __future__ import annotations

import pytest

from gpudiag.model import GpuRef
from gpudiag.parse.values import age_s, bus_id, gpu_ref, is_non_value, kind_of, mib, pid_of, shown_name

NON_VALUES = [
    "[N/A]", "N/A", "[Not Found]", "[No data]", "[Not Supported]", "[Unknown Error]", "[Insufficient Permissions]",
    "[GPU requires reset]", "Not available in WDDM driver model", "", "  ", "-",
]  # fmt: skip


@pytest.mark.parametrize("text", NON_VALUES)
def test_a_non_value_is_no_size_and_no_name(text: str) -> None:
    assert is_non_value(text)
    assert mib(text) is None
    assert shown_name(text) == (None, text.strip())


def test_brackets_alone_do_not_make_a_non_value() -> None:
    assert shown_name("[kworker]") == ("[kworker]", None)


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("21090 MiB", "MiB", 21090.0),
        ("21090MiB", "MiB", 21090.0),
        ("21090", "MiB", 21090.0),
        ("1.5 GiB", "MiB", 1536.0),
        ("512 KiB", "MiB", 0.5),
        ("512", "KiB", 0.5),
        ("1048576 B", "MiB", 1.0),
        ("7 MB", "MiB", 7.0),
        ("0", "MiB", 0.0),
        ("-3 MiB", "MiB", None),
        ("12 apples", "MiB", None),
    ],
)
def test_sizes(text: str, unit: str, expected: float | None) -> None:
    assert mib(text, unit) == expected


@pytest.mark.parametrize("text", ["00000000:3B:00.0", "0000:3b:00.0", "3B:00.0"])
def test_bus_ids_have_one_form(text: str) -> None:
    assert bus_id(text) == "00000000:3b:00.0"


def test_what_is_no_bus_id() -> None:
    assert bus_id("GPU-0") is None
    assert gpu_ref("[N/A]", "[N/A]", "[N/A]") == GpuRef()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("80", 80.0), ("00:07", 7.0), ("01:02:03", 3723.0), ("2-00:00:01", 172801.0), ("-", None), ("1:2", None)],
)
def test_ages(text: str, expected: float | None) -> None:
    assert age_s(text) == expected


def test_pids_that_linux_cannot_give() -> None:
    assert pid_of("4194304") == 4194304
    assert pid_of("4194305") is None
    assert pid_of("0") is None
    assert pid_of("٣") is None


def test_kinds() -> None:
    assert [kind_of(letters) for letters in ("C", "G", "C+G", "M+C", "-")] == [
        "compute", "graphics", "both", "mps", "unknown",
    ]  # fmt: skip
