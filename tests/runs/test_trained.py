"""Take it home: evaluate, export, load, predict."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Outcome, Settings
from safetensors.torch import load_file

import fedkf
from fedkf.cli.evaluate import show_resolution
from fedkf.core.errors import UserError
from fedkf.runs.evaluation import calibration, evaluate
from fedkf.runs.mixtures import mixtures, worst_mixture
from fedkf.runs.trained import Trained, export

CLI = Callable[..., Outcome]


@pytest.fixture
def run(settings: Settings, tmp_path: Path) -> Path:
    fedkf.run(settings, algorithm="fedavg", rounds=6, lr=0.1, out=tmp_path / "run")
    return tmp_path / "run"


def test_evaluate_agrees_with_the_last_round(cli: CLI, run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())["readouts"]
    for readout in ("aca", "oca"):
        found = json.loads(cli("evaluate", run, "--readout", readout, "--json").out)
        for metric in ("amp", "fm", "wlp"):
            assert found[metric] == pytest.approx(summary[readout][metric])
        confusion = np.array(found["confusion"])
        assert confusion.trace() / confusion.sum() == pytest.approx(found["amp"])
        assert [c["tested"] for c in found["classes"]] == confusion.sum(1).tolist()


def test_an_auroc_of_scores_that_tie_is_told_to_be_rough(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x, y = torch.arange(40.0)[:, None], torch.arange(40) // 20

    class Steep(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([-x, x], 1)

    fine, rough = (("fine", x - 20, y), ("rough", torch.zeros_like(x), y))
    clients = evaluate(Steep(), [fine, rough], ["a", "b"])["clients"]
    assert "resolution" not in clients[0]
    assert clients[1]["resolution"] == {"auroc": 0.5}
    show_resolution(clients)
    assert "1 of 2 sites is rough" in (text := capsys.readouterr().out)
    assert "at rough it may be off by 50.0 points" in text


def test_an_exported_model_gives_the_same_answers_in_a_fresh_interpreter(
    cli: CLI, run: Path, npz: Path, tmp_path: Path
) -> None:
    formats = ("--format", "safetensors", "--format", "torch", "--format", "onnx")
    code, _, err = cli("export", run, "--out", tmp_path / "home", *formats)
    assert code == 0, err
    assert {p.name for p in (tmp_path / "home").iterdir()} == {
        "oca.safetensors",
        "model.json",
        "oca.pt2",
        "oca.onnx",
    }
    program = f"""
import numpy as np, torch, fedkf
x = torch.tensor(np.load({str(npz)!r})["images"])[:, None]
model = fedkf.load({str(tmp_path / "home")!r})
exported = torch.export.load({str(tmp_path / "home" / "oca.pt2")!r}).module()
with torch.no_grad():
    logits = model(x)
    assert torch.allclose(exported(x), logits, atol=1e-5)
np.save({str(tmp_path / "logits.npy")!r}, logits.numpy())
import onnxruntime
session = onnxruntime.InferenceSession({str(tmp_path / "home" / "oca.onnx")!r})
(graph,) = session.run(None, {{"inputs": x.numpy()}})
assert abs(graph - logits.numpy()).max() < 1e-4
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    x = torch.tensor(np.load(npz)["images"])[:, None]
    with torch.no_grad():
        expected = fedkf.load(run)(x).numpy()
    assert np.array_equal(np.load(tmp_path / "logits.npy"), expected)


@pytest.mark.parametrize(
    ("task", "names", "output"),
    [
        ("classification", ["a", "b"], "logits"),
        ("binary", ["no", "yes"], "logits"),
        ("regression", [], "values"),
        ("survival", [], "values"),
    ],
)
def test_an_exported_graph_says_what_its_outputs_are(
    task: str, names: list[str], output: str, tmp_path: Path
) -> None:
    onnx = pytest.importorskip("onnx")
    card = {"model": "x", "shape": [3], "task": task, "class_names": names}
    outputs = 2 if task == "classification" else 1
    trained = Trained(torch.nn.Linear(3, outputs), {**card, "mean": [0.0], "std": [1.0]})
    (path,) = export(trained, tmp_path, "model", ["onnx"])
    assert [made.name for made in onnx.load(path).graph.output] == [output]


@pytest.mark.parametrize("form", ["safetensors", "torch", "onnx"])
def test_a_layer_under_two_names_is_exported_under_both(form: str, tmp_path: Path) -> None:
    first = torch.nn.Linear(4, 4)
    about = {"model": "x", "shape": [4], "task": "classification", "class_names": list("abcd")}
    tied = Trained(torch.nn.Sequential(first, first), {**about, "mean": [0.0], "std": [1.0]})
    path = export(tied, tmp_path, "oca", [form])[0]
    if form == "safetensors":
        assert torch.equal((found := load_file(path))["0.weight"], found["1.weight"])
        assert torch.equal(found["0.weight"], first.weight)


