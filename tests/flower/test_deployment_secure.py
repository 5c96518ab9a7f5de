"""Three sites over TLS whose coordinator sees sums only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import NAMES, Lab, at_work

pytestmark = [
    pytest.mark.deployment,
    pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc"),
]

STUDY = {
    "data": {"class_names": [str(k) for k in range(10)], "image_size": 16},
    "algorithm": {"name": "fedkf"},
    "federation": {"rounds": 1, "fraction": 1.0, "local_epochs": 1, "lr": 0.05},
    "transport": {"secure": True},
    "generator": {"width": 4, "noise": 8},
}
HIDDEN = {"public_keys", "sealed_shares", "masked_weights", "mask_shares"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with at_work(Lab(tmp_path_factory.mktemp("lab")), STUDY) as lab:
        yield lab


def test_sites_that_insist_on_secure_sums_send_no_model(lab: Lab) -> None:
    for name in NAMES:
        file = lab / name / "site.yaml"
        file.write_text(file.read_text().replace("secure: false", "secure: true"))
    lab.run("secure", "--quiet")
    (record,) = map(json.loads, (lab / "secure" / "rounds.jsonl").read_text().splitlines())
    assert record["active"] == [0, 1, 2]
    assert record["refused"] == []
    assert record["readouts"]["oca"]["clients"] == [0, 1, 2]
    ledger = json.loads((lab / "secure" / "ledger.json").read_text())
    assert set(ledger["training"]["up"]) == {*HIDDEN, "sizes"}
    for name in NAMES:
        lines = (lab / name / "sent.jsonl").read_text().splitlines()
        sent = {kind for line in lines for kind in json.loads(line)["kinds"]}
        assert sent == {*HIDDEN, "sizes", "shape", "monitoring"}
