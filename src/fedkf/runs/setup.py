"""The parts of an experiment, made from its configuration: data, task, algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedkf import algorithms, models
from fedkf.core.algorithm import Algorithm
from fedkf.core.determinism import prepare
from fedkf.core.errors import UserError
from fedkf.core.objective import Survival
from fedkf.core.personal import Personalisation
from fedkf.core.random import GlobalStream, Streams
from fedkf.core.samples import Sampling
from fedkf.core.task import Task, Training
from fedkf.data import sources
from fedkf.data.federated import FederatedData, Preparation, federate
from fedkf.data.holdout import federate_holdout, held_out
from fedkf.data.partition import BY_CLASSES
from fedkf.data.source import Say, Source, limit_per_class, named
from fedkf.distillation import SAMPLES, samples_for
from fedkf.distillation.generators import Generation
from fedkf.models.check import (
    check_batch_size,
    check_generator,
    check_model,
    check_samples,
    check_single,
)
from fedkf.models.personal import Personal
from fedkf.runs.data_keys import OWN_CLIENTS
from fedkf.runs.division import (
    divide,
    listed,
    reading_of,
    settled_layout,
    settled_scale,
    settled_target,
)
from fedkf.runs.generation import make_generation
from fedkf.runs.judging import judgement_of, make_objective
from fedkf.runs.privacy import make_privacy, protects_units, settled_turns, try_private
from fedkf.runs.proxies import divided, named_proxy
from fedkf.runs.schema import FIDELITY, FIDELITY_PARTITION, Config

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn


@dataclass(frozen=True)
class Objects:
    """Parts of an experiment that were made in Python rather than named in a configuration."""

    algorithm: Algorithm | None = None
    model: Callable[..., nn.Module] | None = None
    generator: Callable[..., nn.Module] | None = None
    source: Source | None = None
    proxy: NDArray[Any] | None = None


@dataclass(frozen=True)
class LoadedSamples:
    """What the clients hold, and the inputs that the server has for itself, if any."""

    source: Source
    proxy: NDArray[Any] | None = None
    holdout: Source | None = None
    """What the sites hold that take no part (`data.holdout`)."""


def load_samples(
    config: Config,
    say: Say = lambda text: None,
    given: Objects = Objects(),  # noqa: B008
) -> LoadedSamples:
    """The samples that a configuration names, or those given, each read once."""
    (source, held), settings = participants(config, say, given.source), config.data
    if settings.proxy is None:
        return LoadedSamples(source, holdout=held)
    if given.proxy is not None:
        return LoadedSamples(source, given.proxy, held)
    if isinstance(settings.proxy, str):
        return LoadedSamples(source, named_proxy(config, source.inputs.shape[1:], say), held)
    return LoadedSamples(*divided(config, source), held)


def load_source(
    config: Config, say: Say = lambda text: None, given: Source | None = None
) -> Source:
    """The clients' samples: all of the source but a share that `data.proxy` sets aside."""
    source, _ = participants(config, say, given)
    return source if isinstance(config.data.proxy, str | None) else divided(config, source)[0]


def participants(
    config: Config, say: Say = lambda text: None, given: Source | None = None
) -> tuple[Source, Source | None]:
    """The samples of those who take part, and of the sites that `data.holdout` names.

    `data.limit` is for each of the two by itself: which samples take part must not hang on a site
    that does not.
    """
    source, names = whole_source(config, say, given), config.data.holdout
    if names is None:
        tell_clients(config, source, say)
        return limited(config, source), None
    rest, held = held_out(source, listed(names))
    tell_clients(config, rest, say)
    return limited(config, rest), limited(config, held)


def tell_clients(config: Config, source: Source, say: Say) -> None:
    """Tell of a number of clients that the data's own sites leave without effect."""
    data, count = config.data, len(source.owner_names)
    given = "clients" in data.model_fields_set and data.clients not in (count, OWN_CLIENTS)
    if given and source.owners is not None and data.partition in (None, "natural"):
        say(
            f"data.clients is {data.clients}, but the data's own {count} sites are the clients; "
            "data.partition divides all samples anew"
        )


def whole_source(
    config: Config, say: Say = lambda text: None, given: Source | None = None
) -> Source:
    """The samples that a configuration names, or those given, with its class names."""
    settings = config.data
    if given is not None:
        source = named(given, settings.class_names)
    else:
        source = sources.read(settings.source, settings.path, reading_of(settings), say)
    return replace(source, index=np.arange(len(source.labels)))


