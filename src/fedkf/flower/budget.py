"""What a site's experiments have told of any one of its samples, and when it is enough."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from fedkf.core.errors import UserError
from fedkf.core.payload import write_atomically
from fedkf.core.privacy import Mechanism
from fedkf.data.reading import OPEN
from fedkf.flower.evidence import KEY, Witness, behind, completed, summary
from fedkf.flower.logs import SENT
from fedkf.flower.orders import locked
from fedkf.flower.private import private
from fedkf.flower.settings import SiteRefusal
from fedkf.runs.accounting import Turns, epsilon
from fedkf.runs.data_keys import Positive, Section

if TYPE_CHECKING:
    from fedkf.runs.schema import Config

FILE = "privacy.json"
MOST_PROMISES = 1000
"""Experiments whose promises a site keeps; every line of sent.jsonl tells them all."""
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
"""What a file that was damaged may end in."""
READING = (
    *("task", "class_names", "target", "positive", "site", "columns", "categorical", "categories"),
    *("missing", "indicators", "missing_values", "window", "stride", "unit", "ignore", "decimal"),
    *("train_fraction", "seed", "split", "split_by"),
)
"""The keys of data by which numbers of samples, and whether they can be read, tell of samples."""


class SiteBudget(Section):
    """What all experiments together may tell; the coordinator has no say in it."""

    epsilon: Positive = Field(description="ε that the site's turns never exceed, in its whole life")
    delta: Annotated[float, Field(gt=0, lt=1)] = Field(1e-5, description="δ that it holds with")
    unit: str | None = Field(None, description="the data.unit that experiments must protect")


@dataclass(frozen=True)
class Limit:
    """An ε that turns may not exceed; those of one experiment, or of all."""

    epsilon: float
    delta: float
    experiment: str | None = None

    def words(self) -> str:
        of = "its site file" if self.experiment is None else "the experiment"
        return f"the budget of {of}, ε = {self.epsilon:g} with δ = {self.delta:g}"


@dataclass(frozen=True)
class Terms:
    """What an experiment promises a site, and how it reads the site's samples."""

    experiment: str
    epsilon: float
    """Infinite if it promises none."""
    delta: float
    reading: str

    @staticmethod
    def of(config: Config, experiment: str) -> Terms:
        asked, data = config.privacy, config.data.model_dump(mode="json", include={*READING})
        data["class_names"] = data["class_names"] or []  # none, until a coordinator has settled it
        if not data["ignore"]:  # so that what sites agreed to before there was such a key holds
            del data["ignore"]
        if data["decimal"] == OPEN:
            del data["decimal"]
        digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
        promised = math.inf if asked.epsilon is None else asked.epsilon
        return Terms(experiment, promised, asked.delta, digest)


def account(found: Any) -> dict[str, Any]:
    """A whole account of what a file holds; a list is that of turns."""
    found = {"turns": found} if isinstance(found, list) else found
    return {"reading": None, "promises": {}, **found}


