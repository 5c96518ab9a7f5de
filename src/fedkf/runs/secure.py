"""Secure sums in a configuration: what cannot be combined with them, and what they promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedkf.core.errors import UserError
from fedkf.core.extras import check_installed

if TYPE_CHECKING:
    from fedkf.core.algorithm import Algorithm
    from fedkf.runs.schema import Config


def check_secure(config: Config, kind: type[Algorithm]) -> None:
    """Refuse what would need single uploads where `transport.secure` hides them."""
    if not config.transport.secure:
        return
    check_installed("secure", "transport.secure needs the package cryptography", "cryptography")
    federation, overall = config.federation, config.overall
    if not kind.takes_sums():
        from fedkf import algorithms

        fit = [name for name in algorithms.names() if algorithms.get(name).takes_sums()]
        raise UserError(
            f"transport.secure is true, but {config.algorithm.name} needs single uploads on the "
            f"server; sums are enough for {', '.join(fit)}, and for a class of your own that says "
            "sums_only: ClassVar[bool] = True"
        )
    single = {
        f"federation.defence is {federation.defence!r}": federation.defence not in ("norm", "none"),
        f"transport.uplink is {config.transport.uplink!r}": config.transport.uplink != "full",
        f"overall.inactive is {overall.inactive!r}": overall.inactive != "slot",
        f"overall.max_staleness is {overall.max_staleness}": overall.max_staleness is not None,
        f"federation.oversample is {federation.oversample:g}": federation.oversample > 1,
    }
    for given, found in single.items():
        if found:
            raise UserError(
                f"{given}, which works on single uploads, and transport.secure hides them; "
                "leave one of the two out"
            )


def unhidden(config: Config) -> str:
    """Why a client's model could be seen by the server, or nothing."""
    if not config.transport.secure:
        return "and transport.secure is false"
    if config.transport.threshold <= 0.5:
        return (
            "none whose masks half of a round's sites could undo, and transport.threshold is "
            f"{config.transport.threshold:g}; it must be above 0.5"
        )
    return "none that may bare it, and transport.exact is true" if config.transport.exact else ""


def check_crowd(config: Config, active: int) -> None:
    """Refuse rounds too small to hide anybody."""
    if config.transport.secure and active < 3:
        raise UserError(
            f"transport.secure is true, but a round has {active} of the clients, and a sum hides "
            "its parts only among three or more (of two, each knows the other's); raise "
            "federation.fraction"
        )


def clients_needed(config: Config, active: int) -> int:
    """How many usable answers each exchange of training needs."""
    least = config.federation.min_clients
    if not config.transport.secure:
        return least
    from fedkf.secure.protocol import LEAST, needed

    return max(least, LEAST, needed(active, config.transport.threshold))
