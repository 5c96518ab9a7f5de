"""Proxy data: every way to name it, and that no client's sample and no label gets into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Outcome, Settings
from PIL import Image

import fedkf
from fedkf.core.errors import UserError
from fedkf.runs.config import resolve
from fedkf.runs.proxies import prepare_proxy
from fedkf.runs.setup import load_samples, make_data, settle


def prepared(settings: Settings) -> tuple[Any, Any]:
    """The clients' data and the server's, as a run has them."""
    config = resolve(settings)
    samples = load_samples(config)
    config = settle(config, samples.source)
    data = make_data(config, samples.source)
    return data, prepare_proxy(config, samples.proxy, data.shape)


def test_a_share_is_set_aside_and_no_client_holds_any_of_it(settings: Settings) -> None:
    settings["data"]["proxy"] = 0.2
    data, proxy = prepared(settings)
    assert proxy.shape == (18, 1, 16, 16)
    held = torch.cat([data.images, data.test_images])
    assert len(held) == 72
    together = {x.numpy().tobytes() for x in torch.cat([held, proxy])}
    assert len(together) == 90
    again = prepared(settings)[1]
    assert torch.equal(proxy, again)
    settings["data"]["seed"] = 1
    assert not torch.equal(proxy, prepared(settings)[1])


def test_algorithms_that_do_not_need_it_train_on_the_same_clients(settings: Settings) -> None:
    """So that a comparison is one: the share is set aside for every algorithm alike."""
    settings["data"]["proxy"] = 0.2
    settings["algorithm"] = {"name": "fedavg"}
    assert len(prepared(settings)[0].labels) + len(prepared(settings)[0].test_labels) == 72


def patients(place: Path, settings: Settings, **data: Any) -> Settings:
    """A table of forty patients, three rows each, in the settings of a run."""
    random, lines = np.random.default_rng(0), ["patient,weight,height,ill"]
    for k in range(120):
        weight, height = random.normal(1000 + 60 * (k % 2), 48), random.normal(2, 0.1)
        lines.append(f"p{k // 3},{weight:.2f},{height:.3f},{'yes' if k % 2 else 'no'}")
    (place / "all.csv").write_text("\n".join(lines))
    about = {"source": "table", "path": str(place / "all.csv"), "target": "ill", "clients": 3}
    about |= {"partition": "iid", "columns": ["weight", "height"], "proxy": 0.2, **data}
    return {**settings, "data": about, "model": {"name": "mlp"}}


def test_where_clients_scale_themselves_the_server_does_too(
    settings: Settings, tmp_path: Path
) -> None:
    data, proxy = prepared(patients(tmp_path, settings, scaling="site"))
    assert data.images.mean().abs() < 0.05
    assert proxy.mean(0).tolist() == pytest.approx([0, 0], abs=1e-5)
    assert proxy.std(0, correction=0).tolist() == pytest.approx([1, 1], abs=1e-5)


@pytest.mark.parametrize("scaling", ["federated", "site", "none"])
def test_what_a_table_lacks_is_filled_for_the_server_as_for_clients(
    settings: Settings, tmp_path: Path, scaling: str
) -> None:
    about = patients(tmp_path, settings, scaling=scaling, missing="mean")
    lines = (tmp_path / "all.csv").read_text().splitlines()
    lacking = [x.replace(x.split(",")[1], "NA") if k % 5 == 1 else x for k, x in enumerate(lines)]
    (tmp_path / "all.csv").write_text("\n".join(lacking))
    samples = load_samples(resolve(about))
    assert samples.proxy is not None
    absent = np.isnan(samples.proxy[:, 0])
    assert 0 < absent.sum() < len(absent)
    _, proxy = prepared(about)
    own = samples.proxy[~absent, 0].mean()
    filled = {"federated": 0.0, "site": 0.0, "none": own}[scaling]  # scaled, the mean is 0
    assert proxy[absent, 0].tolist() == pytest.approx([filled] * int(absent.sum()), abs=1e-3)
    assert proxy.isfinite().all()


def test_numbers_of_a_table_that_cannot_be_used_are_called_no_images(
    settings: Settings, tmp_path: Path
) -> None:
    config = resolve(patients(tmp_path, settings, proxy=None))
    config = settle(config, load_samples(config).source)
    given = np.array([[1, 2], [np.inf, 3]], dtype=np.float32)
    with pytest.raises(UserError, match="inputs hold NaN or infinite values"):
        prepare_proxy(config, given, (2,))


def test_a_share_is_of_whole_units(settings: Settings, tmp_path: Path) -> None:
    config = resolve(patients(tmp_path, settings, split_by="patient", scaling="none"))
    samples = load_samples(config)
    assert samples.proxy is not None
    assert samples.source.index is not None
    held = set(samples.source.index.tolist())
    clients, server = (
        {k // 3 for k in range(120) if (k in held) == kept} for kept in (True, False)
    )
    assert (len(samples.proxy), len(server), len(clients)) == (24, 8, 32)
    assert not server & clients


def test_a_share_of_one_unit_is_refused(settings: Settings, tmp_path: Path) -> None:
    config = resolve(patients(tmp_path, settings, split_by="patient"))
    (tmp_path / "all.csv").write_text(
        "patient,weight,height,ill\n"
        + "".join(f"p,{k},2,{'yes' if k % 2 else 'no'}\n" for k in range(9))
    )
    with pytest.raises(UserError, match=r"data\.proxy is 0\.2, which leaves nothing"):
        load_samples(config)


def test_a_file_without_labels_is_enough(settings: Settings, tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 20, 20, 3), dtype=np.uint8)
    np.savez(tmp_path / "p.npz", images=images)
    settings["data"]["proxy"] = str(tmp_path / "p.npz")
    proxy = prepared(settings)[1]
    assert proxy.shape == (5, 1, 16, 16)  # resized, and grey as the clients' are
    assert proxy.min() >= -1
    assert proxy.max() <= 1  # normalised by 0.5, 0.5
    np.savez(tmp_path / "p.npz", images=images, labels=np.arange(5))
    assert torch.equal(proxy, prepared(settings)[1])


def test_a_folder_of_images_at_any_depth(settings: Settings, tmp_path: Path) -> None:
    for k, place in enumerate(("a.png", "b/c.png", "b/d/e.png")):
        (tmp_path / "f" / place).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (16, 16), 51 * k).save(tmp_path / "f" / place)
    settings["data"]["proxy"] = str(tmp_path / "f")
    proxy = prepared(settings)[1]
    assert proxy[:, 0, 0, 0].tolist() == pytest.approx([-1, -0.6, -0.2])


def test_embedded_digits_serve_other_data_but_not_themselves(
    settings: Settings, cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    settings["data"]["proxy"] = "digits"
    assert prepared(settings)[1].shape == (1797, 1, 16, 16)
    arguments = ("--set", "data.proxy=digits", "--set", "algorithm.name=feddf")
    outcome = cli("run", "digits", *arguments, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert "which the clients hold" in outcome.err


def test_a_dataset_in_python_loses_its_labels(settings: Settings) -> None:
    class Pairs:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> tuple[torch.Tensor, str]:
            return torch.full((1, 16, 16), index / 4), "not to be looked at"

    options: dict[str, Any] = dict(algorithm="feddf", rounds=1, server_steps=2)
    pairs = fedkf.run(settings, proxy=Pairs(), **options)
    array = np.arange(4)[:, None, None, None] / 4 * np.ones((4, 1, 16, 16))
    plain = fedkf.run(settings, proxy=array, **options)
    for name, weights in plain.weights["aca"].items():
        assert torch.equal(weights, pairs.weights["aca"][name])


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("nonsense", "no folder nonsense"),
        ("none.npz", "no file none.npz"),
        ("no.such:thing", "cannot be imported"),
        ("python", "give it again"),
        (0.999, "leaves nothing"),
    ],
)
def test_what_cannot_be_used_is_said_with_the_key(
    settings: Settings, proxy: Any, words: str
) -> None:
    settings["data"]["proxy"] = proxy
    with pytest.raises(UserError, match=words) as error:
        prepared(settings)
    assert "data.proxy" in str(error.value)
    assert "data.path" not in str(error.value)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, True, [0.1]])
def test_a_share_lies_between_0_and_1(settings: Settings, value: Any) -> None:
    settings["data"]["proxy"] = value
    with pytest.raises(UserError, match=r"data\.proxy is .*a share between 0 and 1"):
        resolve(settings)


def test_the_clients_own_file_and_samples_of_sites_are_refused(
    settings: Settings, tmp_path: Path
) -> None:
    settings["data"]["proxy"] = settings["data"]["path"]
    with pytest.raises(UserError, match="own data cannot stand in"):
        prepared(settings)
    random = np.random.default_rng(0)
    path = tmp_path / "sites.npz"
    np.savez(
        path,
        images=random.random((12, 16, 16)),
        labels=np.arange(12) % 3,
        client=np.arange(12) // 6,
    )
    settings["data"] = {"source": "npz", "path": str(path), "proxy": 0.2}
    with pytest.raises(UserError, match="belongs to a site"):
        prepared(settings)


def test_a_run_is_not_resumed_with_other_proxy_data(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "p.npz"
    settings["data"]["proxy"] = str(file)
    options: dict[str, Any] = dict(algorithm="feddf", server_steps=1, out=tmp_path / "run")
    np.savez(file, images=np.zeros((3, 16, 16)))
    fedkf.run(settings, rounds=1, **options)
    np.savez(file, images=np.ones((3, 16, 16)))
    with pytest.raises(UserError, match="proxy data is not the one"):
        fedkf.run(settings, rounds=2, resume=True, **options)
