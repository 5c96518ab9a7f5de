"""What a run on a user's own data begins with: the same from Python and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from fedkf.runs import config as configuration
from fedkf.runs.data_keys import OWN_CLIENTS

OWN_SOURCES = ("npz", "folder", "table", "signals", "python")
OWN: dict[str, Any] = {
    "fidelity": "released",
    "data": {"clients": OWN_CLIENTS},
    "federation": {
        "rounds": 50,
        "fraction": 1.0,
        "local_epochs": 4,
        "batch_size": 32,
        "lr": 0.03,
    },
    "generator": {"preset": "lite"},
}
"""Sites are few and all take part; nobody stands in for others with untrained weights."""


def is_own(source: Any) -> bool:
    """Whether a source is the user's own: files, or objects of a program."""
    return isinstance(source, str) and (source in OWN_SOURCES or ":" in source)


def chosen(config: str | Path | None, overrides: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """What a configuration says before anything is overridden, and a short name for it.

    Without one it is the preset `digits`, or what suits data of the user's own; a run on that is
    named after the data.
    """
    source = overrides.get("data.source")
    if config is not None or not is_own(source):
        return configuration.read(config)
    content = deepcopy(OWN)
    content["data"]["source"] = source
    path = overrides.get("data.path")
    named = path if isinstance(path, str) else str(source).partition(":")[2] or str(source)
    return content, Path(named).stem or str(source)
