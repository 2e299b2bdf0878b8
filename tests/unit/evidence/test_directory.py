"""A directory of captured outputs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudiag.evidence import Input, Unreadable, directory, read_input


def lay(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def looks_of(found: Input) -> dict[str, str | None]:
    """The look of each member."""
    return {exhibit.member: exhibit.look for exhibit in found.exhibits}


def test_folders_are_looks_in_the_order_of_an_incident(tmp_path: Path) -> None:
    root = lay(tmp_path, {f"{name}/ps.txt": "x\n" for name in ("later", "after", "zz", "aa", "before")})
    found = read_input(root, "I2")
    assert [look.id for look in found.looks] == ["I2:before", "I2:after", "I2:later", "I2:aa", "I2:zz"]
    assert found.kind == "directory"
    assert found.complete
    assert found.actions == ()


def test_files_beside_the_looks_are_about_the_whole_incident(tmp_path: Path) -> None:
    root = lay(tmp_path, {"before/ps.txt": "x\n", "before/server.log": "x\n", "notes.txt": "x\n", "trace.txt": "x\n"})
    assert looks_of(read_input(root, "I1")) == {
        "before/ps.txt": "I1:before",
        "before/server.log": None,
        "notes.txt": None,
        "trace.txt": None,
    }


def test_files_without_folders_are_one_look(tmp_path: Path) -> None:
    root = lay(tmp_path, {"ps.txt": "x\n", "kill-commands.json": "[]", "nvml-series.json": "[]", "a.log": "x\n"})
    found = read_input(root, "I1")
    assert looks_of(found) == {
        "ps.txt": "I1:look", "kill-commands.json": None, "nvml-series.json": None, "a.log": None,
    }  # fmt: skip
    assert [look.id for look in found.looks] == ["I1:look"]


@pytest.mark.parametrize(
    ("text", "command", "time_ns", "exit_code", "first_line"),
    [
        ("# 2026-11-30T12:00:00.25+00:00 $ ps -ef | cat\n# rc=1 s=0.5 more\nbody\n", "ps -ef | cat", 250_000_000, 1, 3),
        ("# 2026-11-30T13:00:00Z $ ps\nbody\n", "ps", 3600 * 10**9, None, 2),
        ("# $ ps\n# rc=-9\nbody\n", "ps", None, -9, 3),
        ("# rc=0\nbody\n", None, None, 0, 2),
        ("# 2026-11-30T12:00:00 $ ps\nbody\n", "ps", None, None, 2),
        ("# rc=timeout\nbody\n", None, None, None, 2),
        ("# rc=" + "9" * 5000 + "\nbody\n", None, None, None, 2),
        ("# a comment\nbody\n", None, None, None, 1),
    ],
)
def test_headers(
    tmp_path: Path, text: str, command: str | None, time_ns: int | None, exit_code: int | None, first_line: int
) -> None:
    noon = 1_796_040_000_000_000_000
    (exhibit,) = read_input(lay(tmp_path, {"after/out.txt": text}), "I1").exhibits
    assert exhibit.command == command
    assert exhibit.time_ns == (None if time_ns is None else noon + time_ns)
    assert (exhibit.exit_code, exhibit.first_line) == (exit_code, first_line)
    assert text.split("\n")[exhibit.first_line - 1] == exhibit.text.split("\n")[0]


def test_expectations_are_not_read(tmp_path: Path) -> None:
    found = read_input(lay(tmp_path, {"after/ps.txt": "x\n", "x.expect.json": "{}", "after/y.expect.json": "{}"}), "I1")
    assert [exhibit.member for exhibit in found.exhibits] == ["after/ps.txt"]
    assert found.damage == ()


def test_what_is_no_text_is_damage(tmp_path: Path) -> None:
    root = lay(
        tmp_path, {"after/ps.txt": "x\n", "after/shot.png": b"\x89PNG\r\n\x1a\n\0\0", "after/raw": bytes(range(32))}
    )
    os.mkfifo(root / "after" / "pipe")
    found = read_input(root, "I1")
    assert {row.member for row in found.damage} == {"after/shot.png", "after/raw", "after/pipe"}
    assert not found.complete


def test_nuls_and_broken_encodings_are_kept_as_text(tmp_path: Path) -> None:
    root = lay(tmp_path, {"after/cmdline": b"python\0-m\0\xff\0\0\0\0\0\0"})
    assert read_input(root, "I1").exhibits[0].text == "python\0-m\0\ufffd\0\0\0\0\0\0"


def test_links_out_of_the_directory_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret\n")
    root = lay(tmp_path / "in", {"after/ps.txt": "x\n"})
    (root / "after" / "out.txt").symlink_to(secret)
    (root / "up").symlink_to(tmp_path)
    (root / "after" / "same.txt").symlink_to(root / "after" / "ps.txt")
    found = read_input(root, "I1")
    assert {exhibit.member for exhibit in found.exhibits} == {"after/ps.txt", "after/same.txt"}
    assert {row.member for row in found.damage} == {"after/out.txt", "up"}


def test_the_number_of_files_is_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "FILES_CAP", 3)
    found = read_input(lay(tmp_path, {f"after/{number}.txt": "x\n" for number in range(6)}), "I1")
    assert len(found.exhibits) == 3
    assert not found.complete


def test_a_long_file_is_cut_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "FILE_CAP", 10)
    found = read_input(lay(tmp_path, {"after/a.txt": "x" * 50, "after/b.txt": "y"}), "I1")
    assert [exhibit.text for exhibit in found.exhibits] == ["x" * 10, "y"]
    assert [row.member for row in found.damage] == ["after/a.txt"]


def test_all_files_together_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "TOTAL_CAP", 10)
    found = read_input(lay(tmp_path, {"after/a.txt": "x" * 8, "after/b.txt": "y" * 8, "after/c.txt": "z"}), "I1")
    assert [exhibit.text for exhibit in found.exhibits] == ["x" * 8, "y" * 2]
    assert [row.member for row in found.damage] == ["after/b.txt", "after/c.txt"]


@pytest.mark.parametrize("files", [{}, {"a.png": b"\x89PNG\r\n"}])
def test_a_directory_with_nothing_in_it(tmp_path: Path, files: dict[str, str | bytes]) -> None:
    with pytest.raises(Unreadable, match=str(tmp_path)):
        read_input(lay(tmp_path, files), "I1")
