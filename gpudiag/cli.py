"""The command line: each command checks its words, makes one call, and turns the answer into text and an exit code.

Stages are imported inside the commands, because polars alone costs more than printing the help may.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Never

import typer
from typer.core import TyperGroup

from gpudiag import __version__, completion

if TYPE_CHECKING:
    from gpudiag.explain import Explanation, Pack, StatedKill
    from gpudiag.report.contract import Report
    from gpudiag.report.simulation import Simulation
    from gpudiag.simulate import Question

EXIT_USAGE: Final = 2
EXIT_UNREADABLE: Final = 3
EXIT_WRITE: Final = 1
EXIT_INCONCLUSIVE: Final = 11
EXIT_OF_OUTCOME: Final = {
    "released": 0,
    "nothing_held": 0,
    "memory_held": 10,
    "inconclusive": EXIT_INCONCLUSIVE,
    "releasing": 12,
}

EXIT_OF_VERIFY: Final = {"back": 0, "held": 10, "cannot_be_told": EXIT_INCONCLUSIVE, "releasing": 12}
EXIT_NOT_CLEAN: Final = 10
EXIT_OF_VERDICT: Final = {"clean": 0, "not_clean": EXIT_NOT_CLEAN, "cannot_be_told": EXIT_INCONCLUSIVE}
MAX_COMMANDS: Final = 1000
"""Commands that are compared at once."""
MAX_COMMAND_CHARACTERS: Final = 64 * 1024

PROGRESS_AFTER_S: Final = 1.0
"""A person who waits longer than this is told that the tool is at work."""

PIPED_WIDTH: Final = 80
"""Columns of the terminal report where standard output is no terminal."""


class Format(StrEnum):
    """What ``explain`` prints."""

    terminal = "terminal"
    json = "json"
    markdown = "markdown"
    html = "html"


class Answer(StrEnum):
    """What ``simulate`` prints."""

    text = "text"
    json = "json"


class Shell(StrEnum):
    """Shells whose ``-c`` may carry a command."""

    bash = "bash"
    dash = "dash"
    sh = "sh"
    zsh = "zsh"
    ksh = "ksh"


class Way(StrEnum):
    """How else a command gets to its host."""

    ssh = "ssh"


def _rule_ids(incomplete: str) -> list[tuple[str, str]]:
    """For the shell's completion: ids with their titles."""
    from gpudiag.rules.loader import load_rules

    return [(rule.id, rule.title) for rule in load_rules() if rule.id.startswith(incomplete)]


PackOption = Annotated[
    Path | None,
    typer.Option("--rules", metavar="DIR", help="Further rules: a directory of TOML files, ids GPD700 to GPD899."),
]


class _Group(TyperGroup):
    """Prints its help if no command is named, and says what is wrong in words that are not Python's."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            return super().invoke(ctx)
        except typer.BadParameter as problem:
            problem.message = problem.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="gpudiag",
    cls=_Group,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    help="Explains why GPU memory is still allocated after a failed clean-up, and which PIDs to kill.",
)
rules_app = typer.Typer(cls=_Group, rich_markup_mode=None, help="The catalogue of causes.")
schema_app = typer.Typer(cls=_Group, rich_markup_mode=None, help="JSON schemas of what gpudiag writes.")
app.add_typer(rules_app, name="rules")
app.add_typer(schema_app, name="schema")


def main() -> None:
    """Entry point of the ``gpudiag`` script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Evidence holds any character; a narrow locale must not turn a report into a traceback.
            stream.reconfigure(errors="backslashreplace")
    if completion.asked():
        completion.tell_options(app)
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpudiag {__version__}")
        raise typer.Exit


