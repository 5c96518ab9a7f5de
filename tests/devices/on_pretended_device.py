"""Every algorithm on the CPU and on a device that pretends: a line of JSON for each.

python on_pretended_device.py DATA.npz [ALGORITHM …]
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import torch
from pretended import DEVICE, Pretending, register

from fedkf import algorithms
from fedkf.core.errors import UserError
from fedkf.engines.local import refuse_used_device
from fedkf.runs.config import resolve
from fedkf.runs.experiment import execute


def settings_of(name: str, path: str) -> dict[str, Any]:
    """Two rounds of three clients, everything small."""
    return {
        "data": {"source": "npz", "path": path, "clients": 3, "alpha": 0.5, "min_samples": 12},
        "algorithm": {"name": name},
        "federation": {
            "rounds": 2,
            "fraction": 0.7,
            "local_epochs": 1,
            "batch_size": 8,
            "lr": 0.05,
        },
        "generator": {"width": 4, "noise": 8, "batch_size": 4},
        "engine": {"workers": 0},
    }


def weights_on(name: str, path: str, device: str) -> dict[str, torch.Tensor]:
    content = settings_of(name, path)
    if algorithms.get(name).needs_proxy_data:
        content["data"]["proxy"] = 0.2
    if name == "afl":
        content["federation"]["fraction"] = 1.0
    content["algorithm"] |= algorithms.get(name).tiny
    config = resolve(content)
    engine = config.engine.model_copy(update={"device": device})
    found = execute(config.model_copy(update={"engine": engine})).weights
    return {f"{readout} {key}": w for readout in found for key, w in found[readout].items()}


def main() -> None:
    path, chosen = sys.argv[1], sys.argv[2:] or algorithms.names()
    torch.set_num_threads(1)
    register()
    try:
        refuse_used_device(DEVICE)
    except UserError as error:
        print(json.dumps({"name": "workers", "refused": str(error)}))
    near = {name: weights_on(name, path, "cpu") for name in chosen}
    with Pretending():  # type: ignore[no-untyped-call]
        for name in chosen:
            try:
                far = weights_on(name, path, DEVICE)
                apart = max(float((far[k] - w).abs().max()) for k, w in near[name].items())
                print(json.dumps({"name": name, "apart": apart}), flush=True)
            except Exception as error:
                about = "".join(traceback.format_exception(error)[-6:])
                print(json.dumps({"name": name, "error": about}), flush=True)


if __name__ == "__main__":
    main()
