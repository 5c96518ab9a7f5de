"""The drawings of docs/images: `python docs/tools/pictures.py` writes them.

Each has a ground of its own and follows the reader's light or dark scheme.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "images"
STYLE = """
.ground{fill:#fff}.box{fill:#f4f6f8;stroke:#64748b}.site{fill:#e6f4f1;stroke:#0f766e}
.server{fill:#eef2ff;stroke:#4f46e5}.old{fill:#f1f5f9;stroke:#94a3b8;stroke-dasharray:4 3}
.line{stroke:#475569;fill:none}.dash{stroke:#475569;stroke-dasharray:5 4;fill:none}
.head{fill:#475569}.a{fill:#c2410c;stroke:#c2410c}.b{fill:#0f766e;stroke:#0f766e}
text{fill:#1e293b;font:14px system-ui,sans-serif}.small{font-size:12px;fill:#475569}
.title{font-weight:600}.ta{fill:#c2410c}.tb{fill:#0f766e}
@media (prefers-color-scheme:dark){.ground{fill:#1e2129}.box{fill:#2a2f3a;stroke:#94a3b8}
.site{fill:#12352f;stroke:#2dd4bf}.server{fill:#26264d;stroke:#a5b4fc}
.old{fill:#262b35;stroke:#64748b}.line,.dash{stroke:#cbd5e1}.head{fill:#cbd5e1}
.a{fill:#fb923c;stroke:#fb923c}.b{fill:#2dd4bf;stroke:#2dd4bf}
text{fill:#e2e8f0}.small{fill:#cbd5e1}.ta{fill:#fb923c}.tb{fill:#2dd4bf}}
"""


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, size: tuple[float, float], kind: str, lines: list[str]) -> str:
    """A box with a title and small lines below it."""
    width, height = size
    made = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" class="{kind}"/>'
    for k, line in enumerate(lines):
        made += text(x + width / 2, y + 24 + 19 * k, line, "title" if k == 0 else "small")
    return made


def arrow(start: tuple[float, float], end: tuple[float, float], kind: str = "line") -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<path d="M{x1} {y1}L{x2} {y2}" class="{kind}" marker-end="url(#head)"/>'


def drawing(width: int, height: int, label: str, parts: list[str]) -> str:
    marker = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L8 4L0 8z" class="head"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(label)}">'
        f"<style>{STYLE}</style><defs>{marker}</defs>"
        f'<rect width="{width}" height="{height}" rx="10" class="ground"/>'
        + "\n".join(parts)
        + "</svg>\n"
    )


def data_way() -> str:
    """The data's way through a round."""
    parts = [
        box(20, 90, (200, 150), "server", ["Server", "w: the model", "ŵ: the teacher (OCA)"]),
        text(120, 190, "chooses some sites", "small"),
        text(120, 209, "for this round", "small"),
        box(330, 20, (260, 130), "site", ["Active site", "own samples → L_CE", ""]),
        box(350, 90, (220, 48), "box", ["generator, teacher → KL"]),
        box(330, 170, (260, 60), "site", ["Active site", "the same, on its own data"]),
        box(330, 250, (260, 60), "old", ["Inactive site", "does nothing this round"]),
        box(700, 20, (200, 90), "server", ["ACA", "mean over the active,", "the next w"]),
        box(
            700,
            190,
            (200, 110),
            "server",
            ["OCA (T1)", "mean over all slots:", "the next teacher ŵ"],
        ),
        arrow((220, 135), (328, 80)),
        arrow((220, 165), (328, 200)),
        text(272, 92, "w, ŵ", "small"),
        text(268, 210, "w, ŵ", "small"),
        arrow((590, 75), (698, 60)),
        arrow((590, 200), (698, 85)),
        arrow((590, 110), (698, 220)),
        arrow((590, 215), (698, 245)),
        arrow((590, 282), (698, 275), "dash"),
        text(645, 50, "w_k, n_k", "small"),
        text(646, 303, "its old slot", "small"),
        text(460, 336, "Samples, labels and generators never leave a site.", "tb title"),
    ]
    return drawing(920, 356, "The data's way through a round", parts)


def slots() -> str:
    """T1: a slot for every client, of which a round renews some."""
    parts = [text(30, 34, "T1: the server keeps everybody's latest model", "title", "start")]
    active = {1: (0, 3), 2: (1, 3), 3: (0, 2)}
    filled: dict[int, int] = {}
    for number, chosen in active.items():
        y = 58 + 88 * (number - 1)
        filled |= dict.fromkeys(chosen, number)
        parts.append(text(30, y + 36, f"round {number}", "", "start"))
        for client in range(4):
            when = filled.get(client)
            kind = "site" if client in chosen else "box" if when else "old"
            words = "w⁰" if when is None else f"w{'₁₂₃₄'[client]}, round {when}"
            parts.append(
                box(110 + 132 * client, y, (118, 60), kind, [f"client {client + 1}", words])
            )
        parts.append(arrow((640, y + 30), (690, y + 30)))
        parts.append(
            box(694, y, (196, 60), "server", [f"OCA after round {number}", "Σ n_k · slot_k / N"])
        )
    parts += [
        box(30, 330, (16, 16), "site", []),
        text(54, 343, "active: the slot is renewed", "small", "start"),
        box(250, 330, (16, 16), "box", []),
        text(274, 343, "inactive: the last model counts on", "small", "start"),
        box(510, 330, (16, 16), "old", []),
        text(
            534,
            343,
            "never active: stands in with w⁰ (scope all), or is left out (seen)",
            "small",
            "start",
        ),
    ]
    return drawing(920, 366, "T1's slots over three rounds", parts)


FEDAVG = (0.6429, 0.9444, 0.5385, 1.0, 0.1667, 0.975, 0.8235, 0.5882, 0.7407, 0.9667)
FEDKF = (0.8286, 0.9444, 0.9231, 0.975, 0.8333, 0.975, 0.8824, 0.8824, 0.8519, 1.0)
MEANS = (0.7225, 0.8956)
"""The tutorial's runs: each client's accuracy after 20 rounds of digits (ACA), and AMP."""


def fairness() -> str:
    """Sorted accuracies of the tutorial's two runs, with the metrics where they can be seen."""
    left, right, top, bottom = 80, 640, 40, 330

    def at(rank: float, accuracy: float) -> tuple[float, float]:
        return left + 25 + rank * (right - left - 50) / 9, bottom - accuracy * (bottom - top)

    parts = [
        f'<path d="M{left} {top - 10}V{bottom}H{right}" class="line"/>',
        text(left + 280, bottom + 36, "clients, from the worst served to the best", "small"),
        text(left, top - 18, "accuracy", "small"),
    ]
    parts += [
        text(left - 10, at(0, share / 100)[1] + 4, f"{share} %", "small", "end")
        for share in (0, 25, 50, 75, 100)
    ]
    for values, mean, kind in ((FEDAVG, MEANS[0], "a"), (FEDKF, MEANS[1], "b")):
        level = at(0, mean)[1]
        parts.append(f'<path d="M{left} {level}H{right}" class="dash {kind}" fill="none"/>')
        dots = [at(k, v) for k, v in enumerate(sorted(values))]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in dots)
        parts.append(f'<path d="M{path}" class="{kind}" style="fill:none"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}"/>' for x, y in dots]
    low, high = at(0, min(FEDAVG)), at(0, min(FEDKF))
    parts += [
        text(low[0] + 14, low[1] + 5, "WLP 16.7 %: this client is left behind", "ta", "start"),
        text(high[0] - 4, high[1] + 24, "WLP 82.9 %", "tb", "start"),
        text(right + 14, at(0, MEANS[1])[1] + 5, "FedKF", "tb title", "start"),
        text(right + 14, at(0, MEANS[1])[1] + 24, "AMP 89.6 %, FM 0.0035", "tb", "start"),
        text(right + 14, at(0, MEANS[0])[1] + 5, "FedAvg", "ta title", "start"),
        text(right + 14, at(0, MEANS[0])[1] + 24, "AMP 72.3 %, FM 0.0625", "ta", "start"),
        text(right + 14, at(0, MEANS[0])[1] + 64, "dashed: AMP", "small", "start"),
        text(right + 14, at(0, MEANS[0])[1] + 83, "leftmost dot: WLP", "small", "start"),
        text(right + 14, at(0, MEANS[0])[1] + 102, "the flatter, the fairer: FM", "small", "start"),
    ]
    return drawing(860, 384, "Accuracy of ten clients under FedAvg and FedKF, sorted", parts)


PICTURES = {"round.svg": data_way, "slots.svg": slots, "fairness.svg": fairness}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw())
