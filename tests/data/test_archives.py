"""Files of public data sets that are not what they say: bounded work, a sentence, no code."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from fedkf.core.errors import UserError
from fedkf.data import archives
from fedkf.data.archives import File, open_tar, plain
from fedkf.data.sources import load


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKF_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 MB of nothing in a few kilobytes, three ways."""
    folder = tmp_path_factory.mktemp("bombs")
    size = 64 << 20
    (folder / "x.gz").write_bytes(gzip.compress(bytes(size), 1))
    with zipfile.ZipFile(folder / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", bytes(size))
    with tarfile.open(folder / "x.tar.gz", "w:gz", compresslevel=1) as tar:
        entry = tarfile.TarInfo("first")
        entry.size = size
        tar.addfile(entry, io.BytesIO(bytes(size)))
        tar.addfile(tarfile.TarInfo("x"))
    return folder


@pytest.mark.parametrize(("name", "member"), [("x.gz", None), ("x.zip", "x"), ("x.tar.gz", "x")])
def test_a_file_unpacks_to_so_much_and_no_more(bombs: Path, name: str, member: str | None) -> None:
    with pytest.raises(ValueError, match=r"it unpacks to more than 2\.1 MB"):
        File(bombs / name, member, most=2 << 20).read()


def test_a_member_is_found_among_others_and_a_missing_one_is_named(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        for name in ("a", "b"):
            entry = tarfile.TarInfo(name)
            entry.size = 3
            archive.addfile(entry, io.BytesIO(name.encode() * 3))
    assert File(tmp_path / "x.tar.gz", "b").read() == b"bbb"
    with pytest.raises(LookupError, match="c is not a file in it"):
        File(tmp_path / "x.tar.gz", "c").read()


def test_a_link_out_of_an_archive_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("private")
    names = [f"cifar-10-batches-bin/data_batch_{k}.bin" for k in range(1, 6)]
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, str(secret)
            archive.addfile(entry)
    with pytest.raises(UserError, match="damaged or incomplete"):
        load("cifar10", str(tmp_path))
    with open_tar(tmp_path / "cifar-10-binary.tar.gz") as opened:
        assert [m.issym() for m in opened] == [True] * 5


DOUBLING = b"\x80\x02)" + b"2\x86" * 60
"""A tuple of itself, twice, sixty times over: to compare or show it takes for ever."""


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02}" + DOUBLING[2:] + b"K\x01s.",  # as a key
        b"\x80\x02cnumpy\ndtype\n" + DOUBLING[2:] + b"\x85R.",  # as the name of a kind
        b"\x80\x02" + b"(" * 50_000 + b"t" * 50_001 + b".",  # closes what it did not open
        b"\x80\x02a.",  # appends to nothing
        b"\x80\x02}K\x01K\x02s.",
        b"\x80\x02cos\nsystem\n(S'touch sprung'\ntR.",
        b"\x80\x02" + b"I" + b"9" * 10_000 + b"\n.",
        b"\x80\x02]q\x00h\x00a.",
        b"\x80\x02}\x8d\xff\xff\xff\xff\xff\xff\xff\x7fx.",
        b"\x80\x02" + b"0" * 100,
        b"",
    ],
)
def test_a_pickle_of_another_kind_is_refused_without_being_followed(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(archives.READING):
        archives.cifar_python(content, "labels")
    assert os.listdir(tmp_path) == []


def test_a_pickle_that_goes_on_is_broken_off() -> None:
    with pytest.raises(ValueError, match="more than 1,000 operations"):
        plain(b"\x80\x02" + b"(t" * 1000 + b".", most=1000)
