"""The command line. Its entry point makes torch load only when work starts."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line: help and mistakes answer at once, without waiting for torch."""
    from fedkf.cli.imports import Deferred

    if "torch" not in sys.modules:
        sys.modules["torch"] = Deferred("torch")
    from fedkf.cli.app import main as run

    run()
