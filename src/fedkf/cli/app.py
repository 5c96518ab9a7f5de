"""The command `fedkf`: every command by name, and what an error looks like."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Annotated

import typer

from fedkf import __version__
from fedkf.cli import (
    advise,
    algorithms,
    best,
    check,
    completion,
    config,
    coordinator,
    dashboard,
    data,
    demo,
    distill,
    doctor,
    evaluate,
    export,
    figure,
    inspect,
    partition,
    personalize,
    predict,
    report,
    reproduce,
    run,
    site,
    sweep,
)
from fedkf.cli.consoles import say
from fedkf.core import details
from fedkf.core.errors import FedkfError

typer.core.HAS_RICH = (
    False  # help is plain text; typer would escape brackets in it, as in \[required]
)

app = typer.Typer(
    name="fedkf",
    help="Train one shared model across sites whose data differ, accurate and fair for each.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS = (
    run.run,
    demo.demo,
    config.config,
    algorithms.algorithms,
    partition.partition,
    advise.advise,
    check.check,
    doctor.doctor,
    evaluate.evaluate,
    inspect.inspect,
    personalize.personalize,
    export.export,
    predict.predict,
    report.report,
    figure.figure,
    dashboard.dashboard,
    sweep.sweep,
    best.best,
    reproduce.reproduce,
    distill.distill,
    completion.completion,
)
for command in COMMANDS:
    app.command()(command)
for group in (data.commands, coordinator.commands, site.commands):
    app.add_typer(group)


def main() -> None:
    """The entry point: every error is one sentence, and the exit code says whose it was."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
        details.show()
    else:
        warnings.simplefilter("ignore")
    try:
        app()
    except FedkfError as error:
        if debug:
            traceback.print_exc()
        say(f"fedkf: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if debug:
            traceback.print_exc()
        text = " ".join(f"{type(error).__name__}: {error}".split())
        say(f"fedkf: unexpected {text} (--debug shows where)")
        sys.exit(1)


def show_version(value: bool) -> None:
    """Print the version and end, if that is what was asked for."""
    if value:
        typer.echo(f"fedkf {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show it.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Train one shared model across sites whose data differ, accurate and fair for each."""