@app.callback()
def _options(  # pyright: ignore[reportUnusedFunction]  # typer calls it
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version


@app.command()
def explain(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...",
            help="A directory of saved tool output, a bundle, a file of terminal text, or - for what is piped or "
            "pasted in. Several are one incident.",
            show_default=False,
        ),
    ],
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the report: .html, .md, .json or .txt. Repeatable."),
    ] = None,
    output_format: Annotated[
        Format | None,
        typer.Option("--format", help="What to print. Default: terminal, or nothing if -o is given."),
    ] = None,
    kill: Annotated[
        list[str] | None,
        typer.Option("--kill", metavar="COMMAND", help="A kill command that was run and is not in the evidence."),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="TIME", help="When it was run: 2026-02-20T19:00:06Z. Without a zone: UTC."),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option("--script", metavar="FILE", help="Write the plan as a shell script that checks every PID again."),
    ] = None,
    rules: PackOption = None,
) -> None:
    """Say why the memory is held, by whom, and what to kill.

    Exit codes: 0 nothing is held, 10 memory is held, 11 inconclusive, 12 still releasing,
    2 usage, 3 an input cannot be read.
    """
    targets = output or []
    _check_targets(targets)
    if script is not None:
        _check_directory("--script", script)
    times = _times(kill or [], at or [])
    pack = _pack(rules)
    _check_standard_input(inputs)
    with _progress(inputs):
        report = _explained(inputs, kill or [], times, pack).report
    if output_format is not None or not targets:
        _print(_render(report, output_format or Format.terminal))
    for target in targets:
        _write(report, target)
    if script is not None:
        _write_script(report, script)
    raise typer.Exit(EXIT_OF_OUTCOME.get(report.outcome, EXIT_INCONCLUSIVE))


@app.command()
def simulate(
    command: Annotated[
        str,
        typer.Argument(
            metavar="COMMAND",
            help="The shell line, in quotes. - reads several from standard input, one a line, and compares them.",
            show_default=False,
        ),
    ],
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="INPUT...", help="As for explain: what shows the processes.", show_default=False),
    ],
    output_format: Annotated[Answer, typer.Option("--format", help="What to print.")] = Answer.text,
    shell: Annotated[
        Shell | None, typer.Option(help="It is run as SHELL -c COMMAND. Default: typed at a prompt.")
    ] = None,
    over: Annotated[Way | None, typer.Option(help="It is given to ssh: the login shell runs it.")] = None,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="USER", help="Who gives it. Default: whose prompt the evidence shows, else who looked, else root."
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option(metavar="ID", help="The server that is meant, as the report names it: F2.")
    ] = None,
    pid: Annotated[int | None, typer.Option(metavar="PID", help="A process of the server that is meant.")] = None,
    look: Annotated[
        str | None, typer.Option(metavar="NAME", help="The look to judge by. Default: the newest with the server.")
    ] = None,
) -> None:
    """Say what a kill command would do to the recorded processes. Nothing is run.

    Exit codes: 0 it hits the whole server and nothing else, 10 survivors or others hit, 11 cannot be told,
    2 usage, 3 an input cannot be read. Of several commands the worst counts: 10, then 11, then 0.
    """
    if family is not None and pid is not None:
        _fail("--family and --pid name the same thing: give one of them.", EXIT_USAGE)
    commands = _commands(command)
    _check_standard_input(inputs, taken=command == "-")
    with _progress(inputs):
        answers = _simulate(commands, inputs, _question(shell, over, user, family, pid, look))
    _print(_render_answers(answers, output_format, several=command == "-"))
    codes = {EXIT_OF_VERDICT.get(answer.verdict, EXIT_INCONCLUSIVE) for answer in answers}
    raise typer.Exit(next(code for code in (EXIT_NOT_CLEAN, EXIT_INCONCLUSIVE, 0) if code in codes))


