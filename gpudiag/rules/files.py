"""Where the shipped TOML files lie, and how one of them is read: bounded, with errors that name file and place."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError

from gpudiag.rules.places import Place, line_of

MAX_FILE_BYTES = 64 * 1024
"""No rule needs more; a larger file is refused before it is parsed."""

MAX_FILES = 500

_PACKAGE = Path(__file__).resolve().parent.parent

ModelT = TypeVar("ModelT", bound=BaseModel)


MAX_PROBLEMS = 50
"""Sentences about one directory; a file of another kind would have thousands."""
MAX_OF_A_FILE = 20


class RulesError(Exception):
    """Rule or engine files cannot be used. One sentence a problem, which names the file, the line, and the field."""

    def __init__(self, problem: str, *more: str):
        shown = (problem, *more)[:MAX_PROBLEMS]
        rest = len(more) + 1 - len(shown)
        self.problems = (*shown, f"{rest} more problems are not shown.") if rest else shown
        super().__init__("\n".join(self.problems))


def data_dir() -> Path:
    """The shipped rules: beside the modules in an installed wheel, at the top of the tree in a checkout."""
    installed = _PACKAGE / "rules_data"
    return installed if installed.is_dir() else _PACKAGE.parent / "rules"


def toml_files(directory: Path) -> tuple[Path, ...]:
    """The directory's own TOML files (no sub-folders), by name."""
    try:
        found = sorted(path for path in directory.iterdir() if path.suffix == ".toml" and path.is_file())
    except NotADirectoryError as error:
        raise RulesError(f"{directory}: it is a file; name the directory that holds the rules.") from error
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
    name = _shown(path.name)
    try:
        text = read_bytes(path).decode("utf-8")
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise RulesError(f"{name}: not UTF-8 (byte {error.start}).") from error
    except tomllib.TOMLDecodeError as error:
        raise RulesError(f"{name}: not TOML: {_shown(str(error))}.") from error
    except ValueError as error:  # a number of thousands of digits
        raise RulesError(f"{name}: not TOML that can be read: {_shown(str(error))[:200]}.") from error
    except RecursionError as error:
        raise RulesError(f"{name}: nested too deeply.") from error
    try:
        odd = _unprintable(values)
        if odd is not None:
            raise RulesError(f"{_at(name, text, odd)}: a character that does not print.")
        return model.model_validate(values)
    except ValidationError as error:
        raise RulesError(*_sentences(name, text, error)) from error
    except RecursionError as error:
        raise RulesError(f"{name}: nested too deeply.") from error


def _sentences(name: str, text: str, error: ValidationError) -> Iterator[str]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    # A list or a table may be wrong only because something in it is: that is told already.
    outer = {one["loc"][:length] for one in found for length in range(len(one["loc"]))}
    told = [one for one in found if one["loc"] not in outer]
    for one in told[:MAX_OF_A_FILE]:
        yield _sentence(name, text, one["loc"], one["msg"])
    if len(told) > MAX_OF_A_FILE:
        yield f"{name}: {len(told) - MAX_OF_A_FILE} more problems are not shown."


def _sentence(name: str, text: str, place: Place, words: str) -> str:
    field = ".".join(str(part) for part in place) or "the file as a whole"
    problem = words.removeprefix("Value error, ")[:400]
    return f"{_at(name, text, place)}: {_shown(field)[:200]}: {_shown(problem)}."


def _at(name: str, text: str, place: Place) -> str:
    """``file:line``; what is missing at the top of the file is missing at its first line."""
    return f"{name}:{line_of(text, place) or 1}"


def _unprintable(value: object, place: Place = ()) -> Place | None:
    """Where a text or a key would do something to the terminal that shows it."""
    if isinstance(value, str):
        return None if value.replace("\n", "").replace("\t", "").isprintable() else place
    members: list[tuple[int | str, object]] = []
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        if not all(map(str.isprintable, named)):
            return place
        members = list(named.items())
    elif isinstance(value, list):
        members = list(enumerate(cast("list[object]", value)))
    found = (_unprintable(member, (*place, name)) for name, member in members)
    return next((where for where in found if where is not None), None)


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
