"""The commands of `fedkf`."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedkf import __version__
from fedkf.core.errors import FedkfError, UserError

app = typer.Typer(
    name="fedkf",
    help="Train one shared model across sites whose data differ, accurate and fair for each.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# What users name may look like markup; nothing is.
err = Console(stderr=True, highlight=False, markup=False, emoji=False)
out = Console(highlight=False, markup=False, emoji=False)

ConfigArgument = Annotated[
    str | None, typer.Argument(metavar="[CONFIG]", help="A file or a preset; none means digits.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a key, such as federation.rounds=30."
    ),
]


def look_in(folder: Path | None) -> Path | None:
    """Make a folder the first in which data is looked for, here and in child processes."""
    if folder is not None:
        if not folder.is_dir():
            raise UserError(f"--data-dir: no folder {folder}")
        others = os.environ.get("FEDKF_DATA")
        places = [str(folder.absolute()), *([others] if others else [])]
        os.environ["FEDKF_DATA"] = os.pathsep.join(places)
    return folder


DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", callback=look_in, help="Look for data here before FEDKF_DATA."
    ),
]


class Stopped(FedkfError):
    """Ctrl-C."""

    exit_code = 130


def main() -> None:
    """The entry point: every error is one sentence, and the exit code says whose it was."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    else:
        warnings.simplefilter("ignore")
    try:
        app()
    except FedkfError as error:
        if debug:
            traceback.print_exc()
        err.print(f"fedkf: {error}", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if debug:
            traceback.print_exc()
        text = " ".join(f"{type(error).__name__}: {error}".split())
        err.print(f"fedkf: unexpected {text} (--debug shows where)", markup=False, soft_wrap=True)
        sys.exit(1)


def show_version(value: bool) -> None:
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


@app.command()
def run(
    config: ConfigArgument = None,
    set_: SetOption = None,
    out_: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="[default: runs/<config>-<algorithm>-<seed>]"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes; 0 does everything in this one.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Where clients run: local or flower.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in DIR.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json only.")] = False,
    log: Annotated[
        str | None, typer.Option(help="Also log to: tensorboard, or package.module:factory.")
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run one experiment."""
    from fedkf.runs import config as configuration

    content, name = configuration.read(config)
    overrides = configuration.parse_set(set_ or [])
    if workers is not None:
        overrides["engine.workers"] = workers
    if engine is not None:
        overrides["engine.name"] = engine
    if log is not None:
        overrides["output.log"] = log
    if out_ is not None:
        overrides["output.dir"] = str(out_)
    settings = configuration.resolve(content, overrides)
    folder = settings.output.dir
    if folder is None:
        algorithm = settings.algorithm.name.replace(":", ".")
        folder = f"runs/{name}-{algorithm}-{settings.federation.seed}"

    from fedkf.cli.running import run_with_progress

    summary = run_with_progress(settings, Path(folder), resume, quiet)
    if as_json:
        typer.echo(json.dumps(summary))
        return
    from fedkf.cli.tables import results_table

    out.print(results_table({summary["algorithm"]: summary}))

    from fedkf.cli.home import show_gain

    show_gain(Path(folder))
    out.print(f"files: {folder}", soft_wrap=True)


@app.command()
def demo(
    out_: Annotated[Path, typer.Option("--out", metavar="DIR")] = Path("runs/demo"),
    workers: Annotated[int | None, typer.Option(help="Worker processes.")] = None,
    seed: Annotated[int, typer.Option(help="Of the partition and of the training.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """FedAvg against FedKF on the embedded digits: tables, a figure and a report."""
    from fedkf.cli.demo import run_demo

    run_demo(out_, workers, seed, quiet)


@app.command()
def config(config: ConfigArgument = None, set_: SetOption = None) -> None:
    """Print the resolved configuration, with a comment on every key."""
    from fedkf.runs import config as configuration

    content, _ = configuration.read(config)
    overrides = configuration.parse_set(set_ or [])
    typer.echo(configuration.to_yaml(configuration.resolve(content, overrides)), nl=False)


@app.command()
def algorithms(
    as_json: Annotated[bool, typer.Option("--json", help="As a list of objects.")] = False,
) -> None:
    """What each algorithm needs, discloses and costs, measured on a tiny model."""
    from fedkf.cli import without_compiler
    from fedkf.paper.operations import table

    with without_compiler():
        rows = table()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from fedkf.cli.tables import algorithms_table

    out.print(algorithms_table(rows))


RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
ReadoutOption = Annotated[str, typer.Option(help="Which model: oca or aca.")]


@app.command()
def partition(
    config: ConfigArgument = None,
    set_: SetOption = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: runs/<config>-partition]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print partition.json only.")] = False,
    data_dir: DataDirOption = None,
) -> None:
    """How the data is divided over clients: numbers, warnings and the bubble plot."""
    from fedkf.runs import config as configuration

    content, name = configuration.read(config)
    settings = configuration.resolve(content, configuration.parse_set(set_ or []))

    from fedkf.cli.home import show_partition

    show_partition(settings, out_ or Path("runs") / f"{name}-partition", as_json)


@app.command()
def evaluate(
    run: RunArgument,
    data: Annotated[
        Path | None, typer.Option(help="New data: an .npz file or a folder of images.")
    ] = None,
    mixtures: Annotated[
        int, typer.Option(metavar="Q", min=0, help="Also on Q random mixtures of the clients.")
    ] = 0,
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Another run, such as `local`: gain per client."),
    ] = None,
    readout: ReadoutOption = "oca",
    as_json: Annotated[bool, typer.Option("--json", help="As one object.")] = False,
) -> None:
    """What the trained model does for each client and each class."""
    from fedkf.cli.home import show_evaluation

    show_evaluation(run, data, mixtures, against, readout, as_json)


@app.command()
def personalize(
    run: RunArgument,
    method: Annotated[str, typer.Option(help="finetune or proximal.")] = "finetune",
    epochs: Annotated[int | None, typer.Option(help="Of local training. [default: the run's]")] = (
        None
    ),
    lr: Annotated[float | None, typer.Option(help="Learning rate. [default: the run's]")] = None,
    mu: Annotated[
        float | None, typer.Option(help="Weight of the proximal term. [default: 0.1]")
    ] = None,
    readout: ReadoutOption = "oca",
    workers: Annotated[int | None, typer.Option(help="Worker processes.", min=0)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one object.")] = False,
) -> None:
    """Train the model once more at each client: its accuracy before and after."""
    from fedkf.cli.personal import show_personalized

    show_personalized(
        run,
        as_json,
        method=method,
        epochs=epochs,
        lr=lr,
        mu=mu,
        readout=readout,
        workers=workers,
    )


@app.command()
def export(
    run: RunArgument,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="[default: RUN/export]")
    ] = None,
    format_: Annotated[
        list[str] | None,
        typer.Option("--format", help="safetensors, torch or onnx. [default: the first two]"),
    ] = None,
    readout: ReadoutOption = "oca",
) -> None:
    """Take the trained model home: weights and JSON, a torch.export program, ONNX."""
    from fedkf.cli.home import export_model

    export_model(run, out_ or run / "export", format_ or ["safetensors", "torch"], readout)


@app.command()
def predict(
    run: RunArgument,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Image files.")],
    readout: ReadoutOption = "oca",
    as_json: Annotated[bool, typer.Option("--json", help="As a list of objects.")] = False,
) -> None:
    """Classify images with a trained model."""
    from fedkf.cli.home import show_predictions

    show_predictions(run, images, readout, as_json)


FoldersArgument = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Folders of runs, or of folders of runs.")
]


@app.command()
def report(
    folders: FoldersArgument,
    out_: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="[default: report.html beside the runs]"),
    ] = None,
    samples: Annotated[
        bool | None,
        typer.Option(
            help="Show samples of the models, also of models whose code the run names, or none. "
            "[default: of models that ship with fedkf]"
        ),
    ] = None,
) -> None:
    """One HTML file that explains a run, or compares several; it opens offline."""
    from fedkf.cli.looking import show_report

    show_report(folders, out_, samples)


@app.command()
def figure(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="curves, clients, gain, partition, spread, losses, communication or time.",
        ),
    ],
    folders: FoldersArgument,
    format_: Annotated[
        list[str] | None, typer.Option("--format", help="pdf, svg or png. [default: pdf]")
    ] = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="[default: KIND.FORMAT]")
    ] = None,
) -> None:
    """One plot of one or several runs, in a style fit for a paper."""
    from fedkf.cli.looking import show_figure

    show_figure(kind, folders, format_ or ["pdf"], out_)


@app.command()
def dashboard(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that holds runs.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 finds a free one.", min=0, max=65535)] = 8420,
) -> None:
    """A live page that follows the runs in a folder; it only reads."""
    from fedkf.cli.looking import serve

    serve(folder, host, port)


# Commands with files of their own, which need what is defined above.
from fedkf.cli import data as data_sets  # noqa: E402
from fedkf.cli import experiments as experiments  # noqa: E402
from fedkf.cli.deploy import coordinator, site  # noqa: E402

app.add_typer(data_sets.commands)
app.add_typer(coordinator, name="coordinator")
app.add_typer(site, name="site")
