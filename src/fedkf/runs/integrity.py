"""Integrity: whether a run's files are what the run had written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.holdings import Partition
from fedkf.core.records import Round, Status, Summary, Traffic
from fedkf.core.shapes import Damage, parse_json
from fedkf.core.versions import RemoteVersions, Versions
from fedkf.data.arrays import read_arrays
from fedkf.runs.checkpoint import CheckpointFolder
from fedkf.runs.manifest import Manifest
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import read_card, read_weights

RECORDS: dict[str, Callable[[object], object]] = {
    "summary.json": Summary.read,
    "partition.json": Partition.read,
    "ledger.json": Traffic.read,
    "status.json": Status.read,
}
SIDES = ("train", "test")
PARTS = tuple(f"{side}{end}" for side in SIDES for end in ("", "_offsets"))


def check_run(path: Path) -> list[str]:
    """What is wrong with the files of a run, a sentence each; none if nothing is.

    Whatever has a digest is held against it; records are held against their shapes. Nothing is
    changed, and a run that goes on may be checked, too.
    """
    run = RunFolder(path)
    if not (run / "config.yaml").exists():
        raise UserError(f"{path} holds no run")
    checks = [run.config, lambda: check_rounds(run), *record_checks(run)]
    if run.manifest.exists():
        remote = "experiment" in run.provenance()  # its clients' states lie at the sites
        folder = CheckpointFolder(run / "checkpoint", RemoteVersions if remote else Versions)
        checks.append(folder.read)
    if (run / "split.npz").exists():
        checks.append(lambda: check_split(run))
    checks.append(lambda: check_end(run))
    if run.finished():
        checks.append(lambda: check_models(run / "models"))
    kept = sorted(path.parent for path in run.path.glob("kept/*/model.json"))
    checks += [partial(check_models, folder) for folder in kept]
    return [sentence for check in checks if (sentence := problem(check))]


def problem(check: Callable[[], object]) -> str:
    try:
        check()
    except (FedkfError, OSError) as error:
        return str(error)
    return ""


def record_checks(run: RunFolder) -> Iterator[Callable[[], object]]:
    for name, read in RECORDS.items():
        if (run / name).exists():
            yield partial(run.read_record, name, read)


def check_rounds(run: RunFolder) -> None:
    """Every line is a round, and none is left out."""
    path = run / "rounds.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            found = Round.read(parse_json(line)).round
        except Damage as error:
            raise FedkfError(f"{path} is damaged: line {number} {error}") from None
        if found != number:
            raise FedkfError(f"{path} is damaged: line {number} is round {found}")
    if len(lines) < (least := least_rounds(run)):
        raise FedkfError(f"{path} is damaged: round {len(lines) + 1} of {least} is not there")


def least_rounds(run: RunFolder) -> int:
    """How many rounds a run has told at least: all, or those before the checkpoint's.

    A crash may have come between the checkpoint and the line of its round, which a resume makes up
    for. Files that cannot be read are told elsewhere.
    """
    with suppress(FedkfError):
        if run.finished():
            return run.read_record("summary.json", Summary.read).rounds
    with suppress(Damage, OSError):
        return Manifest.from_bytes(run.manifest.read_bytes()).round - 1
    return 0


def check_end(run: RunFolder) -> None:
    """A finished run has its summary, and the status that says so."""
    status = run / "status.json"
    if run.finished() and not status.exists():
        raise FedkfError(f"{status} is not there, and the run is finished")
    if not run.finished() and status.exists() and ended(run):
        missing = run / "summary.json"
        raise FedkfError(f"{missing} is not there, and the run is finished; resume it")


def ended(run: RunFolder) -> bool:
    """Whether a run says that it is finished, and is not about to go on with more rounds.

    One that is has more rounds in its configuration before its status tells of any.
    """
    try:
        said, config = run.read_record("status.json", Status.read), run.config()
    except (FedkfError, UserError):  # told elsewhere
        return False
    return (
        said.state == "finished" and config is not None and config.federation.rounds <= said.rounds
    )


def check_split(run: RunFolder) -> None:
    """It opens, and every client has as many samples as partition.json says."""
    path = run / "split.npz"
    try:
        with path.open("rb") as file:
            parts = read_arrays(file, PARTS, needed=PARTS)
        sizes = {side: np.diff(parts[f"{side}_offsets"]).tolist() for side in SIDES}
        whole = all(sum(sizes[side]) == len(parts[side]) for side in SIDES)
    except Exception as error:  # of many kinds: the archive's, its packing's, the arrays' heads'
        raise FedkfError(f"{path} is damaged: it holds no division of samples") from error
    try:
        clients = run.read_record("partition.json", Partition.read).clients
    except (FedkfError, UserError):  # told elsewhere, or gone
        return
    if not whole or sizes != {side: [getattr(c, side) for c in clients] for side in SIDES}:
        raise FedkfError(f"{path} is damaged: its sizes are not those in {run / 'partition.json'}")


def check_models(folder: Path) -> None:
    card = read_card(folder)
    for path in sorted(folder.glob("*.safetensors")):
        read_weights(path, card)
