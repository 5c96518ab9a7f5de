"""A site: what it takes from a configuration, what it lets out, what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import torch
from conftest import Settings
from PIL import Image

from fedkf.core.client import Call
from fedkf.core.errors import UserError
from fedkf.core.payload import Payload
from fedkf.core.versions import RemoteVersions
from fedkf.flower.coordinator import Coordinator
from fedkf.flower.handshake import Invitation
from fedkf.flower.own_data import at_site, load_data
from fedkf.flower.settings import TRAVELLING, SiteRefusal, incoming, outgoing
from fedkf.flower.site import Host, SiteFolder
from fedkf.flower.site_file import Site, validate
from fedkf.runs.config import all_keys, resolve

EXPERIMENT = "0123abcd"
Make = Callable[..., Host]


@pytest.fixture
def make(tmp_path: Path, npz: Path, settings: Settings) -> Make:
    """A site's host for an experiment; keyword arguments change the site's file."""
    Coordinator(tmp_path / "coordinator").create(["127.0.0.1"], 8000)
    folder = SiteFolder(tmp_path / "site")
    folder.create("north", "127.0.0.1:8000", tmp_path / "coordinator" / "ca.crt")
    text = (folder / "site.yaml").read_text()

    def host(
        overrides: dict[str, Any] | None = None,
        share: str = "[]",
        allow: str = "[]",
        least_tests: int = 5,
        device: str = "cpu",
    ) -> Host:
        own = text.replace("least_tests: 5", f"least_tests: {least_tests}")
        own = own.replace("device: cpu", f"device: {device}")
        own = own.replace("source: folder", "source: npz").replace("path: null", f"path: {npz}")
        own = own.replace("share: []", f"share: {share}").replace("allow: []", f"allow: {allow}")
        (folder / "site.yaml").write_text(own)
        names = {"data.class_names": ["0", "1", "2"]}
        config = resolve(settings, {**names, **(overrides or {})})
        return Host(folder, Invitation(outgoing(config), EXPERIMENT))

    return host


def call(step: str = "local_update", start: str | None = None, version: str = "1.1") -> Call:
    return Call(step, 4, int(version.split(".")[0]), start, version)


def down(host: Host) -> Payload:
    from fedkf.runs.setup import make_task

    task = make_task(host.config, host.data, host.algorithm)
    return Payload(weights=task.initial_weights).add("teacher", task.initial_weights, "weights")


def test_its_key_and_folder_are_its_own(make: Make, tmp_path: Path) -> None:
    make()
    assert (tmp_path / "site").stat().st_mode & 0o077 == 0
    assert (tmp_path / "site" / "node.key").stat().st_mode & 0o077 == 0
    assert (tmp_path / "site" / "node.pub").read_text().startswith("ecdsa-sha2-nistp384 ")


def test_it_takes_its_coordinators_keys_from_the_certificate_or_says_what_is_missing(
    make: Make, tmp_path: Path
) -> None:
    make()
    given = (tmp_path / "coordinator" / "ca.crt").read_bytes()
    kept = [(tmp_path / "site" / name).read_bytes() for name in ("ca.crt", "coordinator.pub")]
    assert b"".join(kept) == given
    for content, words in (
        (kept[0], "does not hold the coordinator's keys"),
        (kept[1], "holds no certificate"),
        (given + kept[1], "does not hold the coordinator's keys"),
        (b"anything", "holds no certificate"),
    ):
        (tmp_path / "other.crt").write_bytes(content)
        with pytest.raises(UserError, match=words):
            SiteFolder(tmp_path / "new").create("n", "127.0.0.1:8000", tmp_path / "other.crt")
        with pytest.raises(UserError, match=words):
            SiteFolder(tmp_path / "site").trust(tmp_path / "other.crt")
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "site" / "coordinator.pub").read_bytes() == kept[1]
    with pytest.raises(UserError, match="is not there"):
        SiteFolder(tmp_path / "new").create("n", "127.0.0.1:8000", tmp_path / "nowhere.crt")
    (tmp_path / "site" / "coordinator.pub").unlink()  # as an earlier version left it
    with pytest.raises(UserError, match=r"fedkf site trust .* ca\.crt makes it"):
        SiteFolder(tmp_path / "site").start()


def test_training_losses_leave_only_if_its_file_says_so(make: Make) -> None:
    for share, sent in (("[]", {"weights"}), ("[losses]", {"weights", "monitoring"})):
        host = make({"algorithm.name": "fedavg"}, share=share)
        upload = host.perform(call(), down(host), []).upload
        assert upload is not None
        assert set(upload) == sent
        counts = host.perform(call("evaluate"), down(host), []).upload
        assert counts is not None
        assert counts.number("monitoring", "tested") == 18


def test_an_algorithm_that_discloses_more_than_it_shares_is_refused(make: Make) -> None:
    with pytest.raises(SiteRefusal, match="fedgen would send label_counts"):
        make({"algorithm.name": "fedgen"})
    assert make({"algorithm.name": "fedgen"}, share="[label_counts]").introduction().train == 72


def test_metrics_beyond_accuracy_are_refused_unless_its_file_shares_their_statistics(
    make: Make,
) -> None:
    asked = {"algorithm.name": "fedavg", "data.metrics": ["auroc", "sensitivity"]}
    with pytest.raises(SiteRefusal, match=r"\(sensitivity, auroc\) would send test_statistics"):
        make(asked)
    host = make(asked, share="[test_statistics]")
    readouts = Payload().add("aca", down(host)["weights"], "weights")
    upload = host.perform(call("evaluate"), readouts, []).upload
    assert upload is not None
    assert set(upload.kinds) == {"monitoring", "test_statistics"}
    assert set(upload["test_statistics"]) == {"aca/confusion", "aca/scores"}
    plain = make({"algorithm.name": "fedavg", "data.metrics": ["accuracy"]})
    assert list(plain.perform(call("evaluate"), readouts, []).upload or []) == ["monitoring"]


def test_code_of_others_is_imported_only_if_its_file_names_it(make: Make) -> None:
    other = {"model.name": "conftest:Unsteady"}
    with pytest.raises(SiteRefusal, match=r"model\.name 'conftest:Unsteady' is not among"):
        make(other)
    assert make(other, allow='["conftest:Unsteady"]').config.model.name == "conftest:Unsteady"


def test_files_are_named_by_the_site_alone(make: Make, settings: Settings) -> None:
    with pytest.raises(UserError, match=r"generator\.start names a file"):
        make({"generator.start": "/etc/passwd"})
    host = make()
    with pytest.raises(SiteRefusal, match="no version of its state"):
        host.perform(call(start="../../node"), down(host), [])
    other = host.states.folder.parent / "model-1.safetensors"
    other.write_text("another's")
    for client, round in (("../model", 1), (-1, 1), (True, 1), (4, "1")):
        with pytest.raises(SiteRefusal, match="is no number"):
            host.perform(Call("local_update", client, round, None, "1.1"), down(host), [])  # type: ignore[arg-type]
    assert other.exists()
    site = Site(name="a", coordinator="b:1")
    config = resolve(settings, {"data.class_names": ["0", "1", "2"]})
    assert config.data.path is not None
    assert at_site(site, incoming(outgoing(config))).data.path is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_none_or_not_there_is_told(make: Make) -> None:
    with pytest.raises(UserError, match="device is 'gpu'; it must be cpu, cuda or cuda:N"):
        make(device="gpu")
    host = make(device="cuda:1")
    with pytest.raises(UserError, match="'cuda:1' but PyTorch finds no CUDA here"):
        host.perform(call(), down(host), [])


@pytest.mark.parametrize("step", ["__init__", "aggregate", "create", "options", "describe", "name"])
def test_only_the_steps_that_an_algorithm_declares_are_run(make: Make, step: str) -> None:
    host = make({"data.class_names": ["nobody", "loads", "these"]})
    with pytest.raises(SiteRefusal, match=f"fedkf has no step '{step}'"):
        host.perform(call(step), Payload(), [])
    shared = make({"algorithm.name": "ccvr"}, share="[label_counts, feature_statistics]")
    shared.check(call("describe"))


@pytest.mark.parametrize(
    ("section", "key"),
    [
        *(("data", key) for key in ("source", "path", "limit", "shift", "partition", "proxy")),
        *(("federation", key) for key in ("min_clients", "fraction", "nonsense")),
        ("generator", "start"),
        ("algorithm", "nonsense"),
        *(("engine", key) for key in ("name", "device", "address", "workers")),
        ("output", "dir"),
        ("paper", "table"),
    ],
)
def test_what_the_table_does_not_name_is_refused(
    settings: Settings, section: str, key: str
) -> None:
    received = outgoing(resolve(settings, {"data.class_names": ["0", "1", "2"]}))
    received.setdefault(section, {})[key] = None
    name = f"{section}.{key}" if section in TRAVELLING else section
    with pytest.raises(SiteRefusal, match=rf"^{name} is no (key|section) that a site takes"):
        incoming(received)


def test_every_key_of_a_configuration_either_travels_or_stays() -> None:
    """Whoever adds a key decides: what a client's work depends on must be in the table."""
    stays = {
        "fidelity",
        *("data.holdout", "data.groups"),
        *(
            f"data.{key}"
            for key in ["source", "path", "limit", "partition", "alpha", "clients", "proxy"]
        ),
        *(
            f"data.{key}"
            for key in [
                "classes_per_client",
                "shift",
                "shift_strength",
                "min_samples",
            ]
        ),
        *(f"federation.{key}" for key in ["fraction", "min_clients", "round_timeout"]),
        "data.unreadable",
        *(f"federation.{key}" for key in ["defence", "patience"]),
        *(f"federation.{key}" for key in ["oversample", "availability"]),
        *(f"federation.{key}" for key in ["evaluate_every", "evaluate_clients"]),
        *(f"overall.{key}" for key in ["scope", "inactive", "max_staleness"]),
        *(f"generator.{key}" for key in ["preset", "start"]),
        *(f"engine.{key}" for key in ["name", "workers", "device", "address"]),
        *(f"output.{key}" for key in ["dir", "checkpoint_every", "log", "keep"]),
    }
    travels = {f"{section}.{key}" for section, keys in TRAVELLING.items() for key in keys}
    assert set(all_keys()) == travels | stays
    assert not travels & stays


