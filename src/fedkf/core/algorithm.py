"""Algorithm: what the server keeps, what goes down, what a client does, what comes up.

The defaults are FedAvg. Every other algorithm overrides a method or two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from fedkf.core.arithmetic import combine
from fedkf.core.errors import UserError, nearest
from fedkf.core.evaluation import judge, mean_loss
from fedkf.core.objects import declares
from fedkf.core.payload import Payload, Weights, weighted_mean
from fedkf.core.personal import Personalisation

if TYPE_CHECKING:
    from torch import Tensor

    from fedkf.core.client import Client
    from fedkf.core.server import Server, Upload

State = Payload
LocalLoss = Callable[["Tensor", "Tensor"], "Tensor"]
ON_UPLOADS = ("aggregate", "round", "finish", "uploads", "discloses", "client_steps", "evaluate")
"""What decides what a server needs of single uploads."""


def option(
    default: bool | int | float | str,
    doc: str,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    choices: Sequence[str] = (),
) -> Any:
    """A documented hyperparameter of an algorithm, with its default and the values it may take."""
    limits = {"above": above, "at_least": at_least, "at_most": at_most}
    return field(default=default, metadata={"doc": doc, "choices": tuple(choices), **limits})


@dataclass(frozen=True)
class Algorithm:
    """An algorithm is its hyperparameters, frozen, and these methods.

    >>> import fedkf
    >>> class Halfway(fedkf.Algorithm):
    ...     name = "halfway"
    ...
    ...     def aggregate(self, server, state, uploads):
    ...         mean = server.mean((u.size, u["weights"]) for u in uploads)
    ...         old = state["weights"]
    ...         return state.replace(weights={k: (old[k] + mean[k]) / 2 for k in mean})
    >>> fedkf.run("digits", algorithm=Halfway(), rounds=1, workers=0).summary["algorithm"]
    'halfway'
    """

    name: ClassVar[str] = ""
    fairness_aware: ClassVar[bool] = False
    needs_proxy_data: ClassVar[bool] = False
    discloses: ClassVar[tuple[str, ...]] = ()
    """Kinds of payload that leave a client beside weights, sizes and monitoring."""
    uploads: ClassVar[tuple[str, ...]] = ("weights",)
    """What the upload of `local_update` must hold: names of groups, or `group/entry`; a group that
    is not called what it is names its kind as well (`steps:sizes/count`)."""
    client_steps: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "local_update": (),
        "evaluate": ("monitoring",),
    }
    """The methods that clients may be asked for, and what each one's upload must hold; that of
    `local_update` is in `uploads`. A client refuses any other method."""
    without_samples: ClassVar[tuple[str, ...]] = ()
    """Those of them that touch no sample, so that privacy has nothing to account for."""
    shared_model: ClassVar[bool] = True
    """Ends in one model for all; False where every client is judged by a model of its own."""
    tasks: ClassVar[tuple[str, ...]] = ()
    """The values of `data.task` that it is for; none means any."""
    assumes_sgd: ClassVar[bool] = False
    """Its rule reckons with steps of `federation.lr` down the gradient, and with nothing else."""
    personal_models: ClassVar[bool] = False
    """Its clients keep models of their own, which it judges as the readout "personal"."""
    uses_generator: ClassVar[bool] = False
    """Distils on generated samples, so the model's features are needed too."""
    uses_features: ClassVar[bool] = False
    """Works on the model's features, so that a model without any is refused beforehand."""
    continues: ClassVar[bool] = True
    """Between two epochs, local training keeps nothing but what `Client` and `Samples` do, so that
    after a crash it can go on. A class that overrides any of its methods says it again."""
    private: ClassVar[bool] = True
    """On a client it touches samples through `client.loss` alone, which `privacy` makes private. A
    class that overrides any of its methods there says it again."""
    means_by_server: ClassVar[bool] = True
    """Its `aggregate` takes no mean but `server.mean`, so that a robust one can take its place.

    A class with an `aggregate` of its own says so anew.
    """
    sums_only: ClassVar[bool] = False
    """Its server needs nothing of the uploads but the mean of their weights by size, so that it may
    be kept from seeing single ones (`transport.secure`). A class with any of `ON_UPLOADS` of its
    own says so anew."""
    tiny: ClassVar[Mapping[str, Any]] = {}
    """Hyperparameters that spare the server work, with the same messages and passes on clients."""
    fidelity: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Hyperparameters that `fidelity: text` and `fidelity: released` set."""

    def __new__(cls, *args: Any, **options: Any) -> Algorithm:
        self = super().__new__(cls)
        names = (*list(cls.options())[: len(args)], *options)
        object.__setattr__(self, "given", frozenset(names))
        return self

    # -- on the server --------------------------------------------------------------------------

    def start(self, server: Server) -> State:
        """What the server knows before the first round."""
        return Payload(weights=server.task.initial_weights)

    def round(self, server: Server, state: State) -> State:
        """One round: send, let the active clients work, aggregate."""
        down = self.broadcast(server, state)
        return self.aggregate(server, state, server.exchange("local_update", server.active, down))

    def broadcast(self, server: Server, state: State) -> Payload:
        """What goes down, the same for every active client."""
        return Payload(weights=state["weights"])

    def aggregate(self, server: Server, state: State, uploads: Sequence[Upload]) -> State:
        """The next state from the accepted uploads, which come in the order of client ids."""
        return state.replace(weights=server.mean((u.size, u["weights"]) for u in uploads))

    def model(self, state: State) -> Weights:
        """The algorithm's own global model: the readout "aca"."""
        return state["weights"]

    def finish(self, server: Server, readouts: dict[str, Weights]) -> dict[str, Weights]:
        """A last change to the readouts after training."""
        return readouts

    def fault(self, server: Server, step: str, upload: Payload) -> str:
        """Why an upload that is well-formed cannot be used after all; nothing if it can."""
        return ""

    # -- on a client ----------------------------------------------------------------------------

    def local_update(self, client: Client, down: Payload) -> Payload:
        """SGD on the local loss, from the weights that came down."""
        client.start(down["weights"])
        loss = self.local_loss(client, down)
        for x, y in client.batches():
            client.step(loss(x, y))
        return client.upload()

    def local_loss(self, client: Client, down: Payload) -> LocalLoss:
        """The loss of a batch as a function; whatever it needs once is prepared here."""
        return client.loss

    def evaluate(self, client: Client, down: Payload) -> Payload:
        """How many of the client's test samples each readout in `down` classifies correctly.

        Beside that go the counts and sums that `data.metrics` asks for.
        An algorithm whose clients have models of their own may add a readout that counts those.
        """
        return judge(client.task, client.data, down)

    def personal(self, client: Client, readouts: Payload) -> Weights:
        """The model that the client is to use, which stays with it.

        Here it makes the shared one its own, as `evaluation.personal` says.
        """
        shared = readouts["oca"] if "oca" in readouts else readouts["aca"]
        return client.task.part(Personalisation).make(client, shared)

    def evaluate_personal(self, client: Client, down: Payload) -> Payload:
        """`evaluate`, with the client's own model as one more readout."""
        own = self.personal(client, down) if len(client.data.test_labels) else down["aca"]
        return self.evaluate(client, down.replace(personal=own))

    def beside_loss(self) -> list[str]:
        """The hyperparameters that, as they are, use samples beside `client.loss`.

        Where a class is `private` but for these, privacy refuses them by name; 0 turns each off.
        """
        return []

    given: ClassVar[frozenset[str]] = frozenset()
    """The hyperparameters that this object was given; the others are defaults."""

    @classmethod
    def takes_robust_means(cls) -> bool:
        """Whether another mean may take the place of the one by size."""
        owner = next(kind for kind in cls.__mro__ if "aggregate" in vars(kind))
        return bool(vars(owner).get("means_by_server", False))

    @classmethod
    def takes_sums(cls) -> bool:
        """Whether the sum of the uploads is all that its server needs."""
        return declares(cls, "sums_only", ON_UPLOADS)

    # -- hyperparameters ------------------------------------------------------------------------

    @classmethod
    def options(cls) -> dict[str, Mapping[str, Any]]:
        """The hyperparameters by name, each with its default, documentation and limits."""
        own = vars(cls).get("__annotations__", {})
        known = {f.name for f in fields(cls)}
        for name, kind in own.items():
            if name not in known and "ClassVar" not in str(kind):
                raise UserError(f"put @dataclass(frozen=True) above class {cls.__name__}")
        return {f.name: {"default": f.default, **f.metadata} for f in fields(cls)}

    @classmethod
    def create(cls, given: Mapping[str, Any]) -> Algorithm:
        """The algorithm with the hyperparameters of a configuration."""
        takes = cls.options()
        for key in given:
            if key not in takes:
                if not takes:
                    raise UserError(f"algorithm.{key}: {cls.name} has no hyperparameters")
                raise UserError(
                    f"algorithm.{key}: {cls.name} has no such hyperparameter "
                    f"(it takes {', '.join(takes)}); {nearest(key, takes)}"
                )
        return cls(**given)

    def __post_init__(self) -> None:
        for name, about in self.options().items():
            value = check(name, getattr(self, name), about)
            object.__setattr__(self, name, value)


