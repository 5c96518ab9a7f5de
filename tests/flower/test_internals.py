"""What is used of Flower beyond its public interface is where each supported version has it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from flwr.clientapp import ClientApp

from fedkf.flower import internals

INSTALLED = ".".join(version("flwr").split(".")[:2])
SUPPORTED = ("1.41", "1.42")

supported = pytest.mark.parametrize("flower", SUPPORTED)


def only(flower: str) -> None:
    if flower != INSTALLED:
        pytest.skip(f"Flower {INSTALLED} is installed here, not {flower}")


def test_the_installed_flower_is_one_that_is_supported() -> None:
    assert INSTALLED in SUPPORTED, (
        f"Flower {INSTALLED} is installed; look through fedkf.flower.internals, "
        f"then add it to {', '.join(SUPPORTED)}"
    )


@supported
@pytest.mark.parametrize(
    "program",
    [internals.SERVER, internals.CLIENT, internals.LINK],
    ids=["server", "client", "link"],
)
def test_the_programs_call_what_is_replaced(flower: str, program: internals.Program) -> None:
    only(flower)
    assert not (lacking := program.missing()), f"Flower {flower} has no {lacking[0]} as it is known"


@supported
def test_messages_that_are_lost_have_these_codes(flower: str) -> None:
    only(flower)
    codes = importlib.import_module("flwr.common.constant").ErrorCode
    for code, name in internals.LOST.items():
        assert getattr(codes, name, None) == code, f"Flower {flower} has no {name} of code {code}"


@supported
def test_a_client_runs_the_app_that_it_is_given_and_installs_none(
    flower: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(flower)
    module = importlib.import_module("flwr.supernode.runtime.run_clientapp")
    for name in internals.CLIENT.replaced:
        monkeypatch.setattr(module, name, getattr(module, name))  # put back afterwards
    command = importlib.import_module("flwr.supernode.cli.flwr_clientapp")
    own, ran = ClientApp(), []

    def as_flower_does() -> None:
        module.install_from_fab(b"an app that came", skip_prompt=True)
        ran.append(module.get_load_client_app_fn("", None, multi_app=True)("id", "1.0", "hash"))

    monkeypatch.setattr(command, "flwr_clientapp", as_flower_does)
    internals.run_client(own)
    assert ran == [own]


@supported
def test_flowers_command_line_finds_the_token_that_the_link_asks_for(
    flower: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(flower)
    (tmp_path / "credentials.yaml").write_text(internals.credentials("here:1", "the token"))
    store = importlib.import_module("flwr.supercore.credential_store.file_credential_store")
    plugins = importlib.import_module("flwr.cli.auth_plugin.oidc_cli_plugin")
    constants = importlib.import_module("flwr.cli.constant")
    own = store.FileCredentialStore(tmp_path / "credentials.yaml")
    monkeypatch.setattr(plugins, "get_credential_store", lambda: own)
    assert own.get(constants.AUTHN_TYPE_STORE_KEY % "here:1") == b"oidc"
    plugin = plugins.OidcCliPlugin("here:1")
    plugin.load_tokens()
    given = plugin.write_tokens_to_metadata([])
    assert "the token" in dict(given).values()
    link = importlib.import_module("flwr.superlink.cli.flower_superlink")
    monkeypatch.setattr(link, "load_control_authn_plugin", link.load_control_authn_plugin)
    guards = []
    load = lambda: guards.append(link.load_control_authn_plugin())  # noqa: E731
    monkeypatch.setattr(link, "flower_superlink", load)
    internals.run_link("the token")
    assert guards[0].validate_tokens_in_metadata(given)[0]
    for other in ([], [("access-token", "another")], [("access-token", "")]):
        assert guards[0].validate_tokens_in_metadata(other) == (False, None)
        assert guards[0].refresh_tokens(other)[1] is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"command": "flwr.elsewhere.flwr_clientapp"}, "flwr.elsewhere.flwr_clientapp"),
        ({"function": "flwr.app.run_clientapp"}, "flwr.app.run_clientapp"),
        ({"replaced": ("install_app",)}, "flwr.supernode.runtime.run_clientapp.install_app"),
        # There, but not called any more: replacing it would protect nobody.
        ({"replaced": ("Fab",)}, "flwr.supernode.runtime.run_clientapp.Fab"),
    ],
)
def test_with_another_flower_nothing_is_run(change: dict[str, str], named: str) -> None:
    changed = replace(internals.CLIENT, **change)  # type: ignore[arg-type]
    with pytest.raises(SystemExit, match=f"has no {named} as it is known, so nothing is run"):
        changed.run(lambda: None)


def test_no_other_module_reaches_into_flower() -> None:
    public = ("flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.simulation")
    folder = Path(internals.__file__).parents[1]
    for file in folder.rglob("*.py"):
        words = file.read_text().replace("(", " ").replace('"', " ").split()
        found = {word.rstrip(".,:)") for word in words if word.startswith("flwr.")}
        if file != Path(internals.__file__):
            assert {w for w in found if not w.startswith(public)} == set(), file


def test_without_flower_the_package_says_how_to_install_it() -> None:
    program = "import sys; sys.modules['flwr'] = None; import fedkf; fedkf.flower"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    said = done.stderr.decode().strip().splitlines()[-1]
    assert said == "ImportError: fedkf.flower needs Flower: pip install 'fedkf[flower]'"


def test_the_package_is_light_until_something_is_asked_of_it() -> None:
    program = (
        "import sys, fedkf.flower; print('torch' in sys.modules, 'flwr' in sys.modules); "
        "from fedkf.flower import AlgorithmStrategy, FedKFStrategy, client_app; "
        "print(issubclass(FedKFStrategy, AlgorithmStrategy), callable(client_app))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.stdout.decode().split() == ["False", "False", "True", "True"]
