"""Engines for runs: which one a configuration names, with how many workers."""

from __future__ import annotations

import os

from fedkf.core.client import ClientHost
from fedkf.core.determinism import check_device
from fedkf.core.extras import check_installed
from fedkf.core.schedule import active_clients
from fedkf.core.server import Engine
from fedkf.data.source import Say
from fedkf.engines import EngineSettings
from fedkf.engines.counting import Population
from fedkf.engines.registry import build, find
from fedkf.runs.load import cores
from fedkf.runs.schema import Config
from fedkf.runs.secure import clients_needed


def check_engine(config: Config) -> None:
    """Refuse an engine or a device that is not there, before any work is done."""
    check_device(config.engine.device)
    if config.engine.name == "flower":
        check_installed("flower", "engine flower needs Flower's simulation", "flwr", "ray")
    find(config.engine.name)


def make_engine(config: Config, host: ClientHost, population: Population, say: Say) -> Engine:
    """Where the clients' work is done."""
    settings = config.engine
    active = active_clients(config.federation.fraction, len(population.sizes))
    given = EngineSettings(
        choose_workers(config),
        settings.threads,
        settings.address,
        config.federation.round_timeout,
        clients_needed(config, active),
        config.federation.oversample > 1,
        say,
    )
    return build(settings.name, host, population, given)


def choose_workers(config: Config) -> int:
    """As many as were asked for; else one a core, on a GPU none: clients take turns here.

    A process that has used CUDA cannot fork workers that use it, and one that is to replace a dead
    worker may well have.
    """
    if config.engine.workers is not None:
        return config.engine.workers
    if not hasattr(os, "fork") or config.engine.device != "cpu":
        return 0
    return cores()
