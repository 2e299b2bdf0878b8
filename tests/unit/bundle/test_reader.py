"""Cut, altered and hostile files: what is right is given back, what is not is listed, nothing is raised."""

from __future__ import annotations

import gzip
import random
import tarfile
import time
import zlib
from pathlib import Path

import pytest

from gpudiag.bundle import gzipped, reader, tarred
from gpudiag.bundle.format import Clocks
from gpudiag.bundle.reader import Contents, read_contents
from gpudiag.bundle.writer import BundleWriter
from tests.bundle_kit import NOBODY, entry, pack, zipped

SMALL = {
    "after/ps.txt": b"".join(b"%d root python3 -m server\n" % n for n in range(40)),
    "after/apps.csv": b"pid, used_memory\n884, 8802 MiB\n886, 8802 MiB\n",
    "kill-commands.json": b"[]\n",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return pack(SMALL, tmp_path_factory.mktemp("small") / "b.tgz").read_bytes()


def read(folder: Path, data: bytes) -> Contents:
    path = folder / "it.tgz"
    path.write_bytes(data)
    return read_contents(path)


def starts(data: bytes) -> list[int]:
    """Where the gzip members begin."""
    places, place = [], 0
    while place < len(data):
        inflater = zlib.decompressobj(31)
        inflater.decompress(data[place:])
        places.append(place)
        place = len(data) - len(inflater.unused_data)
    return places


def test_a_whole_bundle_has_no_flaw(tmp_path: Path, small: bytes) -> None:
    contents = read(tmp_path, small)
    assert {member.name: member.data for member in contents.members} == SMALL
    assert all(member.cut is None for member in contents.members)
    assert (contents.flaws, contents.bundle, contents.start) == ((), True, NOBODY)
    assert len(contents.outcomes) == 3


def test_cut_at_every_byte_it_gives_whole_lines_and_never_less(tmp_path: Path, small: bytes) -> None:
    before: dict[str, bytes] = {}
    for length in range(len(small) + 1):
        contents = read(tmp_path, small[:length])
        texts = {member.name: member.data for member in contents.members}
        for name, data in texts.items():
            assert SMALL[name].startswith(data)
            assert data.endswith(b"\n")
        assert all(texts.get(name, b"").startswith(data) for name, data in before.items()), length
        if 0 < length < len(small) - 60:
            assert contents.flaws, length
        before = texts
    assert before == SMALL


def test_an_altered_byte_costs_one_member_and_invents_nothing(tmp_path: Path, small: bytes) -> None:
    places = starts(small)
    for position in range(len(small)):
        data = bytearray(small)
        data[position] ^= 0x41
        contents = read(tmp_path, bytes(data))
        texts = {member.name: member.data for member in contents.members}
        last = position >= places[-1]
        for name, text in texts.items():
            assert SMALL[name] == text, (position, name)
        assert len(texts) >= len(SMALL) - 1, position
        if len(texts) < len(SMALL):
            missing = set(SMALL) - set(texts)
            assert missing <= {flaw.member for flaw in contents.flaws}, position
        assert last or contents.start is None or len(contents.outcomes) >= 2


def test_bytes_that_are_lost_in_the_middle_cost_what_they_lay_in(tmp_path: Path, small: bytes) -> None:
    places = starts(small)
    lost = small[: places[1] + 30] + small[places[2] - 20 :]
    contents = read(tmp_path, lost)
    assert [member.name for member in contents.members] == ["after/apps.csv", "kill-commands.json"]
    assert {flaw.member for flaw in contents.flaws} == {"", "after/ps.txt"}


def test_a_missing_start_record_is_said(tmp_path: Path, small: bytes) -> None:
    contents = read(tmp_path, small[starts(small)[1] :])
    assert {member.name for member in contents.members} == set(SMALL)
    assert contents.start is None
    assert "own PIDs are not known" in contents.flaws[0].reason


def test_a_member_that_was_taken_out_is_missed(tmp_path: Path, small: bytes) -> None:
    places = starts(small)
    contents = read(tmp_path, small[: places[2]] + small[places[3] :])
    assert [(flaw.member, flaw.reason[:7]) for flaw in contents.flaws] == [("after/apps.csv", "missing")]


def test_a_member_that_was_exchanged_is_not_read(tmp_path: Path, small: bytes) -> None:
    places = starts(small)
    other = gzip.compress(entry("after/apps.csv", b"pid, used_memory\n1, 8802 MiB\n"))
    contents = read(tmp_path, small[: places[2]] + other + small[places[3] :])
    assert "after/apps.csv" not in {member.name for member in contents.members}
    assert "after/apps.csv" in {flaw.member for flaw in contents.flaws}


def test_a_start_record_that_was_exchanged_is_not_read(tmp_path: Path, small: bytes) -> None:
    other = gzip.compress(entry("_bundle/start.json", NOBODY._replace(host="another").to_json()))
    contents = read(tmp_path, other + small[starts(small)[1] :])
    assert contents.start is None
    assert {flaw.member for flaw in contents.flaws} == {"_bundle/start.json"}


def test_the_first_of_two_entries_of_one_name_counts(tmp_path: Path) -> None:
    contents = read(tmp_path, zipped(entry("a.txt", b"one\n"), entry("a.txt", b"two\n")))
    assert [member.data for member in contents.members] == [b"one\n"]
    assert [flaw.member for flaw in contents.flaws] == ["a.txt"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.CHRTYPE, "character device"),
        (tarfile.BLKTYPE, "block device"),
        (tarfile.FIFOTYPE, "named pipe"),
        (b"Z", "unknown kind"),
    ],
)
def test_what_is_no_file_is_refused_and_listed(tmp_path: Path, kind: bytes, words: str) -> None:
    contents = read(tmp_path, zipped(entry("x", kind=kind, target="/etc/shadow"), entry("a.txt", b"text\n")))
    assert [member.name for member in contents.members] == ["a.txt"]
    assert [(flaw.member, words in flaw.reason) for flaw in contents.flaws] == [("x", True)]


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "/etc/passwd", "a/../../b", "a\nb", "y" * 300])
def test_names_that_lead_elsewhere_are_refused_and_listed(tmp_path: Path, name: str) -> None:
    contents = read(tmp_path, zipped(entry(name, b"evil\n" * 300), entry("a.txt", b"text\n")))
    assert [member.name for member in contents.members] == ["a.txt"]
    assert len(contents.flaws) == 1
    assert contents.flaws[0].member.isprintable()


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_of_both_kinds(tmp_path: Path, form: int) -> None:
    name = "after/" + "ü" * 80 + "/" + "n" * 60
    (tmp_path / "f").write_bytes(b"text\n" * 200)
    with tarfile.open(tmp_path / "x.tgz", "w:gz", format=form) as archive:
        archive.add(tmp_path / "f", "./" + name)
    contents = read_contents(tmp_path / "x.tgz")
    assert [(member.name, len(member.data)) for member in contents.members] == [(name, 1000)]
    assert contents.flaws == ()


