"""What results/ and docs say follows from the committed records, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import frontier
import pytest
from evidence import pages, pictures
from evidence.reading import ROOT, Evidence

SEEDS = re.compile(r"\| \S+ \| [\d.]+ \([\d., ]+\) \|")
"""A row with a mean and each seed's number."""
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+\.png)\)")


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return Evidence()


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_block_of_a_page_is_what_the_records_say(page: str, evidence: Evidence) -> None:
    text = (ROOT / page).read_text()
    assert pages.filled(text, evidence) == text, "python benchmarks/results.py writes it anew"
    assert text.count("<!-- begin ") == len(pages.BLOCK.findall(text)), "a mark without its end"


def test_every_picture_of_a_page_is_there() -> None:
    for page in pages.pages():
        for name in PICTURE.findall(page.read_text()):
            assert (page.parent / name).exists(), f"{page.name} shows {name}"


def test_the_pictures_of_the_first_page_are_drawn_from_the_records(
    evidence: Evidence, tmp_path: Path
) -> None:
    made = pictures.draw_all(evidence, tmp_path)
    shown = PICTURE.findall((ROOT / "results" / "README.md").read_text())
    assert [f"figures/{path.name}" for path in made] == shown
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in made)


def test_rows_of_the_frontier_in_docs_are_those_of_its_records(
    capsys: pytest.CaptureFixture[str],
) -> None:
    frontier.table(ROOT / "results" / "frontier")
    made = capsys.readouterr().out.splitlines()
    lines = (ROOT / "docs/benchmarks.md").read_text().splitlines()
    shown = [line for line in lines if SEEDS.match(line)]
    assert len(shown) > 20
    assert [line for line in shown if line not in made] == []
