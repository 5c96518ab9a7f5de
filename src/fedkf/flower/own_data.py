"""A site's own samples, read as a configuration from its coordinator says."""

from __future__ import annotations

import sys
from dataclasses import replace

from fedkf.core.errors import UserError
from fedkf.core.objective import find
from fedkf.data import sources
from fedkf.data.federated import FederatedData
from fedkf.data.source import Source
from fedkf.data.targets import Targets
from fedkf.flower.settings import MEASURED, SiteRefusal
from fedkf.flower.site_file import Site
from fedkf.runs.division import reading_of
from fedkf.runs.privacy import check_scale
from fedkf.runs.schema import Config
from fedkf.runs.setup import make_data, settle


def at_site(site: Site, config: Config) -> Config:
    """A configuration that came, with this site's data and device."""
    if config.data.class_names is None and find(config.data.task).labelled():
        raise SiteRefusal("the configuration does not name the classes (data.class_names)")
    own = {"source": site.data.source, "path": site.data.path, "partition": "iid", "clients": 1}
    # Whoever owns a sample in a rehearsal's table: here they are all this site's.
    nobody = {"site": None} if site.data.source in MEASURED else {}
    data = config.data.model_copy(update={**one_unit(config), **own, **nobody})
    engine = config.engine.model_copy(update={"device": site.device})
    return config.model_copy(update={"data": data, "engine": engine})


def one_unit(config: Config) -> dict[str, float]:
    """How a target that is a number is scaled: as the coordinator says, else not at all.

    A scale from this site's own targets would give its model another unit than the others'.
    """
    mean, std = config.data.target_mean, config.data.target_std
    return (
        {}
        if find(config.data.task).labelled()
        else {
            "target_mean": 0.0 if mean is None else mean,
            "target_std": 1.0 if std is None else std,
        }
    )


def load_data(config: Config) -> tuple[Config, FederatedData]:
    """This site's samples, checked against the configuration's class names."""
    settled, source = load_source(config)
    return settled, make_data(settled, source)


def load_source(config: Config) -> tuple[Config, Source]:
    """The configuration, settled by this site's samples, and these."""
    settings = config.data
    try:
        if settings.unit is not None or settings.source in MEASURED:
            source = sources.read(settings.source, settings.path, reading_of(settings, 1))
        else:
            source = sources.load(
                settings.source,
                settings.path,
                Targets(settings.task, settings.class_names, least_classes=1),
                settings.image_size,
            )
        # All of it is one client's, whoever owned it in the source.
        source = replace(source, owners=None, owner_names=())
        settled = settle(config, source)
    except UserError as error:
        print(f"fedkf site: {error}", file=sys.stderr)  # here, where its paths are no secret
        refusal = "its data does not fit the configuration; its own log says why"
        raise SiteRefusal(refusal) from error
    try:
        check_scale(config, settled)
    except UserError as error:
        raise SiteRefusal(str(error)) from error
    given = settings.mean is not None and settings.std is not None
    if source.measured and settings.scaling is None and not given:  # no mean of its own will do
        raise SiteRefusal("the configuration does not say how inputs are scaled (data.scaling)")
    return settled, source
