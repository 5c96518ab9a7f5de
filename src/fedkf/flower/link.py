"""The program that opens a coordinator's port: Flower's SuperLink, closed to whoever has no key."""

from __future__ import annotations

import os
from pathlib import Path

from fedkf.core.errors import FedkfError
from fedkf.flower import internals
from fedkf.flower.coordinator import VARIABLE, Coordinator


def main() -> None:
    """Run the SuperLink; its control interface serves the coordinator alone."""
    try:
        token = Coordinator(Path(os.environ[VARIABLE])).token()
    except FedkfError as error:
        raise SystemExit(f"fedkf: {error}") from None
    internals.run_link(token)


if __name__ == "__main__":
    main()
