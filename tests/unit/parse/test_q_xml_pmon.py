"""``nvidia-smi -q`` as text and XML, and ``pmon``, against the CSV of the same look."""

from __future__ import annotations

import pytest

from gpudiag.parse import Parsed
from tests.unit.parse.exhibits import H200, capture, parsed

LOOKS = [(path.parent.parent.name, path.parent.name) for path in sorted(H200.glob("*/*/q.xml"))]


def pids(found: Parsed, member: str) -> dict[int, float | None]:
    """Sizes by PID as one file gives them."""
    return {row.pid: row.mib for row in found.bookings if row.cited.member == member}


@pytest.mark.parametrize(("name", "look"), LOOKS)
def test_text_and_xml_and_csv_agree(name: str, look: str) -> None:
    found = capture(name)
    csv = pids(found, f"{look}/query-apps.csv")
    assert pids(found, f"{look}/q.txt") == csv
    assert pids(found, f"{look}/q.xml") == csv
    sizes = {
        (row.used_mib, row.total_mib, row.reserved_mib)
        for row in found.samples
        if row.cited.member in (f"{look}/q.txt", f"{look}/q.xml", f"{look}/query-gpu.csv")
    }
    assert len(sizes) == 1


@pytest.mark.parametrize(("name", "look"), LOOKS)
def test_pmon_leaves_out_what_is_dead(name: str, look: str) -> None:
    found = capture(name)
    csv = {row.pid: row for row in found.bookings if row.cited.member == f"{look}/query-apps.csv"}
    seen = {row.pid: row for row in found.bookings if row.cited.member == f"{look}/pmon.txt"}
    assert {pid for pid, row in csv.items() if row.name} == set(seen)
    for pid, row in seen.items():
        assert row.mib == csv[pid].mib
        assert (csv[pid].name or "").rpartition("/")[2].startswith(row.name or "?")


def test_the_xml_cites_the_line_of_the_pid() -> None:
    found = capture("zombie-leader")
    text = (H200 / "zombie-leader" / "after" / "q.xml").read_text().split("\n")
    cited = [row.cited for row in found.bookings if row.cited.member == "after/q.xml"]
    assert len(cited) == 3
    for citation in cited:
        assert citation.line is not None
        assert text[citation.line - 1].strip() == citation.quote
        assert citation.quote.startswith("<pid>")


XML = (H200 / "zombie-leader" / "after" / "q.xml").read_text()


def test_a_cut_xml_keeps_what_came_before_the_cut() -> None:
    cut = XML[: XML.index("<pid>1410")]
    found = parsed(cut.split("\n", 2)[2], "nvidia-smi -q -x")
    assert {row.pid for row in found.bookings} == {699, 700}
    assert {(row.source, row.outcome, row.complete) for row in found.coverage} == {
        ("gpu memory", "truncated", False),
        ("compute processes", "truncated", False),
    }
    assert len(found.damage) == 1


def test_entities_are_refused() -> None:
    bomb = (
        '<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>\n'
        "<nvidia_smi_log><driver_version>&b;</driver_version></nvidia_smi_log>\n"
    )
    found = parsed(bomb, "nvidia-smi -q -x")
    assert found.facts == ()
    assert [row.reason for row in found.damage] == ["XML that declares entities"]


def test_no_external_document_is_read(tmp_path: object) -> None:
    document = (
        '<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log SYSTEM "file:///etc/hostname">\n'
        "<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>\n"
    )
    found = parsed(document, "nvidia-smi -q -x")
    assert [(row.outcome, row.because) for row in found.coverage] == [("not_understood", "no GPU in the XML")]


def test_text_with_fewer_gpus_than_attached_is_cut() -> None:
    text = (H200 / "zombie-leader" / "after" / "q.txt").read_text().replace(": 1\n", ": 2\n", 1)
    found = parsed(text.split("\n", 2)[2], "nvidia-smi -q -d MEMORY,PIDS")
    assert {row.outcome for row in found.coverage} == {"truncated"}


def test_pmon_without_memory_still_names_the_processes() -> None:
    text = (
        "# gpu         pid  type    sm    mem    enc    dec    command\n"
        "# Idx           #   C/G     %      %      %      %    name\n"
        "    0       4242     C    97      4      -      -    python3 a b\n"
        "    1          -     -     -      -      -      -    -\n"
    )
    found = parsed(text, "nvidia-smi pmon -c 1")
    assert [(row.pid, row.mib, row.name, row.gpu.index) for row in found.bookings] == [(4242, None, "python3 a b", 0)]
