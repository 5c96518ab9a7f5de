"""A client in a Flower app of one's own: the user's model and data, the strategy's settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedkf.core.errors import UserError
from fedkf.core.versions import Versions
from fedkf.data.datasets import arrays_of
from fedkf.data.federated import FederatedData
from fedkf.engines.worker import answer
from fedkf.flower.handshake import Introduction, Invitation
from fedkf.flower.messages import make_reply, read_call, read_payload
from fedkf.flower.settings import incoming
from fedkf.runs.assembly import Assembly
from fedkf.runs.schema import Config
from fedkf.runs.setup import Objects

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.data import Dataset

UNGUARDED = "privacy needs a site that keeps its own account: fedkf run, or fedkf site"
"""Why a Flower app of one's own does not offer it."""
Factory = Callable[..., "nn.Module"]


def client_app(
    model: Factory,
    data: Callable[[Context], tuple[Dataset[Any], Dataset[Any] | None]],
    *,
    state: str | Path = "fedkf-state",
) -> ClientApp:
    """A ClientApp that takes part in a strategy of this module.

    `data` gives the client's training and test samples (tensors as the model takes them, labels
    from 0), the latter None if there are none. Private state, such as FedKF's generator, is kept
    in the folder `state`, which must outlive the process: Flower starts one for every message.
    """
    app = ClientApp()
    folder = Path(state).absolute()

    @app.query()
    def greet(message: Message, context: Context) -> Message:
        own = own_data(data, context, incoming(Invitation.read(message).config))
        partition = int(context.node_config.get("partition-id", context.node_id))
        return Introduction.of(own, partition).reply(message)

    @app.train()
    @app.evaluate()
    def step(message: Message, context: Context) -> Message:
        call, head = read_call(message)
        invitation = Invitation.read(message)
        config = incoming(invitation.config)
        if config.privacy.on:
            raise UserError(UNGUARDED)
        engine = config.engine.model_copy(update={"device": str(head["device"])})
        config = config.model_copy(update={"engine": engine})
        own = own_data(data, context, config)
        torch.set_num_threads(config.engine.threads)
        states = Versions(folder / invitation.experiment)
        states.keep_only(call.client, list(head["keep"]))
        host = Assembly.of(config, own, Objects(model=model)).only_host(own, states)
        job = {"do": "step", "call": call.__dict__}
        header, payload = answer(host, job, read_payload(message))
        header.pop("details", None)
        return make_reply(message, call, header, payload)

    return app


def own_data(
    data: Callable[[Context], tuple[Dataset[Any], Dataset[Any] | None]],
    context: Context,
    config: Config,
) -> FederatedData:
    """One client's samples as the rest of the package has them."""
    train, test = data(context)
    x, y, _ = arrays_of(train, "the training data")
    tx, ty = x[:0], y[:0]
    if test is not None:
        tx, ty, _ = arrays_of(test, "the test data")
    names = list(config.data.class_names or [])
    return FederatedData(
        torch.from_numpy(x).float(),
        torch.from_numpy(y).long(),
        np.array([0, len(y)]),
        torch.from_numpy(tx).float(),
        torch.from_numpy(ty).long(),
        np.array([0, len(ty)]),
        ["client"],
        names,
    )
