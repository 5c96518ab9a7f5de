"""What a round of FedAvg and of FedKF's variants takes on the data of every table.

    FEDKF_DATA=… python benchmarks/paces.py [KIND …] [--turns N]

Every method trains a few rounds of its recorded configuration, one after the other, one worker a
core; results/paces.json keeps the medians, of which the tables of costs are made. Needs the data
and an idle machine; about a quarter of an hour. A KIND is a title such as heart or "photographs,
ResNet-8"; without any, all are measured but letters, where `fedkf reproduce time-to-target` does.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from evidence.reading import LETTERS, PACES, Evidence
from evidence.worlds import FAMILY, World, worlds

from fedkf.core.payload import write_atomically
from fedkf.paper.analyses import CURVES_ALPHA
from fedkf.paper.grid import ROW
from fedkf.paper.pace import measure
from fedkf.runs.suite import Plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--turns", type=int, default=2, help="how often each method has its turn")
    given = parser.parse_args()
    evidence = Evidence()
    known = {w.paced: w for w in worlds(evidence) if w.alpha in (None, CURVES_ALPHA)}
    known.pop(LETTERS, None)
    if strange := [kind for kind in given.kinds if kind not in known]:
        sys.exit(f"not measured: {', '.join(strange)}; there are {'; '.join(known)}")
    for kind, world in known.items():
        if not given.kinds or kind in given.kinds:
            found = evidence.paces() | {kind: paced(world, given.turns)}
            text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
            write_atomically(evidence.results / PACES, text.encode())
            print(kind, found[kind], flush=True)


def paced(world: World, turns: int) -> dict[str, object]:
    """Seconds of a round by algorithm, and under what conditions."""
    settings = {name: one for name in ("fedavg", *FAMILY) if (one := world.method(name))}
    plans = [
        Plan(name, {"config": world.paced, ROW: name}, one.runs[0].config)
        for name, one in settings.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        pace = measure(plans, Path(folder), lambda text: print(text, file=sys.stderr), turns)
    seconds = {name: round(value, 4) for (_, name), value in pace.seconds.items()}
    return {"load": round(pace.load, 2), "workers": pace.workers, "seconds": seconds}


if __name__ == "__main__":
    main()
