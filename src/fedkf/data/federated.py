"""FederatedData: every client's samples, normalised, in a few large tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkf.core.client import ClientData
from fedkf.core.determinism import check_device
from fedkf.core.errors import UserError
from fedkf.core.limits import in_words, memory
from fedkf.core.normalisation import normalise
from fedkf.core.random import Streams
from fedkf.data.partition import Indices
from fedkf.data.scaling import filled, moments, scale
from fedkf.data.shift import shift
from fedkf.data.source import Source, stratified
from fedkf.data.split import split

EVENTS = ["no event", "event"]
FIFTHS = ["lowest fifth", "second fifth", "third fifth", "fourth fifth", "highest fifth"]


@dataclass(frozen=True)
class FederatedData:
    """All clients' training and test samples, each client's contiguous, in the order of ids."""

    images: torch.Tensor
    labels: torch.Tensor
    offsets: NDArray[np.int64]
    test_images: torch.Tensor
    test_labels: torch.Tensor
    test_offsets: NDArray[np.int64]
    names: list[str]
    class_names: list[str]
    units: NDArray[np.int64] | None = None
    """To whom each training sample belongs, where `data.unit` says so."""
    test_groups: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    """What else is known of each test sample (`data.groups`)."""
    places: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    """Where training and test samples stand in their source, if that is known."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.images.shape[1:])

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def sizes(self) -> dict[int, int]:
        """Training samples per client."""
        return dict(enumerate(np.diff(self.offsets).tolist()))

    @cached_property
    def test_sizes(self) -> list[int]:
        sizes: list[int] = np.diff(self.test_offsets).tolist()
        return sizes

    def client(self, id: int) -> ClientData:
        train = slice(*self.offsets[id : id + 2])
        test = slice(*self.test_offsets[id : id + 2])
        units = None
        if self.units is not None:
            own = np.unique(self.units[train], return_inverse=True)[1]
            units = torch.from_numpy(own).to(self.labels.device)
        return ClientData(
            self.images[train],
            self.labels[train],
            self.test_images[test],
            self.test_labels[test],
            units,
        )

    def untested(self) -> FederatedData:
        """The same without any test samples."""
        return replace(
            self,
            test_images=self.test_images[:0],
            test_labels=self.test_labels[:0],
            test_offsets=np.zeros_like(self.test_offsets),
            test_groups={name: values[:0] for name, values in self.test_groups.items()},
            places=None if self.places is None else (self.places[0], self.places[1][:0]),
        )

    def to(self, device: str, layout: torch.memory_format) -> FederatedData:
        moved = {name: getattr(self, name).to(device) for name in ("labels", "test_labels")}
        for name in ("images", "test_images"):
            images = getattr(self, name).to(device)
            moved[name] = images.to(memory_format=layout) if images.ndim == 4 else images
        return replace(self, **moved)

    def resident(self, device: str, layout: torch.memory_format) -> Callable[[int], ClientData]:
        """Each client's data on the device of whichever process asks, moved there at first use."""
        check_device(device)
        moved: list[FederatedData] = []

        def client(id: int) -> ClientData:
            if not moved:
                moved.append(self.to(device, layout))
            return moved[0].client(id)

        return client

    @property
    def targets(self) -> str:
        """What targets are: classes, a time or a number."""
        return "classes" if self.class_names else "time" if self.labels.ndim == 2 else "number"

    @property
    def strata_names(self) -> list[str]:
        """The classes' names, or those of groups that numbers are put into to be counted."""
        if self.class_names:
            return self.class_names
        return EVENTS if self.labels.ndim == 2 else FIFTHS

    def strata(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What each training and each test sample counts as, among `strata_names`."""
        labels = torch.cat([self.labels, self.test_labels]).cpu().numpy()
        found = labels if self.class_names else stratified(labels)
        return found[: len(self.labels)], found[len(self.labels) :]

    def class_counts(self) -> NDArray[np.int64]:
        """Samples of each client (rows) and class (columns), training and test together.

        Numbers are counted by fifths, times by whether the event happened.
        """
        counts = np.zeros((len(self.names), len(self.strata_names)), dtype=np.int64)
        strata = np.concatenate(self.strata())
        clients = np.arange(len(self.names))
        owners = [np.repeat(clients, np.diff(o)) for o in (self.offsets, self.test_offsets)]
        np.add.at(counts, (np.concatenate(owners), strata), 1)
        return counts

    def digest(self) -> str:
        """A hash of every sample and of who holds it."""
        total = hashlib.sha256()
        for part in (self.images, self.labels, self.test_images, self.test_labels):
            total.update(part.numpy().tobytes())
        for offsets in (self.offsets, self.test_offsets):
            total.update(offsets.tobytes())
        return total.hexdigest()


@dataclass(frozen=True)
class Preparation:
    """What is done to samples before training: split, shift, resize, normalise."""

    mean: Sequence[float] = (0.0,)
    std: Sequence[float] = (1.0,)
    image_size: int | None = None
    train_fraction: float = 0.8
    shift: Sequence[str] = ()
    shift_strength: float = 0.5
    split: str = "random"
    scaling: str = "none"
    """`site`: by each client's own mean and deviation, rather than by `mean` and `std`."""
    by_unit: bool = False
    """Whether clients are to know which samples are of one unit."""
    private: bool = False
    """Whether no sample may tell of another: missing values become the `mean` that is given."""


def federate(
    source: Source,
    parts: Sequence[Indices],
    prepare: Preparation,
    streams: Streams,
    names: Sequence[str] = (),
) -> FederatedData:
    """Split each client's samples into training and test, and prepare them once for all rounds."""
    check_size(source, prepare.image_size)
    random = streams.numpy_generator("split")
    train, test = split(source, parts, prepare.train_fraction, random, prepare.split)
    gather = Gathering(source, prepare, streams, own_moments(source, train, prepare))
    return FederatedData(
        *gather(train, "train"),
        *gather(test, "test"),
        names=list(names) or [f"client {k}" for k in range(len(parts))],
        class_names=source.class_names,
        test_groups=grouped(source, test),
        units=source.units[np.concatenate(train)]
        if prepare.by_unit and source.units is not None
        else None,
        places=None
        if source.index is None
        else (source.index[np.concatenate(train)], source.index[np.concatenate(test)]),
    )


def federate_tests(
    source: Source, parts: Sequence[Indices], prepare: Preparation, streams: Streams, first: int
) -> FederatedData:
    """The same for owners who train on nothing; they are numbered from `first` on.

    Who is scaled by statistics of its own is so by those of what it has.
    """
    check_size(source, prepare.image_size)
    gather = Gathering(source, prepare, streams, own_moments(source, parts, prepare), first)
    return FederatedData(
        *gather([part[:0] for part in parts], "train"),
        *gather(list(parts), "test"),
        names=list(source.owner_names),
        class_names=source.class_names,
        test_groups=grouped(source, parts),
    )


@dataclass(frozen=True)
class Gathering:
    """Samples of clients from `first` on, prepared: called with each client's, and for what."""

    source: Source
    prepare: Preparation
    streams: Streams
    own: Sequence[tuple[list[float], list[float] | None]]
    first: int = 0

    def __call__(
        self, groups: list[Indices], purpose: str
    ) -> tuple[torch.Tensor, torch.Tensor, NDArray[np.int64]]:
        source, prepare, streams = self.source, self.prepare, self.streams
        x = resize(as_floats(source, np.concatenate(groups)), prepare.image_size)
        offsets = np.concatenate([[0], np.cumsum([len(g) for g in groups])]).astype(np.int64)
        for k in range(len(groups) if prepare.shift else 0):
            span = slice(offsets[k], offsets[k + 1])
            # The same amounts for a client's training and test samples, but other noise.
            amounts = streams.torch_generator("shift", client=self.first + k)
            noise = streams.torch_generator(f"shift {purpose}", client=self.first + k)
            x[span] = shift(x[span], prepare.shift, prepare.shift_strength, amounts, noise)
        labels = torch.from_numpy(source.labels[np.concatenate(groups)])
        for k, (mean, std) in enumerate(self.own):
            span = slice(offsets[k], offsets[k + 1])
            x[span] = normalise(filled(x[span], mean), [0.0] if std is None else mean, std or [1.0])
        x = filled(x, prepare.mean) if source.measured else x
        return normalise(x, prepare.mean, prepare.std), labels, offsets


def grouped(source: Source, parts: Sequence[Indices]) -> dict[str, NDArray[np.str_]]:
    """What else is known of all clients' samples, one client after the other."""
    chosen = np.concatenate(parts)
    return {name: values[chosen] for name, values in source.groups.items()}


def own_moments(
    source: Source, train: Sequence[Indices], prepare: Preparation
) -> list[tuple[list[float], list[float] | None]]:
    """By what each client fills and scales its own samples, if by statistics of its own.

    Missing values are filled with them also where nothing is scaled, as nothing else is known;
    under privacy the given mean is, since a client's own would carry every sample into others.
    """
    if not source.measured or prepare.scaling == "federated" or prepare.private:
        return []
    if prepare.scaling == "none" and not np.isnan(source.inputs).any():
        return []
    found = [scale(moments(source.inputs[part], least=1)) for part in train]
    return [(mean, std if prepare.scaling == "site" else None) for mean, std in found]


def check_size(source: Source, size: int | None) -> None:
    """Refuse to make more of the images than this machine's memory holds."""
    if size is not None and source.images:
        count, channels = source.inputs.shape[:2]
        needed = 4 * count * channels * size**2
        if needed > memory():
            raise UserError(
                f"data.image_size is {size}, for which {count} images take {in_words(needed)}, "
                f"more than the {in_words(memory())} that are kept in this machine's memory"
            )


def as_floats(source: Source, chosen: Indices) -> torch.Tensor:
    """Samples as float32; images of bytes are scaled to [0, 1]."""
    return as_tensor(source.inputs[chosen])


def as_tensor(inputs: NDArray[Any]) -> torch.Tensor:
    """Inputs as float32; images of bytes are scaled to [0, 1]."""
    x = torch.from_numpy(np.array(inputs, order="C"))
    return x.float() / 255 if x.dtype == torch.uint8 and x.ndim == 4 else x.float()


def resize(images: torch.Tensor, size: int | tuple[int, ...] | None) -> torch.Tensor:
    """Images of `size` pixels square, or of (height, width); anything else as it is."""
    wanted = (size, size) if isinstance(size, int) else size
    if wanted is None or images.ndim != 4 or tuple(images.shape[2:]) == wanted:
        return images
    if not len(images):
        return images.new_zeros(0, images.shape[1], *wanted)
    return torch.nn.functional.interpolate(
        images, size=wanted, mode="bilinear", align_corners=False, antialias=True
    )
