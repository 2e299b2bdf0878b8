"""Where rings lie."""

from __future__ import annotations

import contextlib
import os
import pwd

SYSTEM = "/var/lib/gpudiag"


def default(*, root: bool) -> str:
    """Where a recorder of this user writes."""
    return SYSTEM if root else _state(os.environ.get("XDG_STATE_HOME"), os.path.expanduser("~"))  # noqa: PTH111


def searched(*, root: bool) -> list[str]:
    """Where a collector looks: root's ring, one's own, and that of whoever called sudo."""
    found = [SYSTEM, default(root=False)]
    caller = os.environ.get("SUDO_USER")
    if root and caller:
        with contextlib.suppress(KeyError):  # a user of yesterday
            found.append(_state(None, pwd.getpwnam(caller).pw_dir))
    return list(dict.fromkeys(found))


def folders(folder: str | None, *, root: bool) -> list[str]:
    """Where rings may be; ``folder``: where a person says that one is."""
    return searched(root=root) if folder is None else [folder]


def _state(given: str | None, home: str) -> str:
    # The specification has relative values ignored.
    return f"{given if given and given.startswith('/') else f'{home}/.local/state'}/gpudiag"
