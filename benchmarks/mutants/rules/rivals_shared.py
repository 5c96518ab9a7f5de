"""Wrong rules in later algorithms that change what is made of the uploads."""

from catalogue import Rules

MODULES = {
    "fedexp": Rules(
        "algorithms/fedexp.py",
        ["tests/algorithms/test_fedexp.py"],
        [
            ("the factor 2 is missing", "below = 2 * (", "below = ("),
            ("ε is missing", " + self.epsilon)", ")"),
            (
                "clients count alike in the numerator",
                "u.size / total * square",
                "1 / len(uploads) * square",
            ),
            ("no lower limit of 1", "max(1.0, sum(moved) / below)", "sum(moved) / below"),
            (
                "buffers count in the norms",
                'start, learned = state["weights"], server.task.distinct',
                'start, learned = state["weights"], [n for n, t in state["weights"].items() if t.is_floating_point()]',
            ),
            (
                "the readout is the last model only",
                'last if self.readout == "last" else',
                "last if True else",
            ),
            (
                "the mean of two goes down",
                "weights=new, previous=start",
                "weights=weighted_mean([(1, new), (1, start)]), previous=start",
            ),
        ],
    ),
    "fedvarp": Rules(
        "algorithms/fedvarp.py",
        ["tests/algorithms/test_fedvarp.py"],
        [
            (
                "the active clients' old updates are not taken off",
                "f + beta * pace * (o - e)",
                "f - beta * pace * e",
            ),
            (
                "memory is renewed before it is used",
                "    everybody = updates",
                '    [updates.put(u.client, subtract(start, u["weights"])) for u in uploads]\n    everybody = updates',
            ),
            (
                "the mean is over the clients seen",
                'updates.mean("all", nothing)',
                'updates.mean("seen", nothing)',
            ),
            (
                "clients count alike in the memory",
                'server.memory("updates")',
                'server.memory("updates", weighted=False)',
            ),
            (
                "the correction has the wrong sign",
                "f + beta * pace * (o - e)",
                "f - beta * pace * (o - e)",
            ),
            (
                "server_lr is ignored",
                'new = towards(state["weights"], new, self.server_lr)',
                "new = dict(new)",
            ),
            (
                "models are remembered in place of updates",
                'subtract(start, upload["weights"], pace)',
                'upload["weights"]',
            ),
            ("old updates count at the rate of their round", '["weights"], pace)', '["weights"])'),
            ("the present rate is left out", "beta * pace * (o - e)", "beta * (o - e)"),
            ("buffers are corrected too", "with_mean_buffers(server, uploads, new)", "new"),
        ],
    ),
    "fedstale": Rules(
        "algorithms/fedstale.py",
        ["tests/algorithms/test_fedstale.py"],
        [
            ("β is ignored", "uploads, self.beta)", "uploads, 1.0)"),
            ("β counts the fresh", "uploads, self.beta)", "uploads, 1.0 - self.beta)"),
            (
                "server_lr is ignored",
                'new = towards(state["weights"], new, self.server_lr)',
                "new = dict(new)",
            ),
            ("buffers are corrected too", "with_mean_buffers(server, uploads, new)", "new"),
        ],
    ),
    "fedstale in fedvarp": Rules(
        "algorithms/fedvarp.py",
        ["tests/algorithms/test_fedstale.py"],
        [
            (
                "only the mean of all is weighed by β",
                "f + beta * pace * (o - e)",
                "f + pace * (o - beta * e)",
            ),
            (
                "only the active clients' old ones are weighed by β",
                "f + beta * pace * (o - e)",
                "f + pace * (beta * o - e)",
            ),
        ],
    ),
    "term": Rules(
        "algorithms/term.py",
        ["tests/algorithms/test_term.py"],
        [
            (
                "sizes are ignored",
                "(u.size * math.exp(tilt - highest)",
                "(math.exp(tilt - highest)",
            ),
            ("the tilt has the wrong sign", "math.exp(tilt - highest)", "math.exp(highest - tilt)"),
            ("the loss in place of its exponential", "math.exp(tilt - highest)", "abs(tilt)"),
            (
                "the loss after training",
                '        loss = starting_loss(client, down["weights"])\n        return super().local_update(client, down).add(',
                '        sent = super().local_update(client, down)\n        loss = starting_loss(client, sent["weights"])\n        return sent.add(',
            ),
            ("powers overflow", "highest = max(tilts)", "highest = 0.0 * max(tilts)"),
            ("t is ignored", "self.t * u.number", "1.0 * u.number"),
        ],
    ),
    "propfair": Rules(
        "algorithms/propfair.py",
        ["tests/algorithms/test_propfair.py"],
        [
            ("the logarithm is maximised downwards", "-self.utility(", "self.utility("),
            ("M is ignored", "self.baseline - plain(x, y)", "5.0 - plain(x, y)"),
            (
                "no straight line",
                "torch.where(gain >= self.epsilon, gain.clamp_min(self.epsilon).log(), straight)",
                "gain.clamp_min(self.epsilon).log()",
            ),
            ("the line has slope 1", "gain / self.epsilon - 1 +", "gain - self.epsilon +"),
            ("the line begins below 0", "gain >= self.epsilon", "gain >= 0.01"),
            (
                "the line does not meet the logarithm",
                "gain / self.epsilon - 1 + math.log(self.epsilon)",
                "gain / self.epsilon",
            ),
        ],
    ),
    "fedfv": Rules(
        "algorithms/fedfv.py",
        ["tests/algorithms/test_fedfv.py"],
        [
            (
                "the order is by falling losses",
                "key=lambda k: (losses[k], k))",
                "key=lambda k: (-losses[k], k))",
            ),
            (
                "projections onto turned updates",
                "without_conflict(turned[k], updates[other])",
                "without_conflict(turned[k], turned[other])",
            ),
            (
                "everything is projected, odd or not",
                "if along < 0 else update",
                "if along != 0 else update",
            ),
            (
                "the length is not restored",
                "turned = turned * (mean.norm() / turned.norm())",
                "turned = turned * 1.0",
            ),
            ("ages from the newest", "in range(self.tau, 0, -1)", "in range(1, self.tau + 1)"),
            (
                "active clients' old updates count as absent",
                "for k, t in last.items() if k not in updates}",
                "for k, t in last.items()}",
            ),
            (
                "α of the lowest losses are left alone",
                "alone = order[len(order) - self.left_alone(len(order)) :]",
                "alone = order[: self.left_alone(len(order))]",
            ),
            (
                "α is rounded down, to nobody",
                "1 + math.floor(self.alpha * (active - 1) + 1e-9)",
                "math.floor(self.alpha * active + 1e-9)",
            ),
            (
                "the absent are heeded before τ rounds have passed",
                "range(self.tau, 0, -1) if server.round > self.tau else ()",
                "range(self.tau, 0, -1)",
            ),
            (
                "clients count alike",
                "sizes = {u.client: u.size for u in uploads}",
                "sizes = {u.client: 1 for u in uploads}",
            ),
            (
                "all past updates are summed",
                "against = [g for g in past if update @ g < 0]",
                "against = [*past]",
            ),
            (
                "memory of τ − 1 rounds",
                "v[0] > server.round - self.tau}",
                "v[0] > server.round - self.tau + 1}",
            ),
        ],
    ),
    "fedftg": Rules(
        "algorithms/fedftg.py",
        ["tests/algorithms/test_fedftg.py"],
        [
            ("easy samples in place of hard", "-hard + self.lambda_cls", "hard + self.lambda_cls"),
            (
                "labels are drawn evenly",
                "torch.multinomial(ensemble.counts,",
                "torch.multinomial(torch.ones_like(ensemble.counts),",
            ),
            (
                "models count alike for every label",
                "/ self.counts.clamp_min(1)",
                "* 0 + 1 / len(counts)",
            ),
            ("Adam begins anew each round", 'remember(adam, generator, state["adam"])', "pass"),
            (
                "the generator begins anew each round",
                'task.load("labelled generator", state["generator"], make)',
                'task.load("labelled generator", task.initial("labelled generator", make), make)',
            ),
            (
                "the diversity term has the wrong sign",
                "self.lambda_dis * diversity_loss(x, z)",
                "-self.lambda_dis * diversity_loss(x, z)",
            ),
            (
                "the diversity term is dropped",
                "self.lambda_dis * diversity_loss(x, z)",
                "0 * diversity_loss(x, z)",
            ),
            (
                "images are so far apart that the diversity term is 0",
                "torch.cdist(flat, flat, p=1) / flat.shape[1]",
                "torch.cdist(flat, flat, p=1)",
            ),
            ("noise's distances are not squared", ".square().mean(2)", ".abs().mean(2)"),
            (
                "other noise for the model",
                "                x = generator(z, y)",
                "                x = generator(z.flip(0), y)",
            ),
            ("one step of the model", "for _ in range(self.model_steps):", "for _ in range(1):"),
            (
                "one step of the generator",
                "for _ in range(self.generator_steps):",
                "for _ in range(1):",
            ),
            ("KL the other way round", "divergence(ours, t,", "divergence(t, ours,"),
            (
                "batch norm learns from made-up samples",
                'task.load("student", state["weights"]).eval()',
                'task.load("student", state["weights"]).train()',
            ),
        ],
    ),
}
