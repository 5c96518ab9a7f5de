"""What of the paper can be asked for: the runs behind it, and what is made of them.

The runs have the same names whatever they are asked for, so that one folder serves all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fedkf.charts.chart import Axis
from fedkf.charts.labels import algorithm_label
from fedkf.core.holdings import Partition
from fedkf.paper import analyses, figures, findings, flamby, pace, published, sites, speed
from fedkf.paper.analyses import CURVES_ALPHA, by_config
from fedkf.paper.experiment import Experiment, Report, only_tables
from fedkf.paper.grid import ROW, label, solution
from fedkf.paper.published import DATA, Published
from fedkf.paper.scales import Scale, installed, main_plans, plans
from fedkf.paper.tables import Cell, Column, ResultTable
from fedkf.runs.collect import READOUTS, Group
from fedkf.runs.suite import Plan

AMP = Axis("AMP", percent=True)
SWEPT = ("fedavg", "fedkf-")
"""What the selection rate is varied for: the paper's FedAvg, and FedKF at the same bytes."""


def timed(groups: Sequence[Group], scale: Scale, folder: Path) -> Report:
    """Time to the target, with what was measured of each method's rounds."""
    return Report(speed.time_to_target(groups, scale, pace.read(folder.parent)))


# -- which runs ------------------------------------------------------------------------------------


at_one_alpha = partial(main_plans, alphas=[CURVES_ALPHA])
fedavg_only = partial(main_plans, methods=["fedavg"], alphas=[CURVES_ALPHA])
t1_and_t2 = partial(main_plans, methods=["fedavg", "fedkf-", "fedkf"])


def tuning_plans(scale: Scale) -> list[Plan]:
    made: list[Plan] = []
    here, _ = installed(list(scale.tuning))
    for algorithm in here:
        option, values = scale.tuning[algorithm]
        grid = {ROW: [algorithm], f"algorithm.{option}": values, "data.alpha": [CURVES_ALPHA]}
        made += plans(scale, grid)
    return made


def alpha_sweep_plans(scale: Scale) -> list[Plan]:
    grid: dict[str, Sequence[Any]] = {
        ROW: ["fedavg"],
        "data.clients": scale.clients,
        "data.alpha": scale.sweep_alphas,
        "federation.fraction": [0.2, 1.0],
    }
    return plans(scale, grid)


def rate_sweep_plans(scale: Scale) -> list[Plan]:
    methods, _ = installed(SWEPT)
    one: dict[str, Sequence[Any]] = {ROW: methods, "data.alpha": [CURVES_ALPHA]}
    return plans(scale, {**one, "federation.fraction": scale.rates})


def no_runs(scale: Scale) -> list[Plan]:
    return []


# -- what is made of them --------------------------------------------------------------------------


def histories(groups: Sequence[Group], methods: Sequence[str] | None = None) -> figures.Histories:
    """Every seed's rounds by algorithm and readout, of all algorithms unless some are named."""
    return {
        (algorithm_label(g.point[ROW]), readout): [run.rounds for run in g.runs]
        for g in groups
        for readout in READOUTS
        if g.runs and (methods is None or g.point[ROW] in methods)
    }


def curves(groups: Sequence[Group], scale: Scale, folder: Path) -> Report:
    """AMP, FM and WLP against rounds, a figure a data set."""
    report = Report(text=[scale.about])
    for config, members in by_config(groups).items():
        found = histories(members)
        if found:
            title = f"{DATA.get(config, config)}, α = {CURVES_ALPHA}"
            report.figures += figures.write(
                figures.curves(found, title), folder / f"curves-{config}"
            )
    return report


def t1(groups: Sequence[Group], scale: Scale, folder: Path) -> Report:
    """FedAvg with and without T1: a table, and AMP against rounds."""
    report = Report(analyses.t1(groups, scale))
    for config, members in by_config(groups).items():
        if found := histories(members, ["fedavg"]):
            title = f"FedAvg with and without T1, {DATA.get(config, config)}, α = {CURVES_ALPHA}"
            drawn = figures.curves(found, title, ["amp"])
            report.figures += figures.write(drawn, folder / f"t1-{config}")
    return report


def drift(groups: Sequence[Group], scale: Scale, folder: Path) -> Report:
    """How far clients drift: a table, and the drift against rounds."""
    report = Report(analyses.drift(groups, scale))
    parts: dict[str, dict[str, Any]] = {}
    for config, members in by_config(groups).items():
        for group in members:
            each = [values for run in group.runs if (values := analyses.drifts(run))]
            if each:
                mean = [sum(v) / len(v) for v in zip(*each, strict=False)]
                name = algorithm_label(group.point[ROW])
                places = list(range(1, len(mean) + 1))
                parts.setdefault(DATA.get(config, config), {})[name] = (places, mean)
    if parts:
        x, y = Axis("round", whole=True), Axis("‖w_k − w‖")
        drawn = figures.panels(parts, f"Drift, α = {CURVES_ALPHA}", x, y)
        report.figures = figures.write(drawn, folder / "drift")
    else:
        report.text.append("these records are from before drift was recorded")
    return report


