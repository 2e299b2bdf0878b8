"""A directory of captured outputs -> exhibits. Sub-folders are looks; files beside them span the incident.

An unpacked bundle is such a directory, with records of who filled it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, List, Optional, Set, Tuple

from gpudiag.bundle.format import RECORDS
from gpudiag.bundle.unpacked import is_unpacked, read_records
from gpudiag.evidence.exhibit import Exhibit, Input, Unreadable
from gpudiag.evidence.far_captures import placed
from gpudiag.evidence.files import FILE_CAP, head_of_long_log, read_text
from gpudiag.evidence.header import split_header
from gpudiag.evidence.names import about_whole_incident, is_expectation, is_log, look_order
from gpudiag.evidence.records import Records, refuse_newer
from gpudiag.model import Damage

FILES_CAP = 2000
TOTAL_CAP = 256 * 1024 * 1024
"""Bytes (characters after decoding) that are kept of all files together."""
_DEPTH_CAP = 8


def read_directory(path: Path, input_id: str) -> Input:
    """Read every file that may be evidence, in a fixed order."""
    reading = _Reading(path.resolve(), input_id)
    for member, look in reading.members():
        reading.take(member, look)
    if is_unpacked(reading.root):
        return _as_bundle(path, reading)
    if not reading.exhibits:
        raise Unreadable(
            f"{path} is a directory without a single readable text file; name the folder that holds the captured "
            "outputs (before/, after/, kill-commands.json) or a transcript."
        )
    exhibits, looks = placed(reading.exhibits, input_id)
    return Input(
        id=input_id,
        path=str(path),
        kind="directory",
        complete=not reading.damage,
        exhibits=tuple(exhibits),
        looks=looks,
        actions=(),
        damage=tuple(reading.damage),
    )


def _as_bundle(path: Path, reading: _Reading) -> Input:
    """With what the records beside the files say of them."""
    contents = read_records(reading.root, reading.seen)
    refuse_newer(contents, path)
    records = Records(contents, reading.input_id)
    exhibits = tuple(records.described(exhibit) for exhibit in reading.exhibits)
    if not exhibits and not records.coverage:
        raise Unreadable(f"{path} is an unpacked bundle without a single source; name the bundle itself.")
    damage = (*records.damage, *reading.damage)
    return Input(
        id=reading.input_id,
        path=str(path),
        kind="bundle",
        complete=not damage,
        exhibits=exhibits,
        looks=records.looks(exhibits),
        actions=(),
        damage=damage,
        recorder=records.recorder(),
        coverage=records.coverage,
        clocks=records.clocks(),
    )


@dataclass
class _Reading:
    root: Path
    input_id: str
    exhibits: List[Exhibit] = field(default_factory=lambda: list[Exhibit]())
    damage: List[Damage] = field(default_factory=lambda: list[Damage]())
    seen: Set[str] = field(default_factory=lambda: set[str]())
    """Members, read or not."""
    kept: int = 0

    def members(self) -> Iterator[Tuple[str, Optional[str]]]:
        """Members with the name of their look, those of the whole incident last."""
        folders, files = self._listing(self.root)
        # A copy of /proc beside the outputs of one look belongs to that look.
        single = all(folder == "proc" for folder in folders)
        count = 0
        for folder in look_order(folders):
            for member in self._walk(folder, 1):
                count += 1
                if self._over_count(count):
                    return
                look = "look" if single else folder
                yield member, None if about_whole_incident(member.rpartition("/")[2]) else look
        for name in files:
            count += 1
            if self._over_count(count):
                return
            alone = single and not about_whole_incident(name)
            yield name, "look" if alone else None

    def take(self, member: str, look: Optional[str]) -> None:
        """Read one file into an exhibit, or note why not."""
        self.seen.add(member)
        head = head_of_long_log(self.root / member) if is_log(member.rpartition("/")[2]) else None
        if head is not None:
            self.refer(member, look, head)
            return
        left = TOTAL_CAP - self.kept
        if left <= 0:
            self._note(member, f"not read: the files before it fill {TOTAL_CAP >> 20} MiB")
            return
        cap = min(FILE_CAP, left)
        content = read_text(self.root / member, cap)
        if content.text is None:
            self._note(member, content.problem or "cannot be read")
            return
        if content.cut:
            self._note(member, f"longer than {cap >> 20} MiB: only the beginning was read")
        self.kept += len(content.text)
        headed = split_header(content.text)
        self.exhibits.append(
            Exhibit(
                input=self.input_id,
                member=member,
                host="",
                look=None if look is None else f"{self.input_id}:{look}",
                command=headed.command,
                time_ns=headed.time_ns,
                exit_code=headed.exit_code,
                user=None,
                first_line=headed.first_line,
                text=headed.text,
            )
        )

    def refer(self, member: str, look: Optional[str], head: str) -> None:
        """A long log becomes an exhibit without text: its reader goes through the file, header lines included."""
        headed = split_header(head)
        self.exhibits.append(
            Exhibit(
                input=self.input_id,
                member=member,
                host="",
                look=None if look is None else f"{self.input_id}:{look}",
                command=headed.command,
                time_ns=headed.time_ns,
                exit_code=headed.exit_code,
                user=None,
                first_line=1,
                text="",
                path=self.root / member,
            )
        )

    def _walk(self, folder: str, depth: int) -> Iterator[str]:
        if depth > _DEPTH_CAP:
            self._note(folder, f"not read: more than {_DEPTH_CAP} folders deep")
            return
        folders, files = self._listing(self.root / folder)
        for name in files:
            yield f"{folder}/{name}"
        for name in folders:
            yield from self._walk(f"{folder}/{name}", depth + 1)

    def _listing(self, folder: Path) -> Tuple[List[str], List[str]]:
        """Sub-folders and files of a folder, by name; nothing outside the root, nothing that expects."""
        folders: List[str] = []
        files: List[str] = []
        try:
            entries = sorted(os.scandir(str(folder)), key=lambda entry: entry.name)
        except OSError as error:
            self._note(self._member(folder), f"cannot be listed ({error.strerror or error})")
            return folders, files
        for entry in entries:
            # What an unpacked bundle says about itself is no look.
            if is_expectation(entry.name) or (folder == self.root and entry.name == RECORDS):
                continue
            if entry.is_symlink() and not self._inside(Path(entry.path)):
                self._note(self._member(Path(entry.path)), "not read: a link to a place outside the directory")
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file():
                files.append(entry.name)
            else:
                self._note(self._member(Path(entry.path)), "not read: neither a file nor a folder")
        return folders, files

    def _inside(self, link: Path) -> bool:
        try:
            target = link.resolve()
        except (OSError, RuntimeError):
            return False
        return self.root in target.parents and target.is_file()

    def _member(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _over_count(self, count: int) -> bool:
        if count <= FILES_CAP:
            return False
        self.damage.append(Damage(self.input_id, "", None, f"more than {FILES_CAP} files: the rest was not read"))
        return True

    def _note(self, member: str, reason: str) -> None:
        self.damage.append(Damage(self.input_id, member, None, reason))
