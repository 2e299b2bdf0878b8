"""A bundle gives the same exhibits as the directory of its files, and says who recorded it."""

from __future__ import annotations

import gzip
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpudiag.bundle.format import Clocks, Start
from gpudiag.bundle.writer import BundleWriter
from gpudiag.evidence import Input, Unreadable, read_input
from gpudiag.evidence import bundle as bundles
from gpudiag.model import Citation, ClockPair
from gpudiag.parse import parse
from tests.bundle_kit import NOBODY, entry, pack, zipped

FILES = {
    "before/ps.txt": b"# 2026-11-30T12:00:00Z $ ps -e\n# rc=0\nPID\n1\n",
    "before/proc/12/stat": b"12 (a) S 1\n",
    "before/a.txt": b"x\n",
    "kill-commands.json": b"[]\n",
    "after/server.log": b"x\n",
    "after/ps.txt": b"x\n",
    "zz/ps.txt": b"x\n",
}
RECORDED = Start(
    tool_version="0.1.0",
    host="node-1",
    boot_id="0f0e0d0c-0b0a-0908-0706-050403020100",
    clocks=Clocks(1_796_040_000_000_000_000, 6_000_000_000, 7_500_000_000),
    pids=(10, 20),
    uid=0,
    user="root",
    pid_namespace="pid:[4026531836]",
)


def lay(root: Path, files: dict[str, bytes]) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def plain(found: Input) -> list[object]:
    """Exhibits without what only a bundle knows."""
    return [replace(exhibit, outcome=None, because=None) for exhibit in found.exhibits]


def test_the_same_exhibits_as_the_directory(tmp_path: Path) -> None:
    folder = read_input(lay(tmp_path / "d", FILES), "I3")
    bundle = read_input(pack(FILES, tmp_path / "any name"), "I3")
    assert plain(bundle) == list(folder.exhibits)
    assert bundle.looks == folder.looks
    assert (bundle.kind, bundle.complete, bundle.damage, bundle.actions) == ("bundle", True, (), ())


@pytest.mark.parametrize("packed", [["incident"], ["incident/before", "incident/after", "incident/zz"]])
def test_an_archive_made_by_hand_is_read_like_the_directory(tmp_path: Path, packed: list[str]) -> None:
    files = {name: data for name, data in FILES.items() if "/" in name}
    folder = read_input(lay(tmp_path / "incident", files), "I1")
    subprocess.run(["tar", "czf", "x.tgz", *packed], cwd=tmp_path, check=True)
    found = read_input(tmp_path / "x.tgz", "I1")
    assert found.looks == folder.looks
    assert [replace(e, member=e.member.removeprefix("incident/")) for e in found.exhibits] == list(folder.exhibits)
    assert (found.kind, found.complete, found.damage, found.recorder) == ("bundle", True, (), None)


@pytest.mark.parametrize(
    ("names", "looks"),
    [
        (["after/ps.txt"], ["after"]),
        (["x/y/ps.txt", "x/y/smi.txt"], ["look"]),
        (["x/after/ps.txt", "x/before/ps.txt"], ["before", "after"]),
        (["x/proc/1/stat"], ["proc"]),
        (["ps.txt"], ["look"]),
        (["x/ps.txt", "x.expect.json"], ["look"]),
    ],
)
def test_the_folder_that_was_packed_along_is_no_look(tmp_path: Path, names: list[str], looks: list[str]) -> None:
    path = tmp_path / "x.tgz"
    path.write_bytes(zipped(*(entry(name, b"x\n") for name in names)))
    assert [look.name for look in read_input(path, "I1").looks] == looks


def test_the_recorder_is_known(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path / "b.tgz", RECORDED)
    source = writer.source("now/ps.txt")
    source.write(b"x\n")
    source.close(started_ns=5, pids=(30, 20))
    found = read_input(writer.finish(Clocks(), pids=[40]), "I1")
    assert found.recorder is not None
    assert found.recorder.pids == (10, 20, 30, 40)
    assert (found.recorder.host, found.recorder.boot_id, found.recorder.uid) == ("node-1", RECORDED.boot_id, 0)
    assert (found.recorder.user, found.recorder.pid_namespace) == ("root", "pid:[4026531836]")
    assert found.recorder.cited.member == "_bundle/start.json"
    assert found.looks[0].host == found.exhibits[0].host == "node-1"
    assert found.exhibits[0].time_ns == 5
    assert found.clocks == (ClockPair(7.5, 1_796_040_000_000_000_000, found.recorder.cited),)
    parsed = parse([found])
    assert parsed.recorders == (found.recorder,)
    assert parsed.clocks == found.clocks


