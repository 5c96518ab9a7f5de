"""Data sets that come divided by nature: by hospital, person, ward or style.

Each is found where other data sets are looked for, also below a folder `sites`, and read as its
publishers have it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedkf.core.errors import UserError
from fedkf.data.annotations import annotated
from fedkf.data.arrays import read_npz
from fedkf.data.catalog import Dataset, Decoded, Form, find
from fedkf.data.groups import with_groups
from fedkf.data.hospitals import heart, icu, tcga
from fedkf.data.npz import npz
from fedkf.data.reading import Reading
from fedkf.data.signals import in_units
from fedkf.data.source import Say, Source, named, retargeted

Read = Callable[[Path, Reading, Say], Source]


@dataclass(frozen=True)
class Natural:
    """A data set whose samples belong to somebody: where it lies, and how it is read."""

    dataset: Dataset
    read: Read

    def load(self, path: str | None, reading: Reading, say: Say) -> Source:
        """Its samples, or a sentence that says where to get them."""
        found = find(self.dataset, path)
        if found is None:
            where = f" in {path}" if path else ""
            name = self.dataset.name
            raise UserError(f"data.source: no {name} here{where}; {self.dataset.missing()}")
        source = self.read(found[1][0].path.parent, reading, say)
        if source.task != reading.task:
            source = retargeted(source, reading.asked, self.dataset.name)
        return named(source, reading.class_names)


def activities(folder: Path, reading: Reading, say: Say) -> Source:
    """Windows of a phone's sensors, by person, with the published training and test windows."""
    file = folder / "uci_har.npz"
    names = ("client", "split", "label_names")
    arrays = read_npz(file, "signals", "labels", "scale", *names)
    inputs = in_units(arrays["signals"], arrays["scale"], f"data.path: {file}")
    classes = [str(name).lower().replace("_", " ") for name in arrays["label_names"]]
    source = Source(inputs, arrays["labels"].astype(np.int64), classes, measured=True)
    source = annotated(source, arrays, f"data.path: {file}")
    people = [f"person {int(name) + 1}" for name in source.owner_names]
    return replace(source, owner_names=people)


BLOCK = 10
"""Heart beats that follow each other and train or test together, since their windows overlap.

Those at the ends of neighbouring blocks still do; records of runs hold to this division.
"""


def beats(folder: Path, reading: Reading, say: Say) -> Source:
    """Heart beats of the MIT-BIH records, by patient; records 201 and 202 are one person's."""
    file = folder / "mitbih.npz"
    arrays = read_npz(file, "signals", "labels", "client", "client_names", "label_names")
    inputs = in_units(arrays["signals"], np.array(1000), f"data.path: {file}")  # millivolt
    records = arrays["client_names"][arrays["client"]]
    patients = np.where(np.isin(records, ("201", "202")), "201 and 202", records)
    names, owners = np.unique(patients, return_inverse=True)
    first = np.concatenate([[True], records[1:] != records[:-1]])
    starts = np.flatnonzero(first)
    within = np.arange(len(records)) - np.repeat(starts, np.diff([*starts, len(records)]))
    units = np.cumsum(first | (within % BLOCK == 0))
    classes = [str(name) for name in arrays["label_names"]]
    labels = arrays["labels"].astype(np.int64)
    people = [f"record {name}" for name in names]
    source = Source(inputs, labels, classes, owners.astype(np.int64), people, measured=True)
    return replace(source, units=units.astype(np.int64))


def speakers(folder: Path, reading: Reading, say: Say) -> Source:
    """Spoken digits as log-mel images, by speaker."""
    source = npz(str(folder / "audiomnist.npz"))
    about = json.loads((folder / "speakers.json").read_text())
    known = sorted(about)
    if len(known) != len(source.owner_names):
        return source
    facts = {
        key: np.array([str(about[name].get(key, "")).lower() for name in known])[source.owners]
        for key in sorted({key for name in known for key in about[name]})
    }
    source = with_groups(source, facts, reading.groups)
    return replace(source, owner_names=[f"speaker {name}" for name in known])


def styles(folder: Path, reading: Reading, say: Say) -> Source:
    """Photos, paintings, cartoons and sketches of the same seven things."""
    return npz(str(folder / "pacs32.npz"))


def _unread(contents: Sequence[bytes]) -> Decoded:
    raise NotImplementedError  # these are read from their folder


def _dataset(name: str, about: str, folder: str, files: Sequence[str], wanted: str) -> Dataset:
    folders = (f"sites/{folder}", folder)
    return Dataset(name, about, [], [Form(files, _unread)], folders, wanted=wanted)


_HEART = [f"processed.{name}.data" for name in ("cleveland", "hungarian", "switzerland", "va")]
_TCGA = ["brca.csv", "train_test_split.csv"]

NATURAL = {
    natural.dataset.name: natural
    for natural in (
        Natural(
            _dataset(
                "heart",
                "Heart Disease: 740 patients of 4 hospitals, ill or not, 13 inputs",
                "heart_disease",
                _HEART,
                f"{_HEART[0]} and the three like it (UCI, archive.ics.uci.edu, Heart Disease)",
            ),
            heart,
        ),
        Natural(
            _dataset(
                "tcga",
                "TCGA-BRCA: survival of 1,088 patients of 6 regions, 39 inputs",
                "tcga_brca",
                _TCGA,
                f"{' and '.join(_TCGA)} (github.com/owkin/FLamby, fed_tcga_brca)",
            ),
            tcga,
        ),
        Natural(
            _dataset(
                "har",
                "UCI HAR: 6 activities of 30 people, 10,299 windows of 9×128",
                "uci_har",
                ["uci_har.npz"],
                "uci_har.npz (arrays signals, labels, client, split, scale, label_names; from "
                "archive.ics.uci.edu, Human Activity Recognition Using Smartphones)",
            ),
            activities,
        ),
        Natural(
            _dataset(
                "ecg",
                "MIT-BIH: 109,437 heart beats of 47 patients, 5 classes, 128 samples each",
                "mitbih",
                ["mitbih.npz"],
                "mitbih.npz (arrays signals, labels, client, client_names, label_names; from "
                "physionet.org, MIT-BIH Arrhythmia Database)",
            ),
            beats,
        ),
        Natural(
            _dataset(
                "icu",
                "PhysioNet 2012: 12,000 stays in 4 kinds of intensive care, survived or not",
                "physionet2012",
                ["physionet2012.npz"],
                "physionet2012.npz (arrays hourly, static, labels, client, variables, "
                "static_names, client_names; from physionet.org, Challenge 2012)",
            ),
            icu,
        ),
        Natural(
            _dataset(
                "audiomnist",
                "AudioMNIST: 30,000 spoken digits of 60 speakers, log-mel 32×32",
                "audiomnist",
                ["audiomnist.npz", "speakers.json"],
                "audiomnist.npz (arrays images, labels, client) and speakers.json (from "
                "github.com/soerenab/AudioMNIST)",
            ),
            speakers,
        ),
        Natural(
            _dataset(
                "pacs",
                "PACS: 9,991 images of 7 things in 4 styles, 32×32",
                "pacs32",
                ["pacs32.npz"],
                "pacs32.npz (arrays images, labels, client, client_names, label_names; from the "
                "PACS data set)",
            ),
            styles,
        ),
    )
}