def _mean(group: Group, readout: str) -> float | None:
    values = group.values(readout, "amp")
    return sum(values) / len(values) if values else None


def alpha_sweep(groups: Sequence[Group], scale: Scale, folder: Path) -> Report:
    """AMP against α: a figure with a panel for each number of clients, and a table."""
    report = Report(text=[scale.about])
    tables = []
    for config, members in by_config(groups).items():
        parts: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
        for group in members:
            clients, rate = group.point["data.clients"], group.point["federation.fraction"]
            for readout in READOUTS:
                # With all clients active, OCA and ACA are the same model.
                name = f"{readout.upper()}, C = {rate:g}" if rate < 1 else "all clients, C = 1"
                mean = _mean(group, readout)
                if mean is not None and not (rate == 1 and readout == "oca"):
                    x, y = parts.setdefault(f"K = {clients}", {}).setdefault(name, ([], []))
                    x.append(group.point["data.alpha"])
                    y.append(mean)
        title = f"AMP of FedAvg against α, {DATA.get(config, config)}"
        if parts:
            drawn = figures.panels(parts, title, Axis("α", logarithmic=True), AMP)
            report.figures += figures.write(drawn, folder / f"alpha-sweep-{config}")
        tables.append(_amp_table(title, members, scale))
    report.tables = tables
    return report


def rate_sweep(groups: Sequence[Group], scale: Scale, folder: Path) -> Report:
    """AMP against the selection rate: a figure and a table."""
    report = Report(text=[scale.about])
    tables, parts = [], dict[str, dict[str, tuple[list[float], list[float]]]]()
    for config, members in by_config(groups).items():
        data = DATA.get(config, config)
        for group in members:
            for readout in READOUTS:
                if (mean := _mean(group, readout)) is not None:
                    name = solution(group.point[ROW], readout)
                    x, y = parts.setdefault(data, {}).setdefault(name, ([], []))
                    x.append(100 * group.point["federation.fraction"])
                    y.append(mean)
        title = f"AMP against the selection rate, {data}, α = 0.1"
        tables.append(_amp_table(title, members, scale))
    if parts:
        title = "AMP with and without T1"
        drawn = figures.panels(parts, title, Axis("selection rate (%)"), AMP)
        report.figures = figures.write(drawn, folder / "rate-sweep")
    report.tables = tables
    return report


def _amp_table(title: str, groups: Sequence[Group], scale: Scale) -> ResultTable:
    """Readouts across, the grid's points down."""
    varied = [
        key
        for key in groups[0].point
        if key != "config" and len({g.point[key] for g in groups}) > 1
    ]
    rows = {
        ", ".join(
            algorithm_label(g.point[key]) if key == ROW else label(key, g.point[key])
            for key in varied
        ): [Cell(g.values(readout, "amp")) for readout in READOUTS]
        for g in groups
    }
    columns = [
        Column("", f"AMP {r.upper()}", 100, 2, ranked=False, unit="%", unit_latex=r"\%")
        for r in READOUTS
    ]
    return ResultTable(title, "setting", columns, rows, [scale.about])


def operations(groups: Sequence[Group], scale: Scale, folder: Path) -> Report:
    """Passes through the models for each batch, measured by hooks, beside the paper's count."""
    from fedkf import algorithms
    from fedkf.paper.operations import measure

    here, _ = installed(scale.methods)
    heads = ("classifier_forward", "classifier_backward", "generator_forward", "generator_backward")
    rows = {}
    for name in here:
        kind = algorithms.get(name)
        passes = measure(kind.create(kind.fidelity.get("released", {})))["passes"]
        claimed = published.operations().get(name)
        rows[algorithm_label(name)] = [
            Cell((passes[head],), Published(claimed[head], float("nan")) if claimed else None)
            for head in heads
        ]
    columns = [
        Column(part, way, digits=1, ranked=False)
        for part, way in (head.split("_") for head in heads)
    ]
    note = "Measured on a tiny model (fidelity: released); in brackets what the paper counts."
    title = "Passes for each batch of local data"
    return Report([ResultTable(title, "algorithm", columns, rows, [note])])


