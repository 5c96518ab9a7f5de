"""The algorithm that CONTRIBUTING.md shows is run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Settings

import fedkf

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()


def test_the_shown_algorithm_is_short_complete_and_does_what_it_says(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(source.splitlines()) < 30
    (tmp_path / "fedmedian.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = "fedmedian:FedMedian"
    whole = fedkf.run(settings, algorithm=name, rounds=1, fraction=1.0, workers=2)
    half = fedkf.run(settings, algorithm=name, rounds=1, fraction=1.0, step=0.5)
    mean = fedkf.run(settings, algorithm="fedavg", rounds=1, fraction=1.0)
    start = fedkf.run(settings, algorithm=name, rounds=1, fraction=1.0, step=1e-9).weights["aca"]
    for key, median in whole.weights["aca"].items():
        assert half.weights["aca"][key].numpy() == pytest.approx(
            (start[key] + median).numpy() / 2, abs=1e-5
        )
    assert set(whole.weights) == {"aca", "oca"}
    assert (whole.weights["aca"]["linear2.bias"] != mean.weights["aca"]["linear2.bias"]).any()
    with pytest.raises(fedkf.UserError, match=r"algorithm\.step is 2\.0"):
        fedkf.run(settings, algorithm=name, step=2)
