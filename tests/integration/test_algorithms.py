"""Every algorithm through a whole run: any number of workers, killed and resumed, both readouts."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest
from conftest import Settings, Unsteady, model_bytes
from small import needed, small

import fedkf
from fedkf import algorithms
from fedkf.core.client import Reply
from fedkf.core.federation import Observer
from fedkf.runs.config import read, resolve
from fedkf.runs.experiment import execute
from fedkf.runs.result import Result

WIDE = {"generator.name": "released", "generator.width": 128}
"""The paper's generator, whose convolutions are computed in another way."""


class KilledInRoundTwo(Observer):
    """Ends its process as kill -9 does, when some of the round's clients are done."""

    def client_finished(self, reply: Reply) -> None:
        if reply.call.round == 2 and reply.call.step != "evaluate":
            os.kill(os.getpid(), signal.SIGKILL)


def run(
    name: str, folder: Path, workers: int, *observers: Observer, resume: bool = False
) -> Result:
    content, _ = read("digits")
    name, wide, _ = name.partition(", wide")
    more = WIDE if wide else {}
    config = resolve(content, {**small(name), **more, "engine.workers": workers})
    return execute(config, folder, resume, observers)


@pytest.mark.parametrize("name", [*algorithms.names(), "fedkf, wide"])
def test_workers_and_kill_9_leave_no_trace_in_the_models(name: str, tmp_path: Path) -> None:
    whole = run(name, tmp_path / "whole", 0)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            run(name, tmp_path / "killed", 2, KilledInRoundTwo())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    resumed = run(name, tmp_path / "killed", 2, resume=True)
    assert model_bytes(tmp_path / "killed") == model_bytes(tmp_path / "whole")
    assert set(model_bytes(tmp_path / "whole")) == {"aca.safetensors", "oca.safetensors"}
    for result in (whole, resumed):
        assert {"aca", "oca"} <= result.summary["readouts"].keys()
        assert [record["round"] for record in result.history] == [1, 2]
    assert resumed.summary["readouts"] == whole.summary["readouts"]
    assert resumed.summary["bytes"] == whole.summary["bytes"]
    kind = algorithms.get(name.removesuffix(", wide"))
    assert set(kind.discloses) <= set(whole.summary["disclosed"])


@pytest.mark.parametrize("name", algorithms.names())
def test_models_with_batch_norm_and_dropout_will_do(name: str, settings: Settings) -> None:
    result = fedkf.run(settings, algorithm=name, model=Unsteady, rounds=2, **needed(name))
    for weights in result.weights.values():
        assert all(tensor.isfinite().all() for tensor in weights.values())
        assert weights["body.1.num_batches_tracked"] > 0
        assert (weights["body.1.running_mean"] != 0).any()
