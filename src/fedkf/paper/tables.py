"""Tables of results: mean ± std over seeds, the best bold, the second underlined, as in the paper.

A table is kept apart from how it is written: Markdown for reading, LaTeX for papers, and CSV in the
long form (one line a cell, full precision) for programs.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedkf.core.payload import write_atomically
from fedkf.metrics.sites import ACCURACY, over
from fedkf.paper.published import Published, marks


@dataclass(frozen=True)
class Cell:
    """What was found for one row and column; `published` is what the paper says, as a fraction."""

    values: tuple[float, ...] = ()
    published: Published | None = None
    text: str | None = None  # shown instead of the values, such as "> 100"
    beside: str = ""  # the paper's value where it is no plain number

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """The sample standard deviation, for two values or more."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Column:
    """A column: the group that it stands in, its name, and how its numbers are shown."""

    group: str
    name: str
    scale: float = 1.0
    digits: int = 2
    ranked: bool = True
    lower: bool = False
    unit: str = ""
    unit_latex: str = ""

    @property
    def heading(self) -> str:
        return f"{self.name}{f' ({self.unit})' if self.unit else ''}"


def metric_column(
    group: str, name: str, values: Iterable[float], judged_by: str = ACCURACY
) -> Column:
    """A column for a metric: in percent, or in the power of ten that its small values ask for."""
    metric = over(judged_by)[name]
    column = Column(group, metric.label, lower=not metric.higher_is_better)
    if metric.percent:
        return replace(column, scale=100, unit="%", unit_latex=r"\%")
    sizes = [v for v in values if v > 0]
    typical = statistics.median(sizes) if sizes else 0.0
    if typical >= 1:
        return replace(column, digits=metric.digits)
    exponent, power = (-2, "⁻²") if typical >= 0.01 else (-3, "⁻³")
    latex = rf"$\times 10^{{{exponent}}}$"
    return replace(column, scale=10.0**-exponent, digits=3, unit=f"×10{power}", unit_latex=latex)


@dataclass(frozen=True)
class ResultTable:
    """Rows by label, columns in groups."""

    title: str
    corner: str
    columns: Sequence[Column]
    rows: Mapping[str, Sequence[Cell]]
    notes: Sequence[str] = ()

    def marks(self, column: int) -> dict[str, str]:
        """The best and the second of a column, by the means of what was found here."""
        about = self.columns[column]
        cells = {row: cells[column].mean for row, cells in self.rows.items()}
        known = {row: mean for row, mean in cells.items() if mean is not None}
        if not about.ranked or len(known) < 2:
            return {}
        return marks(known, about.lower)

    def groups(self) -> list[ResultTable]:
        """One narrow table for each group of columns."""
        made = []
        for group in dict.fromkeys(column.group for column in self.columns):
            places = [k for k, column in enumerate(self.columns) if column.group == group]
            made.append(
                replace(
                    self,
                    title=f"{self.title}, {group}" if group else self.title,
                    columns=[replace(self.columns[k], group="") for k in places],
                    rows={row: [cells[k] for k in places] for row, cells in self.rows.items()},
                )
            )
        return made

    # -- writing -----------------------------------------------------------------------------------

    def markdown(self) -> str:
        headings = [f"{c.group} {c.heading}".strip() for c in self.columns]
        lines = [f"### {self.title}", "", _pipes([self.corner, *headings])]
        lines.append(_pipes(["---", *("---:" for _ in headings)]))
        ranks = [self.marks(k) for k in range(len(self.columns))]
        wrap = {"best": "**{}**", "second": "<u>{}</u>", "": "{}"}
        for row, cells in self.rows.items():
            shown = []
            for column, cell, rank in zip(self.columns, cells, ranks, strict=True):
                text = wrap[rank.get(row, "")].format(show(cell, column))
                beside = show_published(cell, column)
                shown.append(f"{text} [{beside}]" if beside else text)
            lines.append(_pipes([row, *shown]))
        return "\n".join([*lines, "", *(f"{note}\n" for note in self.notes)])

    def latex(self) -> str:
        """A tabular with the paper's layout: groups of columns under one heading each."""
        groups = [c.group for c in self.columns]
        runs = [(g, groups.count(g)) for g in dict.fromkeys(groups)]
        lines = [
            f"% {self.title}",
            *(f"% {note}" for note in self.notes),
            rf"\begin{{tabular}}{{l|{'|'.join('r' * count for _, count in runs)}}}",
            r"\hline",
        ]
        if any(groups):
            heads = [rf"\multicolumn{{{n}}}{{c}}{{{escape(g)}}}" for g, n in runs]
            lines.append(f" & {' & '.join(heads)} \\\\")
        names = [f"{c.name} ({c.unit_latex})" if c.unit_latex else c.name for c in self.columns]
        lines += [f"{self.corner} & {' & '.join(names)} \\\\", r"\hline"]
        ranks = [self.marks(k) for k in range(len(self.columns))]
        wrap = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "": "%s"}
        for row, cells in self.rows.items():
            shown = [
                wrap[rank.get(row, "")] % escape(show(cell, column))
                for column, cell, rank in zip(self.columns, cells, ranks, strict=True)
            ]
            lines.append(f"{escape(row)} & {' & '.join(shown)} \\\\")
        return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])

    def csv(self) -> str:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        heads = ("mean", "std", "n", "mark", "text", "published_mean", "published_std")
        writer.writerow([self.corner, "group", "column", *heads])
        ranks = [self.marks(k) for k in range(len(self.columns))]
        for row, cells in self.rows.items():
            for column, cell, rank in zip(self.columns, cells, ranks, strict=True):
                claimed = cell.published
                writer.writerow(
                    [
                        *(row, column.group, column.name),
                        *("" if v is None else repr(v) for v in (cell.mean, cell.std)),
                        *(len(cell.values), rank.get(row, ""), cell.text or ""),
                        *((repr(claimed.mean), repr(claimed.std)) if claimed else ("", "")),
                    ]
                )
        return buffer.getvalue()


def show(cell: Cell, column: Column) -> str:
    """A cell's own value: mean ± std."""
    if cell.text is not None:
        return cell.text
    if cell.mean is None:
        return "–"
    text = number(cell.mean, column)
    return text if cell.std is None else f"{text} ± {number(cell.std, column)}"


def show_published(cell: Cell, column: Column) -> str:
    """The paper's value in the same unit, or nothing."""
    if cell.published is None:
        return cell.beside
    text = number(cell.published.mean, column)
    std = cell.published.std
    return text if math.isnan(std) else f"{text} ± {number(std, column)}"


def number(value: float, column: Column) -> str:
    """A value in its column's unit and digits."""
    return f"{value * column.scale:.{column.digits}f}"


def escape(text: str) -> str:
    """Text for LaTeX."""
    for plain, latex in (("%", r"\%"), ("_", r"\_"), ("±", r"$\pm$"), ("α", r"$\alpha$")):
        text = text.replace(plain, latex)
    for plain, latex in (("–", "--"), (">", "$>$"), ("<", "$<$"), ("×", r"$\times$")):
        text = text.replace(plain, latex)
    return text


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write(tables: Sequence[ResultTable], folder: Path, name: str) -> list[Path]:
    """The tables as NAME.md, NAME.csv and NAME.tex; several go into one file, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "md": "\n".join(t.markdown() for t in tables),
        "tex": "\n".join(t.latex() for t in tables),
        "csv": "\n".join(t.csv() for t in tables),
    }
    paths = []
    for ending, text in texts.items():
        path = folder / f"{name}.{ending}"
        write_atomically(path, text.encode())
        paths.append(path)
    return paths
