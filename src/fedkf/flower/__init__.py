"""Flower between the server and its clients: simulations, deployments, Flower apps of one's own.

`FedKFStrategy` and `AlgorithmStrategy` go into a ServerApp, `client_app` makes the ClientApp.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from fedkf.core.extras import install

if importlib.util.find_spec("flwr") is None:
    raise ImportError(f"fedkf.flower needs Flower: {install('flower')}")

if TYPE_CHECKING:
    from fedkf.flower.participant import client_app as client_app
    from fedkf.flower.strategy import AlgorithmStrategy as AlgorithmStrategy
    from fedkf.flower.strategy import FedKFStrategy as FedKFStrategy

__all__ = ["AlgorithmStrategy", "FedKFStrategy", "client_app"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import fedkf.flower` itself is light."""
    if name not in __all__:
        raise AttributeError(f"module 'fedkf.flower' has no attribute {name!r}")
    module = "participant" if name == "client_app" else "strategy"
    return getattr(importlib.import_module(f"fedkf.flower.{module}"), name)
