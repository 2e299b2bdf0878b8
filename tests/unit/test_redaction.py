"""``gpudiag redact``: a copy of the same kind, without secrets, that says the same about the incident."""

from __future__ import annotations

import gzip
import stat
import tarfile
from pathlib import Path

import pytest

from gpudiag.bundle.format import Clocks, Start
from gpudiag.bundle.reader import read_contents
from gpudiag.bundle.writer import BundleWriter
from gpudiag.evidence import Unreadable
from gpudiag.explain import explain
from gpudiag.redact.hint import REDACTED
from gpudiag.redaction import redact
from tests.bundle_kit import NOBODY, entry, pack, zipped

KEY = "sup3rSecretKey99zz"
PS = (
    "# 2026-02-20T19:00:06Z $ ps -eo pid,ppid,user,args\n"
    "    PID    PPID USER     COMMAND\n"
    f"    100       1 root     python3 -m vllm.entrypoints.openai.api_server --model m --api-key {KEY}\n"
    "    150     100 root     VLLM::EngineCore\n"
).encode()
APPS = b"pid, process_name, used_gpu_memory [MiB]\n150, VLLM::EngineCore, 92958 MiB\n"
GPUS = b"index, memory.used [MiB], memory.total [MiB]\n0, 92967 MiB, 97887 MiB\n"
KILLS = f'[{{"text": "pkill -9 -f \\"api-key {KEY}\\"", "time": "2026-02-20T19:00:00+00:00"}}]'.encode()
FILES = {"after/ps.txt": PS, "after/query-apps.csv": APPS, "after/query-gpu.csv": GPUS, "kill-commands.json": KILLS}


def data_of(path: Path) -> dict[str, bytes]:
    return {member.name: member.data for member in read_contents(path).members}


def test_a_bundle_becomes_a_bundle_that_its_reader_finds_whole(tmp_path: Path) -> None:
    start = NOBODY._replace(host="node", pids=(7,), argv=("collect", "--kill", f"pkill -f {KEY}", "--token", KEY))
    source = pack(FILES, tmp_path / "a.tgz", start)
    done = redact(source, tmp_path / "b.tgz")
    contents = read_contents(tmp_path / "b.tgz")
    assert not contents.flaws
    assert not done.left_out
    assert contents.start is not None
    assert (contents.start.host, contents.start.pids) == ("node", (7,))
    assert list(data_of(tmp_path / "b.tgz")) == list(FILES)
    everything = gzip.decompress((tmp_path / "b.tgz").read_bytes())
    assert KEY.encode() not in everything
    assert data_of(tmp_path / "b.tgz")["after/query-apps.csv"] == APPS
    assert stat.S_IMODE((tmp_path / "b.tgz").stat().st_mode) == 0o600


def test_a_value_that_one_source_gives_away_is_taken_out_of_all(tmp_path: Path) -> None:
    done = redact(pack(FILES, tmp_path / "a.tgz"), tmp_path / "b.tgz")
    # Nothing in the kill command announces a secret; the command line of the server does.
    assert b"api-key " + REDACTED.encode() in data_of(tmp_path / "b.tgz")["kill-commands.json"]
    assert "1 × known secret elsewhere" in done.removed


def test_twice_is_as_once(tmp_path: Path) -> None:
    redact(pack(FILES, tmp_path / "a.tgz"), tmp_path / "b.tgz")
    again = redact(tmp_path / "b.tgz", tmp_path / "c.tgz")
    assert not again.removed
    assert (tmp_path / "b.tgz").read_bytes() == (tmp_path / "c.tgz").read_bytes()


