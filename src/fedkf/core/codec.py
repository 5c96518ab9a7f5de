"""Codec: lighter messages. Algorithms and T1 see decoded values, the ledger encoded bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fedkf.core.payload import Payload, Weights

SCALE = "scale:"
Change = Callable[[Weights, Weights], Weights]


@dataclass(frozen=True)
class Codec:
    """What is sent instead of full weights.

    Down, `delta8` and `delta4` send every model but the first as a difference from it, quantised to
    8 or 4 bits with a scale per tensor. Up, `half` sends float16 and `delta8` the difference from
    the model that came down.
    """

    downlink: str = "full"
    uplink: str = "full"

    def encode_down(self, down: Payload) -> Payload:
        if self.downlink == "full" or "weights" not in down:
            return down
        bits = 4 if self.downlink == "delta4" else 8
        return self._others(down, lambda group, base: quantise(group, base, bits))

    def decode_down(self, wire: Payload) -> Payload:
        if self.downlink == "full" or "weights" not in wire:
            return wire
        bits = 4 if self.downlink == "delta4" else 8
        return self._others(wire, lambda group, base: restore(group, base, bits))

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

    def _others(self, payload: Payload, change: Change) -> Payload:
        """Change every group of weights but the one named so, relative to that one."""
        base = payload["weights"]
        changed = {
            group: change(payload[group], base)
            for group, kind in payload.kinds.items()
            if kind == "weights" and group != "weights" and shaped_alike(payload[group], base)
        }
        return payload.replace(**changed)


def shaped_alike(group: Weights, base: Weights) -> bool:
    """Whether a group holds the tensors of the base (encoded or not), and not those of another."""
    return {name for name in group if not name.startswith(SCALE)} == set(base)


def half(weights: Weights) -> Weights:
    return {n: t.half() if t.is_floating_point() else t for n, t in weights.items()}


def quantise(weights: Weights, base: Weights, bits: int) -> Weights:
    """Differences from `base` as small whole numbers, and a scale for each tensor."""
    wire: Weights = {}
    top = 2 ** (bits - 1) - 1
    for name, tensor in weights.items():
        if not tensor.is_floating_point():
            wire[name] = tensor
            continue
        delta = tensor - base[name]
        scale = delta.abs().max() / top if delta.numel() else delta.new_zeros(())
        steps = (delta / scale.clamp_min(torch.finfo(delta.dtype).tiny)).round()
        whole = steps.nan_to_num().clamp(-top, top).to(torch.int8)
        wire[name] = pack(whole) if bits == 4 else whole
        wire[SCALE + name] = scale.float()
    return wire


def restore(wire: Weights, base: Weights, bits: int) -> Weights:
    """What `quantise` was given, up to half a step of the scale."""
    weights: Weights = {}
    for name, like in base.items():
        tensor = wire[name]
        if not like.is_floating_point():
            weights[name] = tensor
            continue
        whole = unpack(tensor, like.numel()) if bits == 4 else tensor
        delta = whole.view(like.shape).to(like.dtype) * wire[SCALE + name].to(like.dtype)
        weights[name] = like + delta
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
