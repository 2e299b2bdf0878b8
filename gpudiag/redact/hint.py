"""Whether a text can hold a secret at all. Apart from the patterns, whose compilation costs a moment."""

from __future__ import annotations

import re

REDACTED = "[redacted]"
"""What stands in the place of a secret: the same for all, so equal ones stay equal and nothing is told of them."""
_MARKS = (
    "key",
    "token",
    "secret",
    "pwd",
    "credential",
    "bearer",
    "auth",
    "sig=",
    "signature=",
    "code=",
    "://",
    "hf_",
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat",
    "glpat",
    "akia",
    "asia",
    "eyj",
    "xox",
    "xapp-",
    "aiza",
    "nvapi-",
    "npm_",
    "dckr",
    "r8_",
    "ya29.",
    "gocspx-",
    "pypi-",
    "k_live_",
    "k_test_",
    "sg.",
    "hvs.",
    "hvb.",
    "hvr.",
    "_v1_",
    ":aa",
    "cookie",
    "hooks",
    "sudo",
    "wandb",
    "openssl",
    "zip",
    "mysql",
    "mariadb",
    "redis",
    "mongo",
    "curl",
    "login",
    "ldap",
    "sqlcmd",
    "smbclient",
)
"""In lower case; a plain search for each is many times as fast as one expression with all of them."""
_PAT = re.compile(r"pat\b")


def may_hold_secret(text: str) -> bool:
    """False: the text holds nothing that is looked for."""
    folded = text.lower()
    if any(mark in folded for mark in _MARKS):
        return True
    # Every process's status has a line on the bypass of speculative stores.
    if folded.count("pass") > folded.count("bypass"):
        return True
    return "pat" in folded and _PAT.search(folded) is not None
