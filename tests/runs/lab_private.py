"""What the tests of private runs share: settings."""

from __future__ import annotations

from typing import Any

from conftest import Settings

QUIET = {"name": "fedkf+", "beta": 0.0, "scarcity": 0.0, "warped": 0.0}
"""FedKF+ without the parts that look at samples beside the local loss."""


def with_keys(settings: Settings, **sections: dict[str, Any]) -> Settings:
    return {**settings, **{name: {**settings.get(name, {}), **v} for name, v in sections.items()}}


def made_private(settings: Settings) -> Settings:
    """Small settings under privacy, with a cheap generator."""
    cheap: dict[str, Any] = {"preset": "lite", "width": 4, "batch_size": 4}
    return with_keys(
        settings, privacy={"epsilon": 8.0}, generator=cheap, federation={"local_epochs": 1}
    )