@pytest.mark.parametrize("form", ["safetensors", "torch", "onnx"])
def test_an_export_takes_the_place_of_an_earlier_one_when_it_is_whole(
    form: str, tmp_path: Path
) -> None:
    about = {"model": "x", "shape": [4], "task": "classification", "class_names": ["a", "b"]}
    model = torch.nn.Linear(4, 2)
    trained = Trained(model, {**about, "mean": [0.0], "std": [1.0]})
    path = export(trained, tmp_path, "oca", [form])[0]
    (tmp_path / "earlier").hardlink_to(path)
    before = path.read_bytes()
    torch.nn.init.zeros_(model.weight)
    export(trained, tmp_path, "oca", [form])
    assert (tmp_path / "earlier").read_bytes() == before != path.read_bytes()


def test_a_loaded_model_normalises_resizes_and_names(run: Path) -> None:
    model = fedkf.load(run)
    assert model.class_names == ["0", "1", "2"]
    (name, probability), *_ = model.predict(torch.rand(2, 1, 40, 40))
    assert name in model.class_names
    assert 1 / 3 <= probability <= 1
    x = torch.rand(2, 1, 16, 16)
    for wrong in ((255 * x).to(torch.uint8), x.expand(2, 3, 16, 16), x[0]):
        with pytest.raises(UserError, match=r"give floats N×1×H×W in \[0, 1\]"):
            model(wrong)
    assert model.double()(x).dtype == torch.float64
    model.float()
    for kind in (torch.float64, torch.float16, torch.bfloat16):
        assert torch.equal(model(x.to(kind)), model(x.to(kind).float()))
    with torch.no_grad():
        assert torch.equal(model(x), model.model((x - 0.5) / 0.5))


def test_new_data_is_evaluated_site_by_site(cli: CLI, run: Path, tmp_path: Path) -> None:
    images, labels = np.random.default_rng(0).random((12, 16, 16)), np.arange(12) % 3
    np.savez(tmp_path / "new.npz", images=images, labels=labels, client=["p"] * 8 + ["q"] * 4)
    found = json.loads(cli("evaluate", run, "--data", tmp_path / "new.npz", "--json").out)
    assert [(c["name"], c["tested"]) for c in found["clients"]] == [("p", 8), ("q", 4)]


def test_data_that_the_run_trained_on_is_told(
    cli: CLI, run: Path, npz: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.npz"
    copy.write_bytes(npz.read_bytes())
    for own in (npz, copy):
        done = cli("evaluate", run, "--data", own)
        assert f"note: {own} is the run's own data, so that these numbers include" in done.err
    with np.load(npz) as content:
        np.savez(tmp_path / "new.npz", images=1 - content["images"], labels=content["labels"])
    done = cli("evaluate", run, "--data", tmp_path / "new.npz")
    assert (done.code, done.err) == (0, "")


def test_what_cannot_be_loaded_is_explained(
    cli: CLI, run: Path, tmp_path: Path, settings: Settings
) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, sentence in [
        (("evaluate", tmp_path / "empty"), "neither a finished run nor an exported model"),
        (("export", run, "--readout", "ocaa"), "did you mean 'oca'"),
        (("export", run, "--format", "pickle"), "--format pickle"),
        (("evaluate", run, "--data", tmp_path / "gone.npz"), "no file"),
    ]:
        code, _, err = cli(*arguments)
        assert (code, err.count("\n")) == (2, 1)
        assert sentence in err
    make = lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 3))  # noqa: E731
    fedkf.run(settings, algorithm="fedavg", model=make, rounds=1, out=tmp_path / "mine")
    with pytest.raises(UserError, match=r"load it in Python with fedkf\.load"):
        fedkf.load(tmp_path / "mine")
    assert fedkf.load(tmp_path / "mine", model=make).shape == (1, 16, 16)


def test_calibration_is_worked_out_by_hand() -> None:
    p = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    found = calibration(p, torch.tensor([0, 1, 0, 1]))
    # bins of 0.9 (two, one right), 0.6 and 0.7 (one each, right): (2·|½−0.9| + 0.4 + 0.3) / 4
    assert found["expected_calibration_error"] == pytest.approx((2 * 0.4 + 0.4 + 0.3) / 4)
    assert found["accuracy"] == 0.75
    assert found["confidence"] == pytest.approx(0.775)


def test_the_worst_mixture_is_the_minimum_over_the_ball() -> None:
    from scipy.optimize import minimize

    random = np.random.default_rng(0)
    for radius in (0.01, 0.5, 2.0, 100.0):
        a, pooled = random.random(6), random.dirichlet(np.ones(6))
        p, value = worst_mixture(a, pooled, radius)
        assert p.sum() == pytest.approx(1)
        assert p.min() >= 0
        assert (((p - pooled) ** 2) / pooled).sum() <= radius + 1e-6
        limits = [
            {"type": "eq", "fun": lambda q: q.sum() - 1},
            {
                "type": "ineq",
                "fun": lambda q, c=pooled, r=radius: r - (((q - c) ** 2) / c).sum(),
            },
        ]
        best = minimize(
            lambda q, a=a: q @ a, pooled, bounds=[(0, 1)] * 6, constraints=limits, tol=1e-12
        )
        assert value == pytest.approx(best.fun, abs=1e-4)


