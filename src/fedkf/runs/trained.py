"""A trained model that is ready for use: with its normalisation and its classes' names."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fedkf import models
from fedkf.core.digests import digest, file_digest
from fedkf.core.errors import FedkfError, UserError, nearest
from fedkf.core.normalisation import normalise
from fedkf.core.objective import Objective, Regression, find
from fedkf.core.payload import Weights, write_atomically
from fedkf.core.shapes import (
    Damage,
    Kind,
    finite,
    many,
    mapping,
    maybe,
    named,
    parse_json,
    take,
    text,
    whole,
)
from fedkf.data.federated import resize
from fedkf.data.scaling import completed
from fedkf.models.check import looks_up
from fedkf.runs.places import make_folder
from fedkf.runs.recipe import Recipe, card_of, fills, inputs_of, refuse_unscaled
from fedkf.runs.schema import Config
from fedkf.runs.store import RunFolder

if TYPE_CHECKING:
    from fedkf.runs.assembly import Population


def card(config: Config, data: Population) -> dict[str, Any]:
    """What is needed, beside the weights, to rebuild and to use the model."""
    return {
        "model": config.model.name,
        "shape": list(data.shape),
        "task": config.data.task,
        "class_names": data.class_names,
        "mean": config.data.mean,
        "std": config.data.std,
        **card_of(config, tuple(data.shape)),
        **({"target": unit} if (unit := target_unit(config)) else {}),
    }


def target_unit(config: Config) -> list[float] | None:
    """Mean and deviation that a number was scaled by, if it was."""
    mean, std = config.data.target_mean, config.data.target_std
    return None if mean is None or std is None else [mean, std]


def write_models(folder: Path, readouts: Mapping[str, Weights], about: Mapping[str, Any]) -> None:
    """A file for each readout, and what is needed to rebuild them.

    Digests of files that are there already, in `about`, stay.
    """
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    contents = {f"{name}.safetensors": save(apart(w)) for name, w in readouts.items()}
    digests = {**about.get("sha256", {}), **{file: digest(c) for file, c in contents.items()}}
    card = {**about, "sha256": digests}
    earlier = {f: file_digest(folder / f) for f in contents if (folder / f).exists()}
    if earlier:  # until all are replaced either will do, so that a crash leaves what can be loaded
        write_card(folder, {**card, "earlier": earlier})
    for file, content in contents.items():
        write_atomically(folder / file, content)
    write_card(folder, card)


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    write_atomically(folder / "model.json", (json.dumps(card, indent=2) + "\n").encode())


def apart(weights: Weights) -> Weights:
    """A copy in which no two tensors share memory, as tied weights do: safetensors refuses them."""
    return {k: tensor.detach().cpu().clone().contiguous() for k, tensor in weights.items()}


def read_card(folder: Path) -> dict[str, Any]:
    """What `card` says of the models in a folder, checked."""
    path = folder / "model.json"
    try:
        content = mapping(parse_json(path.read_bytes()))
        for name, kind in CARD.items():
            if name in content or name not in LATER:
                take(content, name, kind)
    except (OSError, Damage) as error:
        raise FedkfError(f"{path} is damaged: {error}") from None
    return content


CARD: dict[str, Kind[Any]] = {
    "model": text,
    "shape": many(whole),
    "task": text,
    "class_names": many(text),
    "mean": maybe(many(finite)),
    "std": maybe(many(finite)),
    "target": many(finite),
    "sha256": named(text),
    "earlier": named(text),
    "reading": Recipe.read,
    "scaling": text,
}
DIGESTS = ("sha256", "earlier")
LATER = (*DIGESTS, "task", "reading", "scaling", "target")
"""What older models do not say: they are classifiers. `target` is said of numbers alone, and
`earlier` while files are replaced."""


def read_weights(path: Path, card: Mapping[str, Any]) -> Weights:
    """A model's tensors, if the file is what the run had written."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    wanted, earlier = (card.get(key, {}).get(path.name) for key in DIGESTS)
    try:
        content = path.read_bytes()
        if wanted is not None and digest(content) not in (wanted, earlier):
            raise FedkfError(f"{path} is damaged: it is not what the run had written")
        weights: Weights = dict(sorted(load(content).items()))
    except (OSError, SafetensorError, ValueError) as error:
        raise FedkfError(f"{path} is damaged: {error}") from None
    return weights


