"""The last gate for secrets: what a person pasted or saved by hand went through no collector."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from pydantic import BaseModel

from gpudiag.redact.redactor import Redactor
from gpudiag.report.contract import Report

Clean = Callable[[str], str]
_RUN_AS_IT_STANDS = frozenset({"command", "check"})
"""Commands that a person pastes: whoever makes them keeps secrets out, a changed one would be another command."""


def without_secrets(report: Report) -> Report:
    """The report with the secrets taken out of all that it quotes, also where nothing announces them."""
    redactor = Redactor()
    cleaned = _cleaned(report, redactor.row)
    if redactor.taken:
        cleaned = _cleaned(cleaned, redactor.without_taken)
    return cast("Report", cleaned)


def _cleaned(value: object, clean: Clean) -> object:
    """The same object where there is nothing to take out."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, BaseModel):
        return _model(value, clean)
    if isinstance(value, (tuple, list)):
        items = cast("tuple[object, ...] | list[object]", value)
        cleaned = [_cleaned(item, clean) for item in items]
        same = all(new is old for new, old in zip(cleaned, items, strict=True))
        return items if same else type(items)(cleaned)
    if isinstance(value, dict):
        named = cast("dict[object, object]", value)
        return {name: _cleaned(member, clean) for name, member in named.items()}
    return value


def _model(model: BaseModel, clean: Clean) -> BaseModel:
    changed: dict[str, object] = {}
    for name in type(model).model_fields:
        if name in _RUN_AS_IT_STANDS:
            continue
        old: object = getattr(model, name)
        new = _cleaned(old, clean)
        if new is not old and new != old:
            changed[name] = new
    return model.model_copy(update=changed) if changed else model
