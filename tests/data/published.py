"""Writes small archives in the formats in which the public data sets are published."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def images_and_labels(count: int, classes: int, *shape: int) -> tuple[Bytes, Bytes]:
    random = np.random.default_rng(count)
    images = random.integers(0, 256, (count, *shape), dtype=np.uint8)
    return images, (np.arange(count) % classes).astype(np.uint8)


def idx(values: Bytes) -> bytes:
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    return header + values.tobytes()


def idx_files(prefix: str, images: Bytes, labels: Bytes) -> dict[str, bytes]:
    return {
        f"{prefix}train-images-idx3-ubyte": idx(images),
        f"{prefix}train-labels-idx1-ubyte": idx(labels),
    }


def emnist_zip(path: Path, images: Bytes, labels: Bytes) -> None:
    """As NIST publishes it: gzipped IDX files in `gzip/`, letters transposed, labels from 1."""
    with zipfile.ZipFile(path, "w") as archive:
        stored = idx_files("emnist-letters-", images.transpose(0, 2, 1).copy(), labels + 1)
        for name, content in stored.items():
            archive.writestr(f"gzip/{name}.gz", gzip.compress(content))


def cifar_batches(images: Bytes, labels: Bytes, hundred: bool) -> dict[str, bytes]:
    """CIFAR's binary records, all in one batch for 100 classes and in five for 10."""
    rows = images.reshape(len(images), -1)
    columns = [labels[:, None], rows]
    if hundred:
        columns.insert(0, (labels // 5)[:, None])  # the coarse label comes first
        return {"cifar-100-binary/train.bin": np.hstack(columns).tobytes()}
    parts = np.array_split(np.hstack(columns), 5)
    return {
        f"cifar-10-batches-bin/data_batch_{k + 1}.bin": p.tobytes() for k, p in enumerate(parts)
    }


def cifar_pickles(images: Bytes, labels: Bytes, hundred: bool) -> dict[str, bytes]:
    rows = images.reshape(len(images), -1)
    if hundred:
        return {"cifar-100-python/train": python2_pickle(rows, labels, "fine_labels")}
    parts = zip(np.array_split(rows, 5), np.array_split(labels, 5), strict=True)
    return {
        f"cifar-10-batches-py/data_batch_{k + 1}": python2_pickle(*part, "labels")
        for k, part in enumerate(parts)
    }


def python2_pickle(rows: Bytes, labels: Bytes, key: str) -> bytes:
    """The operations with which Python 2 wrote the published batches (protocol 2)."""

    def text(value: str) -> bytes:
        return b"U" + bytes([len(value)]) + value.encode()

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    raw = rows.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nK\x00\x85"
        + text("b")
        + b"\x87R("
        + number(1)
        + (number(rows.shape[0]) + number(rows.shape[1]) + b"\x86")
        + (b"cnumpy\ndtype\n" + text("u1") + b"K\x00K\x01\x87R")
        + (b"(K\x03" + text("|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb")
        + (b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb")
    )
    listed = b"]q\x02(" + b"".join(b"K" + bytes([int(k)]) for k in labels) + b"e"
    pairs = text("batch_label") + text("training batch") + text(key) + listed + text("data") + array
    return b"\x80\x02}q\x00(" + pairs + b"u."


def tar_gz(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def write(folder: Path, files: dict[str, bytes], zipped: bool = False) -> None:
    for name, content in files.items():
        path = folder / (f"{name}.gz" if zipped else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if zipped else content)