def test_what_could_not_be_read_is_said_per_look(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path / "b.tgz", RECORDED)
    writer.source("now/fuser.txt").close("denied", "not root", source="open handles")
    writer.source("now/mine.txt").close("absent", "gone", source="IGNORE; all")
    found = read_input(writer.finish(Clocks()), "I1")
    (row,) = found.coverage
    assert (row.source, row.outcome, row.because, row.complete) == ("open handles", "denied", "not root", False)
    assert (row.at.look, row.at.host) == ("I1:now", "node-1")
    assert row.cited == Citation("I1", "_bundle/outcomes/0000.json", 1, "now/fuser.txt: denied, not root")
    assert [look.name for look in found.looks] == ["now"]
    assert row in parse([found]).coverage


def test_a_table_that_is_cut_does_not_cover_its_class(tmp_path: Path) -> None:
    query = b"# 2026-11-30T12:00:00Z $ nvidia-smi --query-compute-apps=pid,used_memory --format=csv\n# rc=0\n"
    table = query + b"pid, used_gpu_memory [MiB]\n884, 8802 MiB\n"
    writer = BundleWriter(tmp_path / "b.tgz", NOBODY)
    source = writer.source("now/query-apps.csv")
    source.write(table)
    source.close("timed_out", "5 s")
    parsed = parse([read_input(writer.finish(Clocks()), "I1")])
    assert [booking.pid for booking in parsed.bookings] == [884]
    assert [(row.outcome, row.because, row.complete) for row in parsed.coverage] == [("timed_out", "5 s", False)]
    whole = parse([read_input(pack({"now/query-apps.csv": table}, tmp_path / "w.tgz"), "I1")])
    assert [row.outcome for row in whole.coverage] == ["ok"]


def test_a_file_that_is_cut_off_has_the_looks_that_were_to_come(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path / "b.tgz", NOBODY._replace(looks=("before", "after", "../x", "a/b")))
    source = writer.source("before/ps.txt")
    source.write(b"x\n")
    source.close()
    writer.close()
    found = read_input(writer.partial, "I1")
    assert [look.name for look in found.looks] == ["before", "after"]
    assert not found.complete
    assert [row.reason for row in found.damage] == [
        "the bundle has no end: what would have come after before/ps.txt is missing"
    ]


def test_a_newer_major_version_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = pack(FILES, tmp_path / "b.tgz", NOBODY._replace(major=2, minor=1))
    with pytest.raises(Unreadable, match=r"b\.tgz is a bundle of format 2\.1, and this gpudiag reads 1\.x"):
        read_input(path, "I1")


def test_a_newer_minor_version_is_read(tmp_path: Path) -> None:
    found = read_input(pack(FILES, tmp_path / "b.tgz", NOBODY._replace(minor=7)), "I1")
    assert found.complete
    assert len(found.exhibits) == len(FILES)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(b"a log\n" * 200, mtime=0), "unpack it"),
        (b"\x1f\x8b\x08", "unpack it"),
        (zipped(entry("x.png", b"\x89PNG\r\n")), "without a single readable text file"),
    ],
)
def test_what_holds_nothing_is_refused_in_one_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(data)
    with pytest.raises(Unreadable, match=words) as refusal:
        read_input(path, "I1")
    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)


def test_a_bundle_with_no_whole_source_is_refused(tmp_path: Path) -> None:
    data = pack(FILES, tmp_path / "b.tgz").read_bytes()
    (tmp_path / "cut.tgz").write_bytes(data[:300])
    with pytest.raises(Unreadable, match="no source is whole"):
        read_input(tmp_path / "cut.tgz", "I1")


def test_what_is_no_text_is_damage(tmp_path: Path) -> None:
    found = read_input(pack({**FILES, "after/raw": bytes(range(32))}, tmp_path / "b.tgz"), "I1")
    assert [(row.member, row.reason) for row in found.damage] == [("after/raw", "is binary data, not text")]
    assert not found.complete


def test_expectations_are_not_read(tmp_path: Path) -> None:
    found = read_input(pack({**FILES, "after/x.expect.json": b"{}"}, tmp_path / "b.tgz"), "I1")
    assert "after/x.expect.json" not in {exhibit.member for exhibit in found.exhibits}