@app.command()
def verify(
    bundle: Annotated[
        Path | None,
        typer.Argument(
            metavar="[BUNDLE]",
            help="What gpudiag collect wrote here before the clean-up. Without one: are the GPUs free?",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[float, typer.Option("--wait", metavar="S", min=0, max=86400, help="Wait so long for it.")] = 0.0,
    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", metavar="GPU", help="Without a bundle: only this one, by index or UUID. Repeatable."),
    ] = None,
) -> None:
    """Look again: are the processes of the plan gone, the memory back?

    Exit codes: 0 it is back (or the GPUs are free), 10 held, 11 cannot be told (also on another machine or boot),
    12 still releasing, 2 usage, 3 the bundle cannot be read.
    """
    from gpudiag.evidence import Unreadable
    from gpudiag.report.escape import visible
    from gpudiag.verification import words
    from gpudiag.verify import verify as verify_now

    if bundle is not None and gpu:
        _fail("--gpu is for waiting without a bundle: a bundle names its GPUs.", EXIT_USAGE)
    try:
        result = verify_now(bundle, gpu or [], wait)
    except Unreadable as problem:
        _fail(visible(str(problem)), EXIT_UNREADABLE)
    except OSError as problem:
        _fail(f"{problem.filename!r} cannot be read: {problem.strerror}.", EXIT_UNREADABLE)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    _print(words.render(result))
    raise typer.Exit(EXIT_OF_VERIFY.get(result.state, EXIT_INCONCLUSIVE))


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)
def collect(context: typer.Context) -> None:
    """Look at this machine, or at others over ssh, and write bundles."""
    from gpudiag.collect.main import main as collect_main

    # The collector reads its own words: where it is sent to, there is no typer.
    raise typer.Exit(collect_main(context.args))


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)
def run(context: typer.Context) -> None:
    """Run a clean-up command, record what happens, and explain."""
    from gpudiag.collect.run_main import main as run_main

    raise typer.Exit(run_main(context.args))


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)
def watch(context: typer.Context) -> None:
    """Record the last hours of processes and GPU memory beforehand."""
    from gpudiag.collect.watching.main import main as watch_main

    raise typer.Exit(watch_main(context.args))


@app.command()
def redact(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT", help="A bundle, a directory of saved tool output, or a text.", show_default=False
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the copy goes; it may not exist yet.")
    ],
) -> None:
    """Copy what was recorded, without passwords, keys and tokens. PIDs, users, names and kill patterns stay.

    Exit codes: 0 written, 1 the copy cannot be written, 2 usage, 3 the input cannot be read.
    """
    from gpudiag.evidence import Unreadable
    from gpudiag.redaction import redact as redact_now
    from gpudiag.report.escape import visible

    _check_directory("-o", output)
    try:
        done = redact_now(source, output)
    except Unreadable as problem:
        _fail(visible(str(problem)), EXIT_UNREADABLE)
    except FileExistsError as problem:
        _fail(f"-o {problem.filename!r}: it exists already.", EXIT_USAGE)
    except OSError as problem:
        _fail(f"{str(output)!r} cannot be written: {problem.strerror or problem}.", EXIT_WRITE)
    for sentence in done.left_out:
        typer.echo(f"gpudiag: not copied: {visible(sentence)}", err=True)
    found = f"taken out: {', '.join(done.removed)}" if done.removed else "no secret was found in it"
    typer.echo(f"gpudiag: wrote {visible(str(output))}; {found}", err=True)


@rules_app.command("list")
def rules_list(rules: PackOption = None) -> None:
    """List every rule: id, maturity, title."""
    from gpudiag.rules.loader import load_rules

    every = (*load_rules(), *_pack(rules).rules)
    _print("".join(f"{rule.id}  {rule.maturity:<8}  {rule.title}\n" for rule in every))


@rules_app.command("show")
def rules_show(
    rule_id: Annotated[
        str,
        typer.Argument(
            metavar="RULE", help="Its id, for example GPD101.", show_default=False, autocompletion=_rule_ids
        ),
    ],
    rules: PackOption = None,
) -> None:
    """Print what a rule means, how it is told apart, and what to do."""
    from gpudiag.rules import page
    from gpudiag.rules.loader import load_rules

    for rule in (*load_rules(), *_pack(rules).rules):
        if rule.id == rule_id.upper():
            _print(page.render(rule))
            return
    _fail(f"there is no rule {rule_id!r}; `gpudiag rules list` names them all.", EXIT_USAGE)


