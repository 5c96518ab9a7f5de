"""What settings mean for a table: codes for what is missing, and what does nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_foreign_tables import patients, rows, told

from fedkf.core.errors import UserError
from fedkf.runs.config import resolve
from fedkf.runs.data_keys import OWN_CLIENTS
from fedkf.runs.setup import load_samples


@pytest.mark.parametrize(("crp", "divider"), [("{}.0", ","), ("{},0", ";"), ("{}", ",")])
def test_a_code_for_what_is_missing_is_one_number_however_it_is_written(
    tmp_path: Path, crp: str, divider: str
) -> None:
    path = patients(tmp_path / "t.csv", crp, divider)
    codes = ["", "9", "16", "999"]
    source, said = told(path, missing_values=codes)
    assert np.flatnonzero(np.isnan(source.inputs[:, 0])).tolist() == [3, 4]
    assert "data.missing_values: '999' is in no column" in said
    again, said = told(path, missing_values=["", "9.0", "1.6e1"])
    np.testing.assert_array_equal(again.inputs, source.inputs)
    assert not [text for text in said if "missing_values" in text]


def test_a_code_is_no_word_and_no_site(tmp_path: Path) -> None:
    lines = [f"{'1' if k < 10 else '01'},{'ab9'[k % 3]}.0,{k},{'ny'[k % 2]}" for k in range(20)]
    path = rows(tmp_path / "t.csv", "site,kind,x,ill", *lines)
    source, _ = told(path, missing_values=["", "01.0", "9"])
    assert source.owner_names == ["01", "1"]
    assert source.layout is not None
    assert source.layout.categories == {"kind": ["9.0", "a.0", "b.0"]}


def test_settings_that_do_nothing_for_a_table_are_told(tmp_path: Path) -> None:
    path = patients(tmp_path / "t.csv")
    _, said = told(path, task="regression", positive="1", window=4, image_size=8)
    assert said[-3:] == [
        "data.image_size is for images; there are none, and it does nothing",
        "data.window and data.stride are for recordings; here they do nothing",
        "data.positive is for classes and events; data.task is regression, and it does nothing",
    ]
    assert not [text for text in told(path)[1] if "does nothing" in text or "do nothing" in text]


def test_a_number_of_clients_that_sites_leave_without_effect_is_told(tmp_path: Path) -> None:
    path = patients(tmp_path / "t.csv")
    about = {"source": "table", "path": str(path), "site": "site", "target": "ill"}

    def heard(**more: object) -> list[str]:
        said: list[str] = []
        load_samples(resolve({"data": {**about, **more}}), said.append)
        return [text for text in said if "clients" in text]

    note = "but the data's own {} sites are the clients; data.partition divides all samples anew"
    assert heard(clients=3) == [f"data.clients is 3, {note.format(2)}"]
    assert (
        heard()
        == heard(clients=2)
        == heard(clients=OWN_CLIENTS)
        == heard(clients=3, partition="iid")
        == []
    )


def test_a_number_among_inputs_that_must_be_a_mistake_is_refused(tmp_path: Path) -> None:
    path = patients(tmp_path / "t.csv")
    path.write_text(path.read_text().replace("north,81.5,", "north,1e30,"))
    wrong = r"the column 'crp' is '1e30' in t\.csv, line 11, which is absurdly large beside the"
    with pytest.raises(UserError, match=wrong):
        told(path)
    source, _ = told(path, missing_values=["1e30"])
    assert np.isnan(source.inputs[:, 0]).sum() == 1


def test_small_numbers_may_differ_by_much(tmp_path: Path) -> None:
    path = patients(tmp_path / "t.csv", "{}e-30")
    path.write_text(path.read_text().replace(",81e-30,", ",0.9,"))
    assert told(path)[0].inputs[:, 0].max() == np.float32(0.9)