def test_no_mixture_falls_below_the_papers_bound() -> None:
    found = mixtures([0.9, None, 0.4, 0.7], [10, 0, 5, 20], 500, np.random.default_rng(0))
    assert found["bound"] == 0.4
    assert found["bound"] <= found["drawn"]["least"] <= found["drawn"]["mean"]
    assert found["bound"] <= found["worst"] <= (9 + 2 + 14) / 35


def test_local_training_is_alone_and_the_gain_of_federating_is_told(
    cli: CLI, tmp_path: Path
) -> None:
    common = ("--set", "federation.rounds=6", "--quiet")
    code, out, err = cli(
        "run", "digits", "--set", "algorithm.name=local", "--out", tmp_path / "alone", *common
    )
    assert code == 0, err
    assert "run the same with another algorithm" in out
    code, out, _ = cli("run", "digits", "--out", tmp_path / "together", *common)
    assert "gain of federating: together (OCA)" in out
    assert out.count("client 9") == 2
    code, out, _ = cli("evaluate", tmp_path / "together", "--against", tmp_path / "alone", "--json")
    assert cli("evaluate", tmp_path / "together", "--against", tmp_path).code == 2
    own = json.loads(cli("evaluate", tmp_path / "alone", "--json").out)
    summary = json.loads((tmp_path / "alone" / "summary.json").read_text())
    assert own["wlp"] == summary["readouts"]["oca"]["wlp"]
    for command in (("export",), ("predict", "x.png")):
        name, *more = command
        assert cli(name, tmp_path / "alone", *more).code == 2
    for client in json.loads(out)["clients"]:
        assert client["gain"] == pytest.approx(client["accuracy"] - client["against"])


def test_a_site_alone_without_records_is_told(settings: Settings, tmp_path: Path, cli: CLI) -> None:
    fedkf.run(settings, algorithm="local", rounds=1, out=tmp_path)
    (tmp_path / "rounds.jsonl").unlink()
    code, _, err = cli("evaluate", tmp_path)
    assert code == 1
    assert "rounds.jsonl is damaged: it does not tell what each client found last" in err


def test_a_site_alone_never_sees_the_others(settings: Settings) -> None:
    """What comes down makes no difference to a client's own model."""
    from fedkf.algorithms.local import Local
    from fedkf.core.client import Client
    from fedkf.core.payload import Payload
    from fedkf.runs.config import resolve
    from fedkf.runs.setup import load_source, make_data, make_task, settle

    config = resolve(settings)
    source = load_source(config)
    config = settle(config, source)
    data = make_data(config, source)
    task = make_task(config, data, Local())
    own = []
    for offset in (0.0, 1.0):
        down = Payload(weights={k: v + offset for k, v in task.initial_weights.items()})
        state = None
        for number in (1, 2):
            client = Client(0, number, data.client(0), task, state)
            own.append(Local().local_update(client, down)["weights"]["linear2.bias"])
            state = client.state
        judged = Local().evaluate(client, Payload(aca=down["weights"]))
        own.append(torch.tensor(float(judged.number("monitoring", "aca"))))
    assert torch.equal(own[0], own[3])
    assert torch.equal(own[1], own[4])
    assert torch.equal(own[2], own[5])
    assert not torch.equal(own[0], own[1])  # and it goes on from where it was


def test_data_that_changed_since_training_is_not_evaluated(
    cli: CLI, settings: Settings, tmp_path: Path
) -> None:
    images, labels = np.random.default_rng(0).random((60, 16, 16)), np.arange(60) % 3
    settings["data"]["path"] = str(tmp_path / "mine.npz")
    np.savez(tmp_path / "mine.npz", images=images, labels=labels)
    fedkf.run(settings, algorithm="fedavg", out=tmp_path / "run")
    np.savez(tmp_path / "mine.npz", images=images[:50], labels=labels[:50])
    code, _, err = cli("evaluate", tmp_path / "run")
    assert code == 2
    assert "the data is not the one" in err
    np.savez(tmp_path / "one.npz", images=images[:5, :, :, None].repeat(3, 3), labels=[1] * 5)
    assert cli("evaluate", tmp_path / "run", "--data", tmp_path / "one.npz").code == 0


def test_an_unfinished_continuation_is_not_taken_for_the_finished_run(
    settings: Settings, tmp_path: Path
) -> None:
    def stop(record: dict[str, object]) -> None:
        if record["round"] == 4:
            raise KeyboardInterrupt

    fedkf.run(settings, algorithm="fedavg", out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fedkf.run(settings, algorithm="fedavg", rounds=9, out=tmp_path, resume=True, on_round=stop)
    x = torch.rand(2, 1, 16, 16)
    four = fedkf.run(settings, algorithm="fedavg", rounds=4)
    assert torch.equal(fedkf.load(tmp_path)(x), four.models["oca"](x))
    with pytest.raises(UserError, match="is not finished"):
        fedkf.export(tmp_path, tmp_path / "home")
