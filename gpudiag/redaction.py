"""Privacy after the fact: a copy of what was recorded, without its secrets.

The collector takes secrets out before they reach the disk; this is for what was collected with ``--no-redact``, by an
older version, or by hand. There are two passes: a value that an option or a variable gave away is taken out wherever
else it stands, also where nothing announces it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from gpudiag.bundle.format import (
    RECORDS,
    SOURCE_CAP,
    SOURCES_CAP,
    TOTAL_CAP,
    End,
    Outcome,
    Start,
    name_problem,
)
from gpudiag.bundle.reader import Contents, read_contents
from gpudiag.bundle.unpacked import is_unpacked, read_records
from gpudiag.bundle.writer import BundleWriter
from gpudiag.evidence import Unreadable
from gpudiag.evidence.bundle import is_bundle
from gpudiag.evidence.files import binary_kind, decoded
from gpudiag.evidence.records import refuse_newer
from gpudiag.redact.environment import allowed, parse
from gpudiag.redact.hint import REDACTED
from gpudiag.redact.redactor import Redactor
from gpudiag.redact.rows import ENVIRONMENT, Rows

COMMAND_LINE: Final = "cmdline"
"""Name of a raw copy of ``/proc/PID/cmdline``, as ``environ`` is of the other."""
ELSEWHERE: Final = "known secret elsewhere"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_OWNER_ONLY: Final = 0o600


@dataclass(frozen=True)
class Redacted:
    """What became of an input."""

    removed: tuple[str, ...]
    """How many secrets were taken out, by kind: ``2 × option value``."""
    left_out: tuple[str, ...]
    """What was not copied, and why; one sentence part each."""


def redact(source: Path, target: Path) -> Redacted:
    """Write a copy of ``source`` without secrets to ``target``, which may not exist yet.

    A bundle becomes a bundle, an archive or a folder an archive, a text a text. Raises ``Unreadable`` with one
    sentence where the source is nothing of these, ``OSError`` where the target cannot be written.
    """
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "it exists already", str(target))
    if source.is_dir():
        return _folder(source, target)
    if is_bundle(source):
        return _archive(source, target)
    return _text(source, target)


def _text(source: Path, target: Path) -> Redacted:
    data = _read(source)
    if len(data) > SOURCE_CAP:
        raise Unreadable(f"{source} is longer than {SOURCE_CAP >> 20} MiB; cut it, and name the parts.")
    problem = decoded(data, cut=False).problem
    if problem is not None:
        raise Unreadable(f"{source} {problem}; name a bundle, a folder of captured outputs, or a text.")
    cleaned = _Cleaning()
    files = cleaned.files({source.name: data})
    with _created(target) as stream:
        stream.write(files[source.name])
    return cleaned.result()


def _archive(source: Path, target: Path) -> Redacted:
    contents = read_contents(source)
    refuse_newer(contents, source)
    if not contents.members and not contents.outcomes:
        raise Unreadable(f"{source} is an archive of which no file can be read; take another copy of it.")
    files = {member.name: member.data for member in contents.members}
    cut = {member.name: member.cut for member in contents.members if member.cut is not None}
    cleaned = _Cleaning([f"{flaw.member or 'a part'}: {flaw.reason}" for flaw in contents.flaws])
    cleaned.write(contents, files, cut, target)
    return cleaned.result()


def _folder(source: Path, target: Path) -> Redacted:
    left_out: list[str] = []
    files = dict(_files_below(source, left_out))
    if not files:
        raise Unreadable(f"{source} is a folder without a single readable file; name one of captured outputs.")
    contents = Contents(False, None, "", None, (), (), ())
    if is_unpacked(source):
        contents = read_records(source, files)
        refuse_newer(contents, source)
    cleaned = _Cleaning(left_out)
    cleaned.write(contents, files, {}, target)
    return cleaned.result()


class _Cleaning:
    """One input on its way."""

    def __init__(self, left_out: Sequence[str] = ()) -> None:
        self._redactor = Redactor()
        self._left_out = list(left_out)
        self._elsewhere = 0

    def result(self) -> Redacted:
        more = [f"{self._elsewhere} × {ELSEWHERE}"] if self._elsewhere else []
        return Redacted((*self._redactor.summary(), *more), tuple(self._left_out))

    def files(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """The files that are text, without secrets."""
        cleaned: dict[str, bytes] = {}
        for name, data in files.items():
            kind = binary_kind(data[:8192])
            if kind is None:
                cleaned[name] = self._file(name, data)
            else:
                # Nobody can tell what is in it, and no report is made from it.
                self._left_out.append(f"{name}: it is {kind}")
        return {name: self._without_known(data) for name, data in cleaned.items()}

    def write(self, contents: Contents, files: Mapping[str, bytes], cut: Mapping[str, str], target: Path) -> None:
        """The files as an archive of the same kind."""
        cleaned = self.files(files)
        if not contents.bundle:
            _write_archive(cleaned, target)
            return
        start = contents.start or Start(tool_version="")
        words = self._redactor.argv(start.argv)
        start = start._replace(argv=tuple(map(self._redactor.without_taken, words)))
        outcomes = [self._outcome(outcome) for _, outcome in contents.outcomes]
        _write_bundle(start, outcomes, cleaned, cut, contents.end, target)

    def _file(self, name: str, data: bytes) -> bytes:
        last = name.rpartition("/")[2]
        if last == ENVIRONMENT:
            variables = allowed(parse(data), self._redactor)
            return "\0".join(f"{key}={value}" for key, value in variables.items()).encode("utf-8", "surrogateescape")
        encoding = "utf-16" if data[:2] in _UTF16 else "utf-8"
        text = data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
        if last == COMMAND_LINE:
            return self._redactor.cmdline(text).encode("utf-8", "surrogateescape")
        rows = Rows(self._redactor)
        return "\n".join(map(rows.row, text.split("\n"))).encode("utf-8", "surrogateescape")

    def _without_known(self, data: bytes) -> bytes:
        """Without the values that were met anywhere, the longer ones first."""
        for value in sorted(self._redactor.taken, key=lambda value: (-len(value), value)):
            raw = value.encode("utf-8", "surrogateescape")
            found = data.count(raw)
            if found:
                data = data.replace(raw, REDACTED.encode())
                self._elsewhere += found
        return data

    def _outcome(self, outcome: Outcome) -> Outcome:
        return outcome._replace(because=self._words(outcome.because), command=self._words(outcome.command))

    def _words(self, text: str | None) -> str | None:
        if text is None:
            return None
        return self._without_known(self._redactor.row(text).encode("utf-8", "replace")).decode("utf-8", "replace")


def _created(target: Path) -> BinaryIO:
    """A new file that only its owner may read."""
    return os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _OWNER_ONLY), "wb")


def _write_archive(files: Mapping[str, bytes], target: Path) -> None:
    with _created(target) as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), _OWNER_ONLY
            archive.addfile(entry, io.BytesIO(data))


def _write_bundle(
    start: Start,
    outcomes: Sequence[Outcome],
    files: Mapping[str, bytes],
    cut: Mapping[str, str],
    end: End | None,
    target: Path,
) -> None:
    """The sources in their order, each with what was said of it; without an end where there was none."""
    writer = BundleWriter(target, start)
    told = {outcome.member for outcome in outcomes}
    untold = [Outcome(name, "truncated", "nothing is known of how it was read") for name in files if name not in told]
    try:
        for outcome in (*outcomes, *untold):
            data = files.get(outcome.member)
            writer.commit(_resized(outcome, data, cut.get(outcome.member)), [data or b""])
        if end is not None:
            writer.finish(end.clocks, end.pids)
        writer.close()
        if end is None:
            # It is as complete as its original; the name was asked for.
            writer.partial.rename(target)
    except BaseException:
        writer.close()
        writer.partial.unlink(missing_ok=True)
        raise


def _resized(outcome: Outcome, data: bytes | None, cut: str | None) -> Outcome:
    if data is None and outcome.sha256 is not None:
        return outcome._replace(outcome="truncated", because="its text is not in this copy", size=None, sha256=None)
    if data is None:
        return outcome._replace(size=None)
    if cut is not None:
        outcome = outcome._replace(outcome="truncated", because=cut)
    return outcome._replace(size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _files_below(root: Path, left_out: list[str]) -> Iterator[tuple[str, bytes]]:
    """Regular files by name, within the limits of an archive; links are not followed."""
    room, count = TOTAL_CAP, 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        place = Path(folder)
        if place == root and RECORDS in folders:
            folders.remove(RECORDS)  # made anew
        for path in (place / name for name in sorted(names)):
            name = path.relative_to(root).as_posix()
            problem = name_problem(name)
            if problem is not None or path.is_symlink() or not path.is_file():
                left_out.append(f"{name}: {problem or 'it is no regular file'}")
                continue
            count += 1
            if count > SOURCES_CAP:
                left_out.append(f"more than {SOURCES_CAP} files: the rest")
                return
            data = _read(path, min(SOURCE_CAP, room) + 1)
            if len(data) > min(SOURCE_CAP, room):
                left_out.append(f"{name}: what lies beyond its first {min(SOURCE_CAP, room) >> 20} MiB")
                data = data[: min(SOURCE_CAP, room)]
            room -= len(data)
            yield name, data


def _read(path: Path, cap: int = SOURCE_CAP + 1) -> bytes:
    """The beginning of a regular file; never waits for a pipe or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise Unreadable(f"{path} is not a regular file; name a bundle, a folder or a text.")
            return stream.read(cap)
    except OSError as error:
        raise Unreadable(f"{path} cannot be read ({error.strerror or error}).") from None
