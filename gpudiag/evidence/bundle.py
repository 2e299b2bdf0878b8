"""A bundle, or a tar archive that somebody packed by hand -> exhibits, as if its files lay in a directory."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from gpudiag.bundle.format import DEPTH_CAP
from gpudiag.bundle.reader import Contents, Member, is_archive, read_contents
from gpudiag.evidence.directory import FILES_CAP
from gpudiag.evidence.exhibit import Exhibit, Input, Unreadable
from gpudiag.evidence.files import decoded
from gpudiag.evidence.header import split_header
from gpudiag.evidence.names import FIRST_LOOKS, about_whole_incident, is_expectation, look_order
from gpudiag.evidence.records import Records, refuse_newer
from gpudiag.model import Damage


def is_bundle(path: Path) -> bool:
    """The path is a regular file that begins like a gzip file."""
    try:
        return stat.S_ISREG(path.stat().st_mode) and is_archive(path)
    except OSError:
        return False


def read_bundle(path: Path, input_id: str) -> Input:
    """Read what can be read; raise ``Unreadable`` if that is nothing."""
    try:
        contents = read_contents(path)
    except OSError as error:
        raise Unreadable(
            f"{path} cannot be read ({error.strerror or error}); name a bundle that you may read."
        ) from None
    refuse_newer(contents, path)
    records = Records(contents, input_id)
    reading = _Reading(contents, input_id, records)
    exhibits = tuple(reading.exhibits())
    if not exhibits and not records.coverage:
        raise Unreadable(f"{path} {_nothing(contents)}")
    return Input(
        id=input_id,
        path=str(path),
        kind="bundle",
        complete=not records.damage,
        exhibits=exhibits,
        looks=records.looks(exhibits),
        actions=(),
        damage=tuple(records.damage),
        recorder=records.recorder(),
        coverage=records.coverage,
        clocks=records.clocks(),
    )


def _nothing(contents: Contents) -> str:
    if contents.bundle:
        return "is a bundle of which no source is whole; take another copy of it, or collect again."
    if contents.members:
        return "is an archive without a single readable text file; name one that holds captured outputs."
    reason = next((f" ({flaw.reason})" for flaw in contents.flaws if flaw.reason), "")
    return f"is a gzip file in which no file of a tar archive can be read{reason}; unpack it and name what it holds."


class _Reading:
    """One pass over the contents of a file."""

    def __init__(self, contents: Contents, input_id: str, records: Records) -> None:
        self._input = input_id
        self._records = records
        members = [member for member in contents.members if not is_expectation(member.name)]
        self._root = "" if contents.bundle else _common_folder([member.name for member in members])
        self._members = members

    def exhibits(self) -> Iterator[Exhibit]:
        """In the order in which a directory of these files is read."""
        for member, look in self._ordered():
            content = decoded(member.data, member.cut is not None)
            if content.text is None:
                self._note(member.name, content.problem or "cannot be read")
                continue
            headed = split_header(content.text)
            exhibit = Exhibit(
                input=self._input,
                member=member.name,
                host="",
                look=None if look is None else f"{self._input}:{look}",
                command=headed.command,
                time_ns=headed.time_ns,
                exit_code=headed.exit_code,
                user=None,
                first_line=headed.first_line,
                text=headed.text,
            )
            described = self._records.described(exhibit)
            cut = member.cut is not None
            yield replace(described, outcome="truncated", because=member.cut) if cut else described

    def _ordered(self) -> Iterator[Tuple[Member, Optional[str]]]:
        """Members with the names of their looks: looks in their order, then what lies beside them."""
        folders: Dict[str, List[Tuple[str, Member]]] = {}
        beside: List[Tuple[str, Member]] = []
        for member in self._members:
            name = member.name[len(self._root) :]
            folder, slash, _ = name.partition("/")
            (folders.setdefault(folder, []) if slash else beside).append((name, member))
        count = 0
        for folder in (*look_order(list(folders)), ""):
            for name, member in sorted(folders.get(folder, beside), key=lambda pair: _as_walked(pair[0])):
                count += 1
                if count > FILES_CAP:
                    self._note("", f"more than {FILES_CAP} files: the rest was not read")
                    return
                look = folder or (None if folders else "look")
                yield member, None if about_whole_incident(name.rpartition("/")[2]) else look

    def _note(self, member: str, reason: str) -> None:
        self._records.damage.append(Damage(self._input, member, None, reason))


def _as_walked(name: str) -> Tuple[Tuple[int, str], ...]:
    """Sort key of a walk through folders that gives the files of a folder before its sub-folders."""
    *folders, last = name.split("/")
    return (*((1, folder) for folder in folders), (0, last))


def _common_folder(names: Sequence[str]) -> str:
    """The folders that somebody packed along with the capture: ``incident/`` if every file lies below it.

    A folder that is named like a look, or in which copies of ``/proc`` lie, is part of the capture.
    """
    root = ""
    for _ in range(DEPTH_CAP):
        first = {name[len(root) :].partition("/")[0] for name in names}
        folder = first.pop() if len(first) == 1 else ""
        if not folder or folder in (*FIRST_LOOKS, "proc") or any(name == root + folder for name in names):
            break
        root += folder + "/"
    return root