def test_what_was_cut_and_what_was_lost_is_said_again(tmp_path: Path) -> None:
    whole = pack(FILES, tmp_path / "a.tgz").read_bytes()
    (tmp_path / "cut.tgz").write_bytes(whole[: len(whole) // 2])
    before = read_contents(tmp_path / "cut.tgz")
    redact(tmp_path / "cut.tgz", tmp_path / "b.tgz")
    after = read_contents(tmp_path / "b.tgz")
    assert [member.name for member in after.members] == [member.name for member in before.members]
    assert after.end is None
    assert any("no end" in flaw.reason for flaw in after.flaws)


def test_a_cut_source_stays_truncated(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path / "a.tgz", Start(tool_version="1"))
    source = writer.source("after/ps.txt")
    source.write(PS)
    source.close("timed_out", "no end within 5 s", source="process table")
    writer.source("after/fuser.txt").close("denied", f"token={KEY}", source="open handles")
    writer.finish(Clocks(wall_ns=1))
    redact(tmp_path / "a.tgz", tmp_path / "b.tgz")
    outcomes = [outcome for _, outcome in read_contents(tmp_path / "b.tgz").outcomes]
    assert [(item.member, item.outcome, item.source) for item in outcomes] == [
        ("after/ps.txt", "timed_out", "process table"),
        ("after/fuser.txt", "denied", "open handles"),
    ]
    assert outcomes[1].because == f"token={REDACTED}"


def test_a_folder_and_a_handmade_archive_become_an_archive(tmp_path: Path) -> None:
    for name, data in FILES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "in" / "core.bin").write_bytes(b"\x7fELF\x01\x02" + KEY.encode())
    (tmp_path / "in" / "link").symlink_to("/etc/passwd")
    done = redact(tmp_path / "in", tmp_path / "b.tgz")
    assert done.left_out == ("link: it is no regular file", "core.bin: it is a program")
    with tarfile.open(tmp_path / "b.tgz") as archive:
        assert sorted(archive.getnames()) == sorted(FILES)
    assert KEY.encode() not in gzip.decompress((tmp_path / "b.tgz").read_bytes())
    by_hand = tmp_path / "hand.tgz"
    by_hand.write_bytes(zipped(entry("incident/after/ps.txt", PS)))
    redact(by_hand, tmp_path / "c.tgz")
    assert data_of(tmp_path / "c.tgz")["incident/after/ps.txt"] == PS.replace(KEY.encode(), REDACTED.encode())


def test_an_unpacked_bundle_keeps_its_records(tmp_path: Path) -> None:
    source = pack(FILES, tmp_path / "a.tgz", NOBODY._replace(host="node"))
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "in", filter="data")
    redact(tmp_path / "in", tmp_path / "b.tgz")
    contents = read_contents(tmp_path / "b.tgz")
    assert contents.start is not None
    assert contents.start.host == "node"
    assert not contents.flaws
    assert len(contents.outcomes) == len(FILES)


def test_copies_of_proc_go_by_their_form(tmp_path: Path) -> None:
    files = {
        "after/proc/7/cmdline": f"vllm\0--api-key\0{KEY}\0".encode(),
        "after/proc/7/environ": f"CUDA_VISIBLE_DEVICES=0\0MY_THING={KEY}\0HF_TOKEN={KEY}\0".encode(),
    }
    redact(pack(files, tmp_path / "a.tgz"), tmp_path / "b.tgz")
    assert data_of(tmp_path / "b.tgz") == {
        "after/proc/7/cmdline": f"vllm\0--api-key\0{REDACTED}\0".encode(),
        "after/proc/7/environ": b"CUDA_VISIBLE_DEVICES=0",
    }


def test_the_report_of_the_copy_is_that_of_the_original(tmp_path: Path) -> None:
    files = {
        **FILES,
        "kill-commands.json": b'[{"text": "pkill -9 -f api_server", "time": "2026-02-20T19:00:00+00:00"}]',
    }
    source = pack(files, tmp_path / "a.tgz")
    redact(source, tmp_path / "b.tgz")
    original, copy = explain([source]), explain([tmp_path / "b.tgz"])
    assert original.model_dump(exclude={"inputs"}) == copy.model_dump(exclude={"inputs"})
    assert KEY not in original.to_json()


@pytest.mark.parametrize("text", [PS, "é".encode("latin-1") + PS, PS.decode().encode("utf-16")])
def test_a_text_becomes_a_text(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(text)
    redact(tmp_path / "a.txt", tmp_path / "b.txt")
    copied = (tmp_path / "b.txt").read_bytes()
    assert KEY.encode() not in copied
    assert b"VLLM::EngineCore" in copied


def test_nothing_is_overwritten_and_nothing_is_made_of_nothing(tmp_path: Path) -> None:
    source = pack(FILES, tmp_path / "a.tgz")
    with pytest.raises(FileExistsError):
        redact(source, source)
    (tmp_path / "b.tgz").write_bytes(gzip.compress(b"no archive"))
    (tmp_path / "c.bin").write_bytes(b"\x89PNG\r\n")
    (tmp_path / "empty").mkdir()
    for name in ("b.tgz", "c.bin", "empty", "missing"):
        with pytest.raises(Unreadable, match=name):
            redact(tmp_path / name, tmp_path / "out")
        assert not (tmp_path / "out").exists()
