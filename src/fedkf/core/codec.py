"""Codec: lighter messages. Algorithms and T1 see decoded values, the ledger encoded bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fedkf.core.payload import Payload, Weights

SCALE = "scale:"
BITS = {"delta8": 8, "delta4": 4}
Change = Callable[[Weights, Weights, int], Weights]


@dataclass(frozen=True)
class Codec:
    """What is sent instead of full weights.

    Down, `delta8` and `delta4` send every further model, a group whose name begins with `teacher`,
    as a difference from the first, quantised to 8 or 4 bits with a scale per tensor. Up, `half`
    sends float16 and `delta8` the difference from the model that came down. Only matrices and
    kernels are quantised: biases and the statistics of normalisations are small, and sensitive.
    """

    downlink: str = "full"
    uplink: str = "full"

    def encode_down(self, down: Payload) -> Payload:
        return self._teachers(down, quantise)

    def decode_down(self, wire: Payload) -> Payload:
        return self._teachers(wire, restore)

    def encode_up(self, upload: Payload, down: Payload) -> Payload:
        if self.uplink == "full" or "weights" not in upload:
            return upload
        if self.uplink == "half":
            return upload.replace(weights=half(upload["weights"]))
        return upload.replace(weights=quantise(upload["weights"], down["weights"], 8))

    def decode_up(self, wire: Payload, down: Payload) -> Payload:
        if self.uplink == "full" or "weights" not in wire:
            return wire
        if self.uplink == "half":
            wanted = down["weights"]
            full = {
                name: t.to(wanted[name].dtype) if name in wanted else t
                for name, t in wire["weights"].items()
            }
            return wire.replace(weights=full)
        return wire.replace(weights=restore(wire["weights"], down["weights"], 8))

    def _teachers(self, payload: Payload, change: Change) -> Payload:
        """Change every further model relative to the first."""
        if self.downlink == "full" or "weights" not in payload:
            return payload
        base, bits = payload["weights"], BITS[self.downlink]
        changed = {
            group: change(payload[group], base, bits)
            for group in payload
            if group.startswith("teacher") and shaped_alike(payload[group], base)
        }
        return payload.replace(**changed)


def shaped_alike(group: Weights, base: Weights) -> bool:
    """Whether a group holds the tensors of the base (encoded or not), and not those of another."""
    return {name for name in group if not name.startswith(SCALE)} == set(base)


def half(weights: Weights) -> Weights:
    return {n: t.half() if t.is_floating_point() else t for n, t in weights.items()}


def is_quantised(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.ndim > 1


def quantise(weights: Weights, base: Weights, bits: int) -> Weights:
    """Differences from `base` as small whole numbers, and a scale for each tensor."""
    wire: Weights = {}
    top = 2 ** (bits - 1) - 1
    for name, tensor in weights.items():
        if not is_quantised(tensor):
            wire[name] = tensor
            continue
        delta = (tensor.double() - base[name].double()).float()
        scale = delta.abs().max() / top if delta.numel() else delta.new_zeros(())
        steps = (delta / scale.clamp_min(torch.finfo(torch.float32).tiny)).round()
        whole = steps.nan_to_num().clamp(-top, top).to(torch.int8)
        wire[name] = pack(whole) if bits == 4 else whole
        wire[SCALE + name] = scale
    return wire


def restore(wire: Weights, base: Weights, bits: int) -> Weights:
    """What `quantise` was given, up to half a step of the scale."""
    weights: Weights = {}
    for name, like in base.items():
        if not is_quantised(like):
            weights[name] = wire[name]
            continue
        whole = unpack(wire[name], like.numel()) if bits == 4 else wire[name]
        delta = whole.view(like.shape).double() * wire[SCALE + name]
        weights[name] = (like.double() + delta).to(like.dtype)
    return weights


def pack(whole: torch.Tensor) -> torch.Tensor:
    """Two numbers of −7 to 7 in a byte."""
    flat = (whole.flatten() + 8).to(torch.uint8)
    if len(flat) % 2:
        flat = torch.cat([flat, flat.new_zeros(1)])
    return flat[::2] | flat[1::2] << 4


def unpack(packed: torch.Tensor, count: int) -> torch.Tensor:
    pairs = torch.stack([packed & 15, packed >> 4], 1).flatten()[:count]
    return pairs.to(torch.int8) - 8
