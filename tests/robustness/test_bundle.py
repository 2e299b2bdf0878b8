"""The bundle reader and all behind it: no traceback, no more time or memory than stated, and the damage is told."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from gpudiag.bundle.format import RECORDS
from gpudiag.evidence import Input, Unreadable, read_input
from tests.bundle_kit import entry, in_order_of_time, pack, zipped
from tests.robustness.limits import OUTCOMES, UNREADABLE, Run, gpudiag

Tried = Callable[[str, int, str], None]
FIXTURES = Path(__file__).parents[1] / "fixtures"
MEMORY_MIB = 1024
"""Resident memory that no bundle here may take."""
CPU_S = 20
"""Seconds of CPU for the same."""
PS = b"# 2026-02-20T19:00:06Z $ ps -eo pid,ppid,user,args\n    PID    PPID USER     COMMAND\n"
APPS = b"pid, process_name, used_gpu_memory [MiB]\n150, VLLM::EngineCore, 92958 MiB\n"
KNOWN = entry("after/query-apps.csv", APPS)


@cache
def small() -> tuple[dict[str, bytes], bytes]:
    """A bundle of the beginnings of a real capture, and its files."""
    files = in_order_of_time(FIXTURES / "h200" / "selfmatch-orphans")
    chosen = {name: data[:300] for name, data in files.items() if name.endswith((".csv", ".txt", "commands.json"))}
    chosen = dict(list(chosen.items())[:8])
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return chosen, pack(chosen, Path(folder) / "b.tgz").read_bytes()


def read(path: Path, data: bytes) -> Input | None:
    """What the reader makes of these bytes; ``None``: one sentence."""
    path.write_bytes(data)
    try:
        return read_input(path, "I1")
    except Unreadable as refusal:
        sentence = str(refusal)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return None


def check(found: Input | None, files: dict[str, bytes]) -> int:
    """Nothing invented: what is read is the beginning of what was written, and all that is missing is told."""
    if found is None:
        return 0
    for exhibit in found.exhibits:
        if exhibit.member in files:
            assert exhibit.text in files[exhibit.member].decode("utf-8", "replace")
    read_whole = {exhibit.member for exhibit in found.exhibits if exhibit.outcome != "truncated"}
    if set(files) - read_whole:
        assert found.damage
        assert not found.complete
    return len(found.exhibits)


def test_cut_at_every_byte(tmp_path: Path, tried: Tried) -> None:
    files, data = small()
    path = tmp_path / "cut.tgz"
    counts = [check(read(path, data[:length]), files) for length in range(len(data))]
    assert counts == sorted(counts), "more bytes never give fewer sources"
    assert max(counts) == len(files)
    tried("A bundle cut at every byte", len(data), "no traceback; what was whole is read, what is missing is listed")


def test_every_byte_altered(tmp_path: Path, tried: Tried) -> None:
    files, data = small()
    dice = random.Random(3)
    path = tmp_path / "flip.tgz"
    lost = 0
    for place in range(len(data)):
        altered = bytearray(data)
        altered[place] ^= 1 << dice.randrange(8)
        found = read(path, bytes(altered))
        check(found, files)
        lost = max(lost, len(files) - (len(found.exhibits) if found is not None else 0))
    assert lost <= 1, "one altered bit costs one source"
    tried("One bit of every byte of a bundle flipped", len(data), "no traceback; one source lost at most, and named")


def test_cut_and_altered_through_the_whole_program(tmp_path: Path, tried: Tried) -> None:
    """From the file to the exit code, in this process: the command line's own handling is part of it."""
    from typer.testing import CliRunner

    from gpudiag.cli import app

    _, data = small()
    dice = random.Random(4)
    path = tmp_path / "x.tgz"
    runs = 0
    for length in [*range(0, 40, 4), *sorted(dice.sample(range(40, len(data)), 10))]:
        altered = bytearray(data)
        altered[dice.randrange(len(data))] ^= 0xFF
        for content in (data[:length], altered):
            path.write_bytes(content)
            ran = CliRunner().invoke(app, ["explain", str(path), "--format", "json"])
            assert ran.exit_code in {*OUTCOMES, UNREADABLE}, ran.output
            runs += 1
            if ran.exit_code == UNREADABLE:
                assert len(ran.output.strip().splitlines()) == 1
            elif content is not altered:
                assert not json.loads(ran.stdout)["inputs"][0]["complete"]
    tried(
        "Cut and altered bundles, from the file to the exit code",
        runs,
        "exit code 0, 3, 10, 11 or 12; with 3, one sentence",
    )


