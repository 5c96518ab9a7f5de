"""Data-free distillation in one place: a teacher, and students that never see its data.

T2 without a federation, as in the paper's table of teachers and students. The generator, its losses
and its training are FedKF's own; settings may show the student random drawings besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fedkf.algorithms.fedkf import FedKF
from fedkf.core.client import Client, ClientData
from fedkf.core.determinism import exact
from fedkf.core.errors import UserError, nearest
from fedkf.core.evaluation import correct
from fedkf.core.objective import find
from fedkf.core.random import GlobalStream
from fedkf.core.task import Task, copy_of
from fedkf.data.federated import FederatedData
from fedkf.distillation.generators import TrainedGenerator
from fedkf.distillation.losses import judge
from fedkf.distillation.samples import Drawing, Noise
from fedkf.runs.config import resolve
from fedkf.runs.schema import Config
from fedkf.runs.setup import load_source, make_data, make_task, settle

if TYPE_CHECKING:
    from fedkf.core.payload import Weights
    from fedkf.core.samples import Samples

Progress = Callable[[str, int, int], None]
"""Told what is being trained, the steps done and all of them."""

ROLES = {"teacher": 0, "student": 1, "student on noise": 2}


@dataclass(frozen=True)
class Settings:
    """How teacher and students are trained."""

    name: str
    lambda1: float
    lambda2: float
    generator_lr: float
    adversarial: bool = False
    drawings: bool = False  # whether the student also sees a batch of random drawings at each step
    steps: int = 6000
    batch_size: int = 64  # of the students; the teacher's is that of the configuration
    lr: float = 0.01
    momentum: float = 0.0
    decay: bool = False  # whether the models' learning rates fall linearly to zero
    width: int | None = None  # of the generator; none: the configuration's
    teacher_epochs: int = 30
    teacher_lr: float = 0.01


PAPER = {
    "lenet5": Settings("paper", 0.2, 0.02, 0.2, width=128),
    "resnet8": Settings("paper", 0.01, 0.002, 0.02, lr=0.1, teacher_lr=0.1, width=128),
}
"""What the paper says of this experiment: plain SGD, 0.01 or 0.1 for teacher and student alike, and
the width of its generator. It leaves steps and batches open."""

WORKS = {
    name: replace(
        paper,
        name="works",
        drawings=True,
        batch_size=128,
        steps=4000,
        lr=0.05 if name == "lenet5" else 0.1,
        momentum=0.9,
        decay=True,
        width=None,
        teacher_epochs=12,
    )
    for name, paper in PAPER.items()
}
"""Settings of our own: larger batches, momentum and a falling learning rate, drawings beside
generated images, and a teacher that is not trained until its answers are hard."""

SETTINGS = {"paper": PAPER, "works": WORKS}


def choose(name: str, model: str, **changes: Any) -> Settings:
    """The settings of that name for a model, with what is to differ."""
    if name not in SETTINGS:
        raise UserError(f"--settings {name}: {nearest(name, SETTINGS)}")
    settings = SETTINGS[name].get(model, SETTINGS[name]["lenet5"])
    return replace(settings, **{k: v for k, v in changes.items() if v is not None})


@dataclass(frozen=True)
class Outcome:
    """Accuracies on test samples, averaged images of each class, and the trained generator."""

    settings: Settings
    teacher: float
    students: dict[str, float]
    curve: list[tuple[int, float]]
    class_names: list[str]
    averages: dict[str, np.ndarray[Any, Any]]
    generator: Weights

    def numbers(self) -> dict[str, Any]:
        """What goes into a JSON file."""
        return {
            "settings": asdict(self.settings),
            "teacher": self.teacher,
            "students": self.students,
            "curve": self.curve,
        }


class Central:
    """One party that holds all the data: trains the teacher, then students without data."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self.settings = settings
        options: dict[str, Any] = {
            "lambda1": settings.lambda1,
            "lambda2": settings.lambda2,
            "adversarial": settings.adversarial,
        }
        self.config, self.data, self.task = central_task(config, settings)
        self.fedkf = FedKF(**{**FedKF.fidelity[self.config.fidelity], **options})
        whole = self.data.resident(self.task.device, self.task.layout)
        self.samples: ClientData = whole(0)

    def train(self, client: Client, steps: int, step: Callable[[int], torch.Tensor]) -> None:
        """Steps of the client's model; its learning rate falls to zero if the settings say so."""
        for done in range(steps):
            left = 1 - done / steps if self.settings.decay else 1.0
            for group in client.optimizer.param_groups:
                group["lr"] = group["initial_lr"] * left
            client.step(step(done))

    def begin(self, role: str, lr: float) -> Client:
        """A model of its own first weights, ready to train."""
        # Each role has its own random streams: they take the place of a client's number.
        client = Client(ROLES[role], 1, self.samples, self.task)
        client.start(self.first_weights(role))
        for group in client.optimizer.param_groups:
            group["lr"] = group["initial_lr"] = lr
        return client

    def first_weights(self, role: str) -> Weights:
        seed = self.task.streams.integer("model", client=ROLES[role])
        with GlobalStream(seed, "cpu").active():
            return copy_of(self.task.make_model())

    def accuracy(self, model: torch.nn.Module) -> float:
        model.eval()
        tests = self.samples.test_images, self.samples.test_labels
        hits = correct(model, *tests, self.task.objective)
        model.train()
        return float(hits.double().mean())

    def teach(self, progress: Progress) -> Weights:
        """The teacher, trained on the real data."""
        client = self.begin("teacher", self.settings.teacher_lr)
        each = max(1, client.size // self.task.training.batch_size)
        steps = self.settings.teacher_epochs * each
        batches = endless(client)

        def step(done: int) -> torch.Tensor:
            if done % each == 0:
                progress("teacher", done, steps)
            x, y = next(batches)
            return client.task.loss(client.model(x), y)

        self.train(client, steps, step)
        return copy_of(client.model)

    def study(
        self, role: str, taught: Weights, make: Callable[[Client], Samples], progress: Progress
    ) -> tuple[float, list[tuple[int, float]], Samples]:
        """A student that sees only samples and what the teacher says about them."""
        client = self.begin(role, self.settings.lr)
        teacher, samples = client.teacher(taught), make(client)
        distil = self.task.objective.distil
        every = max(1, self.settings.steps // 20)
        curve: list[tuple[int, float]] = []
        last: list[Any] = []
        drawings = Drawing(client) if self.settings.drawings and role == "student" else None

        def step(done: int) -> torch.Tensor:
            if last:  # the generator's step comes after the student's, as in the released program
                self.fedkf.train_generator(client, samples, *last)
            if done % every == 0:
                curve.append((done, self.accuracy(client.model)))
                progress(role, done, self.settings.steps)
            fake = samples.draw()
            features, logits = judge(teacher, fake)
            last[:] = [fake, features, logits]
            loss = distil(logits.detach(), client.model(fake.detach()))
            if drawings is not None:
                drawn = drawings.draw()
                loss = loss + distil(judge(teacher, drawn)[1], client.model(drawn))
            return loss

        self.train(client, self.settings.steps, step)
        curve.append((self.settings.steps, self.accuracy(client.model)))
        return curve[-1][1], curve, samples

    def averages(self, taught: Weights, samples: Samples) -> dict[str, np.ndarray[Any, Any]]:
        """The mean real and the mean generated image of each class, in [0, 1]."""
        client = Client(ROLES["teacher"], 2, self.samples, self.task)
        teacher = client.teacher(taught)
        fakes, labels = [], []
        with torch.no_grad():
            for _ in range(max(1, 64 * self.task.classes // self.settings.batch_size)):
                fakes.append(samples.draw())
                labels.append(self.task.objective.logits(teacher(fakes[-1])).argmax(1))
        real = self.samples.images, self.samples.labels
        made = torch.cat(fakes), torch.cat(labels)
        return {"real": self.mean_images(*real), "generated": self.mean_images(*made)}

    def mean_images(self, images: torch.Tensor, labels: torch.Tensor) -> np.ndarray[Any, Any]:
        mean, std = (np.array([*v])[:, None, None] for v in (self.task.mean, self.task.std))
        rows = []
        for label in range(self.task.classes):
            own = images[labels == label]
            average = own.double().mean(0).cpu().numpy() if len(own) else np.nan
            rows.append(np.clip(average * std + mean, 0, 1) + np.zeros(self.task.shape))
        return np.stack(rows)


def central_task(config: Config, settings: Settings) -> tuple[Config, FederatedData, Task]:
    """All samples at one client, split into training and test as a client's are."""
    overrides = {
        "data.clients": 1,
        "data.partition": "iid",
        "federation.momentum": settings.momentum,
        "federation.local_epochs": 1,
        "federation.steps": "own",
        "generator.lr": settings.generator_lr,
        "generator.batch_size": settings.batch_size,
        "federation.weight_decay": 0.0,
        "algorithm.name": "fedkf",
    }
    if settings.width is not None:
        overrides["generator.width"] = settings.width
    config = resolve(config.model_dump(mode="json"), overrides)
    source = load_source(config)
    config = settle(config, source)
    data = make_data(config, source)
    return config, data, make_task(config, data, FedKF())


def endless(client: Client) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Batches of an endless, reshuffled stream; what is left of an epoch is dropped."""
    random = client.random("batches")
    size = min(client.task.training.batch_size, client.size)
    while True:
        order = torch.randperm(client.size, generator=random)
        for index in order[: client.size - client.size % size].split(size):
            yield client.data.images[index], client.data.labels[index]


def distill(
    config: Config, settings: Settings, progress: Progress = lambda what, done, steps: None
) -> Outcome:
    """Teacher, data-free student, and a student on plain noise."""
    if not find(config.data.task).labelled():
        raise UserError(f"distill needs classes, and data.task {config.data.task} has none")
    torch.set_num_threads(config.engine.threads)
    central = Central(config, settings)
    if len(central.task.shape) != 3:
        raise UserError("distill needs images")
    with exact(central.task.device):
        taught = central.teach(progress)
        teacher = central.accuracy(central.task.load("student", taught))
        accuracy, curve, samples = central.study("student", taught, TrainedGenerator, progress)
        assert isinstance(samples, TrainedGenerator)
        generator = copy_of(samples.generator)
        averages = central.averages(taught, samples)
        noise, _, _ = central.study("student on noise", taught, Noise, progress)
    students = {"data-free": accuracy, "plain noise": noise}
    names = central.data.class_names
    return Outcome(settings, teacher, students, curve, names, averages, generator)
