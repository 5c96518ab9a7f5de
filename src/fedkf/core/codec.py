"""Codec: lighter messages. Algorithms and T1 see decoded values, the ledger encoded bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fedkf.core.payload import Payload, Weights

SCALE = "scale:"
BITS = {"delta8": 8, "delta4": 4}
Change = Callable[[Weights, Weights, str], Weights]


@dataclass(frozen=True)
class Codec:
    """What is sent instead of full weights, for groups whose sender declares a base.

    Down, `delta8` and `delta4` send the difference from the base, another model of the message,
    quantised to 8 or 4 bits with a scale per tensor. Up, `half` sends float16 and `delta8` the
    difference from the base that came down. Only matrices and kernels are quantised: biases and
    the statistics of normalisations are small, and sensitive.
    """

    downlink: str = "full"
    uplink: str = "full"

    def encode_down(self, down: Payload) -> Payload:
        return change(down, down, self.downlink, encode)

    def decode_down(self, wire: Payload) -> Payload:
        return change(wire, wire, self.downlink, decode)

    def encode_up(self, upload: Payload, down: Payload) -> Payload:
        return change(upload, down, self.uplink, encode)

    def decode_up(self, wire: Payload, down: Payload) -> Payload:
        return change(wire, down, self.uplink, decode)


def change(payload: Payload, bases: Payload, form: str, how: Change) -> Payload:
    """Encode or decode the groups that have a base, which is found in `bases`."""
    if form == "full":
        return payload
    groups = payload.bases.items()
    return payload.replace(
        **{group: how(payload[group], bases[base], form) for group, base in groups}
    )


def encode(weights: Weights, base: Weights, form: str) -> Weights:
    return half(weights) if form == "half" else quantise(weights, base, BITS[form])


def decode(wire: Weights, base: Weights, form: str) -> Weights:
    if form != "half":
        return restore(wire, base, BITS[form])
    return {n: t.to(base[n].dtype) if n in base else t for n, t in wire.items()}


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
    scales = {SCALE + name for name, like in base.items() if is_quantised(like)}
    if extra := sorted(wire.keys() - base.keys() - scales):
        raise ValueError(f"it holds {extra[0]!r}, which the model does not")
    for name, like in base.items():
        if not is_quantised(like):
            weights[name] = wire[name]
            continue
        if reason := misshapen(wire, name, like, bits):
            raise ValueError(reason)
        whole = unpack(wire[name], like.numel()) if bits == 4 else wire[name]
        delta = whole.view(like.shape).double() * wire[SCALE + name]
        weights[name] = (like.double() + delta).to(like.dtype)
    return weights


def misshapen(wire: Weights, name: str, like: torch.Tensor, bits: int) -> str:
    """Why a tensor and its scale are not of this form, which is looked at before either is used."""
    whole, scale = wire[name], wire[SCALE + name]
    dtype = torch.uint8 if bits == 4 else torch.int8
    shape = [(like.numel() + 1) // 2] if bits == 4 else list(like.shape)
    if whole.dtype != dtype or list(whole.shape) != shape:
        return f"{name!r} is {whole.dtype} of shape {list(whole.shape)}, not {dtype} of {shape}"
    if not scale.is_floating_point() or scale.ndim:
        return f"the scale of {name!r} is {scale.dtype} of shape {list(scale.shape)}, not a number"
    return ""


def pack(whole: torch.Tensor) -> torch.Tensor:
    """Two numbers of −7 to 7 in a byte."""
    flat = (whole.flatten() + 8).to(torch.uint8)
    if len(flat) % 2:
        flat = torch.cat([flat, flat.new_zeros(1)])
    return flat[::2] | flat[1::2] << 4


def unpack(packed: torch.Tensor, count: int) -> torch.Tensor:
    pairs = torch.stack([packed & 15, packed >> 4], 1).flatten()[:count]
    return pairs.to(torch.int8) - 8
