"""Readers of hospitals' data sets: heart disease, breast cancer, intensive care.

The first two follow FLamby (du Terrail et al., 2022): the same inputs, rows and test patients.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkf.core.errors import UserError
from fedkf.data.annotations import annotated
from fedkf.data.arrays import read_npz
from fedkf.data.groups import with_groups
from fedkf.data.reading import Reading
from fedkf.data.source import Say, Source
from fedkf.data.table import from_table
from fedkf.data.tabular import read_csv, read_files

HEART_INPUTS = "age sex cp trestbps chol fbs restecg thalach exang oldpeak".split()  # noqa: SIM905
HEART_COLUMNS = [*HEART_INPUTS, "slope", "ca", "thal", "num"]
TEST_FRACTION, SEED = 0.34, 43
"""Of FLamby's fixed division of the hospitals' patients."""


def heart(folder: Path, reading: Reading, say: Say) -> Source:
    """Patients without missing values among ten columns; chest pain and resting ECG are classes.

    The target is 0 for a healthy heart and above for an ill one.
    """
    files = sorted(folder.glob("processed.*.data"))
    table = replace(read_files(str(folder), files, HEART_COLUMNS), sited=True)
    own = Reading(
        class_names=["healthy", "ill"],
        task="binary",
        target="num",
        positive=">0",
        columns=HEART_INPUTS,
        categories={"cp": ["1", "2", "3", "4"], "restecg": ["0", "1", "2"]},
        missing="drop",
        missing_values=["?"],
        groups=reading.groups,
    )
    source = from_table(table, own, say)
    if "sex" in source.groups:
        said = np.where(source.groups["sex"] == "1", "male", "female")
        source = replace(source, groups={**source.groups, "sex": said})
    names = [name.removeprefix("processed.") for name in source.owner_names]
    return replace(source, owner_names=names, tested=flamby_test(source))


def flamby_test(source: Source) -> NDArray[np.bool_]:
    """The test patients of each hospital, drawn as FLamby draws them."""
    from sklearn.model_selection import train_test_split

    tested = np.zeros(len(source.labels), bool)
    assert source.owners is not None
    for owner in np.unique(source.owners):
        own = np.flatnonzero(source.owners == owner)
        labels = source.labels[own]
        counts = np.unique(labels, return_counts=True)[1]
        strata = labels if len(counts) > 1 and counts.min() > 2 else None
        train = 1 - TEST_FRACTION
        _, test = train_test_split(
            own, test_size=1 - train, train_size=train, random_state=SEED, stratify=strata
        )
        tested[test] = True
    return tested


def tcga(folder: Path, reading: Reading, say: Say) -> Source:
    """Patients with breast cancer by region, with the published division into training and test."""
    patients = read_csv(folder / "brca.csv")
    division = read_csv(folder / "train_test_split.csv")
    folds = dict(zip(division.cells["pid"].tolist(), division.cells["fold2"].tolist(), strict=True))
    known = np.array([folds.get(pid, "") for pid in patients.cells["pid"].tolist()])
    kept = known != ""
    if not kept.any():
        raise UserError(f"data.source: {folder} divides other patients than it describes")
    inputs = [name for name in patients.names if name not in ("pid", "T", "E")]
    own = Reading(
        task="survival", target=["T", "E"], columns=inputs, categories={}, groups=reading.groups
    )
    source = from_table(patients.take(kept), own, say)
    sides, regions = zip(*(fold.split("_") for fold in known[kept].tolist()), strict=True)
    names, owners = np.unique(regions, return_inverse=True)
    return replace(
        source,
        owners=owners.astype(np.int64),
        owner_names=[f"region {name}" for name in names],
        tested=np.array(sides) == "test",
    )


def icu(folder: Path, reading: Reading, say: Say) -> Source:
    """Stays in intensive care: the mean, lowest and highest of each measurement, and if any."""
    file = folder / "physionet2012.npz"
    arrays = read_npz(
        file, "hourly", "static", "labels", "client", "client_names", also=["static_names"]
    )
    names = arrays.get("static_names", np.zeros(0, np.str_))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what was never measured has no mean
        hourly = arrays["hourly"]
        found = [f(hourly, axis=1) for f in (np.nanmean, np.nanmin, np.nanmax)]
    static = arrays["static"][:, ~np.isnan(arrays["static"]).all(0)]
    measured = (~np.isnan(found[0])).astype(np.float32)
    inputs = np.concatenate([static, *found, measured], axis=1).astype(np.float32)
    labels = arrays["labels"].astype(np.int64)
    source = Source(inputs, labels, ["survived", "died"], task="binary", measured=True)
    known = {str(name).lower(): arrays["static"][:, k] for k, name in enumerate(names) if name}
    if "gender" in known:
        known["gender"] = np.select(
            [known["gender"] == 0, known["gender"] == 1], ["female", "male"], "unknown"
        )
    source = with_groups(source, known, reading.groups)
    return annotated(source, arrays, f"data.path: {file}")