def test_what_is_sent_is_taken_as_it_was(settings: Settings) -> None:
    overrides = {"data.class_names": ["0", "1", "2"], "algorithm.gamma": 0.25, "federation.lr": 0.5}
    config = resolve(settings, {**overrides, "federation.steps": "equal", "engine.threads": 2})
    taken = incoming(outgoing(config, steps=7))
    before, after = config.model_dump(mode="json"), taken.model_dump(mode="json")
    assert after["federation"]["steps"] == 7
    assert after["algorithm"] == before["algorithm"]
    for section, keys in TRAVELLING.items():
        for key in set(keys) - {"steps"}:
            assert after[section][key] == before[section][key]


@pytest.mark.parametrize("experiment", ["", "../../etc", "0123", "0123ABCD", "a" * 65])
def test_an_experiment_that_is_no_name_of_a_folder_is_refused(experiment: str) -> None:
    with pytest.raises(SiteRefusal, match="no proper id"):
        Invitation({}, experiment)


@pytest.mark.parametrize("received", [None, [], "data", {"data": None}, {"data": "digits"}])
def test_what_is_no_configuration_is_refused(received: Any) -> None:
    with pytest.raises(SiteRefusal, match="is no section that a site takes"):
        incoming(received)


def test_its_data_must_fit_the_classes_and_its_paths_stay(
    make: Make, npz: Path, tmp_path: Path
) -> None:
    with pytest.raises(SiteRefusal, match="its data does not fit the configuration") as caught:
        make({"data.class_names": ["0", "1"]}).introduction()
    assert str(npz) not in str(caught.value)
    # A class that nobody named is not told apart from data that is not there.
    (tmp_path / "images" / "cat").mkdir(parents=True)
    Image.new("L", (8, 8)).save(tmp_path / "images" / "cat" / "1.png")
    config = make().config
    for path in (tmp_path / "images", tmp_path / "nowhere"):
        data = config.data.model_copy(update={"source": "folder", "path": str(path)})
        with pytest.raises(SiteRefusal) as other:
            load_data(config.model_copy(update={"data": data}))
        assert str(other.value) == str(caught.value)
    with pytest.raises(SiteRefusal, match="does not name the classes"):
        make({"data.class_names": None})


