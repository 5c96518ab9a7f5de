"""The engines by name; others are named as `package.module:object`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.objects import import_object

if TYPE_CHECKING:
    from fedkf.core.client import ClientHost
    from fedkf.core.server import Engine
    from fedkf.engines import EngineSettings
    from fedkf.engines.counting import Population

# Flower's is a name and no import: it is built upon runs, and they upon this.
ENGINES = {
    "local": "fedkf.engines.local:local_engine",
    "flower": "fedkf.flower.simulation:SimulationEngine",
}
SERVICES = ("exchange", "evaluate", "close")


def find(name: str) -> Callable[..., Any]:
    """What makes the engine of that name, called with the client host, who takes part and settings.

    An object of the user's own is imported, so a mistake in its name shows before any work is done.
    """
    factory: Callable[..., Any] = import_object(ENGINES.get(name, name), "engine.name")
    return factory


def build(name: str, host: ClientHost, population: Population, settings: EngineSettings) -> Engine:
    """The engine of that name for these clients; the caller closes it."""
    try:
        engine: Engine = find(name)(host, population, settings)
    except FedkfError:
        raise
    except Exception as error:
        if name in ENGINES:
            raise
        raise UserError(f"engine.name: {name} raised {type(error).__name__}: {error}") from error
    missing = [service for service in SERVICES if not hasattr(engine, service)]
    if missing:
        raise UserError(f"engine.name: what {name} makes has no {', '.join(missing)}")
    return engine