def test_wrong_checksums(tmp_path: Path, tried: Tried) -> None:
    files, data = small()
    plain = gzip.decompress(data)
    names = [name for name in files if name != "kill-commands.json"]
    for name in names:
        digest = hashlib.sha256(files[name]).hexdigest().encode()
        assert digest in plain
        found = read(tmp_path / "x.tgz", gzip.compress(plain.replace(digest, digest[::-1])))
        assert found is not None
        assert any(item.member == name and "checksum" in item.reason for item in found.damage)
        assert name not in {exhibit.member for exhibit in found.exhibits}
    tried("A source that is not what its checksum says", len(names), "not read, and named")


def without_entry(data: bytes, name: str) -> bytes:
    """The archive without one entry."""
    stream = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as source,
        tarfile.open(fileobj=stream, mode="w:gz", format=tarfile.USTAR_FORMAT) as target,
    ):
        for info in source:
            if info.name != name:
                target.addfile(info, source.extractfile(info))
    return stream.getvalue()


def test_every_entry_missing_once(tmp_path: Path, tried: Tried) -> None:
    files, data = small()
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as archive:
        names = archive.getnames()
    for name in names:
        found = read(tmp_path / "x.tgz", without_entry(data, name))
        assert found is not None
        if not name.startswith(RECORDS + "/outcomes"):
            assert found.damage, name
        check(found, {key: value for key, value in files.items() if key != name})
    tried(
        "Every entry and every record of a bundle missing once",
        len(names),
        "the rest is read; what is missing is named",
    )


def test_other_versions_and_records_that_are_none(tmp_path: Path, tried: Tried) -> None:
    records = [
        b"{}", b"[]", b"null", b"7", b'"x"', b"{" * 5000, b"\xff\xfe", b"", b'{"version": 1}',
        b'{"version": "1.0", "pids": "x"}',
        b'{"version": "1.0", "pids": [' + b"9" * 5000 + b"]}", b'{"version": "1.0", "host": {"a": 1}, "clocks": []}',
        b'{"version": "1.999999", "host": "\\u001b[31m\\u202e", "looks": ["../..", "\\u0000", 7]}',
        b'{"version": "1.0", "boot_id": "$(reboot)", "pid_namespace": "x", "uid": 1e400}',
    ]  # fmt: skip
    for record in records:
        start = entry(RECORDS + "/start.json", record)
        found = read(tmp_path / "x.tgz", zipped(start, KNOWN))
        assert found is not None
        assert [exhibit.member for exhibit in found.exhibits] == ["after/query-apps.csv"]
        outcome = entry(RECORDS + "/outcomes/0000.json", record)
        assert read(tmp_path / "x.tgz", zipped(entry(RECORDS + "/end.json", record), outcome, KNOWN)) is not None
    versions = [b"2.0", b"9.9", b"999999.0"]
    for version in versions:
        with pytest.raises(Unreadable, match="format"):
            read_newer(tmp_path, version)
    tried(
        "Records of other versions, of other types, and records that are none",
        2 * len(records) + len(versions),
        "read where that is safe; a higher major version is one sentence",
    )


def read_newer(folder: Path, version: bytes) -> Input:
    path = folder / "newer.tgz"
    record = b'{"format": "gpudiag.bundle", "version": "' + version + b'"}'
    path.write_bytes(zipped(entry(RECORDS + "/start.json", record), KNOWN))
    return read_input(path, "I1")


NAMES = [
    "../x", "../../etc/cron.d/x", "/etc/passwd", "a/../../b", "a//b", "./../x", "a\nb", "a\x1b[31mb", "a\\b", "x" * 300,
    "/".join("d" * 12), "a\x00b", "", ".", "..", "\u202egpj.exe", "_bundle/../x", "C:\\x", "~/x", "$(touch owned)",
]  # fmt: skip


def test_names_that_lead_elsewhere(tmp_path: Path, tried: Tried) -> None:
    for name in NAMES:
        raw = KNOWN + _raw_entry(name.encode("utf-8", "surrogateescape"))
        found = read(tmp_path / "x.tgz", zipped(raw))
        assert found is not None
        assert sorted(path.name for path in tmp_path.iterdir()) == ["x.tgz"]
        for item in found.damage:
            assert item.member.isprintable(), item
    tried(
        "Names with `..`, absolute ones, with escapes, too long, too deep",
        len(NAMES),
        "no file is written or followed; refused ones are listed",
    )


