"""What of a process group is the server: a script puts all that it starts into one group, and a backup is no server."""

from __future__ import annotations

from collections.abc import Collection

from gpudiag.rules.engines import role_of
from gpudiag.timeline.families import GENERAL, Family
from gpudiag.timeline.incident import Incident
from gpudiag.timeline.kinship import is_shell
from gpudiag.timeline.lives import Key, Life

_HEADS = ("server", "launcher")


def server_part(incident: Incident, family: Family, aimed: Collection[Key]) -> frozenset[Key]:
    """Members that belong to the server; ``aimed`` tells two servers of one group apart.

    Processes hang together by descent, where no shell stands between. Of what hangs together so, that belongs which has
    a role or used a GPU; a family without either is one job. A shell belongs if all that it started does: it may be the
    loop that starts the server again.
    """
    trees = _trees(incident, family)
    signed = {life.key: life for tree in trees for life in tree if _has_sign(family, life, tree[0])}
    # What a loop starts again and again is the same thing each time, whichever of them was seen with memory. What
    # nothing is known of (``None``) cannot be told apart.
    lines = {None, *(life.cmdline for life in signed.values())}
    with_sign = [tree for tree in trees if any(life.key in signed or life.cmdline in lines for life in tree)]
    if not signed:
        return frozenset(life.key for life in family.members)
    heads = [tree for tree in with_sign if any(_is_head(family, life) for life in tree)]
    meant = [tree for tree in heads if any(life.key in aimed for life in tree)]
    tops = {tree[0].key for tree in heads} - {tree[0].key for tree in meant} if meant else set[Key]()
    root = family.root
    signs = {tree[0].key for tree in with_sign}
    led = root is not None and any(root.key == life.key for tree in with_sign for life in tree)
    # What is in the group that the server itself leads was started by it, whatever it is called and whoever adopted it.
    mine = [tree for tree in trees if tree[0].key in signs or (led and root and tree[0].integer("pgid") == root.pid)]
    keys = {life.key for tree in mine if tree[0].key not in tops for life in tree}
    return frozenset(_with_shells(incident, family, keys))


def _trees(incident: Incident, family: Family) -> list[list[Life]]:
    """Members other than shells, by their highest ancestor that is a member and no shell; that one stands first."""
    members = {life.key for life in family.members if not is_shell(life)}
    trees: dict[Key, list[Life]] = {}
    for life in family.members:
        if life.key not in members:
            continue
        top = life
        while (above := incident.kinship.parent(top)) is not None and above.key in members:
            top = above
        tree = trees.setdefault(top.key, [top])
        if life is not top:
            tree.append(life)
    return list(trees.values())


def _has_sign(family: Family, life: Life, top: Life) -> bool:
    """A role or memory. Python's own workers say nothing of whose they are, unless their parent is gone."""
    if life.used_devices:
        return True
    found = role_of(life.comm, life.cmdline)
    general = found is not None and found[0] in GENERAL
    return family.role(life) is not None and (not general or life is top)


def _is_head(family: Family, life: Life) -> bool:
    return family.role(life) in _HEADS


def _with_shells(incident: Incident, family: Family, keys: set[Key]) -> set[Key]:
    started: dict[Key, list[Life]] = {}
    for life in family.members:
        if (above := incident.kinship.parent(life)) is not None:
            started.setdefault(above.key, []).append(life)
    shells = [life for life in family.members if is_shell(life) and life.key in started]
    for _ in shells:  # a shell inside a shell needs as many rounds
        keys |= {shell.key for shell in shells if all(child.key in keys for child in started[shell.key])}
    return keys
