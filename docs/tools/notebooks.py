"""Notebooks with their results: `python docs/tools/notebooks.py` runs those of examples/ anew.

`SCRIPTS` of examples/ become notebooks first. A cell's results are what it printed and the value of
its last line, as Jupyter would keep them; on the site a notebook is a page.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = ("own_model", "tabular")
"""Examples that are notebooks as well, made of the scripts."""
Cell = dict[str, Any]


def of_script(text: str) -> dict[str, Any]:
    """A script as a notebook: what it says of itself, then a cell for each of its paragraphs.

    A paragraph begins after two empty lines, or with a comment at the margin.
    """
    about = ast.get_docstring(ast.parse(text)) or ""
    title, _, rest = about.partition("\n")
    said = rest.strip().split("\nRun it with")[0].strip()
    cells: list[Cell] = [
        {"cell_type": "markdown", "metadata": {}, "source": f"# {title.rstrip('.')}\n\n{said}"}
    ]
    for paragraph in re.split(r"\n\n\n|\n\n(?=# )", code_of(text)):
        code: Cell = {"cell_type": "code", "metadata": {}, "source": paragraph.strip("\n")}
        cells.append({**code, "execution_count": None, "outputs": []})
    about_it = {"language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about_it, "nbformat": 4, "nbformat_minor": 5}


def code_of(text: str) -> str:
    """A script without what it says of itself."""
    return text.partition('"""')[2].partition('"""')[2].strip("\n")


def execute(notebook: dict[str, Any]) -> None:
    """Run all cells in one namespace and keep what comes of each."""
    names: dict[str, Any] = {}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        tree = ast.parse(cell["source"])
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"<cell {number}>", "exec"), names)
            value = None
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
        cell["execution_count"] = number
        cell["outputs"] = outputs_of(printed.getvalue(), value, number)


def outputs_of(printed: str, value: Any, number: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    if printed:
        made.append({"name": "stdout", "output_type": "stream", "text": printed})
    if value is not None:
        data = {"text/plain": repr(value)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_()
        result = {"output_type": "execute_result", "execution_count": number}
        made.append({**result, "data": data, "metadata": {}})
    return made


def as_markdown(notebook: dict[str, Any]) -> str:
    """A notebook as a page: text, code, and what came of it."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(cell["source"])
            continue
        parts.append(f"```python\n{cell['source']}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "text/html" in data:
                html = " ".join(line.strip() for line in data["text/html"].splitlines())
                parts.append(f'<div class="output">{html}</div>')
            else:
                parts.append(f"```text\n{data['text/plain'].rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for name in SCRIPTS:
        made = of_script((EXAMPLES / f"{name}.py").read_text())
        (EXAMPLES / f"{name}.ipynb").write_text(json.dumps(made))
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        content = json.loads(path.read_text())
        execute(content)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
