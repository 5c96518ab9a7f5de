"""The generated parts of the reference: from the schema, the commands, the algorithms, the source.

A page of docs/ asks for one with `<!-- generated: NAME -->` on a line of its own.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import sentences

Row = tuple[str, ...]


def table(head: Row, rows: list[Row]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines) + "\n"


def cell(text: str) -> str:
    """A text as a cell of a table, where < begins no tag and | no cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split())).replace("<", "&lt;")


def code(value: object) -> str:
    """A value as a configuration has it."""
    texts = {None: "none", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return texts[value]
    return f"`{value}`" if str(value) else "empty"


# -- the configuration ----------------------------------------------------------------------------


def configuration() -> str:
    """Every key of the schema, section by section, with its default and what it may be."""
    from fedkf.runs.schema import Config

    schema = Config.model_json_schema()
    parts = []
    for name, field in Config.model_fields.items():
        section = field.annotation
        if not hasattr(section, "model_fields"):
            rows = [key_row(name, schema["properties"][name])]
            parts.append("## The whole\n\n" + table(HEAD, rows))
            continue
        keys = schema["$defs"][section.__name__]["properties"]  # type: ignore[union-attr]
        rows = [key_row(f"{name}.{key}", value) for key, value in keys.items()]
        parts.append(f"## `{name}`\n\n{section.__doc__}\n\n" + table(HEAD, rows))
    return "\n".join(parts)


HEAD = ("key", "default", "may be", "what it is")


def key_row(key: str, value: dict[str, Any]) -> Row:
    return f"`{key}`", code(value.get("default")), allowed(value), value.get("description", "")


def allowed(value: dict[str, Any]) -> str:
    """The values that a JSON schema admits, in words."""
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(allowed(way) for way in value["anyOf"]))
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    kind = value.get("type")
    if kind == "array":
        return f"a list of: {allowed(value.get('items', {}))}"
    if kind in ("integer", "number"):
        return ("a whole number" if kind == "integer" else "a number") + limits(value)
    words = {"string": "a text", "null": "none", "boolean": "true or false", "object": "a mapping"}
    return words.get(str(kind), "anything")


def limits(value: dict[str, Any]) -> str:
    """The limits of a number that a person would want to know."""
    texts = []
    for name, word in (("minimum", "from"), ("exclusiveMinimum", "above")):
        if name in value:
            texts.append(f"{word} {value[name]:g}")
    for name, word in (("maximum", "to"), ("exclusiveMaximum", "below")):
        if name in value and value[name] < 10**5:
            texts.append(f"{word} {value[name]:g}")
    return "".join(f" {text}" for text in texts)


def hyperparameters() -> str:
    """The keys that each algorithm adds to the section `algorithm`."""
    from fedkf import algorithms

    rows: list[Row] = []
    for name in algorithms.names():
        for option in fields(algorithms.get(name)):
            choices = ", ".join(f"`{word}`" for word in option.metadata["choices"])
            named = f"[`{name}`](../algorithms/{name}.md)"
            default, doc = code(option.default), option.metadata["doc"]
            rows.append((named, f"`algorithm.{option.name}`", default, choices, doc))
    return table(("algorithm", "key", "default", "choices", "what it is"), rows)


# -- commands -------------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its arguments and options, from the program itself."""
    import click
    import typer

    from fedkf.cli.app import app

    def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        if isinstance(command, click.Group):
            for name, part in command.commands.items():
                yield from walk(part, f"{path} {name}")
        else:
            yield path, command

    return "\n".join(
        described(path, made) for path, made in walk(typer.main.get_command(app), "fedkf")
    )


def described(path: str, command: Any) -> str:
    """A command's help as Markdown."""
    import click

    usage = command.collect_usage_pieces(click.Context(command))
    help_text = inspect.cleandoc(command.help or "").replace("\f", "")
    rows: list[Row] = []
    for part in command.params:
        if part.name == "help" or getattr(part, "hidden", False):
            continue
        names = ", ".join(f"`{name}`" for name in (*part.opts, *part.secondary_opts))
        if part.param_type_name == "argument":
            names = f"`{part.make_metavar(click.Context(command))}`"
        said = not callable(part.default) and part.default not in (None, (), "", False)
        rows.append((names, code(part.default) if said else "", part.help or ""))
    lines = [f"## `{path}`", f"```text\n{path} {' '.join(usage)}\n```", help_text]
    return "\n\n".join(lines) + "\n\n" + (table(("", "default", ""), rows) if rows else "") + "\n"


# -- the public interface -------------------------------------------------------------------------


def api() -> str:
    """A directive for each public name, in the order in which fedkf lists them."""
    import fedkf

    parts = []
    for name in fedkf.__all__:
        value = getattr(fedkf, name)
        module = inspect.ismodule(value)
        home = value.__name__ if module else f"{value.__module__}.{value.__qualname__}"
        shown = f"heading: fedkf.{name}\n      toc_label: fedkf.{name}"
        parts.append(f"::: {home}\n    options:\n      {shown}\n")
    return "\n".join(parts)


# -- everything on one page -----------------------------------------------------------------------


def overview(root: Path, order: list[str]) -> str:
    """llms.txt: what the project is, and every page with its first sentence."""
    lines = [
        "# fedkf",
        "",
        "> Train one shared model across sites whose data differ, keep it accurate and fair for "
        "every site, and see who is left behind. Python, PyTorch; a command line, a Python "
        "interface, and real deployments over TLS.",
        "",
        "## Pages",
        "",
    ]
    for page in order:
        path = (
            root / page.removeprefix("project/")
            if page.startswith("project/")
            else root / "docs" / page
        )
        title, sentence = beginning(path.read_text())
        lines.append(f"- [{title}]({page.removesuffix('.md')}.html): {sentence}")
    return "\n".join(lines) + "\n"


def beginning(markdown: str) -> tuple[str, str]:
    """A page's title, and the first sentence below it, without markup."""
    title, _, rest = markdown.partition("\n")
    paragraphs = [p for p in rest.split("\n\n") if p.strip() and p.strip()[0] not in "#<`|-!["]
    first = " ".join(paragraphs[0].split()) if paragraphs else ""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", first).replace("**", "")
    end = re.search(r"(?<=[.!?])\s", plain)
    return title.lstrip("# ").replace("`", ""), plain[: end.start()] if end else plain


PARTS: dict[str, Callable[[], str]] = {
    "configuration": configuration,
    "hyperparameters": hyperparameters,
    "commands": commands,
    "api": api,
    "errors": sentences.as_markdown,
}
