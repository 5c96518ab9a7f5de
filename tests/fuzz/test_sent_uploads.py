"""Whatever a client sends: it is used or it is refused and named, and nobody else is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from campaign import Broken, all_held, case, fuzz
from hypothesis import given
from hypothesis import strategies as st
from mutations import changed_bytes
from torch import nn
from torch.utils.data import TensorDataset

import fedkf
from fedkf import algorithms
from fedkf.core.errors import FedkfError
from fedkf.core.payload import Payload, PayloadError
from fedkf.core.uploads import ALWAYS_DISCLOSED, fault

DOWN = Payload(weights={"w": torch.zeros(3), "n": torch.tensor(3)}).add(
    "control", {"w": torch.zeros(3)}, "weights"
)


def sound() -> Payload:
    """An upload as several algorithms send it."""
    upload = Payload(weights={"w": torch.ones(3), "n": torch.tensor(4)})
    upload.add("control", {"w": torch.ones(3)}, "weights").add("steps", {"count": 7}, "sizes")
    return upload.add("monitoring", {"loss": 0.5})


def test_bytes_that_are_no_payload_are_told_from_those_that_are() -> None:
    @fuzz(150)
    @given(content=changed_bytes(sound().to_bytes()) | st.binary(max_size=60))
    def explore(content: bytes) -> None:
        with case("payloads", content[:200]):
            try:
                found = Payload.from_bytes(content)
                if fault(found, DOWN) == "":
                    check_sound(found)
            except PayloadError:
                return
            except Exception as error:
                raise Broken(f"{type(error).__name__}: {error}") from None

    explore()
    all_held("payloads")


def check_sound(upload: Payload) -> None:
    """An upload that was not found at fault fits the model that went down."""
    for group in ("weights", "control"):
        if upload.kinds.get(group) != "weights":
            raise Broken(f"{group} are missing or of another kind, and nobody minds")
        for name, sent in DOWN[group].items():
            got = upload[group].get(name)
            if got is None or got.shape != sent.shape or not bool(got.double().isfinite().all()):
                raise Broken(f"{group} {name} is {got}, and nobody minds")


# -- whole rounds ---------------------------------------------------------------------------------

Lie = Callable[[Payload], Payload]
NUMBERS = [math.nan, math.inf, -1, 0, 1e300, -1e300, 10**400, 2**63, True, 0.5]


def every_tensor(change: Callable[[torch.Tensor], torch.Tensor]) -> Lie:
    def lie(upload: Payload) -> Payload:
        groups = {g: {n: change(t) for n, t in upload[g].items()} for g in upload}
        return rebuilt(upload, lambda g: {**groups[g], **upload.numbers[g]})

    return lie


def rebuilt(upload: Payload, values: Callable[[str], dict[str, Any]]) -> Payload:
    new = Payload()
    for group, kind in upload.kinds.items():
        new.add(group, values(group), kind)
    return new


def without(group: int) -> Lie:
    def lie(upload: Payload) -> Payload:
        left, gone = Payload(), sorted(upload)[group % len(list(upload))]
        for name in upload:
            if name != gone:
                left.add(name, {**upload[name], **upload.numbers[name]}, upload.kinds[name])
        return left

    return lie


def of_kind(kind: str) -> Lie:
    def lie(upload: Payload) -> Payload:
        new = Payload()
        for name in upload:
            new.add(name, {**upload[name], **upload.numbers[name]}, kind)
        return new

    return lie


def every_number(value: float) -> Lie:
    return lambda upload: rebuilt(
        upload, lambda g: {**upload[g], **dict.fromkeys(upload.numbers[g], value)}
    )


def one_short(upload: Payload) -> Payload:
    return rebuilt(upload, lambda g: {**dict(list(upload[g].items())[1:]), **upload.numbers[g]})


def one_more(upload: Payload) -> Payload:
    more = {"more": torch.ones(1), "number": 3}
    return rebuilt(upload, lambda g: {**upload[g], **upload.numbers[g], **more})


def as_tensors(upload: Payload) -> Payload:
    return rebuilt(
        upload,
        lambda g: {**upload[g], **{n: torch.tensor(v) for n, v in upload.numbers[g].items()}},
    )


def as_numbers(upload: Payload) -> Payload:
    def values(group: str) -> dict[str, Any]:
        kept = upload[group] if group == "weights" else dict.fromkeys(upload[group], 1)
        return {**kept, **upload.numbers[group]}

    return rebuilt(upload, values)


def raising(error: type[BaseException]) -> Lie:
    def lie(upload: Payload) -> Payload:
        raise error("a client's own doing")

    return lie


RAISED: dict[str, type[BaseException]] = {
    error.__name__: error for error in (SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError)
}
LIES: dict[str, Lie] = {
    "empty": lambda upload: Payload(),
    "another group": lambda upload: upload.add("x", {"w": torch.ones(2)}, "weights"),
    "one tensor short": one_short,
    "one value more": one_more,
    "numbers as tensors": as_tensors,
    "tensors as numbers": as_numbers,
    "not a number": every_tensor(lambda t: t * math.nan),
    "infinite": every_tensor(lambda t: t + math.inf),
    "1e30": every_tensor(lambda t: t * 0 + 1e30),
    "-1e30": every_tensor(lambda t: t * 0 - 1e30),
    "double": every_tensor(lambda t: t.double()),
    "whole numbers": every_tensor(lambda t: t.long()),
    "complex": every_tensor(lambda t: t.to(torch.complex64)),
    "another shape": every_tensor(lambda t: t[None]),
    "no elements": every_tensor(lambda t: t.flatten()[:0]),
    **{f"without group {k}": without(k) for k in range(3)},
    **{f"all of kind {kind}": of_kind(kind) for kind in ALWAYS_DISCLOSED},
    **{f"numbers {str(n)[:8]}": every_number(n) for n in NUMBERS},
    **{name: raising(error) for name, error in RAISED.items()},
}
STEPS = ("local_update", "describe")
NAMES = [n for n in algorithms.names() if not algorithms.get(n).uses_generator]


@cache
def sites() -> dict[str, TensorDataset]:
    random = np.random.default_rng(0)
    images = torch.tensor(random.random((40, 1, 4, 4)), dtype=torch.float32)
    labels = torch.arange(40) % 2
    return {
        name: TensorDataset(images[10 * k : 10 * k + 10], labels[10 * k : 10 * k + 10])
        for k, name in enumerate("abcd")
    }


def model() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.ReLU(), nn.Linear(3, 2))


def lying(name: str, lie: Lie) -> fedkf.Algorithm:
    """The algorithm, with a client 1 that lies in every step of its own."""
    kind = algorithms.get(name)

    def lies(step: str) -> Callable[..., Any]:
        honest = getattr(kind, step)

        def perform(self: Any, client: Any, down: Payload) -> Any:
            upload = honest(self, client, down)
            return lie(upload) if client.id == 1 else upload

        return perform

    steps = {step: lies(step) for step in STEPS if hasattr(kind, step)}
    made: fedkf.Algorithm = type(f"Lying{kind.__name__}", (kind,), steps)()
    return made


def test_a_client_that_lies_is_named_and_nobody_else() -> None:
    options: dict[str, Any] = dict(rounds=2, fraction=1.0, local_epochs=1, lr=0.05, workers=0)
    proxy = torch.rand(8, 1, 4, 4, generator=torch.Generator().manual_seed(0)).numpy()

    @fuzz(12)
    @given(name=st.sampled_from(NAMES), lie=st.sampled_from(sorted(LIES)))
    def explore(name: str, lie: str) -> None:
        needs: dict[str, Any] = {"proxy": proxy} if algorithms.get(name).needs_proxy_data else {}
        with case("uploads", f"{name}, {lie}"):
            try:
                algorithm = lying(name, LIES[lie])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that somebody was left out
                    result = fedkf.run(
                        model=model, clients=sites(), algorithm=algorithm, **options, **needs
                    )
            except FedkfError as error:
                if lie in RAISED and "client 1" in str(error):
                    return  # code that fails at a client may end a simulation, in a sentence
                raise Broken(f"the run ended: {error}") from None
            except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
                raise Broken(f"the run ended with {type(error).__name__}: {error}") from None
            named = {refusal["client"] for line in result.history for refusal in line["refused"]}
            if named - {1}:
                raise Broken(f"honest clients {sorted(named - {1})} were refused")
            for readout, built in result.models.items():
                if not all(p.isfinite().all() for p in built.parameters()):
                    raise Broken(f"the model {readout} is not finite")

    explore()
    all_held("uploads")