def check(name: str, value: Any, about: Mapping[str, Any]) -> bool | int | float | str:
    """The value of a hyperparameter, or a sentence that says what it may be."""
    kind = type(about["default"])
    if kind is float and type(value) is int:
        value = float(value)
    limits = [
        f"{words} {about[key]:g}"
        for key, words in (("above", "above"), ("at_least", "at least"), ("at_most", "at most"))
        if math.isfinite(about.get(key, math.inf))
    ]
    if about.get("choices"):
        allowed = "one of " + ", ".join(about["choices"])
        fine = value in about["choices"]
    else:
        nouns = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        allowed = " ".join([nouns[kind], *([" and ".join(limits)] if limits else [])])
        fine = type(value) is kind
        if fine and kind in (int, float):
            fine = (
                math.isfinite(value)
                and value > about.get("above", -math.inf)
                and about.get("at_least", -math.inf) <= value <= about.get("at_most", math.inf)
            )
    if not fine:
        raise UserError(f"algorithm.{name} is {value!r}; it must be {allowed}")
    result: bool | int | float | str = value
    return result


def starting_loss(client: Client, weights: Weights) -> float:
    """The mean loss of a model on all of the client's training data, as it is before training."""
    model, data = client.start(weights).eval(), client.data
    return mean_loss(client.task, model, data.images, data.labels)