def test_state_continues_from_the_version_that_is_named_and_others_go(make: Make) -> None:
    def versions(host: Host) -> list[str]:
        return sorted(p.name for p in host.states.folder.glob("*.safetensors"))

    host = make()
    assert host.perform(call(), down(host), []).wrote_state
    host = make()  # as after a restart
    host.perform(call(start="1.1", version="2.1"), down(host), ["1.1"])
    assert versions(host) == ["4-1.1.safetensors", "4-2.1.safetensors"]
    # The coordinator died before it accepted round 2: it is done again from the same state.
    again = make()
    first = (again.states.folder / "4-2.1.safetensors").read_bytes()
    again.perform(call(start="1.1", version="2.1"), down(again), ["1.1"])
    assert (again.states.folder / "4-2.1.safetensors").read_bytes() == first
    again.perform(call(start="2.1", version="3.1"), down(again), ["2.1"])
    assert versions(again) == ["4-2.1.safetensors", "4-3.1.safetensors"]
    with pytest.raises(SiteRefusal, match="not on its disk any more"):
        again.perform(call(start="1.1", version="4.1"), down(again), ["3.1"])


def judged(host: Host, models: int = 2) -> dict[str, Any]:
    """What it counts of so many models."""
    from fedkf.runs.setup import make_task

    weights = make_task(host.config, host.data, host.algorithm).initial_weights
    asked = Payload()
    for number in range(models):
        asked.add(f"model{number}", weights, "weights")
    upload = host.perform(call("evaluate"), asked, []).upload
    assert upload is not None
    return dict(upload.numbers["monitoring"])


