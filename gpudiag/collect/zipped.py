"""The collector as one text: a Python file that carries its modules, for a far machine or for a copy by hand."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import gpudiag

# What the collector may import: see the layers in pyproject.toml.
_PARTS = ("__init__.py", "model.py", "kill_words.py", "bundle", "collect", "redact")
_TEXT = """\
#!/usr/bin/env python3
# gpudiag {version}: its collector, in one file for Python 3.9 or newer, written by `gpudiag collect --print-collector`.
#
#   python3 FILE --help                                      it changes nothing on the machine
#   python3 FILE --kill 'pkill -9 -f vllm'                   writes gpudiag-HOST-TIME.tgz
#   python3 FILE run -- 'pkill -9 -f vllm'                  runs it and records everything around it
#   ssh HOST python3 - --quick -o - < FILE > bundle.tgz      leaves nothing there; or kubectl exec -i, docker exec -i
import sys
if sys.version_info < (3, 9):
    sys.exit("gpudiag: the collector needs Python 3.9 or newer, and this is %d.%d" % sys.version_info[:2])
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # what lies in this folder is none of its modules
import base64, io, zipfile
packed = base64.b64decode(\"\"\"
{packed}
\"\"\")
begin = "gpudiag/collect/unpacked.py"
names = {{"__name__": "gpudiag_unpacked"}}
exec(compile(zipfile.ZipFile(io.BytesIO(packed)).read(begin), begin, "exec"), names)
sys.exit(names["run"](packed, {call}))
"""
LOADER = "import sys;b=sys.stdin.buffer;exec(b.read(int(b.readline())))"
"""Reads the length of a program, then the program. In single quotes it is one word to every shell that people log in
with: it has no quote, dollar, backslash, exclamation mark or line end."""


def single_file() -> str:
    """For a person who copies it."""
    return _text('"gpudiag.collect.alone", sys.argv[1:]')


def far_program(arguments: Sequence[str]) -> bytes:
    """What ``LOADER`` reads on a far machine."""
    # JSON in ASCII is a Python literal too, for a list of texts.
    text = _text(f'"gpudiag.collect.far", {json.dumps(list(arguments))}').encode("ascii")
    return b"%d\n%s" % (len(text), text)


def _text(call: str) -> str:
    packed = base64.encodebytes(_archive()).decode("ascii").strip()
    return _TEXT.format(version=gpudiag.__version__, packed=packed, call=call)


def _archive() -> bytes:
    """The same bytes for the same sources."""
    carried: object = getattr(gpudiag.__loader__, "packed", None)
    if isinstance(carried, bytes):
        return carried  # this is a copy already
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        for name, text in _sources():
            member = ZipInfo(name)
            member.compress_type = ZIP_DEFLATED
            archive.writestr(member, text, compresslevel=9)
    return buffer.getvalue()


def _sources() -> Iterator[tuple[str, bytes]]:
    top = Path(gpudiag.__file__).parent
    for part in _PARTS:
        path = top / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            yield f"gpudiag/{file.relative_to(top).as_posix()}", file.read_bytes()
