"""Nothing that a coordinator or a site keeps can be read by others, whatever the umask."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Settings

from fedkf.core.client import Call
from fedkf.core.payload import Payload
from fedkf.flower import programs
from fedkf.flower.coordinator import Coordinator
from fedkf.flower.handshake import Invitation
from fedkf.flower.jobs import Request
from fedkf.flower.logs import REFUSED, SENT, RefusedLog, SentLog
from fedkf.flower.orders import Numbers
from fedkf.flower.private import current_umask, write_secret
from fedkf.flower.settings import outgoing
from fedkf.flower.site import Host, SiteFolder
from fedkf.runs.config import resolve
from fedkf.runs.setup import make_task


@pytest.fixture(autouse=True)
def _nothing_is_held_back() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """What in a folder, or the folder itself, somebody else may read or write."""
    found = [folder, *folder.rglob("*")]
    assert len(found) > 4
    return [str(path) for path in found if path.stat().st_mode & 0o077]


def test_a_coordinator_keeps_its_folder_to_itself(tmp_path: Path, settings: Settings) -> None:
    coordinator = Coordinator(tmp_path / "coordinator")
    coordinator.create(["coord.example.org"], 8000)
    coordinator.bind("coord.example.org")
    coordinator.environment()
    coordinator.renew_keys()
    Numbers(coordinator / "orders").take(1)
    programs.new_secret(coordinator / "tasks.secret")
    programs.stand_in(coordinator / "bin", "flwr-serverapp", "fedkf.flower.server")
    job = coordinator.job("0123abcd")
    job.create(Request.here(resolve(settings), tmp_path / "run", False, 1))
    job.say("a sentence")
    job.write(pid=1, message="", exit=0)
    assert open_to_others(coordinator.path) == []
    assert (
        job.request().umask == 0
    )  # a run's own files are shared as whoever asked for it shares files
    assert current_umask() == 0


def test_a_site_keeps_its_folder_to_itself(tmp_path: Path, npz: Path, settings: Settings) -> None:
    Coordinator(tmp_path / "coordinator").create(["127.0.0.1"], 8000)
    folder = SiteFolder(tmp_path / "site")
    folder.create("north", "127.0.0.1:8000", tmp_path / "coordinator" / "ca.crt")
    programs.stand_in(folder / "bin", "flwr-clientapp", "fedkf.flower.client")
    text = (folder / "site.yaml").read_text().replace("source: folder", "source: npz")
    (folder / "site.yaml").write_text(text.replace("path: null", f"path: {npz}"))
    names = {"data.class_names": ["0", "1", "2"]}
    host = Host(folder, Invitation(outgoing(resolve(settings, names)), "0123abcd"))
    weights = make_task(host.config, host.data, host.algorithm).initial_weights
    down = Payload(weights=weights).add("teacher", weights, "weights")
    assert host.perform(Call("local_update", 0, 1, None, "1.1"), down, []).wrote_state
    assert list((folder / "state").rglob("*.safetensors"))
    SentLog(folder / SENT).append({"round": 1}, folder.key())
    RefusedLog(folder / REFUSED).append("it is not signed", {})
    programs.new_secret(folder / "tasks.secret")
    assert open_to_others(folder.path) == []


def test_a_key_that_was_open_is_closed(tmp_path: Path) -> None:
    (tmp_path / "node.key").write_text("an old one")
    (tmp_path / "node.key").chmod(0o644)
    write_secret(tmp_path / "node.key", b"a new one")
    assert (tmp_path / "node.key").stat().st_mode & 0o777 == 0o600


def test_a_secret_is_written_whole_or_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "control.token"
    write_secret(file, b"an old one")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_secret(file, b"a new one")
    assert file.read_bytes() == b"an old one"
    assert list(tmp_path.iterdir()) == [file]


def test_flowers_programs_write_for_their_owner_alone(tmp_path: Path) -> None:
    tool = tmp_path / "flower-of-this-test"
    tool.write_text("#!/bin/sh\numask\n")
    tool.chmod(0o700)
    start = f"from fedkf.flower import programs\nprograms.become({tool.name!r}, [], {{}})\n"
    done = subprocess.run(
        [sys.executable, "-c", start],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() in ("0077", "077")
