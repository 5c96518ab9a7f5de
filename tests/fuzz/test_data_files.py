"""Whatever a data file holds: it is taken, or one sentence names the file and what is wrong."""

from __future__ import annotations

import gzip
import io
import pickle
import shutil
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from campaign import all_held, case, check_sentence, command, fuzz, places  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from mutations import changed_bytes
from PIL import Image

RANDOM = np.random.default_rng(0)
IMAGES, LABELS = RANDOM.integers(0, 255, (30, 8, 8), np.uint8), np.arange(30) % 3


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


KINDS = ["|u1", "<u2", ">i8", "<u8", "<f2", ">f4", "<f8", "<f16", "|b1", "<c8", "|S3", "<U2", ">U1"]
KINDS += ["|O", "<M8[s]", "|V4", "<U0", "|S0"]
SIDES = st.sampled_from([-1, 0, 1, 2, 3, 8, 30, 31, 10**6, 2**31, 2**63, 10**30])


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """A .npy member that claims something, with data or without."""
    shape = tuple(draw(st.lists(SIDES, max_size=5)))
    kind = draw(st.sampled_from(KINDS))
    text = f"{{'descr': {kind!r}, 'fortran_order': {draw(st.booleans())}, 'shape': {shape}, }}\n"
    version = draw(st.sampled_from([b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\7\7"]))
    size = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    data = bytes(draw(st.sampled_from([0, 1, 30, 120, 240, 1920, 3840])))
    return b"\x93NUMPY" + version + size + text.encode() + data


@st.composite
def arrays(draw: st.DrawFn) -> bytes:
    """A member that is what it says, but may be of any kind and hold anything."""
    shape = tuple(draw(st.sampled_from([(30,), (30, 8, 8), (30, 4), (30, 8, 8, 3), (), (29,)])))
    kind = np.dtype(draw(st.sampled_from(KINDS[:13])))
    count = int(np.prod(shape)) * kind.itemsize
    raw = np.random.default_rng(draw(st.integers(0, 99))).bytes(count)
    if kind.kind in "SU":
        raw = draw(st.sampled_from([b"a\0\0\0", b"\0\xd8\0\0", b"\xff" * 4, raw[:4]])) * count
    return npy(np.frombuffer(raw[:count], kind).reshape(shape))


MEMBER = st.one_of(st.just(npy(LABELS)), st.just(npy(IMAGES)), headers(), arrays())
NPZ = st.one_of(
    MEMBER.map(lambda member: npz(images=npy(IMAGES), labels=member)),
    MEMBER.map(lambda member: npz(images=member, labels=npy(LABELS))),
    MEMBER.map(lambda member: npz(images=npy(IMAGES), labels=npy(LABELS), client=member)),
    changed_bytes(npz(images=npy(IMAGES), labels=npy(LABELS), client=npy(LABELS))),
    st.binary(max_size=40),
)


def test_every_npz_file_is_taken_or_explained(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"

    @fuzz(40)
    @given(content=NPZ)
    def explore(content: bytes) -> None:
        path.write_bytes(content)
        with case("data files", f"npz {content[:60]!r}…"):
            judge("npz", path)

    explore()
    all_held("data files")


def judge(source: str, path: Path) -> None:
    settings = (f"data.source={source}", f"data.path={path}", "data.clients=3")
    options = [part for text in settings for part in ("--set", text)]
    outcome = command("partition", *options, "--json", "--out", path.parent / "partition")
    check_sentence(outcome, (0, 2))


def idx(array: np.ndarray[Any, Any]) -> bytes:
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


DIGITS = [idx(RANDOM.integers(0, 255, (30, 28, 28), np.uint8)), idx(LABELS.astype(np.uint8))]
BATCH = pickle.dumps(
    {"data": RANDOM.integers(0, 255, (10, 3072), np.uint8), "labels": list(range(10))}, 2
)
BATCHES = {f"cifar-10-batches-py/data_batch_{k}": BATCH for k in range(1, 6)}


@st.composite
def published(draw: st.DrawFn) -> tuple[str, dict[str, bytes]]:
    """A data set's files as they are published, one of them damaged."""
    kind = draw(st.sampled_from(["idx", "gz", "pickle", "tar", "inside"]))
    if kind in ("idx", "gz"):
        names = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"]
        files = dict(zip(names, DIGITS, strict=True))
        name = draw(st.sampled_from(names))
        if kind == "idx":
            return "mnist", files | {name: draw(changed_bytes(files[name]))}
        zipped = {f"{n}.gz": gzip.compress(content, 1) for n, content in files.items()}
        return "mnist", zipped | {f"{name}.gz": draw(changed_bytes(zipped[f"{name}.gz"]))}
    name = draw(st.sampled_from(sorted(BATCHES)))
    if kind == "pickle":
        return "cifar10", BATCHES | {name: draw(changed_bytes(BATCH))}
    whole = tar(BATCHES)
    if kind == "inside":
        whole = gzip.compress(draw(changed_bytes(whole)), 1)
    else:
        whole = draw(changed_bytes(gzip.compress(whole, 1)))
    return "cifar10", {"cifar-10-python.tar.gz": whole}


def test_every_published_file_is_taken_or_explained(tmp_path: Path) -> None:
    @fuzz(20)
    @given(found=published())
    def explore(found: tuple[str, dict[str, bytes]]) -> None:
        source, files = found
        folder = tmp_path / "data"
        shutil.rmtree(folder, ignore_errors=True)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        with case("data files", f"{source} {sorted(files)}"):
            judge(source, folder)

    explore()
    all_held("data files")


def image(form: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(IMAGES[0]).save(buffer, form)
    return buffer.getvalue()


PICTURES = {"png": image("PNG"), "jpg": image("JPEG"), "bmp": image("BMP"), "webp": image("WEBP")}


def test_every_folder_of_images_is_taken_or_explained(tmp_path: Path) -> None:
    names = st.sampled_from(["x", "ü", "a b", "..x", "x" * 200, "\udcff", "\x1b[2J", "\n"])

    @fuzz(15)
    @given(form=st.sampled_from(sorted(PICTURES)), name=names, data=st.data())
    def explore(form: str, name: str, data: st.DataObject) -> None:
        folder = tmp_path / "images"
        shutil.rmtree(folder, ignore_errors=True)
        for label in ("a", "b", name):
            (folder / label).mkdir(parents=True, exist_ok=True)
            for k in range(3):
                (folder / label / f"{k}.{form}").write_bytes(PICTURES[form])
        (folder / "a" / f"0.{form}").write_bytes(data.draw(changed_bytes(PICTURES[form])))
        if data.draw(st.integers(0, 4)) == 0:
            (folder / "a" / "loop").symlink_to(data.draw(st.sampled_from(["..", ".", "loop", "/"])))
        with case("data files", f"folder {form} {name!r}"):
            judge("folder", folder)

    explore()
    all_held("data files")
