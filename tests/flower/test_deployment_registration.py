"""Registering and removing sites at a real SuperLink, where crashes came between."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import Lab

from fedkf.flower import programs
from fedkf.flower.coordinator import Coordinator

pytestmark = [
    pytest.mark.deployment,
    pytest.mark.skipif(sys.platform != "linux", reason="watches processes through /proc"),
]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A coordinator that is started, and the key of a site."""
    made = Lab(tmp_path)
    try:
        made.fedkf("coordinator", "init", "coordinator", "--port", made.port)
        made.open()
        made.site("north")
        yield made
    finally:
        stubborn = made.close()
    assert stubborn == []


def test_what_a_crash_left_between_flower_and_the_folder_is_made_up_for(lab: Lab) -> None:
    coordinator = Coordinator(lab / "coordinator")
    environment = coordinator.environment()

    def ask(verb: str, what: object) -> str:
        """Flower alone, as if the coordinator had ended before it wrote anything down."""
        answer = programs.flwr(["supernode", verb, str(what), programs.LINK], environment)
        return str(answer["node-id"])

    def statuses() -> dict[str, str]:
        return dict(json.loads(lab.fedkf("coordinator", "sites", "coordinator", "--json").stdout))

    add = ("coordinator", "add", "coordinator")
    node = ask("register", lab / "north" / "node.pub")
    lab.fedkf(*add, "north", "north/node.pub")
    assert coordinator.nodes() == {"north": int(node)}
    assert statuses() == {"north": "registered"}
    assert "registered already" in lab.fedkf(*add, "north", "north/node.pub", code=2).stderr
    assert "is of north" in lab.fedkf(*add, "south", "north/node.pub", code=2).stderr
    (coordinator / "keys.json").unlink()  # as an earlier version left it
    lab.fedkf(*add, "north", "north/node.pub")
    assert list(coordinator.site_keys()) == [int(node)]
    ask("unregister", node)
    lab.fedkf("coordinator", "remove", "coordinator", "north")
    assert coordinator.nodes() == {}
    with pytest.raises(programs.Declined, match="Public key already in use"):
        ask("register", lab / "north" / "node.pub")
    said = lab.fedkf(*add, "north", "north/node.pub", code=2).stderr
    assert "Flower takes no key twice; make a new site" in " ".join(said.split())
