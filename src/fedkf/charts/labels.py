"""How things are called where people read them: algorithms, readouts, metrics."""

from __future__ import annotations

from fedkf.metrics import Metric

ALGORITHMS = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedgen": "FedGen",
    "fedgkd": "FedGKD",
    "qffl": "q-FFL",
    "fedkf-": "FedKF-",
    "fedkf": "FedKF",
    "fedkf+": "FedKF+",
    "fedkf-server": "FedKF-server",
    "scaffold": "SCAFFOLD",
    "fednova": "FedNova",
    "mifa": "MIFA",
    "moon": "MOON",
    "afl": "AFL",
    "feddf": "FedDF",
    "ccvr": "CCVR",
    "fedmgda": "FedMGDA+",
    "fedavgm": "FedAvgM",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "pfedme": "pFedMe",
    "perfedavg": "Per-FedAvg",
    "feddyn": "FedDyn",
    "fedntd": "FedNTD",
    "fedlc": "FedLC",
    "fedsam": "FedSAM",
    "fedexp": "FedExP",
    "fedcm": "FedCM",
    "fedvarp": "FedVARP",
    "fedstale": "FedStale",
    "fedswa": "FedSWA",
    "fedftg": "FedFTG",
    "ditto": "Ditto",
    "term": "TERM",
    "propfair": "PropFair",
    "fedfv": "FedFV",
    "local": "training alone",
}
"""Algorithms as the literature spells them."""

SETTINGS = {"data.alpha": "α", "data.clients": "K", "federation.fraction": "C"}
"""The paper's letters for keys of the configuration."""


def algorithm_label(name: str) -> str:
    """An algorithm's name in the literature; one that is not known keeps its own."""
    return ALGORITHMS.get(name, name)


def readout_label(name: str, readout: str) -> str:
    """A model's name: `FedAvg (OCA)`."""
    return f"{name} ({readout.upper()})"


def metric_title(metric: Metric) -> str:
    """A metric as a chart's title, with what it says and which way is better."""
    better = "higher" if metric.higher_is_better else "lower"
    return f"{metric.label}: {metric.about} ({better} is better)"


def percent(value: float | None) -> str:
    """A share for reading.

    >>> percent(0.9263), percent(None)
    ('92.6\\xa0%', '–')
    """
    return "–" if value is None else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"
