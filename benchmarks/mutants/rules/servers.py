"""Wrong rules on the server."""

from catalogue import Rules, oracles

OWN = "tests/algorithms/test_{}.py".format
FEDOPT = "algorithms/fedopt.py"

MODULES = {
    "fedavg": Rules(
        "core/algorithm.py",
        ["tests/algorithms/test_oracle.py", "-k", "fedavg"],
        [
            (
                "clients count alike",
                'server.mean((u.size, u["weights"]) for u in uploads))',
                'server.mean((1, u["weights"]) for u in uploads))',
            ),
            (
                "the last upload is the model",
                'return state.replace(weights=server.mean((u.size, u["weights"]) for u in uploads))',
                'return state.replace(weights=uploads[-1]["weights"])',
            ),
            (
                "one client is left out",
                'server.mean((u.size, u["weights"]) for u in uploads))',
                'server.mean((u.size, u["weights"]) for u in uploads[1:]))',
            ),
            (
                "sizes squared",
                'server.mean((u.size, u["weights"]) for u in uploads))',
                'server.mean((u.size**2, u["weights"]) for u in uploads))',
            ),
            (
                "one step a batch too many",
                "            client.step(loss(x, y))\n        return client.upload()",
                "            client.step(loss(x, y))\n        client.step(loss(x, y))\n        return client.upload()",
            ),
            (
                "training begins at w⁰",
                '        client.start(down["weights"])\n        loss = self.local_loss',
                "        client.start(client.task.initial_weights)\n        loss = self.local_loss",
            ),
        ],
    ),
    "fednova": Rules(
        "algorithms/fednova.py",
        oracles("fednova"),
        [
            (
                "momentum not wired",
                'momentum = state["weights"], server.task.training.momentum',
                'momentum = state["weights"], 0.0',
            ),
            (
                "clients count alike",
                "            (u.size, combine(lambda d, n=n: d / n",
                "            (1, combine(lambda d, n=n: d / n",
            ),
            ("no division by steps", "lambda d, n=n: d / n,", "lambda d, n=n: d,"),
            (
                "effective steps unweighted",
                "sum(u.size / total * n for",
                "sum(n / len(uploads) for",
            ),
            (
                "steps sent are one too few",
                '{"count": client.steps}',
                '{"count": max(1, client.steps - 1)}',
            ),
            ("no effective steps", "lambda w, d: w - effective * d", "lambda w, d: w - d"),
            (
                "momentum's sum without its tail",
                "(steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)",
                "steps / (1 - momentum)",
            ),
        ],
    ),
    "fedavgm": Rules(
        FEDOPT,
        oracles("fedavgm"),
        [
            ("no server rate", "lambda w, v: w + self.server_lr * v", "lambda w, v: w + v"),
            ("no momentum", "self.beta * v + d, state", "d, state"),
            (
                "a moving average instead of momentum",
                "self.beta * v + d, state",
                "self.beta * v + (1 - self.beta) * d, state",
            ),
            (
                "wrong sign",
                "lambda w, v: w + self.server_lr * v",
                "lambda w, v: w - self.server_lr * v",
            ),
            (
                "momentum not kept",
                "return state.replace(weights=weights, momentum=momentum)",
                "return state.replace(weights=weights)",
            ),
            (
                "clients count alike",
                'mean = weighted_mean((u.size, u["weights"]) for u in uploads)',
                'mean = weighted_mean((1, u["weights"]) for u in uploads)',
            ),
            (
                "buffers go with the momentum",
                'return new.replace(weights=with_mean_buffers(server, uploads, new["weights"]))',
                "return new",
            ),
        ],
    ),
    "fedadam": Rules(
        FEDOPT,
        oracles("fedadam"),
        [
            ("no server rate", "w + self.server_lr * m /", "w + m /"),
            ("τ left out", "(v.sqrt() + self.tau)", "v.sqrt()"),
            ("no root", "(v.sqrt() + self.tau)", "(v + self.tau)"),
            (
                "β₁ on the wrong side",
                "self.beta * m + (1 - self.beta) * d",
                "(1 - self.beta) * m + self.beta * d",
            ),
            (
                "second moment not squared",
                "(1 - self.beta2) * d.square()",
                "(1 - self.beta2) * d.abs()",
            ),
            ("second moment not kept", "momentum=first, squares=second)", "momentum=first)"),
            (
                "begins at τ, not τ²",
                "torch.full_like(w, self.tau**2)",
                "torch.full_like(w, self.tau)",
            ),
        ],
    ),
    "fedyogi": Rules(
        FEDOPT,
        oracles("fedyogi"),
        [
            (
                "it is FedAdam",
                "return v - (1 - self.beta2) * square * (v - square).sign()",
                "return self.beta2 * v + (1 - self.beta2) * square",
            ),
            ("sign turned", "(v - square).sign()", "(square - v).sign()"),
            ("no sign", "square * (v - square).sign()", "square"),
            ("β₂ for 1 − β₂", "v - (1 - self.beta2) * square", "v - self.beta2 * square"),
            (
                "the change itself for its square",
                "        square = d.square()",
                "        square = d.abs()",
            ),
            ("sign of the square", "(v - square).sign()", "(v - d).sign()"),
        ],
    ),
    "mifa": Rules(
        "algorithms/mifa.py",
        oracles("mifa"),
        [
            ("server_lr ignored", "w - self.server_lr * pace * g", "w - pace * g"),
            ("weighted by size", "weighted=False", "weighted=True"),
            ("clients seen only", 'updates.mean("all",', 'updates.mean("seen",'),
            ("wrong sign", "w - self.server_lr * pace * g", "w + self.server_lr * pace * g"),
            (
                "models for updates",
                'updates.put(upload.client, subtract(start, upload["weights"], pace))',
                'updates.put(upload.client, upload["weights"])',
            ),
            ("old updates count at the rate of their round", '["weights"], pace)', '["weights"])'),
            ("the present rate is left out", "self.server_lr * pace * g", "self.server_lr * g"),
            (
                "buffers go with the updates",
                "return state.replace(weights=with_mean_buffers(server, uploads, new))",
                "return state.replace(weights=new)",
            ),
            ("clients not seen stand in with the model", "zeros_like(start))", "start)"),
        ],
    ),
    "qffl": Rules(
        "algorithms/qffl.py",
        oracles("qffl", OWN("qffl")),
        [
            (
                "norm counts buffers",
                "learned = {name: start[name] for name in server.task.distinct}",
                "learned = dict(start)",
            ),
            ("q ignored in the weights", "f=power: t + f * g", "f=1.0: t + f * g"),
            (
                "no norm in the step",
                "slope * squared_norm(gradient) + ",
                "",
            ),
            ("power q − 1 for q", "rate * power\n", "rate * slope\n"),
            ("L is the learning rate", "1 / server.task.training.lr", "server.task.training.lr"),
            (
                "loss after training",
                '        before = starting_loss(client, down["weights"])\n        client.start(down["weights"])\n',
                '        client.start(down["weights"])\n',
            ),
            ("own epochs never", "client.batches(own=self.own_epochs)", "client.batches()"),
            ("norm not squared", "squared_norm(gradient)", "squared_norm(gradient) ** 0.5"),
        ],
    ),
    "afl": Rules(
        "algorithms/afl.py",
        oracles("afl"),
        [
            (
                "the last iterate for the mean",
                'if self.readout == "last" or "iterates" not in state:',
                "if True:",
            ),
            (
                "no scaling by K/m",
                "self.mixture_lr * len(mixture) / len(uploads) * losses",
                "self.mixture_lr * losses",
            ),
            ("the mixture never moves", 'mixture={"weights": new}', 'mixture={"weights": mixture}'),
            (
                "shares by size",
                "shares = [float(mixture[u.client]) for u in uploads]",
                "shares = [float(u.size) for u in uploads]",
            ),
            ("mirror for projected", 'if self.ascent == "mirror":', 'if self.ascent != "mirror":'),
            (
                "descends on the mixture",
                "onto_simplex(mixture + step)",
                "onto_simplex(mixture - step)",
            ),
            (
                "the mean forgets",
                'total = combine(lambda w, s: w + s, total, state["iterates"])',
                'total = state["iterates"]',
            ),
            (
                "the mixture starts even",
                '{"weights": sizes / sizes.sum()}',
                '{"weights": torch.full_like(sizes, 1 / len(sizes))}',
            ),
        ],
    ),
    "fedmgda": Rules(
        "algorithms/fedmgda.py",
        oracles("fedmgda"),
        [
            ("server_lr ignored", "direction = self.server_lr * (", "direction = ("),
            ("never normalised", "        if self.normalise:", "        if False:"),
            ("always normalised", "        if self.normalise:", "        if True:"),
            ("ε ignored", "sizes / sizes.sum(), self.epsilon)", "sizes / sizes.sum(), 1.0)"),
            (
                "centre is even",
                "sizes / sizes.sum(), self.epsilon)",
                "np.full(len(sizes), 1 / len(sizes)), self.epsilon)",
            ),
            ("FedAvg's weights", "    for _ in range(1000):", "    for _ in range(0):"),
            (
                "wrong sign",
                "moved = start[name].double() - part",
                "moved = start[name].double() + part",
            ),
        ],
    ),
}
