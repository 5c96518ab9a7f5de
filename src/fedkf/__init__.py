"""Train one shared model across sites whose data differ; keep it accurate and fair for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Algorithm",
    "Comparison",
    "FedAvg",
    "FedKF",
    "FedkfError",
    "Observer",
    "Result",
    "Stop",
    "Trained",
    "UserError",
    "compare",
    "evaluate",
    "export",
    "load",
    "metrics",
    "personal_model",
    "personalize",
    "run",
    "sweep",
]
"""What is public, and kept: a test notices when a name goes or a signature changes."""

if TYPE_CHECKING:
    from fedkf import algorithms as algorithms
    from fedkf import metrics as metrics
    from fedkf.algorithms.fedavg import FedAvg as FedAvg
    from fedkf.algorithms.fedkf import FedKF as FedKF
    from fedkf.api import run as run
    from fedkf.core.algorithm import Algorithm as Algorithm
    from fedkf.core.errors import FedkfError as FedkfError
    from fedkf.core.errors import UserError as UserError
    from fedkf.core.federation import Observer as Observer
    from fedkf.core.federation import Stop as Stop
    from fedkf.runs.comparing import Comparison as Comparison
    from fedkf.runs.comparing import compare as compare
    from fedkf.runs.comparing import sweep as sweep
    from fedkf.runs.loading import load as load
    from fedkf.runs.personal import personal_model as personal_model
    from fedkf.runs.personalize import personalize as personalize
    from fedkf.runs.result import Result as Result
    from fedkf.runs.trained import Trained as Trained
    from fedkf.runs.usage import evaluate as evaluate
    from fedkf.runs.usage import export as export

_HOMES = {
    "Algorithm": "fedkf.core.algorithm",
    "Comparison": "fedkf.runs.comparing",
    "FedAvg": "fedkf.algorithms.fedavg",
    "FedKF": "fedkf.algorithms.fedkf",
    "FedkfError": "fedkf.core.errors",
    "Observer": "fedkf.core.federation",
    "Result": "fedkf.runs.result",
    "Stop": "fedkf.core.federation",
    "Trained": "fedkf.runs.trained",
    "UserError": "fedkf.core.errors",
    "compare": "fedkf.runs.comparing",
    "evaluate": "fedkf.runs.usage",
    "export": "fedkf.runs.usage",
    "load": "fedkf.runs.loading",
    "personal_model": "fedkf.runs.personal",
    "personalize": "fedkf.runs.personalize",
    "run": "fedkf.api",
    "sweep": "fedkf.runs.comparing",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import fedkf` itself costs nothing."""
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in ("metrics", "algorithms", "flower"):
        return importlib.import_module(f"fedkf.{name}")
    raise AttributeError(f"module 'fedkf' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, for those who look with the tab key."""
    return sorted([*__all__, "__version__", "algorithms", "flower"])