def _raw_entry(name: bytes, kind: bytes = b"0", data: bytes = b"x\n", size: bytes | None = None) -> bytes:
    """An entry as no honest program writes it."""
    block = bytearray(512)
    block[: min(len(name), 100)] = name[:100]
    block[100:108] = b"0000600\0"
    block[124:136] = size or f"{len(data):011o}\0".encode()
    block[156:157] = kind
    block[257:265] = b"ustar\00000"
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block) + data + b"\0" * (-len(data) % 512)


def test_links_devices_and_odd_kinds(tmp_path: Path, tried: Tried) -> None:
    kinds = [bytes([number]) for number in range(256) if bytes([number]) not in (b"0", b"\0", b"7", b"5")]
    for kind in kinds:
        found = read(
            tmp_path / "x.tgz", zipped(KNOWN, _raw_entry(b"after/ps.txt", kind, b""), KNOWN.replace(b"query", b"other"))
        )
        assert found is not None
        assert "after/ps.txt" not in {exhibit.member for exhibit in found.exhibits}
    sizes = [
        b"\xff" * 12,
        b"\x80" + b"\xff" * 11,
        b"77777777777\0",
        b"-0000000001\0",
        b"9999999999\0\0",
        b"\0" * 12,
        b" " * 12,
    ]
    for size in sizes:
        assert read(tmp_path / "x.tgz", zipped(KNOWN, _raw_entry(b"after/ps.txt", size=size))) is not None
    tried(
        "Links, devices, pipes, sparse files, every other kind of entry, impossible sizes",
        len(kinds) + len(sizes),
        "refused; what lies around them is read",
    )


