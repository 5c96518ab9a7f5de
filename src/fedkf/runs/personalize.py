"""Personalize: a trained model goes on training at each client, and each client is asked again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedkf import algorithms
from fedkf.algorithms.fedprox import FedProx
from fedkf.core.algorithm import option
from fedkf.core.client import Call, Client, Reply
from fedkf.core.errors import FedkfError, UserError, nearest
from fedkf.core.evaluation import measured, outputs
from fedkf.core.payload import Payload
from fedkf.core.threads import threads
from fedkf.data.federated import FederatedData
from fedkf.data.source import Say, Source
from fedkf.metrics.sites import ACCURACY, SITE_METRICS, summary_of
from fedkf.runs.assembly import Assembly
from fedkf.runs.engines import make_engine
from fedkf.runs.judging import judgement_of
from fedkf.runs.places import make_folder
from fedkf.runs.privacy import refused
from fedkf.runs.schema import Config
from fedkf.runs.setup import Objects, load_source, make_data, settle
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import load

if TYPE_CHECKING:
    from torch import nn

METHODS = ("finetune", "proximal")


@dataclass(frozen=True)
class Personal(FedProx):
    """Local training once more, for the client's own sake; without the proximal term μ is 0."""

    name: ClassVar[str] = "personalize"
    client_steps: ClassVar[Mapping[str, tuple[str, ...]]] = {"personalize": ("monitoring",)}
    metric: str = option(ACCURACY, "of a client's test samples", choices=tuple(SITE_METRICS))

    def personalize(self, client: Client, down: Payload) -> Payload:
        found: dict[str, float] = {"tested": len(client.data.test_labels)}
        if found["tested"]:
            shared = client.task.load("student", down["weights"]).eval()
            before = self.judged(client, shared)
            self.local_update(client, down)
            after = self.judged(client, client.model.eval())
            if before is not None and after is not None:
                found |= {"before": before, "after": after}
        return Payload(monitoring=found)

    def judged(self, client: Client, model: nn.Module) -> float | None:
        """The metric of a model on the client's test samples, where these can tell it."""
        x, y, task = client.data.test_images, client.data.test_labels, client.task
        about = SITE_METRICS[self.metric]
        return measured(about, outputs(model, x), y, task.objective, task.classes)


