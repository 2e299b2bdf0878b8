"""What the shell's completion is told of the commands that read their own words.

``collect``, ``run`` and ``watch`` are read with argparse, also where there is no typer. While a shell asks for
completions they stand beside the other commands with the options of their parsers; they are not run then.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import argparse

_ASKED = "_GPUDIAG_COMPLETE"
"""Variable in which the installed function of a shell says that it wants completions."""


def asked() -> bool:
    """A shell asks for completions; nothing is run."""
    return _ASKED in os.environ


def tell_options(app: typer.Typer) -> None:
    """Give the three commands of the app, which take any words, the options of their parsers."""
    from gpudiag.collect.options import new_parser as of_collect
    from gpudiag.collect.run_main import new_parser as of_run
    from gpudiag.collect.watching.main import new_parser as of_watch

    parsers = {"collect": of_collect(), "run": of_run(), "watch": of_watch("")}
    for command in app.registered_commands:
        if command.callback is not None and (name := command.callback.__name__) in parsers:
            command.callback = _mirror(parsers[name], name, command.callback.__doc__)


def _mirror(parser: argparse.ArgumentParser, name: str, words: str | None) -> Callable[..., None]:
    def command(**_: object) -> None:
        """Never called: completion ends before."""

    options = list(_options(parser))
    # typer reads a command's options off its signature, its name and its help off the function.
    command.__signature__ = inspect.Signature(options)  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {option.name: option.annotation for option in options}
    command.__name__ = name
    command.__doc__ = words
    return command


def _options(parser: argparse.ArgumentParser) -> Iterator[inspect.Parameter]:
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]  # argparse lists them nowhere else
        if not action.option_strings or action.dest == "help":
            continue
        kind = bool if action.nargs == 0 else list[str]
        option = typer.Option(*action.option_strings, help=action.help)
        yield inspect.Parameter(
            action.dest, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
        )
