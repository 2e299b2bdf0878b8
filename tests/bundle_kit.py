"""Pack captures with the real writer, and spoil what it wrote."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from gpudiag.bundle.format import Clocks, Start
from gpudiag.bundle.writer import BundleWriter
from gpudiag.evidence.names import about_whole_incident, look_order

NOBODY = Start(tool_version="0.0.0")
"""A start record that tells nothing about the machine: what a directory tells, too."""


def pack_capture(folder: Path, path: Path, start: Start = NOBODY) -> Path:
    """A captured incident as a bundle that announces its looks, as its recorder would have done."""
    looks = look_order([path.name for path in folder.iterdir() if path.is_dir()])
    return pack(in_order_of_time(folder), path, start._replace(looks=tuple(looks)))


def pack(files: Mapping[str, bytes], path: Path, start: Start = NOBODY) -> Path:
    """The files as a finished bundle."""
    writer = BundleWriter(path, start)
    for name, data in files.items():
        source = writer.source(name)
        source.write(data)
        source.close()
    return writer.finish(Clocks())


def in_order_of_time(folder: Path) -> dict[str, bytes]:
    """A capture as a recorder would have seen it: the first look, what was done, the other looks."""
    looks = look_order([path.name for path in folder.iterdir() if path.is_dir()])
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]

    def place(name: str) -> int:
        look = name.partition("/")[0]
        if look not in looks or about_whole_incident(name.rpartition("/")[2]):
            return 1
        return 0 if look == "before" else 2 + looks.index(look)

    return {name: (folder / name).read_bytes() for name in sorted(names, key=lambda name: (place(name), name))}


def entry(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    """One entry of a tar archive as Python's own module writes it."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, target
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(data))
    # Without the end of the archive, so that entries can be put behind each other.
    blocks = 1 + -(-len(data) // 512)
    longer = stream.getvalue()[:512][156:157] == b"L"
    return stream.getvalue()[: 512 * (blocks + (2 if longer else 0))]


def zipped(*entries: bytes) -> bytes:
    """A ``.tgz`` of these entries in one gzip member."""
    return gzip.compress(b"".join(entries) + b"\0" * 1024, mtime=0)
