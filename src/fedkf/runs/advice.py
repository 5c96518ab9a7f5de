"""Advice on settings that people ask for by other names."""

from __future__ import annotations

from collections.abc import Iterable

from fedkf.core.errors import nearest


def unknown(key: str, valid: Iterable[str]) -> str:
    """What to do instead of setting a key that there is not."""
    known = ADVICE.get(key.rpartition(".")[2])
    return known or nearest(key, valid, "`fedkf config` lists the keys")


ADVICE = {
    "loss": "a loss of your own is a task: task=function, or data.task=package.module:function",
    "criterion": "a loss of your own is a task: task=function",
    "epochs": "local_epochs are those of a client in a round, rounds those of the federation",
    "learning_rate": "it is called lr",
    "scheduler": "it is called schedule: constant, cosine, linear or step",
    "gradient_clipping": "it is called clip",
    "grad_clip": "it is called clip",
    "batchsize": "it is called batch_size",
    "bs": "it is called batch_size",
    "early_stopping": "it is called patience: evaluated rounds without a better AMP",
    "callbacks": "on_round=function is called after every round; observers=[fedkf.Observer(), …]",
    "amp": "mixed precision is called precision: float32 or bfloat16",
    "mixed_precision": "it is called precision: float32 or bfloat16",
    "train_data": "clients={name: (train, test)} has a split of your own",
    "num_clients": "it is called clients",
    "client_fraction": "it is called fraction",
}
"""What people ask for by other names."""