def heterogeneity(groups: Sequence[Group], scale: Scale, folder: Path) -> Report:
    """Who holds how much of which class, for three α."""
    from fedkf.data.describe import describe
    from fedkf.report.figures import partition_figure
    from fedkf.runs.setup import load_source, make_data, settle

    report = Report()
    tables: list[ResultTable] = []
    for config in scale.configs:
        rows = {}
        for plan in main_plans(scale, ["fedavg"]):
            point = plan.point
            if point["config"] != config or point["federation.seed"] != scale.seeds[0]:
                continue
            source = load_source(plan.config)
            about = describe(make_data(settle(plan.config, source), source))
            name = f"heterogeneity-{config}-alpha-{point['data.alpha']:g}"
            drawn = partition_figure(Partition.read(about))
            report.figures += figures.write(drawn, folder / name)
            sizes = [client["train"] for client in about["clients"]]
            rows[f"α = {point['data.alpha']:g}"] = [
                Cell((about["total_variation"],)),
                Cell((about["effective_classes"],)),
                Cell((float(min(sizes)),)),
                Cell((float(max(sizes)),)),
            ]
        columns = [
            Column("", "heterogeneity", ranked=False),
            Column("", "effective classes", digits=1, ranked=False),
            Column("", "smallest client", digits=0, ranked=False),
            Column("", "largest client", digits=0, ranked=False),
        ]
        note = "Heterogeneity: 0 if all clients' labels are alike, 1 if nothing is shared."
        title = f"How the data is divided, {DATA.get(config, config)}"
        tables.append(ResultTable(title, "partition", columns, rows, [note]))
    report.tables = tables
    return report


def judged(groups: Sequence[Group], scale: Scale, folder: Path) -> Report:
    """F1 to F6 on the published numbers, then on ours."""
    parts = [("the paper's own numbers", findings.judge_published())]
    scores = analyses.scores(groups)
    parts += [
        (f"our runs on {DATA.get(config, config)}", findings.judge(scores, [config]))
        for config in scale.configs
    ]
    tables: list[ResultTable] = []
    for name, verdicts in parts:
        rows = {
            v.finding: [Cell(text=v.verdict), Cell(text=v.counts), Cell(text=v.claim)]
            for v in verdicts
        }
        columns = [Column("", n, ranked=False) for n in ("verdict", "agree", "claim")]
        notes = [f"{v.finding}: {v.rule}." for v in verdicts] if not tables else [scale.about]
        tables.append(ResultTable(f"Findings judged by {name}", "", columns, rows, notes))
    return Report(tables)


EXPERIMENTS: Mapping[str, Experiment] = {
    "performance": Experiment(
        "the three large tables: AMP, FM and WLP for three α",
        main_plans,
        only_tables(analyses.performance),
    ),
    "rounds-to-target": Experiment(
        "rounds to the AMP of FedAvg", at_one_alpha, only_tables(speed.rounds_to_target)
    ),
    "time": Experiment("time of all rounds", at_one_alpha, only_tables(speed.time)),
    "time-to-target": Experiment(
        "time to the AMP of FedAvg, measured while nothing else runs", at_one_alpha, timed
    ),
    "bytes-to-target": Experiment(
        "data sent to the AMP of FedAvg", at_one_alpha, only_tables(speed.bytes_to_target)
    ),
    "operations": Experiment("passes for each batch", no_runs, operations),
    "robustness": Experiment(
        "change from round to round", at_one_alpha, only_tables(analyses.robustness)
    ),
    "drift": Experiment("how far clients drift from the global model", at_one_alpha, drift),
    "t1": Experiment("FedAvg with and without T1", fedavg_only, t1, False),
    "ablation": Experiment(
        "T1 and T2, alone and together", t1_and_t2, only_tables(analyses.ablation), False
    ),
    "tuning": Experiment("the baselines' grids", tuning_plans, only_tables(analyses.tuning)),
    "heterogeneity": Experiment(
        "who holds which classes, for three α", no_runs, heterogeneity, False
    ),
    "curves": Experiment("AMP, FM and WLP against rounds", at_one_alpha, curves),
    "alpha-sweep": Experiment(
        "FedAvg's AMP against α, K and C", alpha_sweep_plans, alpha_sweep, False
    ),
    "rate-sweep": Experiment(
        "FedAvg's and FedKF-'s AMP against C", rate_sweep_plans, rate_sweep, False
    ),
    "findings": Experiment("F1 to F6, on the paper's numbers and on ours", main_plans, judged),
    "sites": Experiment(
        "seven federations of people, patients, hospitals, wards and styles",
        sites.site_plans,
        only_tables(sites.tables),
        scales=sites.SCALES,
        here=sites.those_here,
    ),
    "flamby": Experiment(
        "two federations of hospitals with FLamby's protocol, beside its numbers",
        flamby.flamby_plans,
        only_tables(flamby.tables),
        scales=flamby.SCALES,
        here=sites.those_here,
    ),
}