class Trained(nn.Module):
    """Takes inputs as they come (images N×C×H×W in [0, 1], of any size) and returns outputs.

    These are a logit for each class, or the one number of another task.

    >>> import fedkf
    >>> model = fedkf.run("digits", algorithm="fedavg", rounds=1, workers=0).models["oca"]
    >>> model(torch.zeros(2, 1, 8, 8)).shape, len(model.predict(torch.zeros(2, 1, 8, 8)))
    (torch.Size([2, 10]), 2)
    """

    def __init__(self, model: nn.Module, about: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.about = {key: value for key, value in about.items() if key not in DIGESTS}
        self.shape = tuple(about["shape"])
        self.class_names = list(about["class_names"])
        self.objective = objective_of(about)
        self.fills = fills(about)
        self.eval()

    @property
    def dtype(self) -> torch.dtype:
        """Of the numbers that the model computes with."""
        found = (p.dtype for p in self.model.parameters() if p.is_floating_point())
        return next(found, torch.float32)

    def prepare(self, x: torch.Tensor) -> torch.Tensor:
        """Resized, filled and normalised, as the model was trained."""
        refuse_unscaled(self.about)
        numbers = len(self.shape) < 3 and not x.is_complex()  # whole ones are as good, no pixels
        if (numbers or x.is_floating_point()) and x.dtype != self.dtype:
            x = x.to(self.dtype)
        fits = x.ndim == len(self.shape) + 1 and x.shape[1] == self.shape[0]
        if not x.is_floating_point() or not fits:
            image = f"N×{self.shape[0]}×H×W in [0, 1]"
            wanted = image if len(self.shape) == 3 else f"N×{list(self.shape)}"
            raise UserError(f"inputs are {x.dtype} of shape {list(x.shape)}; give floats {wanted}")
        if len(self.shape) == 3:
            x = resize(x, self.shape[1:])
        if self.fills:
            x = completed(x, self.about["mean"] or (0.0,))
        return normalise(x, self.about["mean"], self.about["std"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.model(self.prepare(x))
        return self.objective.told(outputs)

    def predict(self, x: Any) -> list[tuple[str, float]]:
        """The likeliest class of each input and its probability.

        `x` is a tensor or an array; for a model of a table also a CSV or Parquet file, a DataFrame
        or a mapping for each row, for one of signals a file as well: prepared as in training.
        """
        if not self.class_names:
            raise UserError(
                f"a model for data.task {self.objective.name} tells numbers, not classes; call it, "
                "or its method `values`"
            )
        x = self._inputs(x)
        with torch.no_grad():
            best = self.objective.logits(self(x)).softmax(1).max(1)
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [(self.class_names[k], p) for k, p in pairs]

    def values(self, x: Any) -> torch.Tensor:
        """What the task tells of each input: a class's number, a probability, a number, a risk."""
        with torch.no_grad():
            return self.objective.predict(self.model(self.prepare(self._inputs(x))))

    def _inputs(self, x: Any) -> torch.Tensor:
        """A batch; what is looked up, such as words, is told by whole numbers."""
        batch = inputs_of(self.about, x)
        if looks_up(self.model) and batch.is_floating_point() and bool((batch % 1 != 0).any()):
            raise UserError("inputs are no whole numbers, which the model looks up (nn.Embedding)")
        return batch


def objective_of(about: Mapping[str, Any]) -> Objective:
    """What a model was trained for, by its card."""
    task = about.get("task", "classification")
    if task == Regression.name and "target" in about:
        centre, spread = about["target"]
        return Regression(centre=centre, spread=spread)
    return find(task)()


def load(
    run: str | Path, readout: str = "oca", model: Callable[..., nn.Module] | None = None
) -> Trained:
    """The model of a finished run, or of a folder that `fedkf export` wrote.

    `model` is the factory, for a run whose model was given to `fedkf.run` as a function.
    """
    folder = Path(run)
    if unfinished(folder):
        raise UserError(f"the run in {run} is not finished; resume it first")
    if (folder / "models").is_dir():
        folder = folder / "models"
    if not (folder / "model.json").exists():
        raise UserError(f"{run} is neither a finished run nor an exported model")
    about = told(read_card(folder), RunFolder(Path(run)).config)
    found = [p.stem for p in sorted(folder.glob("*.safetensors"))]
    if readout not in found:
        raise UserError(f"{run} has no readout {readout!r}; {nearest(readout, found)}")
    weights = read_weights(folder / f"{readout}.safetensors", about)
    return rebuilt(run, about, weights, model)


def told(about: dict[str, Any], config_of: Callable[[], Config | None]) -> dict[str, Any]:
    """A card with what the run's configuration says of reading, where an older one does not."""
    config = None if "reading" in about else config_of()
    return about if config is None else {**about, **card_of(config, tuple(about["shape"]))}


def unfinished(folder: Path) -> bool:
    """Whether a run was begun there that has not ended."""
    return (folder / "config.yaml").exists() and not (folder / "summary.json").exists()


def rebuilt(
    run: str | Path,
    about: Mapping[str, Any],
    weights: Weights,
    model: Callable[..., nn.Module] | None = None,
) -> Trained:
    """The model that a run's card describes, with these weights."""
    if model is None and about["model"] == "python":
        raise UserError(
            f"the model of {run} was given to fedkf.run as a function; "
            "load it in Python with fedkf.load(run, model=that_function)"
        )
    factory = model or models.find("model.name", about["model"], models.MODELS)
    classes = objective_of(about).outputs(len(about["class_names"]))
    offered = {"shape": tuple(about["shape"]), "classes": classes, "num_classes": classes}
    module = models.build("model.name", factory, offered)
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise UserError(f"the weights in {run} do not fit the model: {reason}") from None
    return Trained(module, about)


FORMATS = ("safetensors", "torch", "onnx")


def export(trained: Trained, folder: Path, name: str, formats: list[str]) -> list[Path]:
    """Write the model; the files written.

    `safetensors` comes with the JSON that rebuilds it; `torch` is a `torch.export` program and
    `onnx` a graph, both with the normalisation in them and any number of inputs at a time.
    """
    refuse_unscaled(trained.about)  # a graph would take any inputs without a word
    make_folder(folder)
    written = []
    if "safetensors" in formats:
        from safetensors.torch import save

        write_atomically(folder / f"{name}.safetensors", save(apart(trained.model.state_dict())))
        write_card(folder, trained.about)
        written += [folder / f"{name}.safetensors", folder / "model.json"]
    example = torch.rand(2, *trained.shape)
    batch = {0: torch.export.Dim("batch")}
    if "torch" in formats:
        program = torch.export.export(trained, (example,), dynamic_shapes=(batch,))
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        write_atomically(folder / f"{name}.pt2", buffer.getvalue())
        written.append(folder / f"{name}.pt2")
    if "onnx" in formats:
        written.append(export_onnx(trained, example, folder / f"{name}.onnx"))
    return written


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """Without what PyTorch's exporter says of its own insides and of packages nobody asked for."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def export_onnx(trained: Trained, example: torch.Tensor, path: Path) -> Path:
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError(
            "exporting to ONNX needs two more packages: pip install 'fedkf[onnx]'"
        ) from None
    try:
        with quiet_exporter():
            program = torch.onnx.export(
                trained,
                (example,),
                input_names=["inputs"],
                output_names=["logits" if trained.objective.labelled() else "values"],
                dynamic_shapes={"x": {0: torch.export.Dim("batch")}},
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise FedkfError(f"PyTorch cannot express this model in ONNX: {reason}") from error
    assert program is not None
    made = program.model_proto
    onnx.helper.set_model_props(
        made, {"task": trained.objective.name, "class_names": json.dumps(trained.class_names)}
    )
    write_atomically(path, made.SerializeToString())
    return path
