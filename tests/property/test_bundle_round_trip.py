"""What is written into a bundle comes back byte for byte, and no sequence of bytes makes the reader fail."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpudiag.bundle.format import WRITTEN_NAME_CAP, is_record, name_problem
from gpudiag.bundle.reader import read_contents
from tests.bundle_kit import entry, pack

PARTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\"), min_size=1, max_size=12)
NAMES = (
    st.lists(PARTS, min_size=1, max_size=3)
    .map("/".join)
    .filter(lambda name: name_problem(name, WRITTEN_NAME_CAP) is None and not is_record(name))
)
FILES = st.dictionaries(NAMES, st.binary(max_size=2000), max_size=6)


@settings(max_examples=100)
@given(FILES)
def test_round_trip(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        contents = read_contents(pack(files, Path(folder, "b.tgz")))
    assert {member.name: member.data for member in contents.members} == files
    assert {outcome.member: outcome.size for _, outcome in contents.outcomes} == {k: len(v) for k, v in files.items()}
    assert contents.flaws == ()


@settings(max_examples=200)
@given(st.lists(st.one_of(st.binary(max_size=700), st.builds(entry, PARTS, st.binary(max_size=700))), max_size=4))
def test_any_content_of_a_gzip_file_is_read(pieces: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.tgz")
        path.write_bytes(b"".join(gzip.compress(piece) for piece in pieces))
        contents = read_contents(path)
    assert len(contents.members) <= len(pieces)
