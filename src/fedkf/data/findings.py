"""Findings: what the differences between clients mean for whoever trains, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALIKE, APART = 0.05, 0.2
"""Below, labels count as alike; from the other one on they differ much."""
TOLD = 0.1
"""Of the score of inputs, from which clients count as told apart."""
POINTS = 0.03
"""Of accuracy, from which it matters whose samples a model was fitted on."""
UNSURE = 0.1
"""Of accuracy, from which a difference that is not ruled out is too large to deny it."""
UNEQUAL = 0.3
ERRORS = 2
"""Standard errors that a difference must be away from 0."""


def findings(measured: Mapping[str, Any]) -> list[str]:
    """What follows from the measures, a sentence or two each."""
    found = [about_labels(measured), about_inputs(measured), about_transfer(measured)]
    return [text for text in (*found, about_sizes(measured)) if text]


def differs(value: float, error: float, least: float) -> bool:
    """Whether a measure is large enough to matter, and beyond chance."""
    return value >= least and value > ERRORS * error


def inputs_differ(measured: Mapping[str, Any]) -> bool:
    inputs = measured.get("inputs", {})
    return "score" in inputs and differs(inputs["score"], inputs["error"], TOLD)


def about_labels(measured: Mapping[str, Any]) -> str:
    labels = measured["labels"]
    if labels >= APART:
        return (
            f"labels: clients hold different classes ({labels:.2f}), and models drift towards "
            "their own; FedKF (T1, T2) is made against that"
        )
    if labels >= ALIKE:
        return f"labels: the mix of classes differs somewhat between clients ({labels:.2f})"
    return "" if inputs_differ(measured) else "labels: alike at all clients"


def about_inputs(measured: Mapping[str, Any]) -> str:
    inputs = measured.get("inputs")
    if inputs is None:
        return ""
    if "score" not in inputs:
        return (
            "inputs: not told apart from labels, which say nearly by themselves whose a sample is"
        )
    if not inputs_differ(measured):
        return (
            "inputs: of a class, they look alike at all clients; a small classifier cannot tell "
            "whose a sample is"
        )
    lead = "labels are alike everywhere, but " if measured["labels"] < ALIKE else ""
    return (
        f"inputs: {lead}a small classifier names the client of {inputs['accuracy']:.0%} of "
        f"held-out samples, where labels alone tell {inputs['chance']:.0%}: the inputs differ; "
        "consider personalised models (evaluation.personal)"
    )


def about_transfer(measured: Mapping[str, Any]) -> str:
    transfer = measured.get("transfer", {})
    if "gap" not in transfer:
        return ""
    gap, reach = 100 * transfer["gap"], 100 * ERRORS * transfer["error"]
    if differs(transfer["gap"], transfer["error"], POINTS):
        return (
            f"meaning: a small model of a client's own samples is right {gap:.0f} ± {reach:.0f} "
            "points more often there than one of as many of the others': the same inputs mean "
            "something else, or the others have none like them; compare with algorithm.name=local"
        )
    measured_as = (
        f"a small model of a client's own samples is right {gap:+.0f} ± {reach:.0f} points more "
        "often there than one of as many of the others'"
    )
    if max(gap, 0) + reach > 100 * UNSURE:
        return f"meaning: whether what clients learn carries over cannot be told; {measured_as}"
    return f"meaning: what clients learn carries over; {measured_as}"


def about_sizes(measured: Mapping[str, Any]) -> str:
    if measured["quantity"] < UNEQUAL:
        return ""
    return (
        f"sizes: very unequal ({measured['quantity']:.2f}); means by size are those of the largest "
        "clients, so look at WLP and not at AMP alone"
    )