@rules_app.command("test")
def rules_test(
    rule_ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RULE]...", help="Ids; all rules if none is named.", show_default=False, autocompletion=_rule_ids
        ),
    ] = None,
    fixtures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where the inputs of cases lie. Default: as in a checkout; of a pack: the pack."
        ),
    ] = None,
    rules: PackOption = None,
) -> None:
    """Check the rule files and run their cases. With --rules: those of the pack.

    Exit codes: 0 all is well, 1 something is wrong, 2 usage, 3 the evidence of some cases is not here.
    """
    from gpudiag.rules.engine_lint import lint_engines
    from gpudiag.rules.lint import lint_directory, lint_pack
    from gpudiag.rules.loader import load_rules
    from gpudiag.selftest import left_out, run_cases, usual_fixtures

    if fixtures is not None and not fixtures.is_dir():
        _fail(f"--fixtures {str(fixtures)!r} is no directory.", EXIT_UNREADABLE)
    every = load_rules() if rules is None else _pack(rules).rules
    problems = (*lint_directory(), *lint_engines()) if rules is None else lint_pack(rules)
    _print("".join(f"{problem}\n" for problem in problems))
    wanted = {rule_id.upper() for rule_id in rule_ids or []}
    chosen = [rule for rule in every if not wanted or rule.id in wanted]
    if missing := wanted - {rule.id for rule in chosen}:
        _fail(f"there is no rule {', '.join(sorted(missing))!r}; `gpudiag rules list` names them all.", EXIT_USAGE)
    failed = len(problems)
    place = fixtures or rules or usual_fixtures()
    for result in run_cases(chosen, place):
        failed += not result.passed
        word = "ok    " if result.passed else "FAILED"
        detail = "" if result.passed else f"\n        expected {result.case.expect}, got {result.got}"
        _print(f"{word}  {result.rule.id}  {result.case.name}{detail}\n")
    if skipped := left_out(chosen, place):
        _note(
            f"{skipped} cases were not run: their evidence is not installed with the package; "
            "name tests/fixtures of a checkout with --fixtures."
        )
    raise typer.Exit(1 if failed else EXIT_UNREADABLE if skipped else 0)


@rules_app.command("columns")
def rules_columns(
    table: Annotated[
        str | None,
        typer.Argument(metavar="[TABLE]", help="For example holder; all tables if none is named.", show_default=False),
    ] = None,
) -> None:
    """List the fact tables and columns that a rule may use."""
    from gpudiag.rules import columns

    if table is not None:
        _check_table(table)
    _print(columns.render(table))


@rules_app.command("rows")
def rules_rows(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="For example holder.", show_default=False)],
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="INPUT...", help="As for explain.", show_default=False),
    ],
) -> None:
    """Print the rows of a fact table that rules would see, as JSON.

    One row a line, without the columns that the evidence does not tell. Exit codes: 2 usage, 3 an input cannot be read.
    """
    import json

    from gpudiag.rules.loader import VERDICT_TABLE

    _check_table(table)
    _check_standard_input(inputs)
    if table == VERDICT_TABLE:
        _fail(f"the table {table} is filled after the rules were asked: a report shows it.", EXIT_USAGE)
    for row in _explained(inputs, [], [], _pack(None)).facts[table]:
        _print(json.dumps({name: value for name, value in row.items() if value is not None}) + "\n")


@schema_app.command("report")
def schema_report() -> None:
    """Print the JSON schema of a report."""
    import json

    from gpudiag.report.contract import Report

    _print(json.dumps(Report.model_json_schema(by_alias=True), indent=2) + "\n")


@schema_app.command("simulation")
def schema_simulation() -> None:
    """Print the JSON schema of a simulation."""
    import json

    from gpudiag.report.simulation import Simulation

    _print(json.dumps(Simulation.model_json_schema(by_alias=True), indent=2) + "\n")


def _note(sentence: str) -> None:
    typer.echo(f"gpudiag: {sentence}", err=True)


def _fail(sentence: str, code: int) -> Never:
    _note(sentence)
    raise typer.Exit(code)


