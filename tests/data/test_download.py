"""Downloads from a real server on this machine: resumed, checked, refused."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fedkf.core.errors import FedkfError, UserError
from fedkf.data.catalog import Dataset, Download
from fedkf.data.download import get
from fedkf.data.public import DATASETS

CONTENT = bytes(range(256)) * 2000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT; may break off, may not know ranges. Remembers what was asked for."""

    break_after: int | None = None
    ranges = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        start = int(wanted[6:-1]) if wanted and self.server.ranges else 0
        if self.path != "/file.bin":
            self.send_error(404)
            return
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : self.server.break_after])

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def dataset(server: Server, md5: str = MD5, name: str = "file.bin") -> Dataset:
    return replace(DATASETS["mnist"], downloads=[Download(name, f"{server.url}/{name}", md5)])


def test_a_file_arrives_whole_with_its_progress(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    (path,) = get(dataset(server), tmp_path, progress=lambda *now: seen.append(now))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    get(dataset(server), tmp_path)
    assert len(server.asked) == 1  # it is there, and is not asked for again


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_goes_on_where_it_ended(
    server: Server, tmp_path: Path, ranges: bool
) -> None:
    server.break_after, server.ranges = 300_000, ranges
    with pytest.raises(FedkfError, match="broken off after 300000 of 512000 bytes") as failed:
        get(dataset(server), tmp_path)
    assert failed.value.exit_code == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file.bin.part"]
    server.break_after = None
    (path,) = get(dataset(server), tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-"]
    assert [p.name for p in tmp_path.iterdir()] == ["file.bin"]


@pytest.mark.parametrize("there", ["", "file.bin.part"])
def test_a_wrong_checksum_is_refused_and_removed(
    server: Server, tmp_path: Path, there: str
) -> None:
    if there:
        (tmp_path / there).write_bytes(CONTENT)
    with pytest.raises(UserError, match="not the published file") as refused:
        get(dataset(server, md5="0" * 32), tmp_path)
    assert refused.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_part_is_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"x" * (len(CONTENT) + 5))  # longer than the server's
    (path,) = get(dataset(server), tmp_path)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("mine", [CONTENT[:1000], b"of my own"])
def test_a_file_that_is_another_is_left_as_it_is(
    server: Server, tmp_path: Path, mine: bytes
) -> None:
    (tmp_path / "file.bin").write_bytes(mine)
    with pytest.raises(UserError, match=r"file\.bin is not the published file .* left as it is"):
        get(dataset(server), tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == mine
    assert [p.name for p in tmp_path.iterdir()] == ["file.bin"]
    assert server.asked == []


def test_no_network_says_what_to_put_where(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDKF_CACHE", str(tmp_path))
    with pytest.raises(FedkfError, match=rf"404.*fetch {server.url}/gone .*{tmp_path}"):
        get(dataset(server, name="gone"))
    closed = dataset(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(FedkfError, match=r"no connection .*elsewhere and put it into"):
        get(closed)


def test_the_command_refuses_what_a_mirror_gets_wrong(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: Callable[..., tuple[int, str, str]],
) -> None:
    monkeypatch.setenv("FEDKF_CACHE", str(tmp_path))
    wrong = replace(DATASETS["emnist"].downloads[0], name="file.bin")
    monkeypatch.setitem(DATASETS, "emnist", replace(DATASETS["emnist"], downloads=[wrong]))
    code, _, err = cli("data", "get", "emnist", "--mirror", server.url)
    assert code == 2
    assert err.count("\n") == 1
    assert "was removed" in err
    assert not list((tmp_path / "data" / "emnist").iterdir())
    assert cli("data", "get", "emnits")[0] == 2
    assert cli("data", "get", "letters")[0] == 2
