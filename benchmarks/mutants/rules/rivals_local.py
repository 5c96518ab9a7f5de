"""Wrong rules in later algorithms that change how clients train."""

from catalogue import Rules

MODULES = {
    "feddyn": Rules(
        "algorithms/feddyn.py",
        ["tests/algorithms/test_feddyn.py"],
        [
            (
                "clients count by size",
                'mean = weighted_mean((1, u["weights"]) for u in uploads)',
                'mean = weighted_mean((u.size, u["weights"]) for u in uploads)',
            ),
            (
                "h is divided by the active clients, not by all",
                "self.alpha * len(uploads) / len(server.sizes)",
                "self.alpha",
            ),
            (
                "the linear term has the wrong sign",
                "return plain(x, y) - linear +",
                "return plain(x, y) + linear +",
            ),
            (
                "the client's gradient is not kept from round to round",
                "lambda g, k, w: g - self.alpha * (k - w)",
                "lambda g, k, w: -self.alpha * (k - w)",
            ),
            (
                "the proximal term counts twice",
                "self.alpha / 2 * distance",
                "self.alpha * distance",
            ),
            ("the server adds h/α", "m - h / self.alpha", "m + h / self.alpha"),
            (
                "buffers are corrected too",
                "new = with_mean_buffers(server, uploads, new)",
                "new = dict(new)",
            ),
            (
                "h forgets the rounds before",
                "lambda h, m, w: h - rate * (m - w)",
                "lambda h, m, w: -rate * (m - w)",
            ),
        ],
    ),
    "fedntd": Rules(
        "algorithms/fedntd.py",
        ["tests/algorithms/test_fedntd.py"],
        [
            (
                "the true class is not left out",
                "return logits[others].view(-1, classes - 1)",
                "return logits",
            ),
            (
                "the temperature is the student's only",
                "(without(taught, labels) / tau).softmax(1)",
                "without(taught, labels).softmax(1)",
            ),
            (
                "the temperature is the teacher's only",
                "without(logits, labels) / tau)",
                "without(logits, labels))",
            ),
            ("β is ignored", "self.beta * kept", "kept"),
            (
                "the teacher is the local model",
                "teacher(x), y, self.tau",
                "logits.detach(), y, self.tau",
            ),
            (
                "KL the other way round",
                "return kl_loss((without(taught, labels) / tau).softmax(1), without(logits, labels) / tau)",
                "return kl_loss((without(logits, labels) / tau).softmax(1), without(taught, labels) / tau)",
            ),
            ("a factor τ²", "return kl_loss(", "return tau**2 * kl_loss("),
        ],
    ),
    "fedlc": Rules(
        "algorithms/fedlc.py",
        ["tests/algorithms/test_fedlc.py"],
        [
            ("logits are raised instead of lowered", "- shift.to(z.dtype)", "+ shift.to(z.dtype)"),
            ("the square root in place of the fourth", "counts**-0.25", "counts**-0.5"),
            ("a positive power", "counts**-0.25", "counts**0.25"),
            ("τ is ignored", "self.tau * counts", "counts"),
            ("shares in place of counts", ".double()\n", ".double() / client.size\n"),
            ("an absent class counts as one sample", "= self.absent", "= 1"),
            (
                "rare classes count as absent ones, too",
                "counts[counts == 0] = self.absent",
                "counts = counts.clamp_min(self.absent)",
            ),
        ],
    ),
    "fedsam": Rules(
        "algorithms/fedsam.py",
        ["tests/algorithms/test_fedsam.py"],
        [
            (
                "the perturbation is not normalised",
                "reach = self.rho / norm.clamp_min(1e-12)",
                "reach = self.rho",
            ),
            ("downhill in place of uphill", "p + reach * g", "p - reach * g"),
            (
                "norms tensor by tensor",
                "p + reach * g for",
                "p + self.rho * g / g.norm().clamp_min(1e-12) for",
            ),
            (
                "the model stays where the gradient was taken",
                "            client.step(",
                "            [p.data.add_(reach * g) for p, g in zip(here.values(), ascent)]\n            client.step(",
            ),
            ("batch norm learns from both passes", "with client.aside():", "if True:"),
            ("the squared norm", ".sum().sqrt()", ".sum()"),
        ],
    ),
    "fedcm": Rules(
        "algorithms/fedcm.py",
        ["tests/algorithms/test_fedcm.py"],
        [
            (
                "the direction is not divided by the steps",
                "r=training.lr * n: d / r",
                "r=training.lr: d / r",
            ),
            ("the direction is not divided by the rate", "r=training.lr * n: d / r", "r=n: d / r"),
            ("momentum is not counted", "), training.momentum)", "), 0.0)"),
            ("the whole direction is added", "(1 - self.alpha) * carried", "carried"),
            ("the gradient counts whole", "self.alpha * plain(x, y)", "plain(x, y)"),
            (
                "server_lr is ignored",
                "towards(start, mean, self.server_lr)",
                "towards(start, mean, 1.0)",
            ),
            (
                "the direction points up",
                'subtract(start, u["weights"])',
                'subtract(u["weights"], start)',
            ),
        ],
    ),
    "fedswa": Rules(
        "algorithms/fedswa.py",
        ["tests/algorithms/test_fedswa.py"],
        [
            (
                "the rate reaches its end at the last step",
                "client.steps / steps",
                "client.steps / max(1, steps - 1)",
            ),
            (
                "the rate does not fall",
                "first * (1 - (1 - self.rho) * client.steps / steps)",
                "first",
            ),
            ("the rate falls to 0", "(1 - self.rho) * client.steps", "client.steps"),
            ("the rate falls from step one", "* client.steps /", "* (client.steps + 1) /"),
            (
                "the server takes the mean as it is",
                'new = towards(state["weights"], mean, self.alpha)',
                "new = mean",
            ),
            ("clients count alike", '(u.size, u["weights"]) for u', '(1, u["weights"]) for u'),
            ("buffers are extrapolated", "with_mean_buffers(server, uploads, new)", "new"),
        ],
    ),
    "ditto": Rules(
        "algorithms/ditto.py",
        ["tests/algorithms/test_ditto.py"],
        [
            (
                "personal models begin anew with the shared one",
                'client.state["personal"] if client.state else client.task.initial_weights',
                'down["weights"]',
            ),
            (
                "they are held by the client's new shared model",
                'down["weights"][name].to(p.device)',
                'upload["weights"][name].to(p.device)',
            ),
            ("the penalty counts twice", "self.penalty / 2 * distance", "self.penalty * distance"),
            (
                "a first turn begins at what came down",
                "else client.task.initial_weights",
                'else down["weights"]',
            ),
            (
                "the personal model is sent",
                "        return upload\n",
                '        return upload.replace(weights=client.state["personal"])\n',
            ),
            (
                "the personal readout is the shared model",
                'client.state["personal"] if client.state else readouts["aca"]',
                'readouts["aca"]',
            ),
            (
                "they are held by the first model",
                'down["weights"][name].to(p.device)',
                "p.detach().clone()",
            ),
        ],
    ),
}