def test_a_bomb_is_given_up_and_what_was_right_before_is_kept(tmp_path: Path) -> None:
    good = gzip.compress(entry("a.txt", b"text\n"))
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = [deflate.compress(entry("big.txt")[:124] + b"77777777777\0" + b" " * 376)]
    bomb += [deflate.compress(bytes(1 << 20)) for _ in range(700)]
    began = time.perf_counter()
    contents = read(tmp_path, good + b"".join(bomb) + deflate.flush())
    assert time.perf_counter() - began < 10
    assert [member.name for member in contents.members] == ["a.txt"]
    assert any("times its size" in flaw.reason for flaw in contents.flaws)


def test_what_inflates_too_far_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzipped, "INFLATED_CAP", 1000)
    contents = read(tmp_path, zipped(entry("a.txt", b"text\n"), entry("b.txt", b"text\n")))
    assert contents.members == ()
    assert "inflates to more than" in contents.flaws[0].reason


def test_a_hundred_thousand_members_are_not_all_taken(tmp_path: Path) -> None:
    one = entry("f00000.txt", b"text\n")

    def named(number: int) -> bytes:
        block = bytearray(one[:512])
        block[:10] = b"f%05d.txt" % number
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        return bytes(block) + one[512:]

    data = zipped(*(named(number) for number in range(100_000)))
    began = time.perf_counter()
    contents = read(tmp_path, data)
    assert time.perf_counter() - began < 10
    assert len(contents.members) == tarred.HEADERS_CAP
    assert any("entries" in flaw.reason for flaw in contents.flaws)