def part_way(server: Server, start: Weights, end: Weights, rate: float) -> Weights:
    """start + rate (end − start) of what is learned; buffers go to the end, whatever the rate.

    They are no gradients: twice the way to another variance can lie below 0.
    """
    learned = set(server.task.parameters)
    further = combine(lambda e, s: s + rate * (e - s), end, start)
    whole = combine(lambda e, s: s + (e - s), end, start)
    return {name: tensor if name in learned else whole[name] for name, tensor in further.items()}


def with_shared(server: Server, weights: Weights) -> Weights:
    """Weights in which a parameter has under all its names what it has under the first."""
    first = server.task.first_names
    return {name: weights[first.get(name, name)] for name in weights}


def with_mean_buffers(server: Server, uploads: Sequence[Upload], weights: Weights) -> Weights:
    """New parameters with buffers, such as batch norm's statistics, averaged as in FedAvg.

    They are no gradients: a rule that stretches or mixes updates would spoil them. A parameter has
    under all its names what it has under the first.
    """
    learned = set(server.task.parameters)
    mean = weighted_mean(
        (u.size, {name: t for name, t in u["weights"].items() if name not in learned})
        for u in uploads
    )
    new = {name: mean.get(name, tensor) for name, tensor in weights.items()}
    return with_shared(server, new)
