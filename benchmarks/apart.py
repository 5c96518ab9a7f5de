"""How different the clients of every table's data are, in labels and in inputs.

    FEDKF_DATA=… python benchmarks/apart.py

What `fedkf partition` measures, kept in results/apart.json for the pages that say which algorithm
did well where. Needs the data; about two minutes.
"""

from __future__ import annotations

import json

from evidence.reading import APART, Evidence
from evidence.worlds import worlds

from fedkf.core.holdings import Partition
from fedkf.data.describe import describe
from fedkf.data.heterogeneity import measure
from fedkf.runs.setup import load_samples, make_data, settle


def main() -> None:
    evidence, found = Evidence(), {}
    for world in {world.data: world for world in worlds(evidence)}.values():
        config = world.settings[0].runs[0].config
        samples = load_samples(config, lambda _: None)
        data = make_data(settle(config, samples.source), samples.source)
        about = describe(data, measure(data, config.data.seed), None)
        inputs = about["differences"].get("inputs")
        found[world.data] = {
            "labels": about["differences"]["labels"],
            "inputs": inputs["score"] if inputs else None,
            "heterogeneity": round(Partition.read(about).heterogeneity, 4),
        }
        print(world.data, found[world.data], flush=True)
    (evidence.results / APART).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
