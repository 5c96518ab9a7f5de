"""With which changes to its configuration a run may be resumed."""

from __future__ import annotations

from fedkf.core.errors import UserError
from fedkf.data.reading import OPEN
from fedkf.runs.config import flatten
from fedkf.runs.schema import Config
from fedkf.runs.store import RunFolder

FREE_ON_RESUME = (
    "engine.name",
    "engine.workers",
    "engine.address",
    "federation.round_timeout",
    "output.",
)
"""Keys that have no influence on results, so that they may change when a run is resumed."""
LENGTH = ("federation.rounds", "federation.patience")
"""Keys that say when a run ends, which may change then, too."""
SETTLED = (
    *("data.mean", "data.std", "data.class_names", "data.partition", "data.clients"),
    *("data.split", "data.scaling", "data.columns", "data.categories", "data.indicators"),
    "data.decimal",
    *("data.target_mean", "data.target_std", "privacy.turns"),
)
"""Keys that may be left open until the data is known."""


def refuse_changes(old: Config, new: Config, done: int, settled: bool = True) -> None:
    """A run is resumed with the configuration it began with, but for a few free keys.

    It may have more rounds than it was to have, or fewer, but not fewer than are `done`.
    """
    if new.federation.rounds < done:
        raise UserError(
            f"federation.rounds is {new.federation.rounds} but the run has done {done} rounds; "
            "what is done stays"
        )
    if old.federation.schedule != "constant" and new.federation.rounds != old.federation.rounds:
        raise UserError(
            f"federation.rounds is {new.federation.rounds} but the run began with "
            f"{old.federation.rounds}, which its learning rate's schedule depends on"
        )
    before, after = flatten(old), flatten(new)
    for key in sorted(before.keys() | after.keys(), key=lambda k: (k != "algorithm.name", k)):
        was, now = before.get(key), after.get(key)
        open_ = not settled and (key in SETTLED or key == "generator.name")
        open_ &= key != "privacy.turns" or now is None
        open_ |= key == "data.decimal" and was == OPEN  # as in runs older than this key
        if was != now and not open_ and not key.startswith(FREE_ON_RESUME + LENGTH):
            raise UserError(
                f"{key} is {now!r} but the run began with {was!r}; "
                "resume it with its own configuration or choose another folder"
            )


def refuse_lost(run: RunFolder) -> None:
    """Refuse to go on with a finished run from which the checkpoint was removed."""
    if run.finished() and not run.manifest.exists():
        raise UserError(
            f"the run in {run.path} is finished and its checkpoint is gone, so that it cannot go "
            "on; choose another folder for more rounds"
        )
