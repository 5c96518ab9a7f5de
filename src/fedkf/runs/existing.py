"""Finished runs on disk that answer a suite's plans, so that none need be started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedkf.core.errors import UserError
from fedkf.runs.suite import Finished, Plan, answers, difference, records


def existing_runs(plans: Sequence[Plan], folders: Sequence[Path]) -> dict[str, Finished]:
    """The finished runs that answer the plans; if there are none, why the first record does not."""
    found = records(folders)
    done = {plan.name: record for plan in plans if (record := answers(plan, found))}
    if plans and not done:
        where = " or ".join(map(str, folders))
        if not found:
            raise UserError(f"no finished run in {where}")
        key = difference(plans[0].config, found[0].config)
        raise UserError(
            f"none of the {len(found)} finished runs in {where} is one of these {len(plans)}; "
            f"{found[0].path.name} differs from {plans[0].name} in {key}, for one"
        )
    return done
