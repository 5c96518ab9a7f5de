"""Samples from a generator that is trained on a finished model, for a report to show.

Never a client's generator, which has been trained beside the client's data and stays with it; and
never a real image. Whoever has the model can make these samples, so showing them discloses nothing
that the model does not.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedkf.core.errors import FedkfError
from fedkf.core.payload import write_atomically
from fedkf.runs.files import Unreadable, open_plain, read_plain

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.runs.trained import Trained

CACHE = "samples.json"
STEPS, BATCH, NOISE, WIDTH = 150, 64, 64, 16
MOST = 24
PIXELS = 64 * 64
Png = Annotated[str, Field(pattern=r"^iVBORw0KGgo[A-Za-z0-9+/=]*$", max_length=100_000)]


class Sample(BaseModel):
    """A generated image, what the model takes it for, and how sure it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    png: Png
    taken_for: str
    sure: Annotated[float, Field(ge=0, le=1)]


class Samples(BaseModel):
    """What is kept in the run's folder; `key` says of which model."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    key: str
    images: Annotated[list[Sample], Field(max_length=MOST)]


class NoSamples(Exception):
    """Why a run has none."""


def cached(run: Path, readout: str = "oca") -> Samples | None:
    """The samples made before, if they are of this very model."""
    with contextlib.suppress(Unreadable, ValidationError):
        content = read_plain(run / CACHE)
        if content is not None:
            kept = Samples.model_validate_json(content)
            return kept if kept.key == key_of(run, readout) else None
    return None


def pictured(run: Path) -> bool:
    """Whether a run's model takes images, as far as that is known."""
    try:
        about = json.loads(read_plain(run / "models" / "model.json") or b"{}")
        return len(about.get("shape", "CHW")) == 3
    except (Unreadable, ValueError, AttributeError, TypeError):
        return True


def key_of(run: Path, readout: str) -> str:
    """The model and how it is sampled."""
    models = run / "models"
    about = None if models.is_symlink() else read_plain(models / "model.json")
    weights = open_plain(models / f"{readout}.safetensors") if about is not None else None
    if weights is None or about is None:
        raise Unreadable("the run has no finished model")
    one_logit = ["one logit"] if b'"task": "binary"' in about else []  # once told as many
    settings = json.dumps([readout, STEPS, BATCH, NOISE, WIDTH, MOST, *one_logit]).encode()
    with os.fdopen(weights, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return hashlib.sha256(b"\0".join((settings, about, digest))).hexdigest()


def make(run: Path, own_code: bool = False, readout: str = "oca") -> Samples:
    """Train the generator, unless its samples are kept already; NoSamples says why not.

    A run's folder may come from somebody else, so code that it names is imported only on request.
    """
    if kept := cached(run, readout):
        return kept
    try:
        key = key_of(run, readout)
        made = Samples(key=key, images=draw(load_model(run, own_code, readout)))
    except FedkfError as error:
        raise NoSamples(str(error)) from None
    except (ValueError, LookupError, TypeError, RuntimeError) as error:
        raise NoSamples(f"the model cannot be sampled: {' '.join(str(error).split())}") from None
    with contextlib.suppress(OSError):  # a folder that cannot be written has no cache
        write_atomically(run / CACHE, made.model_dump_json().encode())
    return made


def load_model(run: Path, own_code: bool, readout: str) -> Trained:
    from fedkf import models
    from fedkf.core.objective import OBJECTIVES, Classification, find
    from fedkf.runs.trained import load

    about = json.loads(read_plain(run / "models" / "model.json") or b"{}")
    name, shape = str(about["model"]), [int(side) for side in about["shape"]]
    task = str(about.get("task", Classification.name))
    for part, named, ours in (("model", name, models.MODELS), ("task", task, OBJECTIVES)):
        if named not in ours and not own_code:
            raise NoSamples(
                f"the {part} is code of its own ({named}), which a report imports only when it is "
                "made with --samples"
            )
    if not find(task).labelled():
        raise NoSamples("the model tells numbers, and images are shown by their classes")
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise NoSamples("the model's inputs are no images")
    if shape[1] * shape[2] > PIXELS:
        raise NoSamples("the model's inputs are larger than a quick generator can learn")
    return load(run, readout)


def draw(trained: Trained) -> list[Sample]:
    """The surest samples of each class, the same for the same model."""
    import torch

    from fedkf.core.random import GlobalStream
    from fedkf.core.threads import threads

    with threads(1), GlobalStream(0, "cpu").active():
        images, p = generate(trained)
    sure, taken = p.max(1)
    classes = taken.unique().tolist()
    each = max(1, min(4, MOST // len(classes)))
    samples = []
    for k in classes[:MOST]:
        of_class = torch.nonzero(taken == k).flatten()
        for index in of_class[sure[of_class].argsort(descending=True)][:each].tolist():
            name = trained.class_names[k]
            samples.append(
                Sample(png=encode(images[index]), taken_for=name, sure=float(sure[index]))
            )
    return samples


def generate(trained: Trained) -> tuple[Tensor, Tensor]:
    """Images in [0, 1] from a new generator, and what the model says about them."""
    import torch

    from fedkf.algorithms.fedkf import FedKF
    from fedkf.distillation.losses import judge
    from fedkf.models.generator import ReleasedGenerator

    about = trained.about
    mean, std = about["mean"], about["std"]
    generator = ReleasedGenerator(trained.shape, NOISE, WIDTH, mean, std)
    loss_of = FedKF(entropy="scaled", activation="mean").generator_loss
    optimizer = torch.optim.Adam(generator.parameters(), lr=0.003)
    model, logits_of = trained.model.requires_grad_(False), trained.objective.logits
    for _ in range(STEPS):
        features, outputs = judge(model, generator(torch.randn(BATCH, NOISE)))
        loss = loss_of(features, logits_of(outputs))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        made = generator(torch.randn(4 * BATCH, NOISE))
        p = logits_of(model(made)).softmax(1)
    shape = (-1, 1, 1)
    images = made * torch.tensor(std).view(shape) + torch.tensor(mean).view(shape)
    return images.clamp(0, 1), p


def encode(image: Tensor) -> str:
    """A PNG as text."""
    from PIL import Image

    pixels = (image * 255).round().byte().permute(1, 2, 0).numpy()
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()