def limited(config: Config, source: Source) -> Source:
    """As many samples of each class as `data.limit` allows."""
    settings = config.data
    if settings.limit is None:
        return source
    random = Streams(settings.seed).numpy_generator("limit")
    return limit_per_class(source, settings.limit, random)


def settle(config: Config, source: Source) -> Config:
    """The configuration with everything spelled out that depends on the data."""
    settled = settled_data(config, source)
    shape, generator = tuple(source.inputs.shape[1:]), config.generator
    models.check_model_for(config.model.name, shape)
    for_images = FIDELITY[config.fidelity]["generator"]["name"]
    fits = models.generator_for(generator.name, shape, for_images)
    update = {
        "data": config.data.model_copy(update=settled),
        "generator": generator.model_copy(update={"name": fits}),
        **settled_turns(config, settled["clients"]),
    }
    return config.model_copy(update=update)


def settled_data(config: Config, source: Source) -> dict[str, Any]:
    """What the data says for its section: division, classes, scale and what inputs are made of."""
    data, middle = config.data, (0.5, 0.5) if source.images else (0.0, 1.0)
    division, owned = settled_division(config, source), source.owners is not None
    check_units(config, source)
    settled: dict[str, Any] = {
        "mean": data.mean if data.mean is not None else [middle[0]],
        "std": data.std if data.std is not None else [middle[1]],
        "class_names": source.class_names,
        "partition": division,
        "clients": len(source.owner_names) if division == "natural" and owned else data.clients,
        **settled_layout(source),
    }
    scaled = data.model_copy(update={k: v for k, v in settled.items() if k not in ("mean", "std")})
    settled |= settled_scale(scaled, source)
    if not config.privacy.on:  # a mean of targets would leave without noise
        settled |= settled_target(data.model_copy(update=settled), source)
    check_channels(settled, source)
    return settled


def settled_division(config: Config, source: Source) -> str:
    """How samples are divided over the clients: as asked, as the data says, or as is usual."""
    data = config.data
    usual = "natural" if source.owners is not None else FIDELITY_PARTITION[config.fidelity]
    division = data.partition or usual
    if source.class_names or division not in BY_CLASSES:
        return division
    if data.partition is not None:
        raise UserError(
            f"data.partition is {division}, which divides classes, and data.task "
            f"{data.task} has none; it may be iid, quantity or natural"
        )
    return "iid"


def check_units(config: Config, source: Source) -> None:
    """Refuse `data.split_by` where nothing says whose samples are whose."""
    data = config.data
    if data.split_by is not None and source.units is None:
        raise UserError(
            f"data.split_by is {data.split_by!r}, but {data.source} has no columns or arrays of "
            "that kind; a table, signals or an .npz file may have, and in Python clients={name: "
            "(train, test)} gives a split of your own"
        )


def check_channels(settled: Mapping[str, Any], source: Source) -> None:
    """Refuse a mean or a deviation that is neither one number nor one for each channel."""
    channels = source.inputs.shape[1]
    for key in ("mean", "std"):
        if len(settled[key]) not in (1, channels):
            what = "the images have {} channels" if source.images else "inputs start with {}"
            raise UserError(
                f"data.{key} has {len(settled[key])} numbers but {what.format(channels)}"
            )


def make_data(config: Config, source: Source) -> FederatedData:
    """The clients' data; the configuration is a settled one."""
    settings = config.data
    parts = divide(settings, source)
    names = source.owner_names if settings.partition == "natural" else ()
    return federate(source, parts, preparation(config, source), Streams(settings.seed), names)


def make_holdout(config: Config, source: Source | None) -> FederatedData | None:
    """The data of sites that take no part, all of it to test with."""
    if source is None:
        return None
    settings = config.data
    prepare, streams = preparation(config, source), Streams(settings.seed)
    return federate_holdout(source, prepare, streams, settings.clients)


def preparation(config: Config, source: Source) -> Preparation:
    """What a settled configuration does to a source's samples."""
    settings = config.data
    assert settings.mean is not None
    assert settings.std is not None
    return Preparation(
        settings.mean,
        settings.std,
        settings.image_size,
        settings.train_fraction,
        settings.shift,
        settings.shift_strength,
        settings.split or "random",
        settings.scaling or "none",
        protects_units(settings, source),
        config.privacy.on,
    )


