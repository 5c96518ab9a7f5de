"""New rows of a table, and new signals: prepared as the run's own were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Outcome

import fedkf
from fedkf.core.errors import UserError
from fedkf.runs.config import resolve
from fedkf.runs.recipe import card_of
from fedkf.runs.trained import Trained, write_models

HEAD = "hospital,age,sex,pressure,stay,ill"


def table(seed: int, rows: int) -> list[str]:
    """Patients of three hospitals: a category, a number that is missing here and there."""
    random = np.random.default_rng(seed)
    found = []
    for k in range(rows):
        ill = k % 2
        age, stay = random.normal(50 + 20 * ill, 4), random.normal(3 + 2 * ill, 0.5)
        pressure = "" if k % 7 == 0 else f"{random.normal(120, 9):.1f}"
        site, sex = ("north", "south", "west")[k % 3], "fm"[int(random.integers(2))]
        found.append(f"{site},{age:.1f},{sex},{pressure},{stay:.2f},{'yes' if ill else 'no'}")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tables")
    (place / "all.csv").write_text("\n".join([HEAD, *table(0, 120)]))
    new = [line.split(",") for line in [HEAD, *table(1, 9)]]
    (place / "new.csv").write_text("\n".join(",".join(cells[1:4]) for cells in new))
    return place


def train(
    folder: Path, out: Path, rounds: int = 3, resume: bool = False, **data: Any
) -> fedkf.Result:
    about: dict[str, Any] = {"source": "table", "path": str(folder / "all.csv"), "site": "hospital"}
    about |= {"target": "ill", "columns": ["age", "sex", "pressure"], **data}
    more: dict[str, Any] = {"rounds": rounds, "resume": resume, "lr": 0.1, "workers": 0, "out": out}
    return fedkf.run({"data": about, "model": {"name": "mlp"}}, algorithm="fedavg", **more)


@pytest.fixture(scope="module")
def result(folder: Path) -> fedkf.Result:
    return train(folder, folder / "run")


def test_rows_are_prepared_as_in_training(result: fedkf.Result, folder: Path) -> None:
    places = np.load(result.folder / "split.npz")["test"]
    with torch.no_grad():
        raw = result.raw_models["oca"](result.data().test_images).softmax(1).max(1)
    names = [result.about["class_names"][k] for k in raw.indices.tolist()]
    found = result.predict(folder / "all.csv")
    assert [found[place][0] for place in places] == names
    assert [found[place][1] for place in places] == pytest.approx(raw.values.tolist(), abs=1e-5)


def test_a_code_for_what_is_missing_holds_for_new_rows(folder: Path, tmp_path: Path) -> None:
    coded = (folder / "all.csv").read_text().replace(",,", ",-9,")
    (folder / "coded.csv").write_text(coded)
    path, codes = str(folder / "coded.csv"), ["", "-9"]
    model = train(folder, tmp_path / "run", 1, path=path, missing_values=codes)
    row = {"age": 51.0, "sex": "f"}
    found = [model.predict([row | {"pressure": value}])[0] for value in (-9, -9.0, "-9.00", None)]
    assert found == [found[0]] * 4


def test_files_and_objects_tell_the_same(result: fedkf.Result, folder: Path) -> None:
    lines = (folder / "new.csv").read_text().splitlines()
    names = lines[0].split(",")
    rows: list[dict[str, Any]] = [
        dict(zip(names, line.split(","), strict=True)) for line in lines[1:]
    ]
    for row in rows:
        row["age"] = float(row["age"])
        row["pressure"] = float(row["pressure"]) if row["pressure"] else None
    model = fedkf.load(result.folder)
    wanted = model.predict(str(folder / "new.csv"))
    assert len({name for name, _ in wanted}) == 2
    assert model.predict(rows) == wanted
    assert model.predict({name: [row[name] for row in rows] for name in names}) == wanted
    assert model.predict(rows[3]) == [pytest.approx(wanted[3])]
    pandas = pytest.importorskip("pandas")
    assert model.predict(pandas.DataFrame(rows)) == wanted
    fedkf.export(result, folder / "home", ["safetensors"])
    assert fedkf.load(folder / "home").predict(rows) == wanted


def test_the_command_tells_each_row(
    result: fedkf.Result, folder: Path, cli: Callable[..., Outcome]
) -> None:
    run, new = str(result.folder), str(folder / "new.csv")
    found = json.loads(cli("predict", run, new, "--json").out)
    wanted = result.predict(new)
    assert [(row["class"], row["probability"]) for row in found] == wanted
    assert found[0] | {"file": "new.csv", "line": 2} == found[0]
    first = cli("predict", run, new).out.splitlines()[0]
    assert first == f"new.csv, line 2: {wanted[0][0]} ({100 * wanted[0][1]:.1f} %)"


def test_a_table_is_evaluated(
    result: fedkf.Result, folder: Path, cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    later = [HEAD, *table(5, 60)]
    (tmp_path / "later.csv").write_text("\n".join(later))
    (tmp_path / "pooled.csv").write_text("\n".join(line.split(",", 1)[1] for line in later))
    right = [
        name == line.rsplit(",", 1)[1]
        for (name, _), line in zip(result.predict(tmp_path / "later.csv"), later[1:], strict=True)
    ]
    found = result.evaluate(tmp_path / "later.csv")
    assert [c["name"] for c in found["clients"]] == ["north", "south", "west"]
    assert found["amp"] == pytest.approx(np.mean(right))
    told = cli("evaluate", str(result.folder), "--data", str(tmp_path / "pooled.csv"), "--json")
    one = json.loads(told.out)
    assert [c["name"] for c in one["clients"]] == ["pooled.csv"]
    assert one["amp"] == pytest.approx(np.mean(right))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("age,sex\n50,f\n", "has no column 'pressure', an input of the model"),
        ("age,sex,pressure\n50,x,120\n", "holds 'x' in new.csv, line 2, which is not in data.cat"),
        ("age,sex,pressure\nold,f,120\n", "holds numbers, but 'old' in new.csv, line 2"),
        ("age,sex,pressure\n", "holds no rows"),
    ],
)
def test_rows_of_another_kind_are_refused(
    result: fedkf.Result, tmp_path: Path, content: str, sentence: str
) -> None:
    (tmp_path / "new.csv").write_text(content)
    with pytest.raises(UserError, match=sentence) as caught:
        result.predict(tmp_path / "new.csv")
    assert "data.path" not in str(caught.value)
    with pytest.raises(UserError, match="no file"):
        result.predict(tmp_path / "absent.csv")


def test_what_a_run_cannot_know_of_new_rows_is_told(folder: Path, tmp_path: Path) -> None:
    by_site = train(folder, tmp_path / "site", scaling="site")
    with pytest.raises(UserError, match="scaled by its own mean and deviation"):
        by_site.predict(folder / "new.csv")
    assert by_site.evaluate(folder / "all.csv")["amp"] > 0.8  # as a site held out is judged
    unscaled = train(folder, tmp_path / "none", scaling="none")
    with pytest.raises(UserError, match=r"new\.csv, line 2 lacks a value; without data\.scaling"):
        unscaled.predict(folder / "new.csv")
    dropped = train(folder, tmp_path / "drop", missing="drop")
    with pytest.raises(UserError, match=r"2 of 9 rows lack a value, the first in new\.csv, line 2"):
        dropped.predict(folder / "new.csv")


def test_tensors_and_exports_are_refused_where_sites_scaled_themselves(
    folder: Path, tmp_path: Path
) -> None:
    by_site = train(folder, tmp_path / "site", scaling="site")
    x = torch.zeros(2, *by_site.data().shape)
    for use in (
        lambda: by_site.predict(x),
        lambda: by_site.models["oca"](x),
        lambda: by_site.evaluate({"new": (x.numpy(), np.array([0, 1]))}),
        lambda: fedkf.export(by_site, tmp_path / "home"),
        lambda: fedkf.load(by_site.folder).values(x),
    ):
        with pytest.raises(UserError, match=r"by its own mean .* evaluate judges a table of"):
            use()
    assert by_site.evaluate()["amp"] > 0.8  # on the run's own data


def test_a_personal_model_is_refused_where_sites_scaled_themselves(
    folder: Path, tmp_path: Path
) -> None:
    about = {"source": "table", "path": str(folder / "all.csv"), "site": "hospital"}
    about |= {"target": "ill", "scaling": "site"}
    settings = {"data": about, "evaluation": {"personal": "head"}, "model": {"name": "mlp"}}
    fedkf.run(settings, algorithm="fedavg", rounds=1, workers=0, out=tmp_path / "run")
    with pytest.raises(UserError, match="scaled by its own mean and deviation"):
        fedkf.personal_model(tmp_path / "run", "north")


def test_models_of_measured_inputs_without_columns_know_their_scaling(tmp_path: Path) -> None:
    """Such as those of a data set that comes as arrays, of which no file of rows is read."""
    config = resolve({"data": {"source": "icu", "scaling": "site"}})
    said = card_of(config, (7,))
    assert said == {"scaling": "site"}
    about = {"model": "mlp", "shape": [7], "class_names": ["a", "b"], "mean": None, "std": None}
    model, x, home = torch.nn.Linear(7, 2), torch.zeros(2, 7), tmp_path / "home"
    write_models(home, {"oca": model.state_dict()}, about | said)
    np.savez(tmp_path / "new.npz", images=x.numpy(), labels=np.array(["a", "b"]))
    for use in (
        lambda: Trained(model, about | said)(x),
        lambda: fedkf.evaluate(home, tmp_path / "new.npz", model=lambda: model),
    ):
        with pytest.raises(UserError, match=r"a run with federated scaling takes new ones$"):
            use()


def test_what_is_missing_in_an_array_is_filled_as_in_a_file(
    result: fedkf.Result, folder: Path, tmp_path: Path
) -> None:
    card, layout = result.about, result.about["reading"]["columns"]
    assert layout == ["age", "sex", "pressure"]
    lacks = torch.tensor(card["mean"])[None].repeat(2, 1)
    lacks[:, 0] = float("nan")
    whole = torch.tensor(card["mean"])[None].repeat(2, 1)
    assert result.predict(lacks) == result.predict(whole)
    with pytest.raises(UserError, match=r"of shape \[2, 2\]; give floats N×\["):
        result.predict(lacks[:, :2])
    fedkf.export(result, tmp_path / "home", ["torch"])
    program = torch.export.load(tmp_path / "home" / "oca.pt2").module()
    assert torch.equal(program(lacks), program(whole))
    unscaled = train(folder, tmp_path / "none", scaling="none")
    with pytest.raises(UserError, match=r"sample 0 lacks a value; without data\.scaling"):
        unscaled.predict(lacks)


def test_an_older_run_is_read_by_its_configuration(
    result: fedkf.Result, folder: Path, tmp_path: Path
) -> None:
    older = tmp_path / "older"
    shutil.copytree(result.folder, older)
    card = json.loads((older / "models" / "model.json").read_text())
    del card["reading"]
    (older / "models" / "model.json").write_text(json.dumps(card))
    assert fedkf.load(older).predict(folder / "new.csv") == result.predict(folder / "new.csv")
    with pytest.raises(UserError, match="does not say how the columns became its inputs"):
        fedkf.load(older / "models").predict(folder / "new.csv")
    with pytest.raises(UserError, match="does not say how the columns became its inputs"):
        fedkf.evaluate(older / "models", folder / "all.csv")


def test_a_number_is_told_as_one(folder: Path, tmp_path: Path, cli: Callable[..., Outcome]) -> None:
    result = train(folder, tmp_path / "run", target="stay", task="regression")
    found = json.loads(cli("predict", str(result.folder), str(folder / "new.csv"), "--json").out)
    values = fedkf.load(result.folder).values(folder / "new.csv").tolist()
    assert [row["value"] for row in found] == values
    line = cli("predict", str(result.folder), str(folder / "new.csv")).out.splitlines()[0]
    assert line == f"new.csv, line 2: {values[0]:.6g}"


def recording(place: Path, seed: int, labelled: bool = True) -> None:
    random = np.random.default_rng(seed)
    lines = ["time,x,y" + ",activity" * labelled]
    for at in range(160):
        walks = (at // 40) % 2
        x, y = random.normal(3 * walks, 0.3, 2)
        lines.append(f"{at},{x:.3f},{y:.3f}" + (",walk" if walks else ",sit") * labelled)
    place.write_text("\n".join(lines))


def test_signals_are_prepared_as_in_training(tmp_path: Path, cli: Callable[..., Outcome]) -> None:
    (tmp_path / "people").mkdir()
    for k in range(3):
        recording(tmp_path / "people" / f"p{k}.csv", k)
    about = {"source": "signals", "path": str(tmp_path / "people"), "site": r"p\d", "window": 20}
    settings = {"data": {**about, "target": "activity"}, "model": {"name": "mlp"}}
    result = fedkf.run(settings, algorithm="fedavg", rounds=5, workers=0, out=tmp_path / "run")
    recording(tmp_path / "new.csv", 9, labelled=False)
    found = json.loads(
        cli("predict", str(tmp_path / "run"), str(tmp_path / "new.csv"), "--json").out
    )
    assert [row["line"] for row in found] == [2, 22, 42, 62, 82, 102, 122, 142]
    assert [row["class"] for row in found] == ["sit", "sit", "walk", "walk"] * 2
    cells = np.loadtxt(tmp_path / "new.csv", delimiter=",", skiprows=1)[:, 1:]
    waves = cells.reshape(8, 20, 2).transpose(0, 2, 1)
    np.savez(tmp_path / "new.npz", signals=waves, labels=np.array([0, 0, 1, 1] * 2))
    again: list[Any] = list(result.predict(tmp_path / "new.npz"))
    assert again == [(row["class"], pytest.approx(row["probability"], abs=1e-5)) for row in found]
    assert result.evaluate(tmp_path / "new.npz")["amp"] == 1.0
    recording(tmp_path / "p9.csv", 9)
    assert result.evaluate(tmp_path / "p9.csv")["amp"] == 1.0
    # Channels are found by their names, wherever they stand in a file.
    at, x, y = np.loadtxt(tmp_path / "new.csv", delimiter=",", skiprows=1).T
    turned = "\n".join(["y,at,x", *(f"{c},{a},{b}" for a, b, c in zip(at, x, y, strict=True))])
    (tmp_path / "turned.csv").write_text(turned)
    assert result.predict(tmp_path / "turned.csv") == again
    (tmp_path / "renamed.csv").write_text(turned.replace("y,at,x", "a,at,b"))
    with pytest.raises(UserError, match="has no column 'x'"):
        result.predict(tmp_path / "renamed.csv")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> fedkf.Result:
    """A run on recordings that tell person, session and sex, all of them in columns."""
    place = tmp_path_factory.mktemp("watched")
    (place / "people").mkdir()
    for k in range(3):
        recording(place / "people" / f"p{k}.csv", k)
        told(place / "people" / f"p{k}.csv", who=f"p{k}", day=str(k), sex="fmf"[k])
    about = {"source": "signals", "path": str(place / "people"), "site": "who", "window": 20}
    about |= {"target": "activity", "split_by": "day", "groups": "sex"}
    settings = {"data": about, "model": {"name": "mlp"}}
    return fedkf.run(settings, algorithm="fedavg", rounds=5, workers=0, out=place / "run")


def told(file: Path, **columns: str) -> None:
    """Add columns of one value each to a recording."""
    head, *lines = file.read_text().splitlines()
    more = "".join(f",{value}" for value in columns.values())
    named = "".join(f",{name}" for name in columns)
    file.write_text("\n".join([head + named, *(line + more for line in lines)]))


@pytest.mark.parametrize("columns", [{}, {"who": "p9"}, {"who": "p9", "day": "4", "sex": "m"}])
def test_new_recordings_need_not_tell_whose_they_are(
    watched: fedkf.Result, tmp_path: Path, columns: dict[str, str]
) -> None:
    recording(tmp_path / "new.csv", 9)
    told(tmp_path / "new.csv", **columns)
    found = watched.evaluate(tmp_path / "new.csv")
    assert found["amp"] == 1.0
    assert [client["name"] for client in found["clients"]] == [columns.get("who", "new.csv")]
    assert len(watched.predict(tmp_path / "new.csv")) == 8


def test_sessions_of_a_new_recording_still_cut_it(watched: fedkf.Result, tmp_path: Path) -> None:
    recording(tmp_path / "new.csv", 9)
    head, *lines = (tmp_path / "new.csv").read_text().splitlines()
    cut = [f"{line},{'first' if k < 50 else 'second'}" for k, line in enumerate(lines)]
    (tmp_path / "new.csv").write_text("\n".join([f"{head},day", *cut]))
    assert len(watched.predict(tmp_path / "new.csv")) == 2 + 5
    (client,) = watched.evaluate(tmp_path / "new.csv")["clients"]
    assert client["tested"] == 2 + 5


def test_new_arrays_need_not_tell_whose_they_are(tmp_path: Path) -> None:
    random, labels = np.random.default_rng(0), np.arange(60) % 2
    waves = random.normal(size=(60, 2, 8)) + 3 * labels[:, None, None]
    arrays: dict[str, Any] = {"signals": waves, "labels": labels}
    np.savez(tmp_path / "all.npz", subject=np.repeat([1, 2], 30), **arrays)
    data = {"source": "signals", "path": str(tmp_path / "all.npz"), "site": "subject"}
    settings = {"data": data, "model": {"name": "mlp"}}
    run = fedkf.run(settings, algorithm="fedavg", rounds=2, workers=0, out=tmp_path / "run")
    np.savez(tmp_path / "new.npz", **arrays)
    (client,) = run.evaluate(tmp_path / "new.npz")["clients"]
    assert (client["name"], client["tested"]) == ("new.npz", 60)


def test_arrays_need_no_labels_to_be_predicted(
    npz: Path, tmp_path: Path, cli: Callable[..., Outcome]
) -> None:
    images = np.load(npz)["images"]
    data = {"source": "npz", "path": str(npz), "image_size": 16, "clients": 3}
    result = fedkf.run(
        {"data": data}, algorithm="fedavg", rounds=1, workers=0, out=tmp_path / "run"
    )
    np.savez(tmp_path / "new.npz", images=images[:4])
    run, new = str(tmp_path / "run"), str(tmp_path / "new.npz")
    found = json.loads(cli("predict", run, new, "--json").out)
    assert [(r["class"], r["probability"]) for r in found] == result.predict(images[:4, None])
    (tmp_path / "a.csv").write_text("a\n1\n")
    told = cli("predict", run, str(tmp_path / "a.csv"))
    assert (told.code, told.out) == (2, "")
    with pytest.raises(UserError, match="the model takes images, not rows with names"):
        result.predict([{"a": 1}])


def test_a_report_of_a_table_speaks_of_no_images(result: fedkf.Result) -> None:
    from fedkf.report.page import build
    from fedkf.report.runs import read_runs

    page = build(read_runs([result.folder]))
    assert "What the model has in mind" not in page
    assert "A patient is not an average" not in page
    assert "Nobody is an average" in page
