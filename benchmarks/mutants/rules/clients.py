"""Wrong rules on the clients."""

from catalogue import Rules, oracles

OWN = "tests/algorithms/test_{}.py".format

MODULES = {
    "scaffold": Rules(
        "algorithms/scaffold.py",
        oracles("scaffold"),
        [
            (
                "c_k⁺ without − c",
                "lambda k, c, d: k - c + d / rate",
                "lambda k, c, d: k + d / rate",
            ),
            ("server_lr ignored", "mean, self.server_lr)", "mean, 1.0)"),
            (
                "momentum not wired",
                "effective_steps(client.steps, training.momentum)",
                "client.steps",
            ),
            (
                "no correction of the steps",
                "return plain(x, y) + sum((p * c).sum() for p, c in pairs)",
                "return plain(x, y)",
            ),
            (
                "correction turned round",
                'correction = subtract(down["control"], own_control(client, down))',
                'correction = subtract(own_control(client, down), down["control"])',
            ),
            ("c moves by the mean change", "c + share * d", "c + d"),
            (
                "clients count by size",
                'mean = weighted_mean((1, u["weights"]) for u in uploads)',
                'mean = weighted_mean((u.size, u["weights"]) for u in uploads)',
            ),
            ("c_k is not kept", "        client.state = Payload(control=new)\n", ""),
            (
                "option I: no steps in the rate",
                "rate = training.lr * effective",
                "rate = 1.0 * effective",
            ),
        ],
    ),
    "fedprox": Rules(
        "algorithms/fedprox.py",
        oracles("fedprox"),
        [
            ("no term", "plain(x, y) + self.mu / 2 * distance", "plain(x, y)"),
            ("μ for μ/2", "self.mu / 2 * distance", "self.mu * distance"),
            ("pulled to the origin", "(p - w).square().sum()", "p.square().sum()"),
            ("not squared", "(p - w).square().sum()", "(p - w).abs().sum()"),
            ("pushed away", "plain(x, y) + self.mu", "plain(x, y) - self.mu"),
            ("pulled to where it is", "(p, p.detach().clone())", "(p, p.detach())"),
        ],
    ),
    "perfedavg": Rules(
        "algorithms/perfedavg.py",
        oracles("perfedavg"),
        [
            (
                "the personal step on test data",
                'batch = next(client.batches("personal step"), None)',
                "batch = client.data.test_images, client.data.test_labels",
            ),
            (
                "D′ is D",
                "moved(parameters, inner, -self.personal_lr), others[0])",
                "moved(parameters, inner, -self.personal_lr), own)",
            ),
            (
                "D″ is D",
                "self.corrected(client, parameters, loss, others[1])",
                "self.corrected(client, parameters, loss, own)",
            ),
            (
                "D″ is D′",
                "self.corrected(client, parameters, loss, others[1])",
                "self.corrected(client, parameters, loss, others[0])",
            ),
            (
                "no inner step",
                "moved(parameters, inner, -self.personal_lr), others[0])",
                "parameters, others[0])",
            ),
            ("the inner step climbs", "inner, -self.personal_lr)", "inner, self.personal_lr)"),
            (
                "clients count by size",
                'weighted_mean((1, u["weights"]) for u in uploads)',
                'weighted_mean((u.size, u["weights"]) for u in uploads)',
            ),
            (
                "no second derivative",
                "(p * (v - self.personal_lr * (a - b) / (2 * self.delta))).sum()",
                "(p * v).sum()",
            ),
            ("half the difference", "(a - b) / (2 * self.delta)", "(a - b) / self.delta"),
            (
                "no personal step",
                "parameter.sub_(self.personal_lr * step)",
                "parameter.sub_(0 * step)",
            ),
        ],
    ),
    "pfedme": Rules(
        "algorithms/pfedme.py",
        oracles("pfedme", OWN("pfedme")),
        [
            ("no spring", "plain(x, y) + self.penalty / 2 * distance", "plain(x, y)"),
            ("λ for λ/2", "self.penalty / 2 * distance", "self.penalty * distance"),
            (
                "the run's rate for θ",
                '        client.optimizer.param_groups[0]["lr"] = self.personal_lr\n',
                "",
            ),
            ("one personal step", "for _ in range(self.personal_steps):", "for _ in range(1):"),
            ("w_k jumps to θ", "w.sub_(rate * (w - p))", "w.copy_(p)"),
            ("β ignored", "mean, self.beta)", "mean, 1.0)"),
            (
                "clients count by size",
                'weighted_mean((1, u["weights"]) for u in uploads)',
                'weighted_mean((u.size, u["weights"]) for u in uploads)',
            ),
            (
                "θ goes up",
                'return upload.replace(weights={**upload["weights"], **local})',
                "return upload",
            ),
            (
                "the shared model is judged as personal",
                'client.state["personal"] if client.state else readouts["aca"]',
                'readouts["aca"]',
            ),
            (
                "overshooting is let through",
                "if lr * self.penalty >= 1:",
                "if lr * self.penalty > 1:",
            ),
        ],
    ),
    "local": Rules(
        "algorithms/local.py",
        oracles("alone", OWN("local_alone")),
        [
            (
                "begins at what came down",
                "Payload(weights=own(client))",
                'Payload(weights=down["weights"])',
            ),
            ("forgets its model", '        client.state = Payload(own=upload["weights"])\n', ""),
            (
                "always begins anew",
                'client.state["own"] if client.state else',
                "client.task.initial_weights if client.state else",
            ),
            (
                "judged by the shared model",
                "mine.add(name, own(client))",
                "mine.add(name, down[name])",
            ),
            (
                "judged by w⁰",
                "mine.add(name, own(client))",
                "mine.add(name, client.task.initial_weights)",
            ),
            (
                "keeps what came down",
                'Payload(own=upload["weights"])',
                'Payload(own=down["weights"])',
            ),
        ],
    ),
}
