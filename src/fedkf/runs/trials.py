"""Trials: what a search found so far, as search.json tells it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import write_atomically
from fedkf.core.shapes import (
    Damage,
    finite,
    many,
    mapping,
    maybe,
    named,
    read_record,
    take,
    text,
    whole,
)
from fedkf.runs.space import Search, Study
from fedkf.runs.store import RunFolder
from fedkf.runs.suite import SEEDS, comparable

FILE = "search.json"


@dataclass(frozen=True)
class Trial:
    """One setting, and what it was worth."""

    number: int
    parameters: Mapping[str, Any]
    value: float | None = None
    """The mean of the objective over the search's seeds; None where the setting failed."""
    failed: str = ""
    readouts: Sequence[Mapping[str, Mapping[str, float | None]]] = field(default_factory=list)
    """Every metric of every readout after the last round, seed by seed."""
    seconds: float = 0.0

    @staticmethod
    def read(content: object) -> Trial:
        return read_record(
            Trial,
            content,
            number=whole,
            parameters=mapping,
            value=maybe(finite),
            failed=text,
            readouts=many(named(named(maybe(finite)))),
            seconds=finite,
        )


def best(search: Search, trials: Sequence[Trial]) -> Trial | None:
    """The trial with the best value, the first of several; None where all failed."""
    sign = 1 if search.higher_is_better else -1
    known = [(sign * t.value, -t.number, t) for t in trials if t.value is not None]
    return max(known, key=lambda item: item[:2])[2] if known else None


def question(search: Search, study: Study) -> dict[str, Any]:
    """What a study's trials answer; those of another question do not count."""
    own = study.plans[0].config
    return {
        "algorithm": study.algorithm,
        "space": {key: axis.as_json() for key, axis in study.space.items()},
        "objective": {"metric": search.metric, "readout": search.readout},
        "seeds": list(search.seeds),
        "rounds": search.rounds or own.federation.rounds,
        "settings": {
            key: value
            for key, value in comparable(own).items()
            if key not in (*SEEDS, "federation.rounds")
        },
    }


def write_trials(place: Path, search: Search, found: Mapping[str, Sequence[Trial]]) -> None:
    """search.json: for each study its question, every trial and which is the best.

    Studies in it that the suite has no longer stay.
    """
    from optuna import __version__

    studies = read_studies(place)
    for study in search.studies:
        winner = best(search, found[study.name])
        studies[study.name] = {
            **question(search, study),
            "best": winner.number if winner else None,
            "trials": [asdict(trial) for trial in found[study.name]],
        }
    about = {"trials": search.trials, "sampler": f"Optuna {__version__}, TPE", "studies": studies}
    place.mkdir(parents=True, exist_ok=True)
    write_atomically(place / FILE, (json.dumps(about, indent=1) + "\n").encode())


def read_studies(place: Path) -> dict[str, dict[str, Any]]:
    """What a folder's search.json holds of each study, as it stands there."""
    if not (place / FILE).exists():
        return {}
    return RunFolder(place).read_record(FILE, lambda c: take(mapping(c), "studies", named(mapping)))


def read_trials(places: Sequence[Path], search: Search) -> dict[str, list[Trial]]:
    """The trials that ended, of the first search.json there is; one of another search is refused.

    The number of trials may grow, and studies may be added.
    """
    found: dict[str, list[Trial]] = {study.name: [] for study in search.studies}
    place = next((place for place in places if (place / FILE).exists()), None)
    if place is None:
        return found
    content = RunFolder(place).read_record(
        FILE, lambda c: take(mapping(c), "studies", named(mapping))
    )
    for study in search.studies:
        if study.name not in content:
            continue
        asked = json.loads(json.dumps(question(search, study)))
        for key, value in asked.items():
            if content[study.name].get(key) != value:
                raise UserError(
                    f"{place / FILE} records a search with another `{key}` for {study.name}; "
                    "take another folder, or remove that file to search anew"
                )
        try:
            trials = take(content[study.name], "trials", many(Trial.read))
        except Damage as error:
            raise FedkfError(f"{place / FILE} is damaged: {study.name}: {error}") from None
        if len(trials) > search.budget(study):
            raise UserError(
                f"search.trials is {search.trials}, but {place / FILE} holds {len(trials)} of "
                f"{study.name}; it may only grow"
            )
        found[study.name] = trials
    return found
