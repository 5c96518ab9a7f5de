"""Integrity: whether a run's files are what the run had written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from fedkf.core.errors import FedkfError, UserError
from fedkf.core.holdings import Partition
from fedkf.core.records import Round, Status, Summary, Traffic
from fedkf.core.shapes import Damage, parse_json
from fedkf.core.versions import RemoteVersions, Versions
from fedkf.runs.checkpoint import CheckpointFolder
from fedkf.runs.store import RunFolder
from fedkf.runs.trained import read_card, read_weights

RECORDS: dict[str, Callable[[object], object]] = {
    "summary.json": Summary.read,
    "partition.json": Partition.read,
    "ledger.json": Traffic.read,
    "status.json": Status.read,
}


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


def check_models(folder: Path) -> None:
    card = read_card(folder)
    for path in sorted(folder.glob("*.safetensors")):
        read_weights(path, card)
