"""fedkf.run, as a script or a notebook uses it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import Settings, model_bytes

import fedkf
from fedkf.api import full_key
from fedkf.core.algorithm import option


def test_an_instance_and_a_name_with_options_are_the_same(
    settings: Settings, tmp_path: Path
) -> None:
    fedkf.run(settings, algorithm=fedkf.FedKF(gamma=0.3), out=tmp_path / "a")
    fedkf.run(settings, algorithm="fedkf", gamma=0.3, out=tmp_path / "b")
    fedkf.run(settings, algorithm="fedkf", out=tmp_path / "c")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    assert model_bytes(tmp_path / "a") != model_bytes(tmp_path / "c")


def test_an_algorithm_defined_on_the_spot_runs_and_resumes(
    settings: Settings, tmp_path: Path
) -> None:
    @dataclass(frozen=True)
    class Mine(fedkf.Algorithm):
        name: ClassVar[str] = "mine"
        strength: float = option(0.5, "how much", at_least=0)

    rounds: list[int] = []
    for count in (2, 3):
        fedkf.run(
            settings,
            algorithm=Mine(strength=2),
            rounds=count,
            workers=2,
            out=tmp_path,
            resume=True,
            on_round=lambda record: rounds.append(record["round"]),
        )
    assert rounds == [1, 2, 3]
    with pytest.raises(fedkf.UserError, match=r"algorithm\.strength is 1\.0 but the run began"):
        fedkf.run(settings, algorithm=Mine(strength=1), rounds=3, out=tmp_path, resume=True)
    with pytest.raises(fedkf.UserError, match=r"algorithm\.strength is -1\.0; it must be a number"):
        Mine(strength=-1)


def test_keys_are_flat_where_unambiguous() -> None:
    kind = fedkf.FedKF
    assert full_key("rounds", kind) == "federation.rounds"
    assert full_key("seed", kind) == "federation.seed"
    assert full_key("lr", kind) == "federation.lr"
    assert full_key("alpha", kind) == "data.alpha"
    assert full_key("gamma", kind) == "algorithm.gamma"
    assert full_key("data.seed", kind) == "data.seed"
    with pytest.raises(fedkf.UserError, match=r"did you mean 'federation\.rounds'"):
        full_key("round", kind)
    with pytest.raises(fedkf.UserError, match="name is in several sections"):
        full_key("name", kind)


def test_sections_are_taken_as_dictionaries(settings: Settings) -> None:
    result = fedkf.run(settings, algorithm="fedavg", data={"clients": 3}, rounds=1)
    assert result.history[0]["readouts"]["aca"]["clients"] == [0, 1, 2]


def test_a_result_offers_history_models_and_summary(settings: Settings) -> None:
    import torch

    result = fedkf.run(settings, algorithm="fedavg")
    assert len(result.history) == 3
    for model in (result.raw_models["oca"], result.models["oca"].model):
        assert not model.training
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, result.weights["oca"][name])


def test_an_instance_follows_the_fidelity_but_for_what_it_was_given(
    settings: Settings, tmp_path: Path
) -> None:
    settings["fidelity"] = "released"
    fedkf.run(settings, algorithm=fedkf.FedKF(gamma=1.0), out=tmp_path / "a")
    fedkf.run(settings, algorithm="fedkf", out=tmp_path / "b")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    kept = fedkf.run(settings, algorithm=fedkf.FedKF(resample=True), rounds=1, out=tmp_path / "c")
    assert "resample: true" in (kept.folder / "config.yaml").read_text()


def test_dotted_keys_and_the_output_folder_are_followed(settings: Settings, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"algorithm.name": "fedavg", "output.dir": str(tmp_path / "run")}
    assert fedkf.run(settings, **keys).summary["algorithm"] == "fedavg"
    assert (tmp_path / "run" / "summary.json").exists()
    assert fedkf.run({**settings, "algorithm": "fedavg"}).summary["algorithm"] == "fedavg"


def test_refused_uploads_are_warned_of(settings: Settings) -> None:
    class Shy(fedkf.Algorithm):
        name = "shy"

        def local_update(self, client: Any, down: Any) -> Any:
            if client.id == 1:
                raise RuntimeError("not today")
            return super().local_update(client, down)

    with pytest.warns(UserWarning, match="client 1 was left out: RuntimeError: not today"):
        fedkf.run(settings, algorithm=Shy(), fraction=1.0, rounds=1, workers=1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"algorithm": fedkf.FedKF}, "algorithm is a class; give an object, FedKF"),
        ({"algorithm": 3}, "algorithm is 3; it must be a name"),
        ({"on_round": 3}, "on_round is 3"),
        ({"data": "mine.npz"}, "data is a section"),
        ({"rounds": "3"}, "federation.rounds is '3'"),
    ],
)
def test_what_cannot_be_meant_is_told(
    settings: Settings, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(fedkf.UserError, match=sentence):
        fedkf.run(settings, **arguments)


@pytest.mark.parametrize("key", ["noise", "clip"])
def test_what_privacy_has_too_is_never_taken_for_something_else(key: str) -> None:
    asked: dict[str, Any] = {key: 1}
    with pytest.raises(fedkf.UserError, match=rf"{key} is in several sections; .*privacy="):
        fedkf.run("digits", algorithm="fedavg", rounds=1, **asked)


def test_a_hyperparameter_is_given_once() -> None:
    with pytest.raises(fedkf.UserError, match=r"algorithm\.gamma is given as a keyword and by"):
        fedkf.run("digits", algorithm=fedkf.FedKF(gamma=0.3), gamma=0.4, rounds=1)


def test_going_on_needs_a_folder_that_says_what_it_holds(
    settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(fedkf.UserError, match="give the run's folder as out"):
        fedkf.run(settings, resume=True)
    fedkf.run(settings, rounds=1, out=tmp_path / "run")
    (tmp_path / "run" / "config.yaml").unlink()
    models = model_bytes(tmp_path / "run")
    for rounds in (1, 2):
        with pytest.raises(fedkf.UserError, match=r"a run without its config\.yaml"):
            fedkf.run(settings, rounds=rounds, lr=0.5, out=tmp_path / "run", resume=True)
    assert model_bytes(tmp_path / "run") == models
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_clients_whose_names_are_written_alike_are_refused() -> None:
    one = (np.zeros((4, 1, 8, 8), np.float32), np.arange(4) % 2)
    with pytest.raises(fedkf.UserError, match="two names that are written '1'"):
        fedkf.run(clients={1: one, "1": one}, rounds=1, workers=0)  # type: ignore[dict-item]


def test_a_model_takes_arrays_of_any_floats_and_no_images_unlike_those_of_training() -> None:
    result = fedkf.run("digits", algorithm="fedavg", rounds=1, workers=0)
    x = np.random.default_rng(0).random((2, 1, 8, 8))
    assert result.predict(x) == result.predict(x.astype(np.float32))
    wrong = (
        (255 * x, r"must lie in \[0, 1\], these go from"),
        (x - 1, "must lie in"),
        (np.full_like(x, np.nan), "NaN"),
        (np.repeat(x, 3, 1), r"give floats N×1×H×W in \[0, 1\]"),
        (x[..., :0], "without a pixel"),
        (None, "no array can be made"),
    )
    for given, words in wrong:
        with pytest.raises(fedkf.UserError, match=words):
            result.predict(given)
    assert result.predict(x[:0]) == []


def test_a_models_files_are_written_to_a_folder_in_a_format_that_there_is(tmp_path: Path) -> None:
    result = fedkf.run("digits", algorithm="fedavg", rounds=1, workers=0)
    made = fedkf.export(result, tmp_path / "home", "safetensors")
    assert [file.name for file in made] == ["oca.safetensors", "model.json"]
    with pytest.raises(fedkf.UserError, match="formats is empty"):
        fedkf.export(result, tmp_path / "home", [])
    with pytest.raises(fedkf.UserError, match="which is a file; give a folder"):
        fedkf.export(result, made[0])
    with pytest.raises(fedkf.UserError, match="run is a Result; give the folder"):
        fedkf.personalize(result)  # type: ignore[arg-type]
