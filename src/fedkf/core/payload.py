"""Payload: the one thing that crosses the wire or reaches the disk."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from fedkf.core.errors import FedkfError, nearest

if TYPE_CHECKING:
    from torch import Tensor

Weights = dict[str, "Tensor"]
Number = int | float

PRIVATE = "private"
"""The kind of a group that nobody declared. A client never uploads it."""

KINDS = {
    "weights": "model weights",
    "sizes": "number of training samples",
    "monitoring": "training losses; counts of correct and of tested samples",
    "local_loss": "loss on the client's data, as an input of the algorithm",
    "label_counts": "number of samples per class",
    "feature_statistics": "statistics of features per class",
    "input_statistics": "count, mean and spread of each input, to agree on a scale",
    "test_statistics": "counts and sums over the test samples, by class and by score",
    "proxy_data": "data that stands in for the clients'",
    "public_keys": "public keys of one round, for sums that hide their parts",
    "sealed_shares": "shares of the secrets behind masks, which only other clients can read",
    "masked_weights": "model weights and size behind masks that vanish in the sum only",
    "mask_shares": "what takes the masks from the sum, and from no single model",
}
HIDING = ("public_keys", "sealed_shares", "masked_weights", "mask_shares")
"""The kinds that secure sums send: they tell what the clients of a round add up to, and no more."""
LEAKAGE = (
    *("label_counts", "feature_statistics", "proxy_data", "input_statistics", "test_statistics"),
)
"""The kinds that the paper's Table I counts as leakage beyond FedAvg, and what is like them."""


