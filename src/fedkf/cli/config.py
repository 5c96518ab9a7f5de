"""`fedkf config`: the resolved configuration."""

from __future__ import annotations

import typer

from fedkf.cli.options import ConfigArgument, SetOption, resolve


def config(config: ConfigArgument = None, set_: SetOption = None) -> None:
    """Print the resolved configuration, with a comment on every key."""
    from fedkf.runs.config import to_yaml

    settings, _ = resolve(config, set_)
    typer.echo(to_yaml(settings), nl=False)