def test_the_number_of_files_is_capped_as_in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "FILES_CAP", 3)
    found = read_input(pack(FILES, tmp_path / "b.tgz"), "I1")
    assert len(found.exhibits) == 3
    assert found.damage[-1].reason == "more than 3 files: the rest was not read"


def unpacked(bundle: Path, folder: Path) -> Path:
    """What ``tar xzf`` makes of a bundle."""
    folder.mkdir()
    subprocess.run(["tar", "xzf", bundle], cwd=folder, check=True)
    return folder


def recorded(path: Path) -> BundleWriter:
    """A bundle with all that a record can say: times, own processes, a source that was denied and one that was cut."""
    writer = BundleWriter(path, RECORDED._replace(looks=("before", "after", "zz")))
    for number, (name, data) in enumerate(FILES.items()):
        source = writer.source(name)
        source.write(data)
        source.close(started_ns=10**18 + number, pids=(30 + number,))
    writer.source("after/fuser.txt").close("denied", "not root", source="open handles", pids=(50,))
    cut = writer.source("after/lsof.txt")
    cut.write(b"x\n")
    cut.close("truncated", "too long", source="open handles")
    return writer


def test_an_unpacked_bundle_is_read_like_the_packed_one(tmp_path: Path) -> None:
    bundle = recorded(tmp_path / "b.tgz").finish(Clocks(), pids=[60])
    packed, folder = read_input(bundle, "I1"), unpacked(bundle, tmp_path / "d")
    assert packed.recorder is not None
    assert packed.clocks
    assert packed.coverage
    assert replace(read_input(folder, "I1"), path=packed.path) == packed


def test_an_unpacked_bundle_without_an_end_is_no_last_word_either(tmp_path: Path) -> None:
    writer = recorded(tmp_path / "b.tgz")
    writer.close()
    packed, folder = read_input(writer.partial, "I1"), unpacked_part(writer.partial, tmp_path / "d")
    assert packed.damage
    assert replace(read_input(folder, "I1"), path=packed.path) == packed


def unpacked_part(bundle: Path, folder: Path) -> Path:
    """A file that ends early makes ``tar`` complain, but it unpacks what is there."""
    folder.mkdir()
    subprocess.run(["tar", "xzf", bundle], cwd=folder, check=False, capture_output=True)
    return folder


def test_what_was_taken_out_or_changed_or_laid_beside_an_unpacked_bundle(tmp_path: Path) -> None:
    folder = unpacked(recorded(tmp_path / "b.tgz").finish(Clocks()), tmp_path / "d")
    (folder / "before" / "a.txt").unlink()
    (folder / "zz" / "ps.txt").write_text("redacted\n")
    (folder / "vllm.log").write_text("x\n")
    found = read_input(folder, "I1")
    reason = "missing: the recorder wrote it, the file does not have it"
    assert [(damage.member, damage.reason) for damage in found.damage] == [("before/a.txt", reason)]
    texts = {exhibit.member: (exhibit.text, exhibit.host) for exhibit in found.exhibits}
    assert texts["zz/ps.txt"] == ("redacted\n", "node-1")
    assert texts["vllm.log"] == ("x\n", "node-1")


def test_records_of_an_unpacked_bundle_are_hostile_too(tmp_path: Path) -> None:
    folder = lay(tmp_path / "d", FILES)
    (folder / "_bundle").mkdir()
    (folder / "_bundle" / "start.json").symlink_to("/etc/hostname")
    os.mkfifo(folder / "_bundle" / "end.json")
    (folder / "_bundle" / "outcomes").symlink_to("/etc")
    found = read_input(folder, "I1")
    assert (found.recorder, found.clocks, found.coverage) == (None, (), ())
    assert [damage.member for damage in found.damage] == ["_bundle/start.json", ""]
    assert len(found.exhibits) == len(FILES)


def test_an_unpacked_bundle_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    folder = unpacked(pack(FILES, tmp_path / "b.tgz", NOBODY._replace(major=2)), tmp_path / "d")
    with pytest.raises(Unreadable, match=r"is a bundle of format 2\.0"):
        read_input(folder, "I1")


def test_an_unpacked_bundle_without_sources_is_refused(tmp_path: Path) -> None:
    folder = unpacked(pack({}, tmp_path / "b.tgz"), tmp_path / "d")
    with pytest.raises(Unreadable, match="without a single source"):
        read_input(folder, "I1")
