"""Versions of clients' files, and what is left of those that do not count."""

from __future__ import annotations

from pathlib import Path

import torch
from kills import killed_at_every_step

from fedkf.core.payload import Payload
from fedkf.core.versions import Versions


def test_nothing_is_left_of_a_version_whose_writer_was_killed(tmp_path: Path) -> None:
    versions, state = Versions(tmp_path), Payload(weights={"w": torch.zeros(1000)})
    versions.save(3, "1.1", state)
    versions.accept(3, "1.1")
    halves = 0
    for _ in killed_at_every_step(lambda: versions.save(3, "2.1", state)):
        halves += any(path.suffix == ".tmp" for path in tmp_path.iterdir())
        (tmp_path / ".4-2.1.safetensors.7.tmp").write_bytes(b"being written")
        versions.discard(3, "2.1")
        versions.committed()
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"3-1.1.safetensors", ".4-2.1.safetensors.7.tmp"}
    assert halves > 0