def _check_targets(targets: list[Path]) -> None:
    """Refuse before the work starts what could not be written after it."""
    if not targets:
        return
    from gpudiag.report.write import UnknownSuffixError, renderer

    for target in targets:
        try:
            renderer(target)
        except UnknownSuffixError as problem:
            _fail(f"-o {problem}.", EXIT_USAGE)
        _check_directory("-o", target)


def _check_directory(option: str, target: Path) -> None:
    if not target.absolute().parent.is_dir():
        _fail(f"{option} {str(target)!r}: the directory does not exist.", EXIT_USAGE)


def _check_standard_input(inputs: list[Path], *, taken: bool = False) -> None:
    """It can be read once: ``taken`` by something else, or as one of the inputs."""
    asked = inputs.count(Path("-"))
    if asked + taken > 1:
        _fail("- stands for standard input, which can be read only once; save the other as a file.", EXIT_USAGE)
    if asked and sys.stdin is not None and sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        _note("paste the terminal's text, then press Ctrl-D on a line of its own.")


def _times(kills: list[str], ats: list[str]) -> list[str | None]:
    """One time, or ``None``, for every stated command, as RFC 3339 in UTC."""
    if ats and len(ats) != len(kills):
        _fail(
            f"{len(kills)} --kill but {len(ats)} --at: give every --kill its --at, in the same order, or none.",
            EXIT_USAGE,
        )
    return [_utc(text) for text in ats] if ats else [None] * len(kills)


