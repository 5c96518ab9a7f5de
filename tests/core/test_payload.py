"""Payloads and the arithmetic on weights."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
import torch
from flushes import flushes
from safetensors.torch import save

from fedkf.core.payload import Payload, PayloadError, weighted_mean, write_atomically


def test_a_payload_survives_the_wire_and_the_disk_unchanged(tmp_path: Path) -> None:
    shared = torch.arange(6.0).view(2, 3)
    sent = Payload(weights={"a.b": shared, "count": torch.tensor(7)}, monitoring={"loss": 0.5})
    sent.add("teacher", {"a.b": shared.t()}, kind="weights")
    sent.save(tmp_path / "p.safetensors")
    for got in (Payload.from_bytes(sent.to_bytes()), Payload.load(tmp_path / "p.safetensors")):
        assert torch.equal(got["weights"]["a.b"], shared)
        assert got["weights"]["count"].dtype == torch.int64
        assert torch.equal(got["teacher"]["a.b"], shared.t())
        assert got.kinds == {"weights": "weights", "monitoring": "monitoring", "teacher": "weights"}
        assert got.number("monitoring", "loss") == 0.5


def test_equal_payloads_have_equal_bytes() -> None:
    def make() -> Payload:
        return Payload(weights={"b": torch.ones(2), "a": torch.zeros(3)}, sizes={"n": 3})

    assert make().to_bytes() == make().to_bytes()


def test_bytes_are_counted_per_kind() -> None:
    payload = Payload(weights={"w": torch.zeros(10)}, monitoring={"loss": 1.0, "kl": 2.0})
    payload.add("teacher", {"w": torch.zeros(10, dtype=torch.float64)}, kind="weights")
    assert payload.nbytes() == {"weights": 40 + 80, "monitoring": 16}


def test_a_group_that_nobody_declared_is_private() -> None:
    assert Payload(secret={"x": torch.ones(1)}).kinds["secret"] == "private"


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x02\0\0\0\0\0\0\0{}", b"\xff" * 64])
def test_bytes_that_are_no_payload_are_refused(data: bytes) -> None:
    with pytest.raises(PayloadError, match="not a payload"):
        Payload.from_bytes(data)


@pytest.mark.parametrize("length", [(1 << 24) + 1, 100, 1 << 62])
def test_a_header_beyond_the_message_or_any_use_is_not_read(length: int) -> None:
    body = b"[" + b"{}," * 10 if length == 100 else b"[" + b"{}," * (6 << 20)
    with pytest.raises(PayloadError, match=f"its header has {length} bytes"):
        Payload.from_bytes(length.to_bytes(8, "little") + body)


def test_a_header_that_is_none_makes_no_objects() -> None:
    body = b"[" + b"{}," * (1 << 20) + b"{}]"
    tracemalloc.start()
    with pytest.raises(PayloadError, match="not a payload"):
        Payload.from_bytes(len(body).to_bytes(8, "little") + body)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1 << 24


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    path.write_bytes(Payload(weights={"w": torch.zeros(10)}).to_bytes()[:-4])
    with pytest.raises(PayloadError, match=r"p\.safetensors is damaged"):
        Payload.load(path)


def test_a_header_nested_without_end_is_no_payload() -> None:
    deep = '{"kinds":{},"numbers":' + "[" * 100_000 + "]" * 100_000 + "}"
    with pytest.raises(PayloadError, match="not a payload"):
        Payload.from_bytes(save({}, {"fedkf": deep}))


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    (tmp_path / f".file.{os.getpid()}.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_new_name_is_on_the_disk_before_the_write_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = flushes(monkeypatch)
    write_atomically(tmp_path / "file", b"new")
    assert flushed == [tmp_path / f".file.{os.getpid()}.tmp", tmp_path]


def test_the_mean_is_weighted_and_integers_come_from_the_largest() -> None:
    small = {"w": torch.tensor([1.0, 2.0]), "steps": torch.tensor(5)}
    large = {"w": torch.tensor([5.0, 6.0]), "steps": torch.tensor(9)}
    mean = weighted_mean([(1, small), (3, large)])
    assert mean["w"].tolist() == [4.0, 5.0]
    assert mean["steps"].item() == 9
    assert mean["steps"].dtype == torch.int64


def test_the_mean_of_one_is_that_one_bit_for_bit() -> None:
    weights = {"w": torch.randn(1000)}
    assert torch.equal(weighted_mean([(37, weights)])["w"], weights["w"])
