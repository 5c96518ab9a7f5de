"""What a search may try, what it proposes, and what counts as found; nothing is trained here."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkf.core.errors import FedkfError, UserError
from fedkf.runs import suite
from fedkf.runs.proposals import propose
from fedkf.runs.search import tuned
from fedkf.runs.space import Interval, Search, read_search
from fedkf.runs.trials import Trial, best, read_trials, write_trials

GRID = "base: digits\ngrid: {algorithm.name: [fedavg, fedprox], federation.seed: [0, 1]}\n"
LR = "common: {federation.lr: {low: 0.01, high: 1, log: true}}"


def read(folder: Path, search: str, grid: str = GRID) -> Search:
    path = folder / "suite.yaml"
    path.write_text(f"{grid}search: {{{search}}}\n")
    found = read_search(suite.read(path))
    assert found is not None
    return found


def found_after(search: Search, study: int, values: list[float | None]) -> list[Trial]:
    """The trials of a study whose values come in this order."""
    trials: list[Trial] = []
    for number, value in enumerate(values, 1):
        parameters = propose(search, search.studies[study], trials)
        failed = "" if value is not None else "diverged"
        trials.append(Trial(number, parameters, value, failed))
    return trials


def test_all_algorithms_have_the_same_budget_and_seeds_of_their_own(tmp_path: Path) -> None:
    text = "space: {fedprox: {algorithm.mu: {low: 0, high: 1}}}"
    search = read(tmp_path, f"trials: 30, rounds: 3, {LR}, {text}")
    assert [search.budget(study) for study in search.studies] == [30, 30]
    assert [list(study.space) for study in search.studies] == [
        ["federation.lr"],
        ["federation.lr", "algorithm.mu"],
    ]
    assert search.seeds == [1000]
    config = search.config(search.studies[1], {"federation.lr": 0.5, "algorithm.mu": 0.25}, 1000)
    assert (config.federation.seed, config.data.seed, config.federation.rounds) == (1000, 1000, 3)
    assert (config.federation.lr, config.algorithm.model_dump()["mu"]) == (0.5, 0.25)


def test_automatic_seeds_avoid_those_of_runs_and_of_data(tmp_path: Path) -> None:
    grid = GRID.replace("[0, 1]}", "[1000, 7], data.seed: [1001]}")
    assert read(tmp_path, LR, grid).seeds == [1002]


def test_each_place_of_the_grid_is_tuned_for_itself(tmp_path: Path) -> None:
    grid = GRID.replace("]}", "], data.alpha: [1, 0.1]}")
    names = [study.name for study in read(tmp_path, LR, grid).studies]
    assert names == ["fedavg,alpha=1", "fedavg,alpha=0.1", "fedprox,alpha=1", "fedprox,alpha=0.1"]


def test_whole_numbers_are_searched_where_only_they_are_taken(tmp_path: Path) -> None:
    space = "federation.local_epochs: {low: 1, high: 4}, federation.momentum: {low: 0, high: 0.9}"
    axes = read(tmp_path, f"common: {{{space}}}").studies[0].space
    assert axes["federation.local_epochs"] == Interval(1, 4, whole=True)
    assert axes["federation.momentum"] == Interval(0, 0.9)


def test_the_first_trial_is_the_suites_own_setting_where_the_space_has_it(tmp_path: Path) -> None:
    own = read(tmp_path, LR).studies[0].own
    assert propose(read(tmp_path, LR), read(tmp_path, LR).studies[0], []) == own
    other = read(tmp_path, "common: {federation.lr: {low: 0.5, high: 1}}")
    assert 0.5 <= propose(other, other.studies[0], [])["federation.lr"] <= 1


def test_proposals_follow_from_the_trials_before_and_from_nothing_else(tmp_path: Path) -> None:
    search = read(tmp_path, f"trials: 40, {LR}")
    values: list[float | None] = [0.1, 0.5, None, 0.4, 0.6, 0.2, 0.3, 0.7, 0.5, 0.6, 0.1, 0.2, 0.9]
    trials = found_after(search, 0, values)
    write_trials(tmp_path, search, {"fedavg": trials, "fedprox": []})
    restored = read_trials([tmp_path], search)["fedavg"]
    assert restored == trials
    for k in range(len(trials)):
        assert propose(search, search.studies[0], restored[:k]) == trials[k].parameters
    others = found_after(search, 0, values[::-1])
    assert [t.parameters for t in others] != [t.parameters for t in trials]  # values count
    assert len({trial.parameters["federation.lr"] for trial in trials}) == len(trials)


def test_the_sampler_keeps_away_from_what_failed(tmp_path: Path) -> None:
    text = "objective: {metric: fm}, common: {federation.lr: {low: 0.01, high: 1}}"
    search = read(tmp_path, f"trials: 60, {text}")
    trials: list[Trial] = []
    for number in range(1, 41):
        parameters = propose(search, search.studies[0], trials)
        lr = parameters["federation.lr"]
        trials.append(Trial(number, parameters, abs(lr - 0.3) if lr < 0.5 else None))
    late = [trial.parameters["federation.lr"] for trial in trials[20:]]
    assert sum(lr < 0.5 for lr in late) >= 18


def test_of_a_few_settings_each_is_tried_once(tmp_path: Path) -> None:
    space = "federation.lr: [0.3, 0.1], federation.local_epochs: {low: 1, high: 2}"
    few = read(tmp_path, f"trials: 20, common: {{{space}}}")
    assert [few.budget(study) for study in few.studies] == [4, 4]
    settings = [tuple(t.parameters.values()) for t in found_after(few, 0, [0.1] * 4)]
    assert sorted(settings) == [(0.1, 1), (0.1, 2), (0.3, 1), (0.3, 2)]
    less = read(tmp_path, f"trials: 3, common: {{{space}}}")
    settings = [tuple(t.parameters.values()) for t in found_after(less, 0, [0.1] * 3)]
    assert len(set(settings)) == 3


def test_choices_may_be_of_any_kind(tmp_path: Path) -> None:
    search = read(tmp_path, "trials: 2, common: {federation.steps: [own, equal, 3]}")
    first, second = (t.parameters["federation.steps"] for t in found_after(search, 0, [0.1, 0.2]))
    assert (first, second in ("own", 3)) == ("equal", True)  # digits has equal


@pytest.mark.parametrize(
    ("objective", "number"), [("{metric: wlp}", 2), ("{metric: fm, readout: aca}", 3)]
)
def test_the_best_is_the_highest_or_lowest_and_the_first_of_equals(
    tmp_path: Path, objective: str, number: int
) -> None:
    search = read(tmp_path, f"objective: {objective}, {LR}")
    values = [None, 0.4, 0.2, 0.4, 0.2]
    winner = best(search, [Trial(k, {}, value) for k, value in enumerate(values, 1)])
    assert winner is not None
    assert winner.number == number


def test_the_comparison_keeps_its_grid_and_takes_the_best_settings(tmp_path: Path) -> None:
    search = read(tmp_path, "trials: 3, space: {fedprox: {algorithm.mu: {low: 0.1, high: 1}}}")
    trials = [Trial(1, {"algorithm.mu": 0.2}, 0.5), Trial(2, {"algorithm.mu": 0.7}, 0.6)]
    plans = tuned(search, {"fedavg": [Trial(1, {}, 0.5)], "fedprox": trials})
    names = ["fedavg,seed=0", "fedavg,seed=1", "fedprox,seed=0,trial=2", "fedprox,seed=1,trial=2"]
    assert [plan.name for plan in plans] == names
    assert [p.config.federation.seed for p in plans] == [0, 1, 0, 1]
    assert {p.config.data.seed for p in plans} == {0}
    assert plans[3].config.algorithm.model_dump() == {"name": "fedprox", "mu": 0.7}
    assert plans[3].point == {"algorithm.name": "fedprox", "federation.seed": 1}
    with pytest.raises(FedkfError, match="no trial of fedprox succeeded, the first: NaN"):
        tuned(search, {"fedavg": [Trial(1, {}, 0.5)], "fedprox": [Trial(1, {}, failed="NaN")]})


def test_a_search_may_grow_but_not_change(tmp_path: Path) -> None:
    search = read(tmp_path, f"trials: 2, {LR}")
    trials = found_after(search, 0, [0.1, None])
    write_trials(tmp_path, search, {"fedavg": trials, "fedprox": []})
    assert read_trials([tmp_path], read(tmp_path, f"trials: 5, {LR}"))["fedavg"] == trials
    alone = GRID.replace("fedavg, fedprox", "fedprox")
    write_trials(tmp_path, read(tmp_path, f"trials: 2, {LR}", alone), {"fedprox": []})
    assert read_trials([tmp_path / "none", tmp_path], search)["fedavg"] == trials
    for text, sentence in (
        (f"trials: 1, {LR}", "it may only grow"),
        (f"trials: 2, seeds: [5], {LR}", "another `seeds`"),
        (f"trials: 2, rounds: 3, {LR}", "another `rounds`"),
        (f"trials: 2, objective: {{metric: wlp}}, {LR}", "another `objective`"),
        ("trials: 2, common: {federation.lr: {low: 0.01, high: 2}}", "another `space`"),
    ):
        with pytest.raises(UserError, match=sentence):
            read_trials([tmp_path], read(tmp_path, text))
    other = GRID.replace("base: digits", "base: {config: digits, data.alpha: 9}")
    with pytest.raises(UserError, match="another `settings` for fedavg"):
        read_trials([tmp_path], read(tmp_path, f"trials: 2, {LR}", other))


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    search = read(tmp_path, LR)
    write_trials(tmp_path, search, {"fedavg": found_after(search, 0, [0.5]), "fedprox": []})
    path = tmp_path / "search.json"
    for old, new, what in (
        ('"value": 0.5', '"value": "much"', "value must be a finite number"),
        ('"studies"', '"studios"', "studies is missing"),
        ("{", "", "is no JSON"),
    ):
        text = path.read_text()
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(FedkfError, match=what) as error:
            read_trials([tmp_path], search)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)
        path.write_text(text)


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        ("common: {}", "name nothing that could be searched"),
        ("trails: 3", "no key 'trails'; did you mean 'trials'?"),
        (f"trials: 0, {LR}", "search.trials is 0; it must be a whole number from 1"),
        (f"trials: many, {LR}", "search.trials is 'many'"),
        (f"rounds: 1.5, {LR}", "search.rounds is 1.5"),
        (f"objective: amp, {LR}", "search.objective is 'amp'; it must hold keys"),
        (f"objective: {{metrics: amp}}, {LR}", "it takes metric and readout"),
        (f"objective: {{metric: loss}}, {LR}", "it must be one of amp, fm, wlp"),
        (f"objective: {{readout: personal}}, {LR}", "it must be one of oca, aca"),
        (f"seeds: 5, {LR}", "search.seeds is 5; it must be a list, such as [1000]"),
        (f"seeds: [-1], {LR}", "-1 must be a whole number of at least 0"),
        (f"seeds: [5, 1], {LR}", "1 is a seed of the comparison, which a search must not see"),
        (f"seeds: [5, 5], {LR}", "no seed may be there twice"),
        ("space: {fedporx: {algorithm.mu: [1]}}", "did you mean 'fedprox'?"),
        ("space: {fedkf: {algorithm.gamma: [1]}}", "no algorithm 'fedkf' in this suite"),
        ("space: {fedprox: [1]}", "search.space.fedprox is [1]; it must hold keys"),
        ("space: {fedprox: {algorithm.muu: [1]}}", "did you mean 'mu'?"),
        ("common: {federation.rate: [1]}", "no key 'federation.rate'"),
        ("common: {algorithm.mu: [1]}", "search: algorithm.mu: fedavg has no hyperparameters"),
        ("common: {federation.lr: [-1]}", "search: federation.lr is -1; it must be"),
        ("common: {federation.lr: {low: -1, high: 1}}", "search: federation.lr is -1; it must be"),
        ("common: {federation.lr: []}", "it must be a list of values or an interval"),
        ("common: {federation.lr: {low: 1}}", "it must be a list of values or an interval"),
        ("common: {federation.lr: {low: 1, high: 1}}", "must be low < high"),
        ("common: {federation.lr: {low: a, high: b}}", "must be low < high"),
        ("common: {federation.lr: [1, 1]}", "1 is there twice"),
        ("common: {federation.momentum: {low: 0, high: 0.5, log: true}}", "if low is above 0"),
        ("common: {federation.seed: [7]}", "says what is compared"),
        ("common: {data.alpha: [7]}", "says what is compared"),
        ("common: {federation.rounds: [7]}", "says what is compared"),
        ("common: {algorithm.name: [fedavg]}", "says what is compared"),
        ("common: {federation.fraction: [0.5]}", "federation.fraction is in the grid, too"),
        (f"trials: 1000, seeds: [5, 6, 7, 8, 9, 10], {LR}", "it makes 12,000 runs"),
    ],
)
def test_mistakes_are_sentences(tmp_path: Path, search: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, search, GRID.replace("]}", "], federation.fraction: [0.2]}"))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