def test_many_refused_entries_are_counted_not_listed(tmp_path: Path) -> None:
    links = [entry(f"l{number}", kind=tarfile.SYMTYPE, target="/") for number in range(1000)]
    contents = read(tmp_path, zipped(*links))
    assert len(contents.flaws) == reader.FLAWS_CAP + 1
    assert contents.flaws[-1].reason == "800 more parts were not read"


def test_a_search_behind_damage_comes_to_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzipped, "SEARCH_CAP", 50)
    fakes = gzipped.MAGIC + b"\0" * 7 + b"\xff" * 5
    contents = read(tmp_path, fakes * 200 + gzip.compress(entry("a.txt", b"text\n")))
    assert contents.members == ()
    assert contents.flaws


def test_members_that_each_run_to_the_end_do_not_make_it_quadratic(tmp_path: Path) -> None:
    # A tar header, then stored blocks without content: nothing comes out, and each one reads all of the others.
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    opening = deflate.compress(entry("a.txt", b"text\n")) + deflate.flush(zlib.Z_FULL_FLUSH)
    began = time.perf_counter()
    contents = read(tmp_path, (opening + b"\0\0\0\xff\xff" * 2000) * 200)
    assert time.perf_counter() - began < 20
    assert contents.flaws


def test_padding_behind_the_archive_is_no_damage(tmp_path: Path, small: bytes) -> None:
    assert read(tmp_path, small + b"\0" * 5000).flaws == ()
    garbage = read(tmp_path, small + b"garbage" * 100)
    assert {member.name for member in garbage.members} == set(SMALL)
    assert len(garbage.flaws) == 1


def test_a_newer_format_gives_nothing_but_its_version(tmp_path: Path) -> None:
    path = tmp_path / "b.tgz"
    bundle = BundleWriter(path, NOBODY._replace(major=2, minor=5))
    bundle.source("after/ps.txt").close()
    contents = read_contents(bundle.finish(Clocks()))
    assert contents.unreadable_version == "2.5"
    assert contents.members == ()


@pytest.mark.parametrize(
    "data", [b"", b"\x1f", b"\x1f\x8b", gzip.compress(b"no archive", mtime=0), b"\x1f\x8b" + b"\xff" * 99]
)
def test_what_is_no_archive_gives_nothing(tmp_path: Path, data: bytes) -> None:
    contents = read(tmp_path, data)
    assert (contents.members, contents.bundle) == ((), False)


def test_noise_is_read_without_an_error(tmp_path: Path, small: bytes) -> None:
    dice = random.Random(1)
    for _ in range(200):
        data = bytearray(small)
        for _ in range(dice.randrange(1, 30)):
            place = dice.randrange(len(data))
            data[place : place + dice.randrange(3)] = dice.randbytes(dice.randrange(4))
        texts = {member.name: member.data for member in read(tmp_path, bytes(data)).members}
        assert all(SMALL[name].startswith(text) for name, text in texts.items())


def test_contents_that_are_no_tar_header_are_searched_for_one(tmp_path: Path) -> None:
    contents = read(tmp_path, zipped(b"x" * 1024, entry("a.txt", b"text\n")))
    assert [member.name for member in contents.members] == ["a.txt"]
    assert len(contents.flaws) == 1
