"""A quoted word is, for the real shells, the bytes that it was made of; and one can read it."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpudiag.shell.printable import quoted

TEXTS = st.lists(
    st.text(
        st.one_of(
            st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"),
            st.sampled_from("\x1b\x07\n\t'\"\\%$`-*?[] \u202e\u200b\x9b\udc9b\udcff"),
        ),
        max_size=30,
    ),
    min_size=1,
    max_size=40,
)


@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
@settings(max_examples=60)
@example(["-n\x1b", "-\x01", "\x1b[31m%s\\n'", "a\u202eb", "VLLM::Worker_TP0", ""])
@given(TEXTS)
def test_a_shell_reads_the_text(shell: str, texts: list[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = "".join(f"printf '%s\\0' {quoted(text)}\n" for text in texts)
    assert all(line.isprintable() for line in script.splitlines())
    done = subprocess.run([shell], input=script.encode(), capture_output=True, check=True)
    assert not done.stderr
    kept = [text if text.isprintable() else text.rstrip("\n") for text in texts]
    assert done.stdout.split(b"\0")[:-1] == [text.encode("utf-8", "surrogateescape") for text in kept]
