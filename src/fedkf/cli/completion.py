"""`fedkf completion`: what makes a shell complete commands and options."""

from __future__ import annotations

from typing import Annotated

import typer

from fedkf.core.errors import UserError, nearest

SHELLS = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")] = "bash",
) -> None:
    """Print a script for your shell: eval "$(fedkf completion bash)"."""
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise UserError(f"no completion for {shell!r}; {nearest(shell, SHELLS)}")
    variable = "_FEDKF_COMPLETE"
    typer.echo(get_completion_script(prog_name="fedkf", complete_var=variable, shell=shell))
