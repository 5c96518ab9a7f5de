"""Details: where something failed in another process, for those who ask (`--debug`)."""

from __future__ import annotations

import logging
import sys

LOG = logging.getLogger("fedkf.details")
LONGEST = 500
_told: set[str] = set()


def tell(what: str, details: str) -> None:
    """Note the traceback of a failure, once for all in the same place.

    It may come from another machine, so that characters that a terminal obeys are left out.
    """
    if not details or not LOG.isEnabledFor(logging.DEBUG):
        return
    lines = [
        "".join(c if c.isprintable() else " " for c in x[:LONGEST]) for x in details.split("\n")
    ]
    place = "\n".join(line for line in lines if line.startswith(" "))
    if place not in _told:
        _told.add(place)
        LOG.debug("\n".join([f"{what} failed here:", *lines]))


def warn(text: str) -> None:
    """Say a sentence on stderr, whoever listens."""
    LOG.warning(text)


def show() -> None:
    """From now on details go to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOG.handlers = [handler]
    LOG.setLevel(logging.DEBUG)
    LOG.propagate = False
