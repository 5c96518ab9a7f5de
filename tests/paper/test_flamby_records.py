"""The committed table of FLamby's protocol is what the committed records say."""

from __future__ import annotations

from pathlib import Path

from fedkf.paper.flamby import SCALES, flamby_plans, tables
from fedkf.paper.scales import choose
from fedkf.runs.collect import gather
from fedkf.runs.existing import existing_runs

RESULTS = Path(__file__).parents[2] / "results" / "flamby"


def test_the_table_follows_from_the_records() -> None:
    scale = choose("paper", scales=SCALES)
    plans = flamby_plans(scale)
    runs = existing_runs(plans, [RESULTS])
    assert len(runs) == len(plans) == 80
    (table,) = tables(gather(plans, runs), scale)
    text = (RESULTS / "README.md").read_text()
    for part in table.groups():
        rows = [line for line in part.markdown().splitlines() if line.startswith("|")]
        assert "\n".join(rows) in text
