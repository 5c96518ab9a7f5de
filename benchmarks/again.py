"""Whether records repeat: some are trained again by the program as it is now.

    FEDKF_DATA=… python benchmarks/again.py [--number N] [--minutes M] [--seed S] [--anew]

Draws N records by lot among those that took at most M minutes of a core, whatever version of the
program made them, trains each from its own config.yaml and holds the accuracy of every client
after every round against the record. results/again.json keeps what was found; what is in there is
not trained once more, unless `--anew` says so.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from evidence.reading import REPEATED, Evidence

from fedkf.core.payload import write_atomically
from fedkf.core.records import Round
from fedkf.runs.collect import READOUTS
from fedkf.runs.experiment import execute
from fedkf.runs.suite import Finished


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=12)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the lot")
    parser.add_argument("--anew", action="store_true", help="also what was trained again before")
    given = parser.parse_args()
    evidence = Evidence()
    file = evidence.results / REPEATED
    for name, run in drawn(evidence, given.number, given.minutes, given.seed).items():
        found = evidence.again()
        if name in found and not given.anew:
            continue
        with tempfile.TemporaryDirectory() as folder:
            execute(run.config, Path(folder) / "run")
            fresh = Finished(Path(folder) / "run", run.config)
            found[name] = {"by": fresh.revision, "of": run.revision, **compared(run, fresh)}
        text = json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False) + "\n"
        write_atomically(file, text.encode())
        print(name, found[name], flush=True)


def drawn(evidence: Evidence, number: int, minutes: float, seed: int) -> dict[str, Finished]:
    """Records by lot; a larger number begins with the same ones."""
    known = {
        f"{folder}/{name}": run
        for folder in evidence.folders()
        for name, run in evidence.records(folder).items()
        if run.summary.seconds["total"] <= 60 * minutes
    }
    names = sorted(known)
    random.Random(seed).shuffle(names)
    return {name: known[name] for name in names[:number]}


def compared(record: Finished, fresh: Finished) -> dict[str, Any]:
    """In how many first rounds every client's accuracy is the same, and by how much AMP differs."""
    pairs = list(zip(map(scored, record.rounds), map(scored, fresh.rounds), strict=True))
    same = next((k for k, (old, new) in enumerate(pairs) if old != new), len(pairs))
    moved = {}
    for readout in READOUTS:
        ends = [run.final(readout) for run in (record, fresh)]
        old, new = (end["amp"] if end else None for end in ends)
        if old is not None and new is not None:
            moved[readout] = round(new - old, 6)
    return {"rounds": len(pairs), "same": same, "amp": moved}


def scored(one: Round) -> dict[str, Any] | None:
    """What a round tells of every client under each readout."""
    if one.readouts is None:
        return None
    return {
        name: (list(score.clients), list(score.performance))
        for name, score in one.readouts.items()
        if name in READOUTS
    }


if __name__ == "__main__":
    main()