def make_algorithm(config: Config, given: Algorithm | None = None) -> Algorithm:
    """The algorithm of a configuration, or the one given; behind secure sums if it says so."""
    options = config.algorithm.model_dump(exclude={"name"})
    algorithm = given or algorithms.get(config.algorithm.name).create(options)
    if not config.transport.secure:
        return algorithm
    from fedkf.secure.sums import secured

    return secured(algorithm, config.transport.threshold, config.transport.exact)


def model_factory(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
    factory: Callable[..., nn.Module] | None = None,
) -> Callable[[], nn.Module]:
    """A function that builds the configuration's model, or the one of a factory given instead.

    `classes` is the number of its outputs: 1 for a task that is no choice between classes.
    """
    make = factory or models.find("model.name", config.model.name, models.MODELS)
    offered = {"shape": shape, "classes": classes, "num_classes": classes}
    return partial(models.build, "model.name", make, offered)


class Known(Protocol):
    """What a task must know of the data."""

    @property
    def sizes(self) -> Mapping[int, int]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def class_names(self) -> Sequence[str]: ...


def make_training(config: Config, sizes: Mapping[int, int]) -> Training:
    """How clients of these sizes train."""
    settings = config.federation
    steps = settings.steps if isinstance(settings.steps, int) else None
    if settings.steps == "equal":
        steps = max(1, sum(sizes.values()) // (len(sizes) * settings.batch_size))
    same = ("local_epochs", "batch_size", "lr", "momentum", "weight_decay", "rounds")
    more = ("optimizer", "clip", "schedule", "precision")
    given = {key: getattr(settings, key) for key in (*same, *more)}
    return Training(steps_per_epoch=steps, **given)


def make_task(
    config: Config,
    data: Known,
    algorithm: Algorithm,
    given: Objects = Objects(),  # noqa: B008
) -> Task:
    """The learning task that a settled configuration describes, tried out before it is used."""
    prepare(config.engine.device)  # whatever works there has a task
    settings, generator, evaluation = config.federation, config.generator, config.evaluation
    samples = samples_for(generator.samples, data.shape)
    source = models.find("generator.samples", samples, SAMPLES)
    generation = make_generation(config, data.shape, given.generator)
    aim, classes = make_objective(config), len(data.class_names)
    if aim.weights is not None and len(aim.weights) != classes:
        raise UserError(
            f"data.class_weights has {len(aim.weights)} numbers but there are {classes} classes"
        )
    training = make_training(config, data.sizes)
    private = make_privacy(config, data.sizes, training)
    task = Task(
        make_model=model_factory(config, data.shape, aim.outputs(classes), given.model),
        shape=data.shape,
        classes=classes,
        objective=aim,
        statistics=judgement_of(config).statistics,
        training=training,
        streams=Streams(settings.seed),
        parts=[
            Sampling(source, generator.batch_size, generator.reuse),
            generation,
            Personalisation(Personal(evaluation.personal, evaluation.personal_epochs)),
            *private,
        ],
        mean=config.data.mean or (0.0,),
        std=config.data.std or (1.0,),
        device=config.engine.device,
        channels_last=len(data.shape) == 3 and config.engine.threads == 1,
    )
    with GlobalStream(0, "cpu").active():
        try_parts(config, task, algorithm)
        if private:
            try_private(task)
    return task


def try_parts(config: Config, task: Task, algorithm: Algorithm) -> None:
    """Trial passes through the model and, where the algorithm uses one, the generator."""
    settings, model = config.generator, task.make_model()
    if algorithm.uses_generator:
        check_samples(model, settings.samples)
    features = algorithm.uses_generator or algorithm.uses_features
    check_model(model, task.shape, task.outputs, features)
    check_batch_size(model, config.federation.batch_size, config.data.task == Survival.name)
    if not algorithm.uses_generator:
        return
    generator = task.part(Generation).make()
    check_generator(generator, settings.noise, task.shape)
    own_batches = "server_batch" in algorithm.options()  # as of FedFTG, on its server
    if task.part(Sampling).count(task) > 1 or own_batches:
        return
    key = f"{'federation' if settings.batch_size is None else 'generator'}.batch_size"
    if settings.samples == "trained":
        check_single(key, generator, (settings.noise,))
    check_single(key, model, task.shape)
