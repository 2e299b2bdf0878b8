"""Far hosts as a person names them: what may be handed to ``ssh``, and what a bundle from there is called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

_HOSTS_CAP = 1000
# Nothing that ssh reads as an option, and nothing that a ProxyCommand's shell reads as more than a name.
_FORM = re.compile(
    r"(?P<uri>ssh://)?(?:[A-Za-z0-9_][\w.+-]{0,99}@)?"
    r"(?:\[(?P<bracketed>[\w:.%-]{1,253})\](?::\d{1,5})?|(?P<host>[A-Za-z0-9_:][\w.:%-]{0,252}))/?\Z",
    re.ASCII,
)


class Destination(NamedTuple):
    """One far host."""

    text: str
    """As it is given to ``ssh``."""
    label: str
    """In sentences and in the bundle's name; no two hosts have the same."""


def destinations(texts: Sequence[str]) -> tuple[Destination, ...]:
    """``ValueError``, with the sentence, if one of them is no host, or is named twice."""
    if len(texts) > _HOSTS_CAP:
        raise ValueError(f"more than {_HOSTS_CAP} hosts")
    twice = [text for text, count in Counter(texts).items() if count > 1]
    if twice:
        raise ValueError(f"--host {twice[0]} is given twice")
    names = [_host(text) for text in texts]
    often = Counter(names)
    labels = [name if often[name] == 1 else _plain(text) for name, text in zip(names, texts)]
    if len(set(labels)) < len(labels):
        labels = [f"{number}-{label}" for number, label in enumerate(labels, start=1)]
    return tuple(Destination(text, label) for text, label in zip(texts, labels))


def _host(text: str) -> str:
    match = _FORM.match(text)
    if match is None:
        raise ValueError(f"--host {text!r} is not a host; write it like node7, root@node7 or ssh://root@node7:2222")
    host = match["bracketed"] or match["host"]
    return _plain(host.partition(":")[0] if match["uri"] and match["host"] else host)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("_") or "host"
