"""The scale on which the sites of a run agree before its first round: an exchange of its own.

Every site sends count, mean and sum of squared deviations of each input (and of a target that is a
number) of its training samples; the coordinator merges them, and tells mean and deviation with the
configuration from then on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flwr.app import Message

from fedkf.core.errors import printable
from fedkf.data.scaling import KIND, Moments
from fedkf.flower.carrier import Grid
from fedkf.flower.handshake import Invitation, answers
from fedkf.flower.messages import read_payload
from fedkf.flower.settings import open_scale, outgoing
from fedkf.flower.sites import Sites, enough
from fedkf.runs.division import agreed_scale, open_inputs, open_target
from fedkf.runs.schema import Config

LARGEST = 1 << 24
"""Bytes of an answer at most."""


@dataclass(frozen=True)
class Asking:
    """What it takes to ask sites for something: each registered one's node, for how long."""

    grid: Grid
    registered: Mapping[str, int]
    experiment: str
    wait: float
    say: Callable[[str], None]


def agree(asking: Asking, sites: Sites, config: Config) -> tuple[Sites, Config]:
    """The sites that told their part, and the configuration with what follows from all of them."""
    if not open_scale(config):
        return sites, config
    settings, shape = config.data, sites.shape
    inputs = shape[0] * open_inputs(settings) + open_target(settings)
    names = {asking.registered[name]: name for name in sites.names if name in asking.registered}
    head = {**Invitation(outgoing(config), asking.experiment).head(), "step": KIND}
    found: dict[str, Moments | str] = {}
    for node, reply in answers(asking.grid, list(names), head, asking.wait):
        size = sites.sizes[sites.names.index(names[node])]
        found[names[node]] = read(reply, inputs, size * math.prod(shape[1:]))
    told: dict[str, Moments] = {}
    for name in sites.names:  # in this order they are merged
        part = found.get(name, f"it told no {KIND} within {asking.wait:g} s")
        if isinstance(part, Moments):
            told[name] = part
        else:
            asking.say(f"{name} does not take part: {part}")
    sites = enough(sites.only(told), config)
    data = settings.model_copy(update=agreed_scale(settings, list(told.values())))
    return sites, config.model_copy(update={"data": data})


def read(message: Message, inputs: int, most: int) -> Moments | str:
    """What a site tells, or why it cannot be used; it may hold anything."""
    if message.has_error():
        return "its program failed; its own log says more"
    try:
        about = message.content.config_records["reply"]
        if "error" in about:
            return printable(about["error"])
        found = Moments.read(read_payload(message, LARGEST), inputs, most)
    except Exception:  # it may hold anything
        found = None
    return f"its {KIND} cannot be used" if found is None else found


def as_begun(config: Config, existing: Config) -> Config:
    """The configuration with the scale that its run began with, so that nobody is asked again."""
    keys = ("scaling", "mean", "std", "target_mean", "target_std")
    left = [key for key in keys if getattr(config.data, key) is None]
    data = config.data.model_copy(update={key: getattr(existing.data, key) for key in left})
    return config.model_copy(update={"data": data})
