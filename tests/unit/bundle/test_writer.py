"""What the writer leaves on disk, at every moment."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from gpudiag.bundle import writer as writing
from gpudiag.bundle.format import END, START, Clocks, Outcome
from gpudiag.bundle.reader import read_contents
from gpudiag.bundle.writer import BundleWriter
from tests.bundle_kit import NOBODY, pack

FILES = {
    "after/ps.txt": b"PID\n1\n2\n",
    "after/empty.txt": b"",
    "kill-commands.json": b"[]\n" * 400,
    "after/b": b"x" * 512,
}


def test_gnu_tar_reads_it_and_sha256sum_confirms_it(tmp_path: Path) -> None:
    bundle = pack(FILES, tmp_path / "b.tgz")
    listed = subprocess.run(["tar", "tzf", bundle], capture_output=True, text=True, check=True)
    names = listed.stdout.splitlines()
    assert listed.stderr == ""
    assert names[0] == START
    assert names[-2:] == [END, "_bundle/checksums.sha256"]
    assert [name for name in names if not name.startswith("_bundle/")] == list(FILES)
    subprocess.run(["tar", "xzf", bundle], cwd=tmp_path, check=True)
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "_bundle/checksums.sha256"], cwd=tmp_path, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count(": OK") == len(names) - 1
    for name, data in FILES.items():
        assert (tmp_path / name).read_bytes() == data


def test_every_source_is_on_disk_when_it_is_closed(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path / "b.tgz", NOBODY, sync=True)
    assert read_contents(bundle.partial).start == NOBODY
    for number in range(3):
        source = bundle.source(f"after/{number}.txt")
        source.write(b"one\n")
        source.write(b"two\n")
        assert len(read_contents(bundle.partial).members) == number
        source.close()
        shutil.copy(bundle.partial, tmp_path / "copy")
        listed = subprocess.run(["tar", "tzf", tmp_path / "copy"], capture_output=True, text=True, check=True)
        assert f"after/{number}.txt" in listed.stdout.splitlines()
        assert [member.data for member in read_contents(bundle.partial).members] == [b"one\ntwo\n"] * (number + 1)
    assert not bundle.path.exists()
    assert bundle.finish(Clocks()) == tmp_path / "b.tgz"
    assert not bundle.partial.exists()


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path / "b.tgz", NOBODY)
    assert stat.S_IMODE(bundle.partial.stat().st_mode) == 0o600
    done = bundle.finish(Clocks())
    assert stat.S_IMODE(done.stat().st_mode) == 0o600
    with tarfile.open(done) as archive:
        assert {member.mode for member in archive} == {0o600}


@pytest.mark.parametrize("taken", ["b.tgz", "b.tgz.partial"])
def test_nothing_is_overwritten(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        BundleWriter(tmp_path / "b.tgz", NOBODY)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["../x", "/x", "", "_bundle/start.json", "_bundle", "after/ps.txt", "x" * 101])
def test_names_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    bundle = BundleWriter(tmp_path / "b.tgz", NOBODY)
    bundle.source("after/ps.txt").close()
    with pytest.raises(ValueError, match="cannot be written"):
        bundle.source(name)
    bundle.close()


def test_the_header_lines_of_a_capture_stand_above_the_text(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path / "b.tgz", NOBODY)
    source = bundle.source("after/ps.txt")
    source.write(b"PID\n")
    source.close(command="ps -eo pid", started_ns=1_796_040_000_250_000_000, exit_code=0, duration_s=0.5, pids=(9,))
    (member,) = read_contents(bundle.finish(Clocks())).members
    assert member.data == b"# 2026-11-30T12:00:00.250000+00:00 $ ps -eo pid\n# rc=0\nPID\n"


def test_a_command_of_two_lines_is_no_header(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path / "b.tgz", NOBODY)
    with pytest.raises(ValueError, match="one line"):
        bundle.source("after/ps.txt").close(command="ps\nrm")
    bundle.close()


def test_every_source_has_an_outcome_even_without_text(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path / "b.tgz", NOBODY)
    bundle.source("after/fuser.txt").close("denied", "not permitted", source="open handles")
    source = bundle.source("after/slow.txt")
    source.write(b"half\n")
    source.close("timed_out", "still running after 5 s", duration_s=5.0)
    contents = read_contents(bundle.finish(Clocks(1, 2, 3), pids=[5]))
    denied, slow = (outcome for _, outcome in contents.outcomes)
    assert denied == Outcome("after/fuser.txt", "denied", "not permitted", "open handles")
    assert (slow.outcome, slow.size, slow.sha256) == ("timed_out", 5, hashlib.sha256(b"half\n").hexdigest())
    assert [member.name for member in contents.members] == ["after/slow.txt"]
    assert contents.end is not None
    assert (contents.end.clocks, contents.end.pids) == (Clocks(1, 2, 3), (5,))
    assert contents.flaws == ()


def test_an_outcome_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    bundle = BundleWriter(tmp_path / "b.tgz", NOBODY)
    with pytest.raises(ValueError, match="'fine' is no outcome"):
        bundle.source("after/ps.txt").close("fine")
    bundle.close()


def test_what_is_too_long_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "SOURCE_CAP", 10)
    monkeypatch.setattr(writing, "TOTAL_CAP", 15)
    monkeypatch.setattr(writing, "HEAD_CAP", 0)
    bundle = BundleWriter(tmp_path / "b.tgz", NOBODY)
    results: list[Outcome] = []
    for name in ("a", "b", "c"):
        source = bundle.source(name)
        assert source.write(b"1234567") is (name == "a")
        assert source.write(b"1234567") is False
        results.append(source.close())
    contents = read_contents(bundle.finish(Clocks()))
    assert [(r.outcome, r.size) for r in results] == [("truncated", 10), ("truncated", 5), ("truncated", None)]
    assert [member.data for member in contents.members] == [b"1234567123", b"12345"]
    assert contents.flaws == ()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = BundleWriter(tmp_path / "b.tgz", NOBODY)
    before = bundle.partial.read_bytes()
    source = bundle.source("after/ps.txt")
    source.write(b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(20_000)))
    put, calls = bundle._put, iter(range(3))

    def full(data: bytes) -> None:
        if next(calls, None) is None:
            raise OSError(28, "No space left on device")
        put(data)

    monkeypatch.setattr(bundle, "_put", full)
    with pytest.raises(OSError, match="No space left"):
        source.close()
    assert bundle.partial.read_bytes() == before
    monkeypatch.undo()
    bundle.source("after/small.txt").close()
    assert read_contents(bundle.finish(Clocks())).flaws == ()


def test_members_are_plain_gzip(tmp_path: Path) -> None:
    with gzip.open(pack(FILES, tmp_path / "b.tgz")) as stream:
        assert json.loads(stream.read(1024)[512:].rstrip(b"\0"))["format"] == "gpudiag.bundle"
