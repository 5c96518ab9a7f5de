"""Tables and signals at sites: a scale is agreed on before the first round, as in a rehearsal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clinics import SHARED, SIZES, TRAINING, Clinics, written
from conftest import Outcome, model_bytes
from flwr.app import ConfigRecord, Message, RecordDict

import fedkf
from fedkf.core.client import Call
from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import Payload
from fedkf.core.random import Streams
from fedkf.data import sources
from fedkf.data.scaling import KIND, Moments, moments
from fedkf.data.source import Source
from fedkf.data.split import split
from fedkf.flower.handshake import Invitation, answer
from fedkf.flower.scale import read
from fedkf.flower.settings import SiteRefusal, outgoing
from fedkf.flower.site import Host
from fedkf.runs.config import resolve
from fedkf.runs.division import reading_of
from fedkf.runs.experiment import execute
from fedkf.runs.setup import Objects

LAYOUT: dict[str, Any] = {
    "source": "table",
    "target": "ill",
    "site": "hospital",  # of the rehearsal's table; sites' own have no such column
    "columns": ["age", "dose", "ward"],
    "categories": {"ward": ["a", "b"]},
    "indicators": ["dose"],
    "class_names": ["no", "yes"],
}


def patients(name: str, size: int) -> str:
    """A table in which columns have units of their own, which differ by site."""
    random = np.random.default_rng(len(name) * size)
    lines = ["id,age,ill,dose,ward,cost"]
    for k in range(size):
        age, dose = random.normal(50 + len(name), 12), random.normal(3e4, 5e3)
        ill = "yes" if age + random.normal(0, 4) > 54 else "no"
        told = "" if k % 7 == 3 else f"{dose:.1f}"
        cost = 1e6 * age + random.normal(0, 1e5)
        lines.append(f"{k},{age:.3f},{ill},{told},{'ab'[k % 2]},{cost:.1f}")
    return "\n".join(lines) + "\n"


Make = Callable[..., Clinics]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Three sites with tables; keyword arguments change a site's file."""

    def clinics(**changes: dict[str, Any]) -> Clinics:
        sites = {}
        for name, size in SIZES.items():
            file = tmp_path / f"{name}.csv"
            file.write_text(patients(name, size))
            own = {"data": {"source": "table", "path": str(file)}, **SHARED}
            sites[name] = {**own, **changes.get(name, {})}
        return Clinics(tmp_path, sites, monkeypatch)

    return clinics


def study(**data: Any) -> dict[str, Any]:
    return {**TRAINING, "data": {**LAYOUT, **data}}


