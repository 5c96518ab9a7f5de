"""Recordings and plain arrays at sites: what is scaled is agreed on there, too."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from clinics import SHARED, SIZES, TRAINING, Clinics, written

from fedkf.core.errors import FedkfError
from fedkf.data.scaling import KIND


def test_recordings_at_sites_are_cut_into_windows_and_scaled_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, sites = np.random.default_rng(2), {}
    for name in SIZES:
        (tmp_path / f"{name}-recordings").mkdir()
        for k in range(6):
            rows = random.normal((5 + k % 2, 900), (1, 80), (40, 2))
            lines = [f"{b:.1f},{'rest' if k % 2 else 'walk'},{a:.3f}" for a, b in rows]
            file = tmp_path / f"{name}-recordings" / f"{k}.csv"
            file.write_text("\n".join(["pulse,state,speed", *lines]) + "\n")
        data = {"source": "signals", "path": str(tmp_path / f"{name}-recordings")}
        sites[name] = {"data": data, **SHARED}
    keys = {"columns": ["speed", "pulse"], "window": 10, "target": "state"}
    asked = {"source": "signals", "class_names": ["rest", "walk"], **keys}
    config = {**TRAINING, "data": asked, "model": {"name": "cnn1d"}}
    Clinics(tmp_path, sites, monkeypatch).run(config)
    mean = written(tmp_path / "run").mean
    assert mean == pytest.approx([5.5, 900], rel=0.05)
    assert json.loads((tmp_path / "run" / "partition.json").read_text())["shape"] == [2, 10]


def test_targets_of_plain_arrays_are_agreed_on_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, sites = np.random.default_rng(3), {}
    for name, size in SIZES.items():
        inputs = random.normal(size=(size, 3))
        np.savez(tmp_path / f"{name}.npz", images=inputs, labels=1e4 + 50 * inputs[:, 0])
        data = {"source": "npz", "path": str(tmp_path / f"{name}.npz")}
        sites[name] = {"data": data, **SHARED}
    clinics = Clinics(tmp_path, sites, monkeypatch)
    clinics.run({**TRAINING, "data": {"task": "regression"}})
    found = written(tmp_path / "run")
    assert (found.mean, found.scaling) == ([0.0], None)
    assert found.target_mean == pytest.approx(1e4, rel=0.01)
    told = [line for line in clinics.sent("north") if line.get("step") == KIND]
    assert [line["kinds"] for line in told] == [{KIND: 3 * 8}]
    # In their own unit they make training diverge, for which nobody waits until the round's time.
    plain = {**TRAINING, "data": {"task": "regression", "scaling": "none"}}
    with pytest.raises(FedkfError, match="round 1 has 0 usable uploads of 3"):
        clinics.run(plain, "plain")
    assert written(tmp_path / "plain").target_mean is None
