"""Lighter messages."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import Settings, model_bytes
from hypothesis import given
from hypothesis import strategies as st

import fedkf
from fedkf.core.codec import Codec, pack, quantise, restore, unpack
from fedkf.core.payload import Payload


@given(st.lists(st.integers(-7, 7), min_size=1, max_size=33))
def test_four_bits_are_packed_without_loss(numbers: list[int]) -> None:
    whole = torch.tensor(numbers, dtype=torch.int8)
    packed = pack(whole)
    assert packed.nbytes == (len(numbers) + 1) // 2
    assert torch.equal(unpack(packed, len(numbers)), whole)


@pytest.mark.parametrize(("bits", "top"), [(8, 127), (4, 7)])
def test_a_difference_is_restored_to_half_a_step(bits: int, top: int) -> None:
    torch.manual_seed(0)
    base = {"w": torch.randn(5, 7), "same": torch.ones(3), "n": torch.tensor(3)}
    new = {"w": base["w"] + 0.1 * torch.randn(5, 7), "same": torch.ones(3), "n": torch.tensor(9)}
    got = restore(quantise(new, base, bits), base, bits)
    step = (new["w"] - base["w"]).abs().max() / top
    assert (got["w"] - new["w"]).abs().max() <= step / 2 + 1e-6
    assert torch.equal(got["same"], new["same"])
    assert got["n"].item() == 9


def test_statistics_of_normalisations_travel_in_full() -> None:
    base = {"running_var": torch.ones(3), "w": torch.zeros(2, 2)}
    new = {"running_var": torch.tensor([0.01, 20.0, 1.0]), "w": torch.eye(2)}
    got = restore(quantise(new, base, 4), base, 4)
    assert torch.equal(got["running_var"], new["running_var"])
    assert torch.equal(got["w"], new["w"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(dtype: torch.dtype) -> None:
    base = {"w": torch.zeros(1, 3, dtype=dtype)}
    new = {"w": torch.tensor([[5e-3, 2e-3, 1e-3]], dtype=dtype)}
    got = restore(quantise(new, base, 8), base, 8)["w"]
    assert got.dtype == dtype
    assert torch.allclose(got, new["w"], rtol=0, atol=5e-3 / 127)


def test_what_is_no_model_is_no_difference_from_one(settings: Settings) -> None:
    runs = {
        link: fedkf.run(settings, algorithm="scaffold", transport={"downlink": link})
        for link in ("full", "delta4")
    }
    for name, tensor in runs["full"].weights["aca"].items():
        assert torch.equal(tensor, runs["delta4"].weights["aca"][name]), "control variates changed"


def test_nan_is_not_hidden() -> None:
    base = {"w": torch.zeros(1, 3)}
    got = restore(quantise({"w": torch.tensor([[1.0, float("nan"), 2.0]])}, base, 8), base, 8)
    assert not got["w"].isfinite().all()


def test_only_what_names_a_base_is_encoded_on_the_way_down() -> None:
    down = Payload(weights={"w": torch.zeros(10, 10)})
    down.add("other", {"w": torch.rand(10, 10)}, "weights", base="weights")
    down.add("control", {"w": torch.rand(5, 10)}, "weights")
    for name, size in (("full", 400), ("delta8", 104), ("delta4", 54)):
        codec = Codec(downlink=name)
        wire = codec.encode_down(down)
        assert wire.nbytes() == {"weights": 400 + size + 200}
        back = codec.decode_down(Payload.from_bytes(wire.to_bytes()))
        assert torch.equal(back["weights"]["w"], down["weights"]["w"])
        assert torch.equal(back["control"]["w"], down["control"]["w"])
        assert torch.allclose(back["other"]["w"], down["other"]["w"], atol=0.08)


@pytest.mark.parametrize(
    ("downlink", "uplink", "down", "up"),
    [
        ("full", "full", 2.0, 1.0),
        ("delta8", "full", 1.25, 1.0),
        ("delta4", "full", 1.125, 1.0),
        ("full", "half", 2.0, 0.5),
        ("delta8", "delta8", 1.25, 0.25),
    ],
)
def test_bytes_are_counted_as_sent_and_results_are_as_reproducible(
    settings: Settings, tmp_path: Path, downlink: str, uplink: str, down: float, up: float
) -> None:
    settings["transport"] = {"downlink": downlink, "uplink": uplink}
    result = fedkf.run(settings, out=tmp_path / "a")
    model = sum(t.nbytes for t in result.weights["aca"].values())
    exchanged = result.summary["bytes"]
    assert exchanged["down"] / (9 * model) == pytest.approx(down, abs=0.02)  # biases
    assert exchanged["up"] / (9 * model) == pytest.approx(up, abs=0.02)
    fedkf.run(settings, workers=2, out=tmp_path / "b")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    plain = fedkf.run(settings, transport={"downlink": "full", "uplink": "full"})
    for name, tensor in plain.weights["oca"].items():
        assert torch.allclose(tensor, result.weights["oca"][name], atol=0.02), name


def test_eight_bits_down_cost_little_more_than_fedavg(settings: Settings) -> None:
    kf = fedkf.run(settings, transport={"downlink": "delta8"}).summary["bytes"]
    avg = fedkf.run(settings, algorithm="fedavg").summary["bytes"]
    assert sum(kf.values()) / sum(avg.values()) < 1.15


def test_a_base_travels_with_its_group_and_only_what_was_declared_changes() -> None:
    down = Payload(weights={"w": torch.zeros(2, 2)})
    upload = Payload(control={"w": torch.ones(2, 2)})
    upload.add("weights", {"w": torch.eye(2)}, base="weights")
    for uplink, dtype in (("half", torch.float16), ("delta8", torch.int8)):
        codec = Codec(uplink=uplink)
        wire = Payload.from_bytes(codec.encode_up(upload, down).to_bytes())
        assert wire["weights"]["w"].dtype == dtype
        assert wire["control"]["w"].dtype == torch.float32
        sent = codec.decode_up(wire.of_kinds({"weights"}), down)
        assert list(sent) == ["weights"]
        assert torch.allclose(sent["weights"]["w"], torch.eye(2))


def test_groups_without_a_base_leave_no_trace_of_one_on_the_disk() -> None:
    assert b"bases" not in Payload(weights={"w": torch.zeros(1)}).to_bytes()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scale:w": torch.ones(50, 1, 1)}, r"the scale of 'w' is torch.float32 of shape \[50, 1"),
        ({"scale:w": torch.tensor(1)}, "the scale of 'w' is torch.int64"),
        ({"w": torch.zeros(2, 3)}, "'w' is torch.float32 of shape"),
        ({"w": torch.zeros(6, dtype=torch.int8)}, r"'w' is torch.int8 of shape \[6\]"),
        ({"w": torch.zeros(600, dtype=torch.uint8)}, r"'w' is torch.uint8 of shape \[600\]"),
        ({"v": torch.zeros(2)}, "it holds 'v', which the model does not"),
    ],
)
@pytest.mark.parametrize("bits", [8, 4])
def test_whole_numbers_and_scales_are_looked_at_before_they_are_multiplied(
    bits: int, change: dict[str, torch.Tensor], reason: str
) -> None:
    base = {"w": torch.zeros(2, 3), "b": torch.zeros(3)}
    wire = quantise({"w": torch.ones(2, 3), "b": torch.ones(3)}, base, bits)
    assert torch.allclose(restore(wire, base, bits)["w"], torch.ones(2, 3))
    with pytest.raises(ValueError, match=reason):
        restore({**wire, **change}, base, bits)
