"""Whatever a configuration holds: it is taken, or one sentence says why not."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from campaign import all_held, case, check_sentence, command, fuzz, places  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from mutations import ODD, changed_bytes

from fedkf import algorithms
from fedkf.runs.config import all_keys, presets

KEYS = [*all_keys(), "algorithm.gamma", "algorithm.teacher", "algorithms.fedkf", "provenance.x"]
PLAUSIBLE = st.one_of(
    ODD,
    st.integers(-5, 5),
    st.floats(allow_nan=True),
    st.text(max_size=8),
    st.lists(st.floats(-1, 1), max_size=4),
    st.sampled_from([*algorithms.names(), "iid", "classes", "quantity", "natural", "mlp", "npz"]),
    st.sampled_from([10**4, 10**5, 10**6, 10**9, 1e-30, 1e30, "2001-01-01", "1:30", "os:sep"]),
)


@st.composite
def sections(draw: st.DrawFn) -> dict[str, Any]:
    """A few keys, mostly known ones, with values that are mostly wrong."""
    content: dict[str, Any] = {}
    for key in draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4)):
        section, _, rest = key.partition(".")
        value = draw(PLAUSIBLE)
        if not rest or draw(st.integers(0, 15)) == 0:
            content[section] = value
        elif isinstance(content.setdefault(section, {}), dict):
            content[section][rest] = value
    return content


def preset(name: str) -> bytes:
    return (resources.files("fedkf.runs") / "presets" / f"{name}.yaml").read_bytes()


FILES = st.one_of(
    sections().map(lambda content: yaml.safe_dump(content, allow_unicode=True).encode()),
    st.sampled_from(presets()).flatmap(lambda name: changed_bytes(preset(name))),
    st.binary(max_size=60),
)


def test_every_configuration_is_taken_or_explained(tmp_path: Path) -> None:
    @fuzz(40)
    @given(content=FILES)
    def explore(content: bytes) -> None:
        path = tmp_path / "study.yaml"
        path.write_bytes(content)
        with case("configurations", content[:300]):
            outcome = command("config", path)
            check_sentence(outcome, (0, 2))
            if outcome.code == 0:  # what is accepted must not come to grief on the data
                out = tmp_path / "partition"
                check_sentence(command("partition", path, "--json", "--out", out), (0, 2))

    explore()
    all_held("configurations")


def test_every_override_is_taken_or_explained() -> None:
    @fuzz(20)
    @given(
        key=st.sampled_from(KEYS) | st.text(max_size=10),
        value=PLAUSIBLE.map(lambda value: str(value)[:1000]) | st.text(max_size=20),
    )
    def explore(key: str, value: str) -> None:
        with case("overrides", f"{key}={value}"[:300]):
            check_sentence(command("config", "--set", f"{key}={value}"), (0, 2))

    explore()
    all_held("overrides")
