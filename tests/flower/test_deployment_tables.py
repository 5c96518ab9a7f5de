"""Three sites with tables as real processes: the scale is agreed on over the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import model_bytes
from lab import NAMES, Lab, at_work

pytestmark = [
    pytest.mark.deployment,
    pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc"),
]

KIND = "input_statistics"
STUDY = {
    "data": {
        "source": "table",
        "target": "ill",
        "class_names": ["no", "yes"],
        "columns": ["age", "dose"],
        "categories": {},
        "indicators": [],
    },
    "model": {"name": "mlp"},
    "algorithm": {"name": "fedavg"},
    "federation": {
        **{"rounds": 2, "fraction": 1.0, "local_epochs": 1, "batch_size": 8, "lr": 0.1},
        "round_timeout": 200,
    },
}


class TableLab(Lab):
    def site(self, name: str, certificate: str = "coordinator/ca.crt") -> None:
        """A site with a table of its own, which it agrees to sum up."""
        super().site(name, certificate)
        random = np.random.default_rng(NAMES.index(name))
        lines = ["age,dose,ill"]
        for age, dose in random.normal((50, 3e4), (12, 5e3), (30, 2)):
            lines.append(f"{age:.2f},{dose:.1f},{'yes' if age > 50 else 'no'}")
        (self / f"{name}.csv").write_text("\n".join(lines) + "\n")
        file = self / name / "site.yaml"
        text = re.sub(r"source: npz", "source: table", file.read_text())
        text = text.replace(f"{name}.npz", f"{name}.csv")
        file.write_text(re.sub(r"share: \[\]", f"share: [{KIND}]", text))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with at_work(TableLab(tmp_path), STUDY) as lab:
        yield lab


def test_they_agree_once_and_a_longer_run_goes_on_with_the_same_scale(lab: Lab) -> None:
    lab.run("whole")
    lab.run("short", "--set", "federation.rounds=1")
    lab.run("short", "--resume")
    assert model_bytes(lab / "short") == model_bytes(lab / "whole")
    ledger = json.loads((lab / "whole" / "ledger.json").read_text())
    assert ledger["training"]["up"][KIND] == 3 * 2 * 8 * len(NAMES)
    for name in NAMES:
        lines = (lab / name / "sent.jsonl").read_text().splitlines()
        told = [line for line in map(json.loads, lines) if line.get("step") == KIND]
        assert [line["kinds"] for line in told] == [{KIND: 3 * 2 * 8}] * 2  # once for each run
    done = lab.fedkf("site", "check", "north", "study.yaml")
    assert KIND in done.stdout + done.stderr