@threads(1)  # or no worker with several could be forked
def personalize(
    run: str | Path,
    method: str = "finetune",
    *,
    epochs: int | None = None,
    lr: float | None = None,
    mu: float | None = None,
    readout: str = "oca",
    workers: int | None = None,
    model: Callable[..., nn.Module] | None = None,
    clients: Mapping[str, Any] | None = None,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """What a finished run's model does for every client before and after training of its own.

    It is judged by the run's metric: accuracy, the task's, or `evaluation.metric`.
    `finetune` trains on the client's data, `proximal` also holds the model near the shared one with
    the weight `mu` (0.1). Epochs and learning rate are the run's unless given; a schedule of the
    run's does not lower the rate. `model` and `clients` are needed for a run that was given them in
    Python. What is returned is also written to RUN/personalize-METHOD.json.

    >>> import fedkf, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> result = fedkf.run("digits", algorithm="fedavg", rounds=1, workers=0, out=folder)
    >>> len(fedkf.personalize(folder, epochs=1, workers=0)["clients"])
    10
    """
    held = check(method, epochs, lr, mu)
    if not isinstance(run, str | Path):
        raise UserError(f"run is a {type(run).__name__}; give the folder of a finished run")
    folder = RunFolder(Path(run))
    config = folder.config()
    if config is None:
        raise UserError(f"{run} holds no run")
    if not algorithms.shares_model(config.algorithm.name):
        raise UserError(f"{run} trained every client alone, so there is no shared model")
    if config.privacy.on:
        raise refused("fedkf personalize", "personal models learn from samples without noise")
    shared = load(run, readout, model)
    make_folder(folder.path)
    from fedkf.data.datasets import from_object
    from fedkf.data.targets import Targets

    source = None
    if clients is not None:
        source = from_object(clients, targets=Targets(config.data.task))
    config, data = data_of(folder, config, say, source)
    training = {
        "local_epochs": epochs or config.federation.local_epochs,
        "lr": lr or config.federation.lr,
        "steps": "own",
        "schedule": "constant",  # there are no rounds to lower the rate over
    }
    settings = config.federation.model_copy(update=training)
    config = config.model_copy(update={"federation": settings})
    down = Payload(weights=shared.model.state_dict())
    if workers is not None:
        engine = config.engine.model_copy(update={"workers": workers})
        config = config.model_copy(update={"engine": engine})
    metric = judgement_of(config).metric
    algorithm = Personal(mu=held, metric=metric)
    assembly = Assembly.of(config, data, Objects(algorithm=algorithm, model=model))
    found = ask(assembly, data, down, say)
    result = {
        "run": str(run),
        "readout": readout,
        "method": method,
        "epochs": settings.local_epochs,
        "lr": settings.lr,
        **({"mu": held} if method == "proximal" else {}),
        **({"metric": metric} if metric != ACCURACY else {}),
        **table(data, found, metric),
    }
    folder.write_json(f"personalize-{method}.json", result)
    return result


def check(method: str, epochs: int | None, lr: float | None, mu: float | None) -> float:
    """The proximal term's weight, or a sentence about what was given."""
    if method not in METHODS:
        raise UserError(f"method is {method!r}; {nearest(method, METHODS)}")
    if epochs is not None and epochs < 1:
        raise UserError(f"epochs is {epochs}; it must be at least 1")
    if lr is not None and not (lr > 0 and math.isfinite(lr)):
        raise UserError(f"lr is {lr:g}; it must be a number above 0")
    if mu is None:
        return 0.1 if method == "proximal" else 0.0
    if method != "proximal":
        raise UserError("mu goes with the method proximal")
    if not (mu >= 0 and math.isfinite(mu)):
        raise UserError(f"mu is {mu:g}; it must be a number of at least 0")
    return mu


def data_of(
    folder: RunFolder, config: Config, say: Say, source: Source | None = None
) -> tuple[Config, FederatedData]:
    """The clients' data that a run was trained on, and its configuration settled for it."""
    source = load_source(config, say, source)
    config = settle(config, source)
    data = make_data(config, source)
    if folder.provenance().get("data_sha256") != data.digest():
        raise UserError(
            f"the data is not the one that {folder.path} was trained on, so some of its training "
            "samples would be tested on; evaluate takes new data with --data"
        )
    return config, data


def ask(
    assembly: Assembly, data: FederatedData, down: Payload, say: Say
) -> dict[int, dict[str, int | float]]:
    """What every client found, from as many processes as a run would have."""
    import tempfile

    from fedkf.core.versions import Versions

    calls = [Call("personalize", k, 0, None, "0") for k in range(len(data.names))]
    found = {}

    def accept(reply: Reply) -> bool:
        if reply.upload is None:
            raise FedkfError(f"{data.names[reply.call.client]}: {reply.error}")
        found[reply.call.client] = reply.upload.numbers["monitoring"]
        return True

    with tempfile.TemporaryDirectory(prefix="fedkf-") as nowhere:
        host = assembly.host_of(data, Versions(Path(nowhere)))
        engine = make_engine(assembly.config, host, data, say)
        try:
            engine.exchange(calls, down, accept)
        finally:
            engine.close()
    return found


def table(
    data: FederatedData, found: Mapping[int, Mapping[str, int | float]], metric: str
) -> dict[str, Any]:
    """What clients have before and after, one by one and in a few numbers."""
    clients: list[dict[str, Any]] = []
    for k, name in enumerate(data.names):
        before, after = (found[k].get(key) for key in ("before", "after"))
        gain = None if before is None or after is None else after - before
        row = {"name": name, "tested": int(found[k]["tested"])}
        clients.append({**row, "before": before, "after": after, "gain": gain})
    sizes = [c["tested"] for c in clients]
    numbers = {k: summary_of(metric, [c[k] for c in clients], sizes) for k in ("before", "after")}
    return {**numbers, "clients": clients}
