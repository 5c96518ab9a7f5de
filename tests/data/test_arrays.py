"""What an .npz file claims is checked before anything is allocated for it."""

from __future__ import annotations

import io
import resource
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkf.core.errors import UserError
from fedkf.data.annotations import Annotations
from fedkf.data.arrays import read_arrays
from fedkf.data.npz import npz

IMAGES, LABELS = np.zeros((6, 8, 8), np.uint8), np.arange(6) % 3


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def header(shape: str, kind: str = "|u1") -> bytes:
    """A .npy file without its data."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def write(folder: Path, **members: bytes) -> str:
    path = folder / "data.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return str(path)


def refusal(path: str) -> str:
    """What is said of a file, which took no memory to speak of."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError) as caught:
        npz(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
    assert "\n" not in str(caught.value)
    assert path in str(caught.value)
    return str(caught.value)


LIES = [
    (header("(1000000000, 1000, 4)") + bytes(100), "'images' claims 4.0 TB of uint8, but there"),
    (header(f"({10**30}, 8, 8)"), "'images' claims the shape"),
    (header("(-6, -8, 8)") + bytes(384), "'images' claims the shape (-6, -8, 8)"),
    (header("(0, 1000000000000000)"), "'images' claims the shape"),
    (header("(6, 8, 8)", "<U0"), "'images' claims the shape (6, 8, 8)"),
    (header("(6, 8, 8)") + bytes(385), "'images' claims 384 bytes of uint8, but there are 385"),
    (header("(6, 8, 8)") + bytes(383), "'images' claims 384 bytes of uint8, but there are 383"),
    (header("6"), "the header of 'images' cannot be read"),
    (header("(6, 8, 8)", "|O") + bytes(384), "'images' holds dtype('O')"),
    (header("(6,)", "<M8[s]") + bytes(48), "'images' holds dtype('<M8[s]')"),
    (b"\x93NUMPY\x03\x00" + bytes(100), "an array of version (3, 0)"),
    (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "the header of 'images' cannot be read"),
    (b"a text, not an array", "'images' is not an array"),
    (b"", "'images' is not an array"),
]


@pytest.mark.parametrize(("member", "sentence"), LIES, ids=[s for _, s in LIES])
def test_a_header_that_lies_is_named(tmp_path: Path, member: bytes, sentence: str) -> None:
    said = refusal(write(tmp_path, images=member, labels=npy(LABELS)))
    assert sentence in said


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "sprung",)

    trap = np.array([Trap()] * 6)
    assert "no objects" in refusal(write(tmp_path, images=npy(IMAGES), labels=npy(trap)))
    assert not (tmp_path / "sprung").exists()


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("labels.npy", npy(LABELS))
        with archive.open("images.npy", "w", force_zip64=True) as file:
            file.write(header("(3, 10000, 10000)"))
            for _ in range(300):
                file.write(bytes(1_000_000))
    assert path.stat().st_size < 1_000_000
    assert "'images' unpacks to 300.0 MB, more than 200 times the" in refusal(str(path))


def test_more_than_the_memory_is_not_read(tmp_path: Path) -> None:
    path = Path(write(tmp_path, images=npy(IMAGES), labels=npy(LABELS)))
    with (
        open(path, "rb") as file,
        pytest.raises(ValueError, match="with 'labels' it takes 432 bytes, more than the 431"),
    ):
        read_arrays(file, ("images", "labels"), most=431)


def test_encrypted_members_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, images=npy(IMAGES), labels=npy(LABELS))
    content = bytearray(Path(path).read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(signature) + flags] |= 1
    Path(path).write_bytes(content)
    assert "'images' is encrypted" in refusal(path)


@pytest.mark.parametrize("code", [0xD800, 0x110000, 0xFFFFFFFF, 0x1B, 0x0A])
@pytest.mark.parametrize("array", ["labels", "client"])
def test_texts_that_are_none_are_named(tmp_path: Path, code: int, array: str) -> None:
    raw = np.array([97, code, 98] * 4, np.uint32).tobytes()
    texts = {"labels": npy(LABELS), array: header("(6,)", "<U2") + raw}
    assert f"{array!r} holds texts" in refusal(write(tmp_path, images=npy(IMAGES), **texts))


def test_other_orders_of_bytes_and_widths_of_floats_are_read(tmp_path: Path) -> None:
    from fedkf.data.federated import as_floats

    for kind in (">f4", ">f8", "<f2", np.longdouble):
        images = np.linspace(0, 1, 384).reshape(6, 8, 8).astype(kind)
        names = np.array(["a", "ß"] * 3).astype(">U3")
        source = npz(write(tmp_path, images=npy(images), labels=npy(names)))
        assert source.class_names == ["a", "ß"]
        assert as_floats(source, np.arange(6)).double().numpy() == pytest.approx(
            images[:, None].astype(float)
        )


def test_texts_that_are_kept_as_bytes_are_texts_of_every_array(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    texts: dict[str, Any] = {
        "labels": np.array(["ill", "well"] * 3),
        "client": np.array(["north", "Süd", "north"] * 2),
        "split": np.array(["train", "test", "train"] * 2),
        "sex": np.array(["f", "m", "f"] * 2),
    }
    texts = {name: np.char.encode(array, "utf-8") for name, array in texts.items()}
    np.savez(path, images=IMAGES, **texts)
    source = npz(str(path), asked=Annotations(groups=["sex"]))
    assert source.class_names == ["ill", "well"]
    assert source.owner_names == ["Süd", "north"]
    assert source.tested is not None
    assert source.tested.tolist() == [False, True, False] * 2
    assert source.groups["sex"].tolist() == ["f", "m", "f"] * 2
    names: dict[str, Any] = {
        "client_names": np.array([b"a", b"b"]),
        "label_names": np.array([b"x", b"y", b"z"]),
    }
    np.savez(path, images=IMAGES, labels=LABELS, client=LABELS // 2, **names)
    source = npz(str(path))
    assert (source.owner_names, source.class_names) == (["a", "b"], ["x", "y", "z"])


def test_decoded_texts_count_as_the_memory_they_take(tmp_path: Path) -> None:
    texts = npy(np.full(1000, b"north"))
    with (
        open(write(tmp_path, client=texts), "rb") as file,
        pytest.raises(ValueError, match="more than the 24,999 bytes"),
    ):
        read_arrays(file, ("client",), most=24_999)


@pytest.mark.parametrize(
    ("images", "labels", "sentence"),
    [
        (IMAGES, LABELS.astype(np.uint64) + 2**63, "labels go up to 9223372036854775810"),
        (np.full((6, 3), 1e300), LABELS, "which float32 cannot hold"),
        (IMAGES.astype(np.complex64), LABELS, "images are complex64"),
        (IMAGES, LABELS.astype(np.complex64), "labels are complex64"),
        (IMAGES, np.array([b"a\x1b", b"b"] * 3), "'labels' holds texts with characters that"),
        (
            IMAGES,
            np.array([b"Z\xfcrich", b"b"] * 3),
            "'labels' holds bytes that are no text in UTF-8",
        ),
    ],
)
def test_numbers_and_names_that_do_not_fit_are_named(
    tmp_path: Path, images: Any, labels: Any, sentence: str
) -> None:
    assert sentence in refusal(write(tmp_path, images=npy(images), labels=npy(labels)))
