"""A site: its file, its data, and what it lets out."""

from __future__ import annotations

import contextlib
import os
import re
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import torch

from fedkf import algorithms
from fedkf.core.client import Call, Reply
from fedkf.core.errors import UserError
from fedkf.core.payload import HIDING, Payload, sync_folder, write_atomically
from fedkf.core.personal import EVALUATIONS, STEP
from fedkf.core.privacy import Mechanism, Privacy
from fedkf.core.tally import KIND
from fedkf.core.uploads import ALWAYS_DISCLOSED
from fedkf.core.versions import Versions
from fedkf.data.federated import FederatedData
from fedkf.data.scaling import KIND as INPUT_STATISTICS
from fedkf.flower import keys, programs
from fedkf.flower.budget import FILE as BUDGET
from fedkf.flower.budget import Limit, SiteAccounts, Terms
from fedkf.flower.evidence import ORDERS, Evidence
from fedkf.flower.handshake import Introduction, Invitation
from fedkf.flower.orders import Guard, Recipient, locked, put_aside, take_up
from fedkf.flower.own_data import at_site, load_data, load_source
from fedkf.flower.private import private
from fedkf.flower.settings import SiteRefusal, incoming, open_scale, unsettled
from fedkf.flower.site_file import TEMPLATE, Site, validate
from fedkf.runs.assembly import Assembly
from fedkf.runs.division import site_moments
from fedkf.runs.documents import parse_yaml, read_yaml
from fedkf.runs.judging import judgement_of
from fedkf.runs.privacy import check_private
from fedkf.runs.schema import Config
from fedkf.runs.secure import unhidden
from fedkf.runs.setup import make_algorithm

VARIABLE = "FEDKF_SITE"
FILE = "site.yaml"
MOST_JUDGED = 4
"""Models that one message may have judged; each is a question about the test samples."""


class SiteFolder:
    """SITE: its file, its keys, and the private state of every experiment."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @private()
    def create(self, name: str, coordinator: str, certificate: Path) -> None:
        if (self / FILE).exists():
            raise UserError(f"{self.path} is a site already")
        content = TEMPLATE.format(name=name, coordinator=coordinator)
        validate(parse_yaml(content, FILE), FILE)
        read_certificate(certificate)
        self.path.mkdir(parents=True, exist_ok=True)
        os.chmod(self.path, 0o700)
        keys.make_node_key(self.path)
        self.trust(certificate)
        (self / FILE).write_text(content)

    @private()
    def trust(self, certificate: Path) -> None:
        """Obey the coordinator whose ca.crt this is, from now on, and no other."""
        authority, trusted = read_certificate(certificate)
        with contextlib.suppress(UserError):  # it may know of no other yet
            if (before := self.trusted().signing) != trusted.signing:
                put_aside(self / ORDERS, before)
        write_atomically(self / "ca.crt", authority)
        write_atomically(self / keys.PINNED, trusted.content())
        take_up(self / ORDERS, trusted.signing)

    def trusted(self) -> keys.TrustedKeys:
        """The keys of its coordinator."""
        return keys.TrustedKeys.read(self.path)

    def key(self) -> keys.NodeKey:
        """Its own key."""
        return keys.node_key(self.path)

    def guard(self, node: int) -> Guard:
        """What stands between a message to this site, which is that node now, and its data."""
        own = Recipient(node, keys.fingerprint(self.key().public_key()))
        return Guard(self / ORDERS, self.trusted().signing, own)

    def evidence(self) -> Evidence:
        """What its answers on record tell of its account."""
        return Evidence(self.path, self.key().public_key())

    def accounts(self) -> SiteAccounts:
        """What its experiments have spent of its privacy."""
        return SiteAccounts(self / BUDGET, self.evidence())

    def read(self) -> Site:
        file = self / FILE
        if not file.is_file():
            raise UserError(f"{self.path} holds no {FILE}; fedkf site init makes one")
        return validate(read_yaml(file), str(file))

    def start(self) -> NoReturn:
        """Become this site's SuperNode."""
        site, port = self.read(), programs.free_port()
        self.trusted()
        own = self / "bin"
        programs.stand_in(own, "flwr-clientapp", "fedkf.flower.client")
        environment = programs.environment(self / "flwr", {VARIABLE: str(self.path)}, own)
        secret = programs.new_secret(self / "tasks.secret")
        arguments = [
            *("--superlink", site.coordinator),
            *("--root-certificates", str(self / "ca.crt")),
            *("--auth-supernode-private-key", str(self / "node.key")),
            *("--host", "127.0.0.1", "--port", str(port)),
            *secret,
        ]
        os.chdir(self.path)
        programs.start_executor([f"127.0.0.1:{port}", "--insecure", *secret[2:]], environment)
        programs.become("flower-supernode", arguments, environment)