def _utc(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        _fail(f"--at {text!r} is not a time; write it like 2026-02-20T19:00:06Z.", EXIT_USAGE)
    return moment.isoformat().replace("+00:00", "Z")


def _stated(kills: list[str], times: list[str | None]) -> list[StatedKill]:
    from gpudiag.explain import StatedKill

    return [StatedKill(command, time) for command, time in zip(kills, times, strict=True)]


def _pack(directory: Path | None) -> Pack:
    from gpudiag.explain import Pack
    from gpudiag.report.escape import visible
    from gpudiag.rules.files import RulesError
    from gpudiag.rules.loader import load_pack

    if directory is None:
        return Pack()
    try:
        return Pack(load_pack(directory), directory)
    except RulesError as error:
        for problem in error.problems:
            _note(visible(f"--rules {problem}"))
        raise typer.Exit(EXIT_USAGE) from None


def _check_table(name: str) -> None:
    from gpudiag.timeline.facts.schema import TABLES

    if name not in TABLES:
        _fail(f"there is no table {name!r}; there are {', '.join(TABLES)}.", EXIT_USAGE)


def _explained(inputs: list[Path], kills: list[str], times: list[str | None], pack: Pack) -> Explanation:
    from gpudiag.evidence import Unreadable
    from gpudiag.explain import explain_fully
    from gpudiag.report.escape import visible

    try:
        return explain_fully(inputs, _stated(kills, times), pack)
    except Unreadable as problem:
        _fail(visible(str(problem)), EXIT_UNREADABLE)
    except OSError as problem:
        _fail(f"{problem.filename!r} cannot be read: {problem.strerror}.", EXIT_UNREADABLE)


def _commands(command: str) -> list[str]:
    """The command, or those of standard input; blank lines and comments are none."""
    if command != "-":
        lines = [command]
    else:
        limit = MAX_COMMANDS * MAX_COMMAND_CHARACTERS
        text = sys.stdin.buffer.read(limit + 1).decode("utf-8", "replace")
        if len(text) > limit:
            _fail("standard input is too long for a list of commands.", EXIT_USAGE)
        # A backslash at the end goes on with the next line, as in a shell; a prompt may have been pasted along.
        whole = text.replace("\r\n", "\n").replace("\\\n", " ")
        lines = [line.strip().removeprefix("$ ") for line in whole.splitlines() if not line.lstrip().startswith("#")]
    found = [line for line in lines if line.strip()]
    if not found:
        _fail("there is no command to simulate.", EXIT_USAGE)
    if len(found) > MAX_COMMANDS:
        _fail(f"{len(found)} commands are more than the {MAX_COMMANDS} that are compared at once.", EXIT_USAGE)
    if any(len(line) > MAX_COMMAND_CHARACTERS for line in found):
        _fail(f"a command longer than {MAX_COMMAND_CHARACTERS} characters is not simulated.", EXIT_USAGE)
    return found


def _question(
    shell: Shell | None, over: Way | None, user: str | None, family: str | None, pid: int | None, look: str | None
) -> Question:
    from gpudiag.simulate import Question
    from gpudiag.simulation.choose import Wanted

    return Question(shell.value if shell is not None else None, over is Way.ssh, user, Wanted(family, pid, look))


def _simulate(commands: list[str], inputs: list[Path], question: Question) -> tuple[Simulation, ...]:
    from gpudiag.evidence import Unreadable
    from gpudiag.report.escape import visible
    from gpudiag.simulate import NoSuchServerError
    from gpudiag.simulate import simulate as simulate_all

    try:
        return simulate_all(commands, inputs, question)
    except Unreadable as problem:
        _fail(visible(str(problem)), EXIT_UNREADABLE)
    except NoSuchServerError as problem:
        _fail(visible(str(problem)), EXIT_USAGE)
    except OSError as problem:
        _fail(f"{problem.filename!r} cannot be read: {problem.strerror}.", EXIT_UNREADABLE)


def _render_answers(answers: tuple[Simulation, ...], output_format: Answer, *, several: bool) -> str:
    if output_format is Answer.json:
        from gpudiag.report.simulation import several_to_json

        return several_to_json(answers) if several else answers[0].to_json()
    from gpudiag.report import simulation_text

    width, colour = _terminal()
    return simulation_text.render(answers, width=width, colour=colour)


@contextmanager
def _progress(inputs: list[Path]) -> Generator[None]:
    if not sys.stderr.isatty():
        yield
        return
    noun = "input" if len(inputs) == 1 else "inputs"
    timer = threading.Timer(PROGRESS_AFTER_S, typer.echo, [f"gpudiag: reading {len(inputs)} {noun} ..."], {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _render(report: Report, output_format: Format) -> str:
    if output_format is Format.json:
        return report.to_json()
    if output_format is Format.markdown:
        from gpudiag.report import markdown

        return markdown.render(report)
    if output_format is Format.html:
        from gpudiag.report import html

        return html.render(report)
    from gpudiag.report import terminal

    width, colour = _terminal()
    return terminal.render(report, width=width, colour=colour)


def _terminal() -> tuple[int, bool]:
    """Columns of the output, and whether it takes colours."""
    on_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else PIPED_WIDTH
    return width, on_terminal and not os.environ.get("NO_COLOR")


def _write(report: Report, target: Path) -> None:
    from gpudiag.report.escape import visible
    from gpudiag.report.write import write

    try:
        write(report, target)
    except OSError as problem:
        _fail(f"{str(target)!r} cannot be written: {problem.strerror}.", EXIT_USAGE)
    typer.echo(f"gpudiag: wrote {visible(str(target))}", err=True)


def _write_script(report: Report, target: Path) -> None:
    """Without a process to kill there is no script, and an older file is left alone."""
    from gpudiag.report import script
    from gpudiag.report.escape import visible
    from gpudiag.report.write import write_text

    try:
        write_text(script.render(report), target)
    except (script.NothingToDoError, script.SeveralMachinesError) as problem:
        typer.echo(f"gpudiag: no script was written: {problem}.", err=True)
        return
    except OSError as problem:
        _fail(f"{str(target)!r} cannot be written: {problem.strerror}.", EXIT_USAGE)
    typer.echo(
        f"gpudiag: wrote {visible(str(target))}; read it, then: sh {visible(shlex.quote(str(target)))}", err=True
    )


def _print(text: str) -> None:
    """Print, and keep the command's own exit code when the reader (``head``) has gone."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered would raise again when the interpreter closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"standard output cannot be written: {problem.strerror}.", EXIT_WRITE)
