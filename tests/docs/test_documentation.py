"""The documentation site: what its tools make, and that nothing is left out of it."""

from __future__ import annotations

import json
from pathlib import Path

import hooks
import notebooks
import pictures
import pytest
import reference
import sentences
import site_check
import yaml

from fedkf.runs.config import all_keys

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_page_has_a_place_in_the_navigation() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    pages = hooks.pages_in(hooks.expanded(nav, set(hooks.pages_in(nav)), DOCS))
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    there |= {f"project/{name}" for name in hooks.PROJECT}
    assert sorted(pages) == sorted(there)  # none is missing, none is named twice


def test_the_drawings_are_what_their_program_draws() -> None:
    for name, draw in pictures.PICTURES.items():
        assert (DOCS / "images" / name).read_text() == draw(), f"run docs/tools/pictures.py: {name}"


def test_the_reference_has_every_key_and_every_command() -> None:
    text = reference.configuration()
    assert [key for key in all_keys() if f"| `{key}` |" not in text] == []
    assert "| `federation.rounds` | `100` | a whole number from 1 |" in text
    headings = [line for line in reference.commands().splitlines() if line.startswith("## ")]
    assert {"## `fedkf run`", "## `fedkf site check`", "## `fedkf data get`"} <= set(headings)


def test_sentences_are_collected_from_the_source_with_their_cures(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/made.py").write_text(
        "def f(path, size, short):\n"
        '    text = f"{path} holds {size} rows"\n'
        "    if short:\n"
        '        raise UserError(f"{text}; two are needed at least")\n'
        '    raise FedkfError("the disk is full" if size else "it is not there at all")\n'
    )
    found = sentences.collect(tmp_path)
    assert [(s.room, s.told, s.code) for s in found] == [
        ("data", "it is not there at all", 1),
        ("data", "the disk is full", 1),
        ("data", "… holds … rows", 2),
    ]
    assert found[2].cure == "two are needed at least"


def test_every_sentence_of_the_source_has_advice_and_no_cure_is_stale() -> None:
    every = sentences.collect()
    assert len(every) > 300
    assert {sentence.room for sentence in every} <= set(sentences.ROOMS)
    pieces = [p for p in sentences.CURES if not any(p in sentence.text for sentence in every)]
    assert pieces == [], "no sentence has these pieces any more"


def test_a_notebook_keeps_what_came_of_each_cell() -> None:
    source = "print('hello')\n[1, 2]"
    notebook = {"cells": [{"cell_type": "code", "source": source}]}
    notebooks.execute(notebook)
    text = notebooks.as_markdown(notebook)
    assert text.split("\n\n")[1:] == ["```text\nhello\n```", "```text\n[1, 2]\n```\n"]


def test_the_example_notebook_was_run() -> None:
    cells = json.loads((ROOT / "examples/notebook.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    assert "<svg" in code[2]["outputs"][0]["data"]["text/html"]


@pytest.mark.parametrize("name", notebooks.SCRIPTS)
def test_a_scripts_notebook_has_its_code_and_was_run(name: str) -> None:
    cells = json.loads((ROOT / "examples" / f"{name}.ipynb").read_text())["cells"]
    script = notebooks.of_script((ROOT / "examples" / f"{name}.py").read_text())["cells"]
    assert [cell["source"] for cell in cells] == [cell["source"] for cell in script]
    assert any(cell.get("outputs") for cell in cells)


def test_links_of_a_page_lead_to_files_of_the_repository() -> None:
    assert hooks.resolved("../examples/own_model.py", "docs/your-model.md") == (
        "examples/own_model.py"
    )
    assert hooks.resolved("https://example.org", "docs/your-model.md") is None
    assert hooks.address("examples/own_model.py") == "project/examples/own_model.py.md"
    assert hooks.address("docs/t1.md") == "t1.md"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="b.html#there">b</a>', None),
        ('<a href="c.html">c</a>', "a.html leads to c.html, which is not there"),
        ('<a href="b.html#x">b</a>', "a.html leads to b.html#x, a heading that is not there"),
        ('<img src="//far.org/x.png">', "a.html loads //far.org/x.png from elsewhere"),
    ],
)
def test_a_broken_site_is_noticed(tmp_path: Path, body: str, problem: str | None) -> None:
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1>')
    assert site_check.problems(tmp_path) == ([problem] if problem else [])
