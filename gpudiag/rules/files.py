"""Where the shipped TOML files lie, and how one of them is read: bounded, with errors that name file and place."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

MAX_FILE_BYTES = 64 * 1024
"""No rule needs more; a larger file is refused before it is parsed."""

MAX_FILES = 500

_PACKAGE = Path(__file__).resolve().parent.parent

ModelT = TypeVar("ModelT", bound=BaseModel)


class RulesError(Exception):
    """A rule or engine file cannot be used. One sentence that names the file and the line or field."""


def data_dir() -> Path:
    """The shipped rules: beside the modules in an installed wheel, at the top of the tree in a checkout."""
    installed = _PACKAGE / "rules_data"
    return installed if installed.is_dir() else _PACKAGE.parent / "rules"


def toml_files(directory: Path) -> tuple[Path, ...]:
    """The directory's own TOML files (no sub-folders), by name."""
    try:
        found = sorted(path for path in directory.iterdir() if path.suffix == ".toml" and path.is_file())
    except OSError as error:
        raise RulesError(f"{directory}: cannot be listed ({error.strerror}).") from error
    if len(found) > MAX_FILES:
        raise RulesError(f"{directory}: {len(found)} TOML files, at most {MAX_FILES} are read.")
    return tuple(found)


def read_bytes(path: Path) -> bytes:
    """The file's content, refused above the size cap."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise RulesError(f"{path.name}: cannot be read ({error.strerror}).") from error
    if len(content) > MAX_FILE_BYTES:
        raise RulesError(f"{path.name}: larger than {MAX_FILE_BYTES} bytes.")
    return content


def read_model(path: Path, model: type[ModelT]) -> ModelT:
    """The file as one validated object."""
    try:
        values = tomllib.loads(read_bytes(path).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RulesError(f"{path.name}: not UTF-8 (byte {error.start}).") from error
    except tomllib.TOMLDecodeError as error:
        raise RulesError(f"{path.name}: not TOML: {error}.") from error
    except RecursionError as error:
        raise RulesError(f"{path.name}: nested too deeply.") from error
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file as a whole"
        raise RulesError(f"{path.name}: {field}: {first['msg'].removeprefix('Value error, ')}.") from error
