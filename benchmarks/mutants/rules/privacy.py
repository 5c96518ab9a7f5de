"""Wrong rules of privacy, each of which would void the promise or overstate the noise."""

from catalogue import Rules

MODULES = {
    "privacy": Rules(
        "core/privacy.py",
        ["tests/core/test_privacy.py"],
        [
            ("no noise", "total[name] + deviation * noise", "total[name] + 0 * noise"),
            (
                "noise that knows nothing of the clip",
                "self.mechanism.noise * self.privacy.clip",
                "self.mechanism.noise",
            ),
            (
                "noise on the mean",
                "(total[name] + deviation * noise) / expected",
                "total[name] / expected + deviation * noise",
            ),
            (
                "divided by the batch as it came",
                "whole * self.mechanism.rate",
                "max(1, len(index))",
            ),
            (
                "batches of one size",
                "self.chance.uniform(count) < rate",
                "self.chance.uniform(count).argsort() < rate * count",
            ),
            ("a unit counts by its samples", "1 / own.bincount()[own]", "torch.ones(len(own))"),
            (
                "a batch can be opened twice",
                "index, self._index = self._index, None",
                "index = self._index",
            ),
            (
                "samples left open",
                'data, client.data = client.data, cast("ClientData", WithheldData())',
                "data = client.data",
            ),
            ("more steps than are paid for", " or len(self.opened) == self.mechanism.steps", ""),
            (
                "secret noise of half the spread",
                "return both[:count].float()",
                "return 0.5 * both[:count].float()",
            ),
            ("terms without samples are not clipped", "if norm > self.privacy.clip:", "if False:"),
        ],
    ),
    "gradients": Rules(
        "core/gradients.py",
        ["tests/core/test_gradients.py", "tests/core/test_privacy.py"],
        [
            (
                "no clipping",
                "(self.clip / squares.sqrt()).clamp(max=1.0)",
                "torch.ones_like(squares)",
            ),
            (
                "short gradients are stretched",
                "(self.clip / squares.sqrt()).clamp(max=1.0)",
                "(self.clip / squares.sqrt())",
            ),
            (
                "shares are forgotten",
                "factor if self.shares is None else factor * self.shares",
                "factor",
            ),
            (
                "a bias has no length",
                "self.each.flatten(1).square().sum(1).double()",
                "torch.zeros(len(self.each)).double()",
            ),
            ("a matrix has the length of its input", ".prod(0).square()", "[1].square()"),
            ("a parameter may be used twice", "not self.seen & {*own}", "True"),
            ("whatever is done to a parameter is fine", "name in LAID_OUT", "True"),
            ("any layer is fine", "make is not None and not", "not"),
            ("no class has to promise", "bool(vars(type(model)).get(APART, False))", "True"),
            (
                "heirs promise, too",
                "vars(type(model)).get(APART, False)",
                "getattr(model, APART, False)",
            ),
        ],
    ),
    "accounting": Rules(
        "runs/accounting.py",
        ["tests/runs/test_accounting.py"],
        [
            (
                "one turn, however many there were",
                "(mechanism, n * mechanism.steps)",
                "(mechanism, mechanism.steps)",
            ),
            (
                "one step, however many a turn has",
                "(mechanism, n * mechanism.steps)",
                "(mechanism, n)",
            ),
            ("everybody is sampled", "if mechanism.rate < 1:", "if mechanism.rate > 1:"),
            (
                "one turn more than there is",
                "self.epsilon(client, 1) <= self.budget",
                "self.epsilon(client) <= self.budget",
            ),
            ("the smaller noise of the two", "return with_noise(high)", "return with_noise(low)"),
            (
                "turns forgotten by a checkpoint",
                'self.turns = {int(client): int(n) for client, n in saved.numbers["turns"].items()}',
                "self.turns = {}",
            ),
        ],
    ),
    "site budget": Rules(
        "flower/budget.py",
        ["tests/flower/test_site_privacy.py"],
        [
            (
                "a turn is not paid for",
                'content["turns"].append({"experiment": experiment, **asdict(mechanism)})',
                "pass",
            ),
            (
                "the turn itself is not counted",
                "limit.experiment, (mechanism,))",
                "limit.experiment)",
            ),
            (
                "a damaged record is an empty one",
                'raise SiteRefusal("its record of what was spent cannot be read") from None',
                "pass",
            ),
            (
                "all experiments count as this one",
                'if experiment in (None, e["experiment"])',
                "if True",
            ),
        ],
    ),
    "evidence": Rules(
        "flower/evidence.py",
        ["tests/flower/test_site_evidence.py"],
        [
            ("fewer turns than were told are fine", "int(count) - have[row(names)]", "0"),
            ("a promise may grow", "[min(pair) for pair in", "[max(pair) for pair in"),
            (
                "a record that is gone told nothing",
                "return LOST if (self.folder / ORDERS).exists() else None",
                "return None",
            ),
            (
                "a line of somebody else tells nothing",
                "        except ValueError:\n            return LOST",
                "        except ValueError:\n            return None",
            ),
        ],
    ),
}