def pax(name: str, headers: dict[str, str], data: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo(name)
        info.size, info.pax_headers = len(data), headers
        archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()[:-1024]


def test_extended_headers_that_lie(tmp_path: Path, tried: Tried) -> None:
    huge = str(10**18)
    headers = [
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": huge, "GNU.sparse.name": "../x"},
        {"size": huge}, {"size": "-1"}, {"size": "1e9"}, {"path": "../../x"}, {"path": "\x1b[31m"},
        {"path": "x" * 60000},
        {"linkpath": "/etc/passwd"}, {"SCHILY.xattr.x": "y" * 60000}, {"path": ""},
    ]  # fmt: skip
    for extra in headers:
        read(tmp_path / "x.tgz", zipped(KNOWN, pax("after/ps.txt", extra, b"x\n")))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["x.tgz"]
    tried("Extended headers with sizes, names and sparse maps that lie", len(headers), "believed nowhere")


def test_twice_the_same_name(tmp_path: Path, tried: Tried) -> None:
    found = read(
        tmp_path / "x.tgz", zipped(*[entry("after/query-apps.csv", APPS + b"%d, x, 1 MiB\n" % n) for n in range(50)])
    )
    assert found is not None
    assert len(found.exhibits) == 1
    assert len(found.damage) == 49
    tried("Entries of one name", 50, "the first counts, the others are listed")


TEXTS = {
    "UTF-16": APPS.decode().encode("utf-16"),
    "UTF-16 without a mark": APPS.decode().encode("utf-16-le"),
    "UTF-8 with a mark": b"\xef\xbb\xbf" + APPS,
    "Latin-1": "é".encode("latin-1") * 9 + APPS,
    "NULs": b"\0" * 5000 + APPS,
    "NULs between": APPS.replace(b",", b",\0"),
    "only NULs": b"\0" * 100_000,
    "carriage returns": APPS.replace(b"\n", b"\r\n"),
    "old line ends": APPS.replace(b"\n", b"\r"),
    "escapes": b"\x1b[31m" + APPS.replace(b"150", b"\x1b[1m150\x1b[0m"),
    "half a character": APPS + b"\xe2\x82",
    "surrogates": APPS + b"\xed\xa0\x80\xed\xb0\x80",
    "noise": random.Random(5).randbytes(50_000),
    "a gzip file": gzip.compress(APPS),
    "nothing": b"",
    "bidi signs": APPS.replace(b"VLLM", "\u202eVLLM\u2066".encode()),
    "deep JSON": b"[" * 100_000,
    "a line of numbers": b"9" * 1_000_000,
}


def test_wrong_encodings(tmp_path: Path, tried: Tried) -> None:
    from typer.testing import CliRunner

    from gpudiag.cli import app

    for text in TEXTS.values():
        for member in ("after/query-apps.csv", "after/nvml.json"):
            (tmp_path / "x.tgz").write_bytes(
                zipped(entry(member, text), entry("after/query-gpu.csv", b"index, memory.used [MiB]\n0, 9 MiB\n"))
            )
            ran = CliRunner().invoke(app, ["explain", str(tmp_path / "x.tgz"), "--format", "markdown"])
            assert ran.exit_code in OUTCOMES, (ran.output, ran.exception)
            assert "\x1b" not in ran.output
    tried(
        "Wrong encodings, NULs, escapes, noise, nested JSON in place of text",
        2 * len(TEXTS),
        "read as far as they are text, else listed",
    )


def _members(make: Callable[[int], bytes], count: int) -> Iterator[bytes]:
    for number in range(count):
        yield gzip.compress(make(number), 1, mtime=0)


def _million() -> bytes:
    member = gzip.compress(b"".join(entry(f"d/{number}") for number in range(1000)), 9, mtime=0)
    return gzip.compress(KNOWN) + member * 1000


def _bomb() -> bytes:
    return gzip.compress(KNOWN) + gzip.compress(entry("after/ps.txt", b"\0" * (10 << 20)), 9, mtime=0) * 1000


def _flat_bomb() -> bytes:
    return gzip.compress(KNOWN) + gzip.compress(entry("after/ps.txt", b"a" * (60 << 20)) * 3, 9, mtime=0)


def _line() -> bytes:
    dice = random.Random(1)
    block = bytes(dice.choices(b"abcdefghijklmnopqrstuvwxyz0123456789 ,", k=1 << 20))
    return gzip.compress(KNOWN) + gzip.compress(entry("after/ps.txt", PS + block * 100), 1, mtime=0)


def _members_that_hang() -> bytes:
    """Many places that look like the beginning of a member."""
    return gzip.compress(KNOWN) + (b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + b"\xff" * 6) * 200_000


def _rows() -> bytes:
    rows = b"".join(b"%7d       1 root     x%d\n" % (number, number) for number in range(1, 6_000))
    return gzip.compress(KNOWN) + gzip.compress(entry("after/ps.txt", PS + rows))


def _holders() -> bytes:
    rows = b"".join(b"%d, python, 100 MiB\n" % number for number in range(1, 1500))
    return zipped(entry("after/query-apps.csv", b"pid, process_name, used_gpu_memory [MiB]\n" + rows))


def _files() -> bytes:
    return b"".join(
        _members(lambda part: b"".join(entry(f"after/{part}-{n}.txt", PS + b"150 1 root x\n") for n in range(100)), 25)
    ) + gzip.compress(KNOWN)


HEAVY: dict[str, Callable[[], bytes]] = {
    "A million entries": _million,
    "A gzip bomb of many members (10 GB)": _bomb,
    "A gzip bomb of one member": _flat_bomb,
    "A line of 100 MB": _line,
    "200,000 false beginnings of a gzip member": _members_that_hang,
    "A process table of 6,000 rows": _rows,
    "1,500 processes that use a GPU": _holders,
    "2,500 files": _files,
}


@pytest.mark.parametrize("kind", HEAVY)
def test_what_is_made_to_exhaust_its_reader(kind: str, tmp_path: Path, tried: Tried) -> None:
    path = tmp_path / "x.tgz"
    path.write_bytes(HEAVY[kind]())
    # Under half as much memory again as is stated: whatever wants more than that dies.
    ran = gpudiag("explain", path, "--format", "json", memory_mib=6 * MEMORY_MIB, cpu_s=2 * CPU_S)
    assert ran.answered, (ran.code, ran.said[-2000:])
    assert ran.peak_mib < MEMORY_MIB, ran.peak_mib
    assert ran.cpu_s < CPU_S, ran.cpu_s
    tried(kind, 1, _cost(ran, path.stat().st_size))


def _cost(ran: Run, size: int) -> str:
    """Rounded up, so that a run on another machine says the same most often."""
    memory = -(-ran.peak_mib // 100) * 100
    return f"answered (exit code {ran.code}) below {memory} MiB of memory and {-(-ran.cpu_s // 5) * 5:.0f} s of CPU"
