"""A coordinator: its folder, the sites it knows, and the runs it is asked for."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.payload import write_atomically
from fedkf.core.shapes import Damage, Kind, Value, integer, named, parse_json, text
from fedkf.flower import internals, keys, programs
from fedkf.flower.internals import credentials
from fedkf.flower.jobs import Job, Request
from fedkf.flower.orders import locked
from fedkf.flower.private import private, write_secret
from fedkf.runs.documents import read_yaml
from fedkf.runs.schema import Config

VARIABLE = "FEDKF_COORDINATOR"
FILE = "coordinator.yaml"
SITES, KEYS = "sites.json", "keys.json"
"""The node and the public key of every registered site, by its name."""
DATABASE = "flower.db"
REMOVED = "unregistered"
"""What Flower says of a node that is shut out for good."""
TOKEN = "control.token"
"""Whoever sends it may register sites and start runs; nobody else may."""
SHORTEST_TOKEN = 32
"""Characters of a token; a shorter one is what a full disk or a hand has left of it."""
APP = Path(__file__).parent / "app"
EVERYWHERE = ("0.0.0.0", "::")
"""Addresses to listen on that stand for all of a machine's."""
LONGEST_WAIT = 1e6
"""Seconds in which sites must have connected."""


class Coordinator:
    """COORDINATOR: certificates, registered sites, Flower's database, and the jobs of runs."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    # -- beginning ------------------------------------------------------------------------------

    @private()
    def create(self, hosts: Sequence[str], port: int) -> None:
        if (self / FILE).exists():
            raise UserError(f"{self.path} is a coordinator already")
        for host in hosts:
            keys.check_host(host)
        (self / "jobs").mkdir(parents=True, exist_ok=True)
        os.chmod(self.path, 0o700)
        keys.make_certificates(self.path, hosts)
        keys.make_coordinator_keys(self.path)
        write_secret(self / TOKEN, secrets.token_hex(32).encode())
        (self / "flwr").mkdir(exist_ok=True)
        write_atomically(self / SITES, b"{}\n")
        content = {"hosts": list(hosts), "port": port}
        (self / FILE).write_text(yaml.safe_dump(content, sort_keys=False))

    @private()
    def renew_keys(self) -> None:
        """New keys in the place of those it had; sites obey it again when they are given them."""
        self._settings()
        keys.make_coordinator_keys(self.path)

    def own_keys(self) -> keys.CoordinatorKeys:
        """What it signs and opens with."""
        return keys.CoordinatorKeys.read(self.path)

    def token(self) -> str:
        """What opens Flower's control interface; an empty one would open it to everybody."""
        found = (self / TOKEN).read_text(errors="replace")
        if len(found.strip()) < SHORTEST_TOKEN:
            raise FedkfError(
                f"{self / TOKEN} holds no token of {SHORTEST_TOKEN} characters; remove the file, "
                "and fedkf coordinator start makes a new one"
            )
        return found

    @property
    def port(self) -> int:
        return int(self._settings()["port"])

    def _settings(self) -> dict[str, Any]:
        file = self / FILE
        if not file.is_file():
            raise UserError(f"{self.path} holds no {FILE}; fedkf coordinator init makes one")
        content = read_yaml(file)
        if not isinstance(content, dict) or not isinstance(content.get("port"), int):
            raise UserError(f"{file} must hold hosts and a port")
        return content

    @private()
    def environment(self) -> dict[str, str]:
        """Of Flower's programs; it also tells them where the SuperLink is."""
        address = self.address()
        certificate = json.dumps(str(self / "ca.crt"))
        connection = (
            f'[superlink]\ndefault = "{programs.LINK}"\n\n[superlink.{programs.LINK}]\n'
            f'address = "{address}"\nroot-certificates = {certificate}\n'
        )
        token = (self / TOKEN).read_text() if (self / TOKEN).exists() else ""
        files = {"config.toml": connection, "credentials.yaml": credentials(address, token)}
        for name, content in files.items():
            file = self / "flwr" / name
            if not file.exists() or file.read_text() != content:
                write_atomically(file, content.encode())
        return programs.environment(self / "flwr", {VARIABLE: str(self.path)}, self / "bin")

    def address(self) -> str:
        """Where its own programs reach it."""
        bound = self / "bound"
        host = bound.read_text() if bound.exists() else "0.0.0.0"
        if host in EVERYWHERE:
            host = "127.0.0.1"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def start(self, host: str) -> NoReturn:
        """Become this coordinator's SuperLink."""
        self.bind(host)
        self.own_keys()
        if not (self / TOKEN).exists():  # an earlier version made this coordinator
            write_secret(self / TOKEN, secrets.token_hex(32).encode())
        self.token()
        secret = programs.new_secret(self / "tasks.secret")
        certificate = ("--root-certificates", str(self / "ca.crt"))
        arguments = [
            *("--ssl-ca-certfile", str(self / "ca.crt")),
            *("--ssl-certfile", str(self / "server.crt")),
            *("--ssl-keyfile", str(self / "server.key")),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
            *("--host", host, "--port", str(self.port)),
            *("--database", str(self / DATABASE)),
            *secret,
        ]
        programs.stand_in(self / "bin", "flwr-serverapp", "fedkf.flower.server")
        environment = self.environment()
        os.chdir(self.path)
        programs.start_executor([self.address(), *certificate, *secret[2:]], environment)
        programs.become_module("fedkf.flower.link", arguments, environment)

    @private()
    def bind(self, host: str) -> None:
        """Remember the address that it listens on, which its certificate must hold."""
        known = self._settings().get("hosts") or []
        if host not in (*EVERYWHERE, *known):
            raise UserError(
                f"--bind {host} is not in the certificate, which holds {', '.join(known)}; "
                "name it with --host when the coordinator is made"
            )
        write_atomically(self / "bound", host.encode())

    # -- sites ----------------------------------------------------------------------------------

    def nodes(self) -> dict[str, int]:
        """The node of every registered site, in the order of registration."""
        return self._registry(SITES, integer)

    def add(self, name: str, key: Path) -> None:
        """Register a site by its public key. Its node is known by that key, not by what it says.

        Flower registers before it is written down here: what a crash left between the two is taken
        up by asking for it again.
        """
        self._settings()
        with locked(self / SITES):
            nodes, public = self.nodes(), self._public_keys()
            if name in nodes and name in public:
                raise UserError(f"{name} is registered already; remove it first")
            if not key.is_file():
                raise UserError(f"{key} is not there; it is the site's node.pub")
            content = key.read_text(errors="replace")
            found = self._known(content, key)
            if name in nodes and found != nodes[name]:
                raise UserError(f"{name} is registered already, by another key; remove it first")
            if same := [other for other, node in nodes.items() if node == found and other != name]:
                raise UserError(f"{key} is of {same[0]}, which is registered already")
            if found is None:
                arguments = ["supernode", "register", str(key), programs.LINK, "--name", name]
                found = int(programs.flwr(arguments, self.environment())["node-id"])
            self._write({**nodes, name: found}, {**public, name: content})

    def _known(self, public: str, where: Path) -> int | None:
        """The node that Flower has for a key already; None if it has none."""
        key = keys.node_public_key(public, str(where))
        found = internals.registered(self / DATABASE, keys.public_pem(key))
        if found is not None and found[1] == REMOVED:
            raise UserError(
                f"the site of {where} was removed, and Flower takes no key twice; make a new site "
                "(fedkf site init), and add it by its node.pub"
            )
        return None if found is None else found[0]

    def remove(self, name: str) -> None:
        """Shut a site out, also if Flower does not know it any more."""
        self._settings()
        with locked(self / SITES):
            nodes = self.nodes()
            if name not in nodes:
                raise UserError(f"no site {name!r}; registered are {', '.join(nodes) or 'none'}")
            node = str(nodes.pop(name))
            try:
                programs.flwr(["supernode", "unregister", node, programs.LINK], self.environment())
            except programs.Declined:
                if self._states().get(node, REMOVED) != REMOVED:
                    raise
            self._write(nodes, self._public_keys())

    @private()
    def _write(self, nodes: dict[str, int], public: dict[str, str]) -> None:
        known = {name: public[name].strip() for name in nodes if name in public}
        for file, content in ((KEYS, known), (SITES, nodes)):
            write_atomically(self / file, (json.dumps(content, indent=2) + "\n").encode())

    def _public_keys(self) -> dict[str, str]:
        return self._registry(KEYS, text) if (self / KEYS).exists() else {}

    def _registry(self, name: str, kind: Kind[Value]) -> dict[str, Value]:
        """What a file says of each site."""
        try:
            return named(kind)(parse_json((self / name).read_bytes()))
        except FileNotFoundError:
            raise FedkfError(f"{self / name} is not there; put a copy back") from None
        except Damage as error:
            raise FedkfError(f"{self / name} is damaged: {error}; put a copy back") from None

    def site_keys(self) -> dict[int, ec.EllipticCurvePublicKey]:
        """The key of every registered site, by its node."""
        nodes, public = self.nodes(), self._public_keys()
        if lacking := [name for name in nodes if name not in public]:
            raise UserError(
                f"the key of {lacking[0]} was not kept when it was registered (by an earlier "
                "version); add it again with its node.pub"
            )
        return {node: keys.node_public_key(public[name], name) for name, node in nodes.items()}

    def statuses(self) -> dict[str, str]:
        """Whether each registered site is connected."""
        found = self._states()
        return {name: found.get(str(node), "unknown") for name, node in self.nodes().items()}

    def _states(self) -> dict[str, str]:
        """What Flower says of every node that it knows."""
        answer = programs.flwr(["supernode", "list", programs.LINK], self.environment())
        return {str(node["node-id"]): str(node["status"]) for node in answer["nodes"]}

    # -- runs -----------------------------------------------------------------------------------

    def job(self, name: str) -> Job:
        if not name or not name.isalnum():
            raise UserError(f"job={name!r} names no job; fedkf coordinator run makes one")
        return Job(self / "jobs" / name)

    def submit(self, config: Config, out: Path, resume: bool, wait: float) -> Job:
        """Hand a run to Flower."""
        if not 0 <= wait <= LONGEST_WAIT:
            raise UserError(f"--wait is {wait:g}; it must be from 0 to {LONGEST_WAIT:,.0f} seconds")
        self._settings()
        self.own_keys(), self.site_keys()  # without them no site would obey
        job = self.job(secrets.token_hex(8))
        job.create(Request.here(config, out, resume, wait))
        arguments = ["run", str(APP), programs.LINK, "--run-config", f'job="{job.folder.name}"']
        try:
            answer = programs.flwr(arguments, self.environment())
        except BaseException:  # Flower may have taken it all the same
            job.withdraw()
            raise
        job.write(run=str(answer["run-id"]))
        return job
