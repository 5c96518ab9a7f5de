"""A run with its progress on the screen, and with Ctrl-C turned into a sentence."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fedkf.cli.app import Stopped, err
from fedkf.cli.progress import Bar, Lines, Progress
from fedkf.core.federation import Observer
from fedkf.runs.experiment import execute
from fedkf.runs.schema import Config


def run_with_progress(
    config: Config,
    folder: Path,
    resume: bool,
    quiet: bool,
    title: str = "",
    observers: Sequence[Observer] = (),
    advice: str = "add --resume to go on",
) -> dict[str, Any]:
    """Run an experiment; its summary."""
    progress = make_progress(config.federation.rounds, title or config.algorithm.name, quiet, err)
    previous = signal.signal(signal.SIGTERM, stop)
    try:
        with progress:
            result = execute(config, folder, resume, [progress, *observers], say=progress.say)
    except KeyboardInterrupt:
        raise Stopped(f"stopped; nothing that was finished is lost, {advice} ({folder})") from None
    finally:
        signal.signal(signal.SIGTERM, previous)
    return result.summary


def stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def make_progress(rounds: int, title: str, quiet: bool, console: Console) -> Progress:
    if quiet:
        return Progress(rounds, title, console)
    return (Bar if console.is_terminal else Lines)(rounds, title, console)
