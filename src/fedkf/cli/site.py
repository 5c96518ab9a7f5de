"""`fedkf site`: take part in experiments with data that stays here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkf.cli.consoles import show
from fedkf.cli.options import SetOption, needs_flower, resolve

if TYPE_CHECKING:
    from fedkf.flower.site import Host, SiteFolder
    from fedkf.runs.schema import Config

commands = typer.Typer(
    name="site",
    help="Take part with data that stays here.",
    no_args_is_help=True,
    rich_markup_mode=None,
    callback=needs_flower,
)
SiteFolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The site's folder.")]


@commands.command("init")
def init(
    folder: SiteFolderArgument,
    name: Annotated[str, typer.Option(help="Of the site; the coordinator registers it.")],
    address: Annotated[str, typer.Option("--coordinator", metavar="HOST:PORT")],
    certificate: Annotated[Path, typer.Option(help="The coordinator's ca.crt.")],
) -> None:
    """Make a site's folder with its key and its file."""
    from fedkf.flower.site import FILE, SiteFolder

    SiteFolder(folder).create(name, address, certificate)
    show(
        f"made {folder}; say in {folder / FILE} where the data is, and give "
        f"{folder / 'node.pub'} to the coordinator"
    )


@commands.command("trust")
def trust(
    folder: SiteFolderArgument,
    certificate: Annotated[Path, typer.Argument(metavar="CA.CRT", help="The coordinator's.")],
) -> None:
    """Take a coordinator's new keys; from then on only what they sign is obeyed."""
    from fedkf.flower.site import SiteFolder

    site = SiteFolder(folder)
    name = site.read().name
    site.trust(certificate)
    show(f"{name} obeys the coordinator of {certificate}")


@commands.command("check")
def check(
    folder: SiteFolderArgument,
    config: Annotated[
        str | None, typer.Argument(metavar="[CONFIG]", help="A file or a preset.")
    ] = None,
    set_: SetOption = None,
) -> None:
    """Whether what this site sent is on record, and whether it would take part in an experiment."""
    from fedkf.flower.handshake import Invitation
    from fedkf.flower.logs import REFUSED, SENT, RefusedLog, SentLog
    from fedkf.flower.settings import deployed, open_scale, outgoing
    from fedkf.flower.site import Host, SiteFolder
    from fedkf.runs.judging import judgement_of

    site = SiteFolder(folder)
    name = site.read().name
    sent = SentLog(site / SENT).check(site.key().public_key())
    refused = RefusedLog(site / REFUSED).count()
    show(f"{name} has sent {sent} answers ({SENT} is unbroken) and refused {refused} messages")
    show_budget(site)
    if config is None:
        return
    settings, _ = resolve(config, set_)
    host = Host(site, Invitation(outgoing(settings), "0" * 8))
    about = host.introduction()
    kinds = [*host.algorithm.discloses]
    if open_scale(settings := deployed(settings)):
        kinds.append("input_statistics (count, mean and spread of each, to agree on a scale)")
    if settings.transport.secure:
        show_hiding(settings)
    else:
        kinds.insert(0, "weights")
    if settings.privacy.on:
        show_promise(host)
    elif about.test:
        kinds.append("counts of correct and of tested samples")
        if wanted := judgement_of(settings).statistics:
            kinds.append(f"test_statistics ({', '.join(wanted)})")
    if "losses" in host.site.share:
        kinds.append("training losses")
    show(
        f"{host.site.name} would take part: {about.train} training and {about.test} test "
        f"samples of shape {list(about.shape)}; it would send these two numbers, this shape, "
        f"{', '.join(kinds)}"
    )


def show_hiding(config: Config) -> None:
    """What secure sums would promise this site, and what not."""
    transport = config.transport
    bared = " (but transport.exact lets sums of several rounds give it)" if transport.exact else ""
    show(
        f"the coordinator sees sums of at least three sites' models, never its model{bared}, if it "
        "follows the protocol and works with no other site (masks hold against fewer than "
        f"{transport.threshold:.0%} of a round's sites, but sites can subtract their own models "
        "from sums); what it tells beside its model is not hidden"
    )


def show_budget(site: SiteFolder) -> None:
    """What the site's file allows all experiments together, and what they have spent."""
    own = site.read().privacy
    if own is None:
        return
    from fedkf.flower.budget import FILE

    spent = site.accounts().epsilon(own.delta)
    show(
        f"all experiments together may tell of any one sample ε = {own.epsilon:g} with δ = "
        f"{own.delta:g} at most, and they have spent ε = {spent:.3g} so far ({FILE})"
    )


def show_promise(host: Host) -> None:
    """What an experiment would promise, and who could still learn what."""
    mechanism, asked = host.mechanism, host.config.privacy
    assert mechanism is not None
    planned = (mechanism,) * (asked.turns or 1)
    each = host.accounts.epsilon(asked.delta, "", planned[:1])
    total = host.accounts.epsilon(asked.delta, "", planned)
    show(
        f"under privacy it would send weights made of noisy gradients (noise "
        f"{mechanism.noise:.3g} times {asked.clip:g}): a round costs ε = {each:.3g}, and in "
        f"{len(planned)} rounds ε = {total:.3g} with δ = {asked.delta:g} for every "
        f"{'sample' if host.config.data.unit is None else host.config.data.unit}, towards "
        "everybody; the number of samples is told as it is, and no counts of correct answers"
    )


@commands.command("recover")
def recover(folder: SiteFolderArgument) -> None:
    """Complete privacy.json, lost or an old copy, by what sent.jsonl says was spent."""
    from fedkf.flower.budget import FILE
    from fedkf.flower.logs import RECOVERED, SENT, SentLog
    from fedkf.flower.site import SiteFolder

    site = SiteFolder(folder)
    name, accounts, log = site.read().name, site.accounts(), SentLog(site / SENT)
    told = accounts.recover()
    log.append({"type": RECOVERED}, site.key(), lambda: told)
    show(f"{name} has taken {len(accounts.turns())} turns under privacy ({FILE}, {SENT})")


@commands.command("start")
def start(folder: SiteFolderArgument) -> None:
    """Connect to the coordinator, until stopped (Flower's SuperNode)."""
    from fedkf.flower.site import SiteFolder

    SiteFolder(folder).start()