LONGEST_HEADER = 1 << 24
"""Bytes of names, shapes and numbers that a payload may have."""
NO_HEADER = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What goes wrong where a header is none, or is nested a thousand times."""


class PayloadError(FedkfError):
    """Bytes or a file that are not a payload."""


class Payload:
    """Named groups of tensors and numbers, each group with a kind that says what it discloses.

    A group named after a kind has that kind; any other is private until a kind is given.

    >>> import torch
    >>> down = Payload(weights={"w": torch.zeros(3)})
    >>> down = down.add("teacher", {"w": torch.ones(3)}, kind="weights")
    >>> down.nbytes()
    {'weights': 24}
    >>> Payload.from_bytes(down.to_bytes())["teacher"]["w"]
    tensor([1., 1., 1.])
    """

    def __init__(self, **groups: Mapping[str, Tensor | Number]) -> None:
        self.tensors: dict[str, Weights] = {}
        self.numbers: dict[str, dict[str, Number]] = {}
        self.kinds: dict[str, str] = {}
        self.bases: dict[str, str] = {}
        for name, values in groups.items():
            self.add(name, values)

    def add(
        self,
        group: str,
        values: Mapping[str, Tensor | Number],
        kind: str | None = None,
        base: str | None = None,
    ) -> Payload:
        """Add a group, or replace the one of that name; returns the payload itself.

        `base` names a model that this one is near, so that a codec may send the difference: a
        group of the same message on the way down, of what came down on the way up. It is itself
        sent in full.
        """
        if "/" in group:
            raise ValueError(f"a group's name has no slash: {group!r}")
        if kind is not None and kind != PRIVATE and kind not in KINDS:
            raise ValueError(f"no kind of payload {kind!r}; {nearest(kind, KINDS)}")
        self.kinds[group] = kind or (group if group in KINDS else PRIVATE)
        self.numbers[group], self.tensors[group] = {}, {}
        self.bases.pop(group, None)
        if base is not None:
            self.bases[group] = base
        for name, value in values.items():
            if isinstance(value, int | float):
                self.numbers[group][name] = value
            elif isinstance(value, torch.Tensor):
                self.tensors[group][name] = value
            else:
                raise TypeError(f"{group}/{name} is neither a tensor nor a number: {value!r}")
        return self

    def __getitem__(self, group: str) -> Weights:
        return self.tensors[group]

    def __contains__(self, group: str) -> bool:
        return group in self.kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def number(self, group: str, name: str) -> Number:
        return self.numbers[group][name]

    def replace(self, **groups: Mapping[str, Tensor | Number]) -> Payload:
        """A payload with the same groups but for those given; tensors are shared, not copied."""
        new = self.of_kinds(self.kinds.values())
        for name, values in groups.items():
            new.add(name, values, self.kinds.get(name), self.bases.get(name))
        return new

    def of_kinds(self, kinds: Container[str]) -> Payload:
        """A payload with the groups of these kinds only."""
        new = Payload()
        for name, kind in self.kinds.items():
            if kind in kinds:
                new.add(
                    name, {**self.tensors[name], **self.numbers[name]}, kind, self.bases.get(name)
                )
        return new

    def nbytes(self) -> dict[str, int]:
        """Bytes of content per kind: tensors as they are encoded, eight bytes a number."""
        sizes: dict[str, int] = {}
        for group, kind in self.kinds.items():
            tensors = sum(t.nbytes for t in self.tensors[group].values())
            sizes[kind] = sizes.get(kind, 0) + tensors + 8 * len(self.numbers[group])
        return sizes

    # -- one serialiser for wire and disk -------------------------------------------------------

    def _flat(self) -> tuple[Weights, dict[str, str]]:
        flat: Weights = {}
        storages = set()
        for group, tensors in self.tensors.items():
            for name, tensor in tensors.items():
                value = tensor.detach().cpu().contiguous()
                storage = value.untyped_storage().data_ptr()
                # safetensors refuses tensors that share memory, such as one sent in two groups.
                flat[f"{group}/{name}"] = value.clone() if storage in storages else value
                storages.add(storage)
        # One metadata key only: with more, safetensors orders them differently from run to run.
        header = {"kinds": self.kinds, "numbers": self.numbers}
        if self.bases:
            header["bases"] = self.bases
        return flat, {"fedkf": json.dumps(header, sort_keys=True)}

    def to_bytes(self) -> bytes:
        from safetensors.torch import save

        tensors, metadata = self._flat()
        return save(tensors, metadata)

    @classmethod
    def from_bytes(cls, data: bytes) -> Payload:
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            length = int.from_bytes(data[:8], "little")
            if length > min(LONGEST_HEADER, len(data) - 8):
                raise PayloadError(f"not a payload: its header has {length} bytes")
            tensors = load(data)  # which refuses what is no header before Python's objects are made
            metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
            return cls._build(tensors, metadata)
        except (SafetensorError, *NO_HEADER) as error:
            raise PayloadError(f"not a payload: {error}") from None

    def save(self, path: Path) -> None:
        """Write atomically; `sync_folder`, once for many files, makes their names durable."""
        write_atomically(path, self.to_bytes(), sync=False)

    @classmethod
    def load(cls, path: Path) -> Payload:
        try:
            return cls.from_bytes(path.read_bytes())
        except PayloadError as error:
            raise PayloadError(f"{path} is damaged ({error})") from None

    @classmethod
    def _build(cls, flat: Weights, metadata: Mapping[str, str]) -> Payload:
        header = json.loads(metadata["fedkf"])
        payload, bases = cls(), header.get("bases", {})
        for group, kind in header["kinds"].items():
            payload.add(group, header["numbers"][group], str(kind), bases.get(group))
        for key, tensor in flat.items():
            group, _, name = key.partition("/")
            payload.tensors[group][name] = tensor
        return payload


def write_atomically(path: Path, data: bytes, sync: bool = True) -> None:
    """Write `data` to a temporary neighbour, flush it to the disk, and rename it to `path`.

    A loss of power undoes the renaming no more, unless whoever writes many files takes it upon
    himself to `sync` their folder.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # see `written_in`
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def written_in(temporary: Path) -> str:
    """The name of the file that a temporary neighbour was to become."""
    return temporary.name[1:].rsplit(".", 2)[0]


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems know no such thing
            raise
    finally:
        os.close(descriptor)


# -- arithmetic on weights -----------------------------------------------------------------------


def weighted_mean(items: Iterable[tuple[float, Weights]]) -> Weights:
    """Σ n w / Σ n in float64, in the order given; integer tensors are the heaviest item's.

    >>> import torch
    >>> weighted_mean([(1, {"w": torch.tensor([0.0])}), (3, {"w": torch.tensor([4.0])})])
    {'w': tensor([3.])}
    """
    items = list(items)
    total = math.fsum(n for n, _ in items)
    heaviest = max(items, key=lambda item: item[0])[1]
    mean: Weights = {}
    for name, first in items[0][1].items():
        if not first.is_floating_point():
            mean[name] = heaviest[name].clone()
            continue
        acc = torch.zeros(first.shape, dtype=torch.float64)
        for n, weights in items:
            acc.add_(weights[name].double(), alpha=n)
        mean[name] = (acc / total).to(first.dtype)
    return mean
