"""What lying clients cost, with and without a defence: AMP on digits.

    python benchmarks/attacks.py [--attack NAME …] [--defence NAME …] [--share S …]
                                 [--algorithm fedavg] [--rounds 20] [--alpha 0.1] [--seeds 1]

Twenty clients, half of them active in a round; a share of them lies in every round from the first
on. One process, one run after another; a table in markdown, AMP of ACA and OCA in percent after
the last round, and in brackets how many of the liars' uploads, and how many of the honest ones,
were refused. A cell takes about ten seconds; the whole table has 119.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import fedkf
from fedkf import algorithms
from fedkf.core.payload import Payload, Weights

CLIENTS = 20
DEFENCES = ("none", "norm", "median", "trimmed", "krum", "multikrum", "geometric")
ROBUST = 2
"""From this defence on, those that only some algorithms take."""
Change = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def noise(new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    random = torch.Generator().manual_seed(new.numel())
    return new + torch.randn(new.shape, generator=random)


CHANGES: dict[str, Change] = {
    "flip ×100": lambda new, old: old - 100 * (new - old),
    "flip": lambda new, old: old - (new - old),
    "noise": noise,
    "zeros": lambda new, old: torch.zeros_like(new),
    "1e30": lambda new, old: torch.full_like(new, 1e30),
    "drift": lambda new, old: old + 0.5 * (new - old).abs().mean() * torch.ones_like(new),
}
"""What a liar makes of its model, tensor by tensor, from what it learned and what came down.

`drift` is the stealthy one: a step of an honest length, always in the same direction."""
ATTACKS = (*CHANGES, "labels", "sizes")
"""`labels`: it trains on labels turned round; `sizes`: it says that it holds 50 times as much."""


def liars(share: float) -> list[int]:
    """The lying clients, spread over all."""
    count = round(share * CLIENTS)
    return [round(k * CLIENTS / count) for k in range(count)] if count else []


def lying(name: str, attack: str, share: float) -> fedkf.Algorithm:
    """The algorithm, with clients that lie."""
    kind, chosen = algorithms.get(name), set(liars(share))

    def local_update(self: Any, client: Any, down: Payload) -> Payload:
        if client.id not in chosen:
            return kind.local_update(self, client, down)
        if attack == "labels":
            data = client.data
            turned = client.task.classes - 1 - data.labels
            client.data = type(data)(data.images, turned, data.test_images, data.test_labels)
        upload = kind.local_update(self, client, down)
        if attack == "sizes":  # the model of such a client is worth nothing, too
            return upload.replace(weights=changed(CHANGES["drift"], upload, down))
        if attack in CHANGES:
            return upload.replace(weights=changed(CHANGES[attack], upload, down))
        return upload

    def start(self: Any, server: Any) -> Payload:
        if attack == "sizes":
            server.sizes = {k: n * (50 if k in chosen else 1) for k, n in server.sizes.items()}
        return kind.start(self, server)

    methods = {"local_update": local_update, "start": start}
    made: fedkf.Algorithm = type(f"Lying{kind.__name__}", (kind,), methods)()
    return made


def changed(change: Change, upload: Payload, down: Payload) -> Weights:
    old = down["weights"]
    return {
        name: change(tensor, old[name]) if tensor.is_floating_point() else tensor
        for name, tensor in upload["weights"].items()
    }


@dataclass(frozen=True)
class Cell:
    """What a run came to; none where it could not go on."""

    amp: dict[str, float] | None
    caught: int = 0
    lies: int = 0
    wronged: int = 0

    def __str__(self) -> str:
        if self.amp is None:
            return "ended"
        both = " / ".join(f"{100 * self.amp[name]:.1f}" for name in ("aca", "oca"))
        return f"{both} ({self.caught} of {self.lies}, {self.wronged})"


def run(attack: str, defence: str, share: float, options: argparse.Namespace, seed: int) -> Cell:
    """One run."""
    false = set(liars(share))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of every upload that was left out
        try:
            result = fedkf.run(
                "digits",
                algorithm=lying(options.algorithm, attack, share),
                clients=CLIENTS,
                data={"alpha": options.alpha, "seed": seed},
                federation={"fraction": 0.5, "rounds": options.rounds, "defence": defence},
                generator={"samples": "noise"},
                seed=seed,
                workers=0,
                evaluate_every=options.rounds,
                checkpoint_every=options.rounds,
            )
        except fedkf.FedkfError:
            return Cell(None)
    named = [r["client"] for line in result.history for r in line["refused"]]
    lies = [client for line in result.history for client in line["active"] if client in false]
    caught = sum(client in false for client in named)
    readouts = result.summary["readouts"]
    amp = {name: readouts[name]["amp"] for name in ("aca", "oca")}
    return Cell(amp, caught, len(lies), len(named) - caught)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attack", nargs="+", choices=ATTACKS, default=ATTACKS)
    parser.add_argument("--defence", nargs="+", choices=DEFENCES, default=DEFENCES)
    parser.add_argument("--share", nargs="+", type=float, default=[0.1, 0.3])
    parser.add_argument("--algorithm", default="fedavg")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    if not algorithms.get(options.algorithm).takes_robust_means():
        options.defence = [name for name in options.defence if name in DEFENCES[:ROBUST]]
    print(f"{options.algorithm}, α = {options.alpha:g}, {options.rounds} rounds: AMP of ACA / OCA")
    print("(refused: liars' uploads, honest ones)\n")
    print("| attack | liars |", " | ".join(options.defence), "|")
    print("|---|---|" + "---|" * len(options.defence), flush=True)
    rows = [("nobody lies", 0.0), *((a, s) for a in options.attack for s in options.share)]
    for attack, share in rows:
        for seed in range(options.seeds):
            print(f"| {attack} | {100 * share:.0f} % |", end="", flush=True)
            for defence in options.defence:
                print(f" {run(attack, defence, share, options, seed)} |", end="", flush=True)
            print(flush=True)


if __name__ == "__main__":
    main()
