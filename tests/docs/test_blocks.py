"""Every code block of the documentation does what it says, on tiny budgets: make test-docs."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from blocks import Block, blocks_of, commands_of
from conftest import Outcome
from surroundings import Runs, make_world, names

from fedkf.cli.app import app
from fedkf.runs import suite
from fedkf.runs.config import resolve
from fedkf.runs.documents import parse_yaml

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
FOLLOWED = {"wearable.md", "ecg.md", "hospital-table.md"}
"""Tutorials that tests/docs/test_tutorials.py follows, and looks at what comes out."""
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in FOLLOWED]
PAGES += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
STAYS_OR_FAR = {
    "dashboard": "serves until it is stopped: tests/report/test_dashboard.py",
    "demo": "takes minutes: tests/cli",
    "coordinator start": "stays: make test-deployment runs it",
    "coordinator add": "needs a coordinator that runs",
    "coordinator remove": "needs a coordinator that runs",
    "coordinator sites": "needs a coordinator that runs",
    "coordinator run": "needs sites",
    "site start": "stays",
    "data get": "downloads",
    "--engine flower": "starts Ray: tests/flower",
    "engine.name=flower": "starts Ray: tests/flower",
    "--search": "takes a minute: tests/integration/test_search.py",
    r"reproduce (?!list)\S+": "takes a minute and more: tests/integration/test_reproduce.py",
    "(run|partition) (?!digits)[a-z0-9]+": "data that do not come with fedkf",
}
"""Patterns of what is looked at (its options, its keys) and not run, and why."""
SMALL = {
    "federation.rounds": "1",
    "federation.local_epochs": "1",
    "engine.workers": "0",
    "generator.width": "4",
}
DIGITS = {"data.limit": "30", "federation.batch_size": "32", "data.min_samples": "2"}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("made") / "runs")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks(
    page: Path,
    runs: Runs,
    cli: Callable[..., Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = list(blocks_of(page, str(page.relative_to(ROOT))))
    if not blocks:
        return
    make_world(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("FEDKF_CACHE", str(tmp_path / "cache"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    reader = Reader(cli, runs)
    for block in blocks:
        reader.read(block)


class Reader:
    """Somebody who does what a page says, block by block, in one folder."""

    def __init__(self, cli: Callable[..., Outcome], runs: Runs) -> None:
        self.cli, self.runs = cli, runs
        self.names = names()

    def read(self, block: Block) -> None:
        kinds: dict[str, Callable[[Block], None]] = {
            "bash": self.shell,
            "python": self.python,
            "yaml": self.yaml,
            "json": lambda block: json.loads(block.text),
        }
        read = kinds.get(block.language)
        if block.title:
            Path(block.title).write_text(block.text)
        if read is None:
            assert block.language in ("text", "bibtex", "csv", "console"), f"{block}: which?"
        else:
            try:
                read(block)
            except Exception as error:
                raise AssertionError(f"{block}: {type(error).__name__}: {error}") from error

    # -- Python and YAML ---------------------------------------------------------------------------

    def python(self, block: Block) -> None:
        text = block.text.replace(", …)", ", rounds=1, local_epochs=1)")
        text = re.sub(r"\brounds=\d+", "rounds=1", text)
        code = compile(text, str(block), "exec")
        if block.not_run is None:
            exec(code, self.names)

    def yaml(self, block: Block) -> None:
        content = parse_yaml(block.text, str(block))
        if "grid" in content:
            Path("suite.yaml").write_text(block.text)
            assert suite.read(Path("suite.yaml")).plans
        elif block.not_run is None:
            resolve(content)

    # -- the shell ---------------------------------------------------------------------------------

    def shell(self, block: Block) -> None:
        for words in commands_of(block.text):
            line = " ".join(words)
            if words[0] == "fedkf":
                parse(words[1:])
                if block.not_run is None:
                    self.fedkf(
                        ["digits" if word in ("CONFIG", "DATA") else word for word in words[1:]]
                    )
            elif words[0] == "python" and block.not_run is None:
                script(words[1:])
            elif words[0] == "pip":
                check_extras(line)
            elif words[0] == "make":
                check_target(words[-1] if "=" not in words[-1] else words[1])
            elif words[0] == "$EDITOR":
                fill_in(Path(words[1]))
            else:
                assert block.not_run, f"{block}: {line}"

    def fedkf(self, words: list[str]) -> None:
        """Run a command on a tiny budget; of one that cannot be run here, read its settings."""
        line = " ".join(words)
        apart = any(re.search(rf"(^|\s){key}(\s|$)", line) for key in STAYS_OR_FAR)
        if apart and words[0] != "run":
            return
        if apart:
            arguments = words[1:2] if not words[1].startswith("-") else []
            wanted = ["config", *arguments, *self.settings(words)]
        else:
            self.bring(words)
            wanted = self.tiny(words)
        done = self.cli(*wanted)
        assert done.code == 0, f"fedkf {line}\n{done.err}"

    @staticmethod
    def settings(words: list[str]) -> list[str]:
        pairs = pairwise(words)
        return [part for a, b in pairs if a == "--set" for part in (a, b)]

    def tiny(self, words: list[str]) -> list[str]:
        """The command with fewer rounds and narrower generators."""
        if words[0] == "distill":
            return [*words, "--steps", "2", "--teacher-epochs", "1", "--width", "4", "--quiet"]
        if words[0] == "report":
            return [*words, "--no-samples"]
        if words[0] not in ("run", "advise"):
            return words
        given = dict(pair.split("=", 1) for pair in self.settings(words)[1::2])
        own = given.get("data.source") or Path(words[1]).suffix in (".yaml", ".yml")
        small = SMALL if own else SMALL | {k: v for k, v in DIGITS.items() if k not in given}
        rest, skip = [], False
        for word, following in zip(words, [*words[1:], ""], strict=True):
            drop = word == "--set" and following.split("=")[0] in small
            if not drop and not skip:
                rest.append(word)
            skip = drop
        sets = [part for key, value in small.items() for part in ("--set", f"{key}={value}")]
        return [*rest, *sets, "--quiet"]

    def bring(self, words: list[str]) -> None:
        """Runs that the page takes for granted; a default folder of its own for every run."""

        if words[0] == "run" and not {"--out", "--resume"} & set(words):
            for old in Path("runs").glob("*-[0-9]"):
                shutil.rmtree(old)
        for before, word in pairwise(words):
            wanted = word == "RUN" or word.startswith("runs/") or word == "runs"
            if wanted and before != "--out" and words[0] != "run" and not Path(word).exists():
                self.runs.put(Path(word), many=word in ("runs", "runs/demo"))


def script(words: list[str]) -> None:
    """One of the examples, with its arguments, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        runpy.run_path(words[0], run_name="__main__")


def fill_in(file: Path) -> None:
    """What the user writes into a site's file."""
    file.write_text(file.read_text().replace("path: null", "path: scans/north"))


def parse(words: list[str]) -> None:
    """Read a command line as the program does, without doing anything."""
    command: Any = typer.main.get_command(app)
    words = [word for word in words if word != "--debug"]
    while hasattr(command, "commands"):
        assert words, "a command is missing"
        if words[0].startswith("-"):
            return  # --help, --version
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, [*words])


def check_extras(line: str) -> None:
    """Extras that are named exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"\[([a-z,]+)\]", line):
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), line


def check_target(target: str) -> None:
    """`make` knows the target."""
    assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), (
        f"make {target}"
    )