def test_so_few_test_samples_are_not_counted_as_would_tell_single_ones(make: Make) -> None:
    samples = make().introduction()
    total = samples.train + samples.test
    assert judged(make())["tested"] == samples.test > 5
    for tests, counted in ((1, 0), (4, 0), (5, 5)):
        host = make({"data.train_fraction": 1 - tests / total})
        assert host.introduction().train == total - tests
        assert host.introduction().test == counted
        assert judged(host) == {"tested": counted, "model0": ANY, "model1": ANY}
        if not counted:
            assert judged(host)["model0"] == 0
    never = make(least_tests=samples.test + 1)
    assert (never.introduction().train, never.introduction().test) == (samples.train, 0)


def test_a_message_asks_of_a_few_models_only(make: Make) -> None:
    host = make()
    assert len(judged(host, 4)) == 5
    with pytest.raises(SiteRefusal, match="it judges 4 models at a time, not 5"):
        judged(host, 5)


def test_a_call_that_is_repeated_after_a_crash_goes_on_where_it_was(make: Make) -> None:
    host = make()
    first = host.perform(call(), down(host), []).upload
    (turn,) = host.states.folder.glob("*.turn")
    assert turn.stat().st_mode & 0o077 == 0
    written = turn.stat().st_mtime_ns
    again = make()  # a process of its own for every message
    second = again.perform(call(), down(again), []).upload
    assert first is not None
    assert second is not None
    assert second.to_bytes() == first.to_bytes()
    assert turn.stat().st_mtime_ns == written  # no epoch was left to do
    make().perform(call(version="2.1"), down(host), [])
    assert not turn.exists()


def test_the_coordinator_knows_what_a_site_must_keep(tmp_path: Path) -> None:
    states = RemoteVersions(tmp_path)
    states.accept(4, "1.1")
    states.committed()
    states.accept(4, "2.1")
    assert states.keep(4) == ["2.1", "1.1"]  # a crash before the next checkpoint needs 1.1
    states.committed()
    assert states.keep(4) == ["2.1"]
    assert states.keep(5) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name: a b\ncoordinator: c:1", "name"),
        ("name: a\ncoordinator: c", "coordinator"),
        ("name: a\ncoordinator: c:1\nshare: [everything]", "share"),
        ("name: a\ncoordinator: c:1\nshares: []", "shares"),
    ],
)
def test_mistakes_in_its_file_are_told(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "site.yaml").write_text(content)
    with pytest.raises(UserError, match=words):
        SiteFolder(tmp_path).read()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"name": "north", "coordinator": "bad"}, "coordinator is 'bad'; it must be HOST:PORT"),
        ({"name": "a b", "coordinator": "h:1"}, "name is 'a b'; it must be letters, digits and"),
        ({"name": "n", "coordinator": "h:1", "shares": []}, "no key 'shares'; it holds name, coo"),
        ({"name": "n", "coordinator": "h:1", "share": ["data"]}, "share.0 is 'data'; it must be"),
    ],
)
def test_a_mistake_in_its_file_is_told(content: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        validate(content, "site.yaml")
    assert sentence in str(error.value)
