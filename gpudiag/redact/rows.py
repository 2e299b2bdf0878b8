"""The rows of one source on their way out, one by one and in their order.

A secret may stand on the line behind the one that announces it: in a list that is printed one item a line (``docker
inspect``), in a pod's list of variables, in a private key. So what a line announces is remembered for the next one.
"""

from __future__ import annotations

import json
import re
from typing import cast

from gpudiag.redact.environment import allowed
from gpudiag.redact.hint import may_hold_secret
from gpudiag.redact.names import is_secret
from gpudiag.redact.redactor import Redactor

_RECORD = re.compile(r"(?P<front>,?(?:\"\w{1,20}\": )?)(?P<value>\{.*\})(?P<back>,?)\Z", re.DOTALL)
"""A row of a JSON source: an element of a list, or a member of an object."""
_ITEM_OPTION = re.compile(r"\s{0,80}(?:- )?(?P<quote>['\"]?)--?(?P<name>[A-Za-z][\w.-]{1,60})(?P=quote),?\s{0,8}\Z")
"""``"--api-key",`` or ``- --api-key``: one item of a list."""
_ITEM = re.compile(r"(?P<front>\s{0,80}(?:- )?['\"]?)(?P<value>(?!-)[^'\"\n]{1,8192}?)(?P<back>['\"]?,?\s{0,8})\Z")
_NAME = re.compile(r"\s{0,80}(?:- )?['\"]?name['\"]?\s?:\s?['\"]?(?P<name>[A-Za-z_][\w.-]{1,80})['\"]?,?\s{0,8}\Z")
"""``- name: HF_TOKEN``, on whose next line the value stands."""
_VALUE = re.compile(
    r"(?P<front>\s{0,80}['\"]?value['\"]?\s?:\s?['\"]?)(?P<value>[^'\"\n]{1,8192}?)(?P<back>['\"]?,?\s{0,8})\Z"
)
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?!.*-----END)")
_OF_KEY = re.compile(
    r"(?P<front>[\s>|'\"]{0,80})"
    r"(?P<value>[A-Za-z0-9+/=]{1,200}|[A-Z][\w-]{1,20}: .{1,80})"
    r"(?P<back>(?:\\n)?['\",\s]{0,8})\Z"
)
"""A line of a private key, or of the headers that may stand above it."""
_ITEM_KIND = "value on a line of its own"
ENVIRONMENT = "environ"
"""Key, or name of a file, of a process's environment."""


class Rows:
    """Takes secrets out of the rows of one source."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._next: re.Pattern[str] | None = None
        """What the next line looks like if it holds the secret that this one announced."""

    def row(self, text: str) -> str:
        """A row without them. In JSON the texts are looked at as they were, not as JSON writes them."""
        # A hint is plain ASCII, which JSON leaves as it is.
        if self._next is None and not may_hold_secret(text):
            return text
        match = _RECORD.match(text)
        if match is None:
            return self._line(text)
        try:
            value: object = json.loads(match["value"])
            cleaned = redacted_value(value, self._redactor)
        except (ValueError, RecursionError):
            return self._line(text)
        if cleaned == value:
            # Of two members of one name Python keeps the last: the text as it stands is looked at, too.
            return self._line(text)
        return match["front"] + json.dumps(cleaned) + match["back"]

    def _line(self, text: str) -> str:
        expected, self._next = self._next, self._announced(text)
        found = expected.match(text) if expected is not None else None
        if found is None:
            return self._redactor.row(text)
        if expected is _OF_KEY:
            self._next = _OF_KEY
        return found["front"] + self._redactor.whole(found["value"], _ITEM_KIND) + found["back"]

    def _announced(self, text: str) -> re.Pattern[str] | None:
        for pattern, following in ((_ITEM_OPTION, _ITEM), (_NAME, _VALUE)):
            match = pattern.match(text)
            if match is not None and is_secret(match["name"]):
                return following
        return _OF_KEY if _KEY_BEGINS.search(text) else None


def redacted_value(value: object, redactor: Redactor) -> object:
    """A JSON value without secrets; may raise ``RecursionError``."""
    if isinstance(value, str):
        return redactor.cmdline(value)
    if isinstance(value, list):
        items = cast("list[object]", value)
        if items and all(isinstance(item, str) for item in items):
            return redactor.argv(cast("list[str]", items))
        return [redacted_value(item, redactor) for item in items]
    if isinstance(value, dict):
        return _redacted_object(cast("dict[str, object]", value), redactor)
    return value


def _redacted_object(value: dict[str, object], redactor: Redactor) -> dict[str, object]:
    """With the names of the members as they are. A variable may be an object of its name and its value."""
    if ENVIRONMENT in value and isinstance(value[ENVIRONMENT], dict):
        variables = cast("dict[str, object]", value[ENVIRONMENT])
        texts = {name: text for name, text in variables.items() if isinstance(text, str)}
        value = {**value, ENVIRONMENT: allowed(texts, redactor)}
    result: dict[str, object] = {}
    for name, member in value.items():
        named = value.get("name") if name == "value" else name
        secret = isinstance(named, str) and isinstance(member, str) and is_secret(named)
        result[name] = redactor.assigned(cast("str", member)) if secret else redacted_value(member, redactor)
    return result
