"""Calls and replies as messages of Flower's, and the bytes that they carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

from fedkf.core.client import Call
from fedkf.core.payload import Payload
from fedkf.core.personal import EVALUATIONS
from fedkf.flower.internals import LOST


def make_call(
    call: Call, payload: ArrayRecord, node: int, more: Mapping[str, Any], ttl: float | None
) -> Message:
    """A call for a client that a node serves; `more` goes into its head."""
    fields = {key: "" if value is None else value for key, value in asdict(call).items()}
    kind = MessageType.EVALUATE if call.step in EVALUATIONS else MessageType.TRAIN
    content = RecordDict({"call": ConfigRecord({**fields, **more}), "payload": payload})
    return Message(content, node, kind, ttl=ttl)


def read_call(message: Message) -> tuple[Call, Mapping[str, Any]]:
    """On the client's side: the call, and what else its head says."""
    head: dict[str, Any] = dict(message.content.config_records["call"])
    fields = {name: head.pop(name) for name in ("step", "client", "round", "start", "version")}
    return Call(**{**fields, "start": fields["start"] or None}), head


def read_payload(message: Message, largest: int = 1 << 40) -> Payload:
    """What a call or a reply carries."""
    return Payload.from_bytes(unpacked(message.content.array_records["payload"], largest))


def make_reply(message: Message, call: Call, header: Mapping[str, Any], payload: bytes) -> Message:
    """On the client's side: the answer to a call."""
    head = ConfigRecord({"version": call.version, "client": call.client, **header})
    return Message(RecordDict({"reply": head, "payload": packed(payload)}), reply_to=message)


def was_lost(message: Message) -> bool:
    """Whether a reply only says that the call or its answer did not arrive."""
    return message.has_error() and message.error.code in LOST


def packed(content: bytes) -> ArrayRecord:
    """Bytes as an array of Flower's, which it sends in pieces however many there are."""
    return ArrayRecord([np.frombuffer(content, dtype=np.uint8)])


def unpacked(record: ArrayRecord, largest: int = 1 << 40) -> bytes:
    """The bytes of a record, if it holds nothing else."""
    arrays = list(record.values())
    if len(arrays) != 1 or arrays[0].dtype != "uint8":
        raise ValueError("it holds other arrays than one payload")
    if len(arrays[0].data) > largest:
        size = len(arrays[0].data) / 1e6
        raise ValueError(f"it has {size:.1f} MB, and {largest / 1e6:.1f} MB are expected at most")
    return arrays[0].numpy().tobytes()