def read_certificate(file: Path) -> tuple[bytes, keys.TrustedKeys]:
    """A coordinator's certificate, and its keys, which travel in the same file."""
    if not file.is_file():
        raise UserError(f"--certificate {file} is not there; it is the coordinator's ca.crt")
    content = file.read_bytes()
    return keys.certificate_in(content, file), keys.TrustedKeys.parse(content, file)


class Host:
    """Runs the steps of one experiment on this site's data, which is loaded when it is needed."""

    def __init__(self, folder: SiteFolder, invitation: Invitation) -> None:
        self.site = folder.read()
        self._asked = incoming(invitation.config, self.site.allow)
        self._config = at_site(self.site, self._asked)
        self.algorithm = make_algorithm(self._config)
        if self.site.secure and (why := unhidden(self._config)):
            raise SiteRefusal(f"its site file takes part in secure sums only, {why}")
        shared = (*self.site.share, *HIDING)
        if lacking := [kind for kind in self.algorithm.discloses if kind not in shared]:
            raise SiteRefusal(
                f"{self._config.algorithm.name} would send {lacking[0]}, "
                "which its site file does not share"
            )
        judged = judgement_of(self._config)
        if judged.statistics and not self._config.privacy.on and KIND not in self.site.share:
            raise SiteRefusal(
                f"data.metrics ({', '.join(judged.metrics)}) would send {KIND}, "
                "which its site file does not share"
            )
        self._check_privacy()
        self._check_layout()
        self.accounts = folder.accounts()
        self._experiment = invitation.experiment
        self._folder = folder / "state" / invitation.experiment

    def _check_privacy(self) -> None:
        """Refuse a run that promises less than this site asks for; nobody else is trusted to."""
        if self.site.privacy is not None and not self._config.privacy.on:
            raise SiteRefusal("its site file asks for privacy, and the configuration has none")
        unit, own = self._config.data.unit, self.site.privacy
        if own is not None and own.unit not in (None, unit):
            raise SiteRefusal(f"its site file protects another data.unit than {unit or 'none'}")
        try:
            check_private(self._config, algorithms.get(self._config.algorithm.name))
        except UserError as error:
            raise SiteRefusal(str(error)) from error

    def _check_layout(self) -> None:
        """Refuse inputs that would be others here than at other sites, or a scale unasked for."""
        settings = self._config.data
        key = unsettled(settings) if settings.source == "table" else ""
        recordings = settings.source == "signals" and not str(settings.path).endswith(".npz")
        if recordings and settings.columns is None:
            key = "data.columns"
        if key:
            raise SiteRefusal(f"the configuration does not say what its columns are ({key})")
        if open_scale(self._asked) and INPUT_STATISTICS not in self.site.share:
            raise SiteRefusal(
                f"to agree on a scale would send {INPUT_STATISTICS}, which its site file does not "
                f"share (share: [{INPUT_STATISTICS}] allows it)"
            )

    def statistics(self) -> Payload:
        """What it tells of its training samples, for a scale on which all sites agree."""
        if not open_scale(self._asked):
            raise SiteRefusal("the configuration leaves no scale to agree on")
        settled, source = load_source(self._config)
        keys = ("mean", "std", "target_mean", "target_std")
        asked = {key: getattr(self._asked.data, key) for key in keys}
        return site_moments(settled.data.model_copy(update=asked), source).payload()

    def limits(self) -> list[Limit]:
        """What the site's file allows in all, and what this experiment promised."""
        own, asked = self.site.privacy, self._config.privacy
        limits = [] if own is None else [Limit(own.epsilon, own.delta)]
        if asked.epsilon is not None:
            limits.append(Limit(asked.epsilon, asked.delta, self._experiment))
        return limits

    @cached_property
    def assembly(self) -> Assembly:
        """The experiment with this site's data and, under privacy, chance that nobody knows."""
        return Assembly.of(self.config, self.data).in_secret()

    @property
    def mechanism(self) -> Mechanism | None:
        """What a turn does to the samples; None without privacy."""
        parts = self.assembly.task.parts_of(Privacy)
        return parts[0].mechanisms[self.data.sizes[0]] if parts else None

    @cached_property
    def _settled(self) -> tuple[Config, FederatedData]:
        if self._config.privacy.on:
            self.accounts.check(self._terms)
        config, data = load_data(self._config)
        own = self.site.privacy
        if own is not None and own.delta >= 1 / max(1, data.sizes[0]):
            raise SiteRefusal("privacy.delta of its site file is not below 1/n of its n samples")
        return config, data if data.test_sizes[0] >= self.site.least_tests else data.untested()

    @property
    def _terms(self) -> Terms:
        return Terms.of(self._config, self._experiment)

    @property
    def config(self) -> Config:
        """The configuration with everything spelled out that depends on the data."""
        return self._settled[0]

    @property
    def data(self) -> FederatedData:
        return self._settled[1]

    @cached_property
    def states(self) -> Versions:
        return Versions(self._folder)

    def agree(self) -> None:
        """Hold the experiment to what it promises, once its way to read the samples is accepted."""
        if self.config.privacy.on:
            self.accounts.agree(self._terms)

    def introduction(self) -> Introduction:
        """What the coordinator must know to begin."""
        return Introduction.of(self.data)

    def check(self, call: Call) -> None:
        """Refuse a call that asks for what the algorithm does not offer or a site does not have."""
        if call.step not in (*self.algorithm.client_steps, STEP):
            raise SiteRefusal(f"{self.algorithm.name} has no step {call.step!r}")
        if type(call.client) is not int or call.client < 0 or type(call.round) is not int:
            raise SiteRefusal("the client or the round is no number")  # they name files too
        for version in (call.version, call.start or "0.0"):
            if not re.fullmatch(r"\d+\.\d+", version):  # it becomes a file's name
                raise SiteRefusal(f"{version!r} is no version of its state")

    @private()
    def settle_client(self, client: int) -> None:
        """Be the same client throughout an experiment: as three of them, a site would be alone in a
        sum that seems to hide it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "client"
        with locked(file):
            if not file.exists():
                write_atomically(file, str(client).encode())
            elif file.read_bytes() != str(client).encode():
                raise SiteRefusal("it was asked as another client of this experiment before")

    @private()
    def perform(self, call: Call, down: Payload, keep: list[str]) -> Reply:
        """Run a step; of the client's private state, the versions in `keep` stay on the disk."""
        self.check(call)
        if open_scale(self._asked):
            raise SiteRefusal("the configuration lacks the scale on which the sites agree")
        config = self.config
        self.agree()
        torch.set_num_threads(config.engine.threads)
        self.states.keep_only(call.client, keep)
        if call.start is not None and not self.states.path(call.client, call.start).exists():
            raise SiteRefusal("its private state of that round is not on its disk any more")
        host = self.assembly.only_host(self.data, self.states)
        if call.step in EVALUATIONS and (asked := len(list(down))) > MOST_JUDGED:
            raise SiteRefusal(f"it judges {MOST_JUDGED} models at a time, not {asked}")
        host.keeps_turns = not config.privacy.on  # noise is never drawn twice
        if self.mechanism is not None and call.step not in self.algorithm.without_samples:
            if call.step in EVALUATIONS:
                raise SiteRefusal("under privacy it does not count its test samples for others")
            self.accounts.charge(self._experiment, self.mechanism, self.limits())
        reply = host.perform(call, down)
        assert reply.upload is not None
        if reply.wrote_state:  # the coordinator will name this version from now on
            sync_folder(self.states.folder)
        return Reply(call, self.released(call, reply.upload), reply.wrote_state)

    def released(self, call: Call, upload: Payload) -> Payload:
        """What of an upload leaves: losses only if the site's file says so."""
        hidden = self._config.transport.secure
        always = (*HIDING, "monitoring") if hidden else ALWAYS_DISCLOSED
        allowed = {*always, *self.site.share}
        if call.step not in EVALUATIONS and "losses" not in self.site.share:
            allowed.discard("monitoring")
        return upload.of_kinds(allowed)
