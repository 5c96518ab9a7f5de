"""What a site's experiments have told of any one of its samples, and when it is enough."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fedkf.core.payload import write_atomically
from fedkf.core.privacy import Mechanism
from fedkf.flower.orders import locked
from fedkf.flower.private import private
from fedkf.flower.settings import SiteRefusal
from fedkf.runs.accounting import Turns, epsilon
from fedkf.runs.data_keys import Positive, Section

FILE = "privacy.json"


class SiteBudget(Section):
    """What all experiments together may tell; the coordinator has no say in it."""

    epsilon: Positive = Field(description="ε that the site's turns never exceed, in its whole life")
    delta: Annotated[float, Field(gt=0, lt=1)] = Field(1e-5, description="δ that it holds with")


@dataclass(frozen=True)
class Limit:
    """An ε that turns may not exceed; those of one experiment, or of all."""

    epsilon: float
    delta: float
    experiment: str | None = None

    def words(self) -> str:
        of = "its site file" if self.experiment is None else "the experiment"
        return f"the budget of {of}, ε = {self.epsilon:g} with δ = {self.delta:g}"


class SiteAccounts:
    """SITE/privacy.json: every private turn, written before it begins.

    A turn is paid for even if a crash ends it: nobody can tell who has seen what of it. A record
    that cannot be read allows nothing.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def turns(self, experiment: str | None = None) -> list[Mechanism]:
        """The mechanisms of all turns, or of those of one experiment."""
        if not self.file.exists():
            return []
        try:
            entries = json.loads(self.file.read_bytes())
            found = [
                Mechanism(float(e["noise"]), float(e["rate"]), int(e["steps"]))
                for e in entries
                if experiment in (None, e["experiment"])
            ]
            if any(m.noise <= 0 or not 0 < m.rate <= 1 or m.steps < 0 for m in found):
                raise ValueError("no turn is like that")
        except (ValueError, KeyError, TypeError) as error:
            print(f"fedkf site: {self.file} cannot be read: {error}", file=sys.stderr)
            raise SiteRefusal("its record of what was spent cannot be read") from None
        return found

    def epsilon(
        self, delta: float, experiment: str | None = None, more: tuple[Mechanism, ...] = ()
    ) -> float:
        """What was spent, or will be after more turns."""
        all_ = [*self.turns(experiment), *more]
        counted: Turns = tuple((m, all_.count(m)) for m in dict.fromkeys(all_))
        return epsilon(counted, delta)

    @private()
    def charge(self, experiment: str, mechanism: Mechanism, limits: list[Limit]) -> None:
        """Pay for a turn, or refuse it."""
        with locked(self.file):
            for limit in limits:
                after = self.epsilon(limit.delta, limit.experiment, (mechanism,))
                if not after <= limit.epsilon:  # whatever is no number is refused, too
                    raise SiteRefusal(f"another turn would exceed {limit.words()}")
            entries = json.loads(self.file.read_bytes()) if self.file.exists() else []
            entries.append({"experiment": experiment, **asdict(mechanism)})
            write_atomically(self.file, (json.dumps(entries, indent=1) + "\n").encode())
