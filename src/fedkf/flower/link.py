"""The program that opens a coordinator's port: Flower's SuperLink, closed to whoever has no key."""

from __future__ import annotations

import os
from pathlib import Path

from fedkf.flower import internals
from fedkf.flower.coordinator import TOKEN, VARIABLE


def main() -> None:
    """Run the SuperLink; its control interface serves the coordinator alone."""
    internals.run_link((Path(os.environ[VARIABLE]) / TOKEN).read_text())


if __name__ == "__main__":
    main()
