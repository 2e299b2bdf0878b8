r"""Which blocks of a long log have a role's tag, ``(Worker_TP0 pid=887)``, that was not seen before.

Half of a server's lines may have one of a few tags. Asking for each of them which one it is costs more than all the
rest of a search; a pattern that no known tag matches is as quick as a search for one bracket.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection

MAYBE_TAG = r"\(([A-Za-z][A-Za-z0-9_.:-]{0,63}(?: rank=[0-9]{1,6})? pid=[0-9]{1,7})\)"
"""A role's tag wherever it stands, in syntax that Python and Rust read alike."""
KNOWN_CAP = 64
"""Tags that a pattern is built for; compiling it takes longer with each of them."""
_PID = " pid="
_LETTERS = "A-Za-z0-9_.:= "
_REST = rf"[{_LETTERS}-]*=[0-9]{{1,7}}\)"
"""What follows a letter of a role or of `` pid=`` up to the tag's end."""


def other_than(known: Collection[str]) -> str:
    """A pattern in Rust's syntax that each tag but these matches, and little else: ``known`` is without brackets.

    A tag is another one if it leaves their ways at some letter: none of those that begin alike has this letter here.
    """
    following: dict[str, set[str]] = defaultdict(set)
    for tag in known:
        for place, letter in enumerate(f"{tag})"):
            following[tag[:place]].add(letter)
    if not following:
        return MAYBE_TAG
    roles = [_leaving(way, letters, _LETTERS + r"\-") for way, letters in following.items() if _PID not in way]
    pids = [_leaving(way, letters, "0-9)") for way, letters in following.items() if _PID in way]
    return rf"\((?:(?:{'|'.join(roles)}){_REST}|{'|'.join(pids)})"


def _leaving(way: str, letters: set[str], possible: str) -> str:
    taken = "".join(re.escape(letter) for letter in sorted(letters))
    return rf"{re.escape(way)}[{possible}&&[^{taken}]]"
