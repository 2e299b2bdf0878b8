"""Which names announce a secret: ``--api-key``, ``HF_TOKEN``, ``adminPassword``; and which only sound like one.

Servers of language models count tokens and load tokenizers, so ``--max-num-batched-tokens 8192``, ``--tokenizer PATH``
and ``eos_token='</s>'`` have to stay.
"""

from __future__ import annotations

import re
from functools import lru_cache

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PARTS = re.compile(r"[^A-Za-z0-9]+")
_ALONE = frozenset(
    {
        "apikey", "apikeys", "authkey", "accesskey", "secretkey", "password", "passwords", "passwd", "passphrase",
        "pwd", "secret", "secrets", "credential", "credentials", "accesstoken", "authtoken",
    }
)  # fmt: skip
"""Words that announce a secret wherever they stand in a name."""
_ENDINGS = ("password", "passwd", "passphrase")
"""What a word ends with that has something written before it: ``PGPASSWORD``."""
_LAST = frozenset({"token", "pass", "auth", "bearer"})
"""Words that do so as the last one. ``sig`` is none of them: the kernel's trace says ``sig=9``."""
_BEFORE_KEY = frozenset(
    {"api", "access", "secret", "private", "auth", "account", "encryption", "signing", "master", "admin", "license"}
)
_HARMLESS_END = frozenset(
    {"file", "path", "dir", "name", "id", "type", "policy", "length", "count", "limit", "budget", "ttl", "url", "mode"}
)
"""What such a name ends with when its value only tells where the secret is, or something about it."""
_OF_TEXT = frozenset(
    {
        "add", "additional", "audio", "begin", "bos", "cls", "decode", "end", "eos", "first", "image", "input", "last",
        "mask", "max", "min", "new", "next", "num", "out", "output", "pad", "per", "prefill", "prompt", "sep", "skip",
        "special", "start", "stop", "time", "tool", "unk", "video", "vocab",
    }
)  # fmt: skip
"""Words that make a ``token`` behind them one of a text."""


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """The value that stands behind this name is a secret. The name comes without dashes in front."""
    parts = [part.lower() for part in _PARTS.split(_CAMEL.sub("_", name)) if part]
    if not parts or parts[-1] in _HARMLESS_END:
        return False
    last = parts[-1].rstrip("s") if parts[-1] == "keys" else parts[-1]
    before = parts[-2] if len(parts) > 1 else ""
    if last == "pwd" and len(parts) == 1:
        return not name.isupper()  # PWD is the working directory
    if last.endswith(_ENDINGS) or name == "SSHPASS":
        return True
    if last == "key":
        return before in _BEFORE_KEY or (name.isupper() and len(parts) > 1) or bool(_ALONE.intersection(parts))
    if last == "token":
        return before not in _OF_TEXT
    if last == "auth" and len(parts) > 1:
        return before in ("basic", "http", "proxy", "require")
    return last in _LAST or bool(_ALONE.intersection(parts))


@lru_cache(maxsize=4096)
def is_secret_variable(name: str) -> bool:
    """An environment variable of this name is left out, whatever else speaks for it."""
    return any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL")) or is_secret(name)
