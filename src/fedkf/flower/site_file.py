"""SITE/site.yaml: what a site is and what it allows."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from fedkf.core.errors import UserError
from fedkf.flower.budget import SiteBudget
from fedkf.runs.config import explain
from fedkf.runs.data_keys import Section
from fedkf.runs.schema import Device

Share = Literal[
    "losses",
    "local_loss",
    "label_counts",
    "feature_statistics",
    "test_statistics",
    "input_statistics",
]


def text(pattern: str, what: str) -> AfterValidator:
    """A text of a certain form, which a mistake is told in words."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"must be {what}")
        return value

    return AfterValidator(check)


class SiteData(Section):
    """The site's own samples."""

    source: str = Field(
        "folder", description="folder (CLASS/image), npz, table, signals or module:object"
    )
    path: str | None = Field(None, description="of the folder or file; never leaves the site")


class Site(Section):
    """What a site is and what it allows."""

    name: Annotated[str, text(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "letters, digits and ._-")]
    coordinator: Annotated[str, text(r".+:\d+", "HOST:PORT")]
    data: SiteData = SiteData()
    allow: list[str] = Field([], description="package.module:object that a config may name")
    share: list[Share] = Field([], description="what may leave beside weights, sizes and counts")
    secure: bool = Field(False, description="take part only where sums hide its model")
    least_tests: Annotated[int, Field(ge=1)] = Field(
        5, description="with fewer test samples than this it counts none for anybody"
    )
    device: Device = Field("cpu", description="cpu, cuda or cuda:N")
    privacy: SiteBudget | None = Field(None, description="what experiments may tell in all")


TEMPLATE = """\
# What this site is and what it allows. Nothing in this file leaves the site.
name: {name}
coordinator: {coordinator}   # HOST:PORT, as in the coordinator's certificate (ca.crt)

data:
  source: folder             # folder (CLASS/image), npz, table, signals or module:object
  path: null                 # where the samples lie

# Code beyond the installed package that a configuration may name, such as clinic.models:make.
allow: []

# What may leave beside model weights, the number of samples, and counts of correct answers:
# losses (training losses, for monitoring), local_loss (q-FFL, AFL), label_counts (FedGen),
# feature_statistics (CCVR). An algorithm that needs more than is listed is refused, and so are
# metrics beyond accuracy without test_statistics (counts and sums over the test samples, by class
# and by score; of few samples they tell much). To agree on a scale of tables, signals and targets
# takes input_statistics (count, mean and sum of squared deviations of each).
share: []

# true: take part only in runs with transport.secure: the coordinator never sees this site's model.
secure: false

# Where an experiment's settings leave this site fewer test samples, it counts no correct answers:
# a count over one sample tells that sample. A number beyond all of yours never counts any.
least_tests: 5

# What all experiments together may tell of any one sample, whatever they promise; null takes part
# in experiments without privacy, too. With unit: COLUMN, experiments must protect that data.unit.
privacy: null                # such as {{epsilon: 8, delta: 1.0e-5}}

device: cpu
"""


def validate(content: Any, where: str) -> Site:
    try:
        return Site.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            key = ".".join(map(str, first["loc"]))
            known = (
                "name, coordinator, data.source, data.path, allow, share, secure, least_tests, "
                "privacy, device"
            )
            raise UserError(f"{where}: no key {key!r}; it holds {known}") from None
        raise UserError(f"{where}: {explain(error)}") from None