def rehearsed(folder: Path, config: Mapping[str, Any]) -> Path:
    """The same on one machine: sites with the training and test samples that each makes itself."""
    settings = resolve(dict(config)).data.model_copy(update={"site": None})
    parts: list[Source] = []
    for name in SIZES:
        own = sources.read("table", str(folder / f"{name}.csv"), reading_of(settings, 1))
        random = Streams(settings.seed).numpy_generator("split")
        everything = [np.arange(len(own.labels))]
        (train,), (test,) = split(own, everything, 0.8, random, "stratified")
        tested = np.repeat([False, True], [len(train), len(test)])
        parts.append(replace(own.take(np.concatenate([train, test])), tested=tested))
    sizes = [len(part.labels) for part in parts]
    pooled = replace(
        parts[0],
        inputs=np.concatenate([part.inputs for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        tested=np.concatenate([part.tested for part in parts if part.tested is not None]),
        owners=np.repeat(np.arange(len(parts)), sizes),
        owner_names=list(SIZES),
    )
    execute(resolve(dict(config)), folder / "rehearsal", given=Objects(source=pooled))
    return folder / "rehearsal"


def same(deployed: Path, rehearsal: Path, keys: tuple[str, ...]) -> None:
    assert model_bytes(deployed) == model_bytes(rehearsal)
    told, known = written(deployed), written(rehearsal)
    assert {key: getattr(told, key) for key in keys} == {key: getattr(known, key) for key in keys}
    counts = [json.loads((run / "ledger.json").read_text()) for run in (deployed, rehearsal)]
    assert counts[0]["training"] == counts[1]["training"]
    assert KIND in counts[0]["leakage"]


def test_sites_with_tables_end_as_they_would_on_one_machine(make: Make, tmp_path: Path) -> None:
    clinics = make()
    clinics.run(study())
    same(tmp_path / "run", rehearsed(tmp_path, study()), ("mean", "std", "scaling", "columns"))
    assert clinics.asked()[:3] == ["greeting", KIND, "local_update"]
    assert len(written(tmp_path / "run").mean or ()) == 4  # age, dose, ward=b, dose missing
    for name in SIZES:
        (line,) = [line for line in clinics.sent(name) if line.get("step") == KIND]
        assert line["kinds"] == {KIND: 3 * 8 * 4}
    # The model takes new rows in their own units.
    model = fedkf.load(tmp_path / "run")
    assert len(model.predict(str(tmp_path / "south.csv"))) == SIZES["south"]


def test_a_target_that_is_a_number_has_one_unit_at_all_sites(make: Make, tmp_path: Path) -> None:
    numbers = {"task": "regression", "target": "cost", "class_names": None}
    make().run(study(**numbers))
    keys = ("mean", "std", "target_mean", "target_std")
    same(tmp_path / "run", rehearsed(tmp_path, study(**numbers)), keys)
    assert (written(tmp_path / "run").target_mean or 0) > 4e7


def test_signals_that_say_what_tests_end_as_in_a_rehearsal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, pooled, sites = np.random.default_rng(1), [], {}
    for k, (name, size) in enumerate(SIZES.items()):
        labels = np.arange(size) % 2
        signals = random.normal([[5.0], [900.0]], [[1.0], [80.0]], (size, 2, 12)) + k
        signals[:, 0] += labels[:, None]
        own: dict[str, Any] = {
            "signals": signals,
            "labels": labels,
            "split": np.arange(size) % 5 == 4,
        }
        pooled.append({**own, "client": np.full(size, k)})
        np.savez(tmp_path / f"{name}.npz", **own)
        data = {"source": "signals", "path": str(tmp_path / f"{name}.npz")}
        sites[name] = {"data": data, **SHARED}
    whole: dict[str, Any] = {
        key: np.concatenate([part[key] for part in pooled]) for key in pooled[0]
    }
    np.savez(tmp_path / "all.npz", **whole, client_names=np.array(list(SIZES)))
    keys = {"source": "signals", "class_names": ["0", "1"], "path": str(tmp_path / "all.npz")}
    config = {**TRAINING, "data": keys, "model": {"name": "cnn1d"}}
    execute(resolve(dict(config)), tmp_path / "rehearsal")
    Clinics(tmp_path, sites, monkeypatch).run(config)
    same(tmp_path / "run", tmp_path / "rehearsal", ("mean", "std", "scaling"))


def test_what_was_agreed_is_not_asked_for_again(make: Make, tmp_path: Path) -> None:
    clinics = make()
    clinics.run(study(), "whole")
    clinics.run({**study(), "federation": {**TRAINING["federation"], "rounds": 1}})  # type: ignore[dict-item]
    before = written(tmp_path / "run")
    clinics.board.sent.clear()
    clinics.run(study(), resume=True)
    assert clinics.asked() == ["local_update", "evaluate"]
    after = written(tmp_path / "run")
    assert (after.mean, after.std) == (before.mean, before.std)
    assert model_bytes(tmp_path / "run") == model_bytes(tmp_path / "whole")
    ledgers = [json.loads((tmp_path / n / "ledger.json").read_text()) for n in ("run", "whole")]
    assert ledgers[0] == ledgers[1]


def test_a_scale_that_is_given_is_used_and_nobody_is_asked(make: Make, tmp_path: Path) -> None:
    clinics = make(**{name: {"share": []} for name in SIZES})
    clinics.run(study(mean=[50.0, 3e4, 0.5, 0.1], std=[12.0, 5e3, 0.5, 0.3]))
    assert KIND not in clinics.asked()
    ledger = json.loads((tmp_path / "run" / "ledger.json").read_text())
    assert ledger["leakage"] == []


def test_a_site_that_does_not_share_them_is_left_out_with_what_to_add(
    make: Make, cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    clinics = make(south={"share": []})
    said = clinics.run(study()).said()
    assert f"share: [{KIND}] allows it" in next(t for t in said if t.startswith("south does not"))
    assert not any(line.get("step") == KIND for line in clinics.sent("south"))
    clients = json.loads((tmp_path / "run" / "partition.json").read_text())["clients"]
    assert [c["name"] for c in clients] == ["north", "west"]
    file = tmp_path / "study.yaml"
    file.write_text(json.dumps(study()))
    told = cli("site", "check", tmp_path / "north", file)
    assert f"{KIND} (count, mean and spread" in " ".join((told.out + told.err).split())


def test_a_table_that_does_not_fit_is_refused_and_its_log_alone_says_why(
    make: Make, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    clinics = make()
    text = (tmp_path / "south.csv").read_text()
    (tmp_path / "south.csv").write_text(text.replace(",ward", ",station"))
    (tmp_path / "west.csv").write_text((tmp_path / "west.csv").read_text().replace(",b,", ",c,"))
    said = clinics.run(study()).said()
    for name in ("south", "west"):
        line = f"{name} does not take part: its data does not fit the configuration; its own log"
        assert any(text.startswith(line) for text in said)
    log = capfd.readouterr().err
    assert "has no column 'ward'" in log
    assert "which is not in data.categories" in log


@pytest.mark.parametrize("key", ["target", "columns", "categories", "indicators"])
def test_what_a_table_holds_is_settled_beforehand(make: Make, key: str) -> None:
    clinics = make()
    with pytest.raises(UserError, match=rf"data\.{key} is missing: in a deployment"):
        clinics.run(study(**{key: None}))
    # A coordinator that asks all the same is refused by the site.
    whole = outgoing(resolve(study()))
    asked = {**whole, "data": {**whole["data"], key: None}}
    with pytest.raises(SiteRefusal, match=rf"what its columns are \(data\.{key}\)"):
        Host(clinics.sites["north"], Invitation(asked, "0123abcd"))


def test_a_site_reads_its_numbers_as_the_study_says(make: Make, tmp_path: Path) -> None:
    clinics = make()
    lines = [
        "age;ill;dose;ward",
        *(f"1.{100 + k};{'yes' if k % 2 else 'no'};3;a" for k in range(20)),
    ]
    (tmp_path / "north.csv").write_text("\n".join(lines))
    means = {
        key: float(host(clinics, decimal=key).statistics()[KIND]["mean"][0])
        for key in ("auto", "comma", "point")
    }
    assert means["auto"] == means["point"]
    assert means["comma"] == pytest.approx(1000 * means["point"])
    # Sites of before there was the key are not sent it in vain.
    sent = outgoing(resolve(study()))
    assert "decimal" not in sent["data"]


def host(clinics: Clinics, **data: Any) -> Host:
    return Host(clinics.sites["north"], Invitation(outgoing(resolve(study(**data))), "0123abcd"))


def test_a_site_makes_no_scale_of_its_own(make: Make) -> None:
    clinics = make()
    with pytest.raises(SiteRefusal, match=r"how inputs are scaled \(data\.scaling\)"):
        host(clinics, source="npz").introduction()
    with pytest.raises(SiteRefusal, match="lacks the scale on which the sites agree"):
        host(clinics).perform(Call("local_update", 0, 1, None, "1.1"), Payload(), [])
    with pytest.raises(SiteRefusal, match="leaves no scale to agree on"):
        host(clinics, scaling="site").statistics()


def test_recordings_need_names_of_their_columns(make: Make) -> None:
    clinics = make()
    clinics.rewrite(clinics.sites["north"], data={"source": "signals", "path": "recordings"})
    with pytest.raises(SiteRefusal, match=r"what its columns are \(data\.columns\)"):
        host(clinics, source="signals", columns=None)


def test_of_few_rows_nothing_is_told(make: Make, tmp_path: Path) -> None:
    clinics = make()
    (tmp_path / "north.csv").write_text(patients("north", 5))
    sent = host(clinics).statistics()[KIND]
    assert all(not bool(tensor.any()) for tensor in sent.values())


def test_under_privacy_a_scale_must_be_public(make: Make) -> None:
    private = {**study(), "privacy": {"epsilon": 8.0, "turns": 2}}
    with pytest.raises(UserError, match=r"data\.scaling federated is refused"):
        make().run(private)


def test_sites_that_scale_by_themselves_tell_nothing(make: Make, tmp_path: Path) -> None:
    clinics = make(**{name: {"share": []} for name in SIZES})
    clinics.run(study(scaling="site"))
    assert KIND not in clinics.asked()
    assert written(tmp_path / "run").scaling == "site"


def lie(**change: torch.Tensor) -> Callable[[Message], Message]:
    fine = Moments(np.full(4, 9.0), np.zeros(4), np.ones(4)).payload()
    return lambda message: answer(
        message, {}, Payload().add(KIND, {**fine[KIND], **change}).to_bytes()
    )


@pytest.mark.parametrize(
    "told",
    [
        lambda message: Message(RecordDict(), reply_to=message),
        lambda message: answer(message, {"train": 3}),
        lambda message: Message(RecordDict({"reply": ConfigRecord({})}), reply_to=message),
        lie(count=torch.full((4,), 1e9).double()),
        lie(count=torch.full((4,), 2.5).double()),
        lie(mean=torch.full((4,), float("nan")).double()),
        lie(spread=-torch.ones(4).double()),
        lie(spread=torch.ones(5).double()),
        lie(spread=torch.ones(4)),
        lie(more=torch.ones(4).double()),
    ],
)
def test_what_sites_tell_is_checked(told: Callable[[Message], Message]) -> None:
    asked = Message(RecordDict(), 1, "query")
    asked.metadata.__dict__["_message_id"] = "1"
    assert isinstance(read(lie()(asked), 4, 40), Moments)
    assert read(told(asked), 4, 40) == f"its {KIND} cannot be used"


def test_who_tells_nothing_does_not_take_part(make: Make, tmp_path: Path) -> None:
    clinics = make()

    def failing(message: Message) -> Message | None:
        head = message.content.config_records["call"]
        if head.get("step") != KIND:
            return None
        clinics.rewrite(clinics.sites["south"], share=[])  # its operator thought better of it
        return None

    clinics.hearing("south", failing)
    said = clinics.run(study()).said()
    assert any(text.startswith("south does not take part: to agree on a scale") for text in said)
    clients = json.loads((tmp_path / "run" / "partition.json").read_text())["clients"]
    assert [(c["id"], c["name"]) for c in clients] == [(0, "north"), (1, "west")]
    config = {**study(), "federation": {**TRAINING["federation"], "min_clients": 3}}  # type: ignore[dict-item]
    with pytest.raises(FedkfError, match=r"2 sites take part and federation\.min_clients is 3"):
        clinics.run(config, "other")


def test_parts_read_back_are_those_that_were_sent() -> None:
    own = moments(np.random.default_rng(0).normal(size=(30, 3)))
    back = Moments.read(Payload.from_bytes(own.payload().to_bytes()), 3, 30)
    assert back is not None
    assert all(np.array_equal(getattr(back, k), v) for k, v in vars(own).items())


@pytest.mark.parametrize(
    ("count", "mean", "spread"),
    [(30, 1e200, 1.0), (30, 0.0, 1e300), (0, 1e200, 0.0), (0, 0.0, 1.0), (30, -1e31, 1.0)],
)
def test_parts_of_no_inputs_that_there_are_cannot_be_used(
    count: float, mean: float, spread: float
) -> None:
    def read(*values: float) -> Moments | None:
        parts = (np.array([30.0, value]) for value in values)
        return Moments.read(Moments(*parts).payload(), 2, 30)

    assert read(count, mean, spread) is None
    assert read(30, 1.7e18, 30 * 1e34) is not None  # nanoseconds since 1970
    nothing = Moments.read(moments(np.full((30, 2), np.nan)).payload(), 2, 30)
    assert nothing is not None
