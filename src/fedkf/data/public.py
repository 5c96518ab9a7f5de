"""The public data sets by name: which files they are, how they are read, where they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedkf.data.archives import Bytes, cifar_binary, cifar_python, idx
from fedkf.data.arrays import read_bytes
from fedkf.data.catalog import Dataset, Decoded, Download, Form


def _read_idx(contents: Sequence[bytes]) -> Decoded:
    images, labels = (idx(content) for content in contents)
    if images.ndim != 3 or labels.ndim != 1:
        raise ValueError("the files do not hold images and labels")
    return images[:, None], labels.astype(np.int64)


def _read_emnist(contents: Sequence[bytes]) -> Decoded:
    """Letters are published mirrored along the diagonal, with labels from 1."""
    images, labels = _read_idx(contents)
    return images.transpose(0, 1, 3, 2), labels - 1


def _read_binary(label_bytes: int) -> Callable[[Sequence[bytes]], Decoded]:
    return lambda contents: _joined([cifar_binary(c, label_bytes) for c in contents])


def _read_python(labels: str) -> Callable[[Sequence[bytes]], Decoded]:
    return lambda contents: _joined([cifar_python(c, labels) for c in contents])


def _joined(parts: Sequence[tuple[Bytes, Bytes]]) -> Decoded:
    images, labels = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(labels).astype(np.int64)


def _idx_forms(prefix: str, read: Callable[[Sequence[bytes]], Decoded]) -> list[Form]:
    names = [f"{prefix}train-images-idx3-ubyte", f"{prefix}train-labels-idx1-ubyte"]
    return [Form(names, read)]


def _cifar_forms(number: int, batches: Sequence[str], label_bytes: int, labels: str) -> list[Form]:
    forms = []
    kinds = (
        ("binary", "batches-bin" if number == 10 else "binary", ".bin", _read_binary(label_bytes)),
        ("python", "batches-py" if number == 10 else "python", "", _read_python(labels)),
    )
    for kind, inside, ending, read in kinds:
        files, folder = [batch + ending for batch in batches], f"cifar-{number}-{inside}/"
        forms.append(Form(files, read, inside=folder))
        forms.append(Form(files, read, f"cifar-{number}-{kind}.tar.gz", folder))
    return forms


def _read_npz(contents: Sequence[bytes]) -> Decoded:
    images, labels = read_bytes(contents[0], "images", "labels")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise ValueError(f"its labels are {labels.dtype} of shape {labels.shape}")
    if images.ndim != 3 or images.dtype != np.uint8:
        raise ValueError(f"its images are {images.dtype} of shape {images.shape}")
    return images[:, None], labels.astype(np.int64)


_LETTERS = [chr(ord("a") + k) for k in range(26)]
_CIFAR10_NAMES = "airplane automobile bird cat deer dog frog horse ship truck".split()  # noqa: SIM905
_CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
train trout tulip turtle wardrobe whale willow_tree wolf woman worm
""".split()  # noqa: SIM905
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

_EMNIST_NAMES = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]

DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "emnist",
            "EMNIST letters: 124,800 handwritten letters a to z, 28×28",
            _LETTERS,
            [
                *_idx_forms("emnist-letters-", _read_emnist),
                Form(
                    [f"emnist-letters-{name}" for name in _EMNIST_NAMES],
                    _read_emnist,
                    "gzip.zip",
                    "gzip/",
                ),
            ],
            ("", "EMNIST/raw", "gzip"),
            [
                Download(
                    "gzip.zip",
                    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                    "58c8d27c78d21e728a6bc7b3cc06412e",
                )
            ],
        ),
        Dataset(
            "letters",
            "handwritten letters a to z, 28×28, from letters.npz",
            _LETTERS,
            [Form(["letters.npz"], _read_npz)],
            wanted="letters.npz (arrays images and labels)",
        ),
        Dataset(
            "cifar10",
            "CIFAR-10: 50,000 colour images of 10 classes, 32×32",
            _CIFAR10_NAMES,
            _cifar_forms(10, [f"data_batch_{k}" for k in range(1, 6)], 1, "labels"),
            downloads=[
                Download(
                    "cifar-10-binary.tar.gz",
                    f"{_CIFAR}/cifar-10-binary.tar.gz",
                    "c32a1d4ab5d03f1284b67883e8d87530",
                )
            ],
        ),
        Dataset(
            "cifar100",
            "CIFAR-100: 50,000 colour images of 100 classes, 32×32",
            _CIFAR100_NAMES,
            _cifar_forms(100, ["train"], 2, "fine_labels"),
            downloads=[
                Download(
                    "cifar-100-binary.tar.gz",
                    f"{_CIFAR}/cifar-100-binary.tar.gz",
                    "03b5dce01913d631647c71ecec9e9cb8",
                )
            ],
        ),
        Dataset(
            "mnist",
            "MNIST: 60,000 handwritten digits, 28×28",
            [str(k) for k in range(10)],
            _idx_forms("", _read_idx),
            ("MNIST/raw",),
            [
                Download(name, f"{_MNIST}/{name}", md5)
                for name, md5 in (
                    ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                    ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
                )
            ],
        ),
        Dataset(
            "fashion-mnist",
            "Fashion-MNIST: 60,000 pieces of clothing, 28×28",
            [
                "T-shirt",
                "Trouser",
                "Pullover",
                "Dress",
                "Coat",
                "Sandal",
                "Shirt",
                "Sneaker",
                "Bag",
                "Ankle boot",
            ],
            _idx_forms("", _read_idx),
            ("FashionMNIST/raw",),
            [
                Download(name, f"{_FASHION}/{name}", md5)
                for name, md5 in (
                    ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                    ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
                )
            ],
        ),
    )
}