class SiteAccounts:
    """SITE/privacy.json: every private turn, written before it begins, and what was agreed to.

    A turn is paid for even if a crash ends it: nobody can tell who has seen what of it. A record
    that cannot be read allows nothing, and neither does one that tells less than the site's answers
    on record do: it was deleted, cut, changed, or is an old copy.
    """

    def __init__(self, file: Path, witness: Witness = lambda: None) -> None:
        self.file, self.witness = file, witness

    def turns(self, experiment: str | None = None) -> list[Mechanism]:
        """The mechanisms of all turns, or of those of one experiment."""
        with self._reading():
            found = [
                Mechanism(float(e["noise"]), float(e["rate"]), int(e["steps"]))
                for e in self._content()["turns"]
                if experiment in (None, e["experiment"])
            ]
            if any(m.noise <= 0 or not 0 < m.rate <= 1 or m.steps < 0 for m in found):
                raise ValueError("no turn is like that")
        return found

    def epsilon(
        self, delta: float, experiment: str | None = None, more: tuple[Mechanism, ...] = ()
    ) -> float:
        """What was spent, or will be after more turns."""
        all_ = [*self.turns(experiment), *more]
        counted: Turns = tuple((m, all_.count(m)) for m in dict.fromkeys(all_))
        return epsilon(counted, delta)

    def check(self, terms: Terms) -> None:
        """Refuse terms that are worse than what was agreed to, before any sample is read."""
        with self._reading():
            content = self._content()
            epsilon, delta = map(float, content["promises"].get(terms.experiment, (math.inf, 1)))
            reading = content["reading"]
            known = terms.experiment in content["promises"] or math.isinf(terms.epsilon)
            full = len(content["promises"]) >= MOST_PROMISES
        if full and not known:
            raise SiteRefusal(
                f"it keeps the promises of {MOST_PROMISES} experiments and takes no more; its "
                f"operator takes those of ended ones out of {FILE}, puts {SENT} aside and vouches "
                "for what is left (fedkf site recover)"
            )
        if reading not in (None, terms.reading):
            raise SiteRefusal(
                "under privacy its samples were read by other data keys before, and each way to "
                "read them tells of them; its operator allows another by taking the line "
                f'"reading" out of {FILE}'
            )
        for name, asked, kept in (("ε", terms.epsilon, epsilon), ("δ", terms.delta, delta)):
            if not asked <= kept:
                raise SiteRefusal(f"the experiment promised {name} = {kept:g} before, not more")

    @private()
    def agree(self, terms: Terms) -> None:
        """Remember terms that were accepted; later ones may only be better."""
        with locked(self.file):
            self.check(terms)
            content = self._content()
            promises = dict(content["promises"])
            if math.isfinite(terms.epsilon):
                promises[terms.experiment] = [terms.epsilon, terms.delta]
            agreed = {**content, "reading": terms.reading, "promises": promises}
            if agreed != content:
                self._write(agreed)

    @private()
    def charge(self, experiment: str, mechanism: Mechanism, limits: list[Limit]) -> None:
        """Pay for a turn, or refuse it."""
        with locked(self.file):
            for limit in limits:
                after = self.epsilon(limit.delta, limit.experiment, (mechanism,))
                if not after <= limit.epsilon:  # whatever is no number is refused, too
                    raise SiteRefusal(f"another turn would exceed {limit.words()}")
            content = self._content()
            content["turns"].append({"experiment": experiment, **asdict(mechanism)})
            self._write(content)

    def told(self) -> dict[str, Any]:
        """What the next answer on record says of the account: never less than the last one."""
        before = self.witness()
        try:
            content = self._content()
            return {KEY: summary(content)} if self.file.exists() else {}
        except (SiteRefusal, *UNREADABLE):
            return {} if before is None else {KEY: before}

    @private()
    def recover(self) -> dict[str, Any]:
        """Complete the account by what is on record; where there is no record, as it is."""
        with locked(self.file):
            told = self.witness()
            try:
                content = self._held()
                lost = not self.file.exists()
            except UNREADABLE:
                content, lost = account([]), True
            if lost and (told is None or told.get("lost")):
                raise UserError(
                    f"nothing here tells what was spent; put {FILE} or {SENT} back (a {FILE} of "
                    '{"turns": []} says that nothing ever was)'
                )
            if told is not None and not told.get("lost"):
                content = completed(content, told)
                content["reading"] = told["reading"] if lost else content["reading"]
            self._write(content)
        return {KEY: summary(content)}

    def _content(self) -> dict[str, Any]:
        """What the file holds, if it is no less than what is on record."""
        content, told = self._held(), self.witness()
        if told is not None and told.get("lost"):
            raise SiteRefusal(
                f"{SENT}, which tells what was spent, is gone or changed; its operator puts it "
                f"back, or vouches for {FILE} (fedkf site recover)"
            )
        if told is not None and (not self.file.exists() or behind(content, told)):
            raise SiteRefusal(
                f"{FILE} is gone or tells of less than {SENT}; its operator puts the newest copy "
                f"back, or has it completed from {SENT} (fedkf site recover)"
            )
        return content

    def _held(self) -> dict[str, Any]:
        """What the file holds."""
        return account(json.loads(self.file.read_bytes()) if self.file.exists() else [])

    def _write(self, content: dict[str, Any]) -> None:
        write_atomically(self.file, (json.dumps(content, indent=1) + "\n").encode())

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Whatever cannot be made sense of is a refusal, and said here."""
        try:
            yield
        except UNREADABLE as error:
            print(f"fedkf site: {self.file} cannot be read: {error}", file=sys.stderr)
            raise SiteRefusal("its record of what was spent cannot be read") from None
