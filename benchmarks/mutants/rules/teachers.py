"""Wrong rules in which models teach."""

from catalogue import Rules, oracles

OWN = "tests/algorithms/test_{}.py".format
FEDKF = "algorithms/fedkf.py"

MODULES = {
    "fedgkd": Rules(
        "algorithms/fedgkd.py",
        oracles("fedgkd", teaching=True),
        [
            (
                "the vote's temperature ignored",
                " / self.vote_temperature).softmax(0)",
                ").softmax(0)",
            ),
            ("γ for γ/2", "self.gamma / 2 * kl", "self.gamma * kl"),
            (
                "w⁰ fills the buffer",
                "self.wait and round <= self.buffer",
                "self.wait and round < self.buffer",
            ),
            ("never waits", "return self.wait and round <= self.buffer", "return False"),
            ("the better teachers count less", "(-torch.tensor(losses", "(torch.tensor(losses"),
            (
                "one model too many",
                "past_models(state)[: self.buffer - 1]",
                "past_models(state)[: self.buffer]",
            ),
            (
                "the newest model teaches alone",
                "weighted_mean((1, w) for w in models)",
                "models[0]",
            ),
            (
                "all votes alike",
                'if self.teacher == "vote" else [1.0]',
                "if False else [1.0 / len(teachers)] * len(teachers)",
            ),
        ],
    ),
    "moon": Rules(
        "algorithms/moon.py",
        oracles("moon", teaching=True),
        [
            ("near and far exchanged", "for other in (near, far)]", "for other in (far, near)]"),
            ("temperature ignored", ", 1) / temperature\n", ", 1)\n"),
            ("μ ignored", "self.mu * contrast)", "contrast)"),
            (
                "no previous model",
                'see(client.teacher(old["weights"], "previous"), old["head"])',
                'see(client.teacher(down["weights"], "previous"), down["head"])',
            ),
            (
                "the previous model is not kept",
                '        client.state = Payload(weights=upload["weights"], head=upload["head"])\n',
                "",
            ),
            ("the head does not learn", "            local.step()\n", ""),
            (
                "heads count alike",
                'server.mean((u.size, u["head"]) for u in uploads)',
                'server.mean((1, u["head"]) for u in uploads)',
            ),
        ],
    ),
    "feddf": Rules(
        "algorithms/feddf.py",
        oracles("feddf", teaching=True),
        [
            (
                "no distillation",
                'weights=self.distil(task, new["weights"], inputs, taught, random)',
                'weights=new["weights"]',
            ),
            (
                "begins at the old model",
                'self.distil(task, new["weights"],',
                'self.distil(task, state["weights"],',
            ),
            ("the rate does not fall", "(1 + math.cos(math.pi * step / self.server_steps))", "2"),
            (
                "the rate falls to half",
                "self.server_lr / 2 * (1 + math.cos(math.pi * step",
                "self.server_lr / 2 * (2 + 0 * math.cos(math.pi * step",
            ),
            ("one teacher", "total / len(models)", "total"),
            (
                "probabilities for logits",
                "task.objective.distil(taught[index], student(inputs[index]))",
                "task.objective.distil(taught[index].softmax(1), student(inputs[index]))",
            ),
            (
                "the student in evaluation mode",
                'student = task.load("student", start).train()',
                'student = task.load("student", start).eval()',
            ),
        ],
    ),
    "ccvr": Rules(
        "algorithms/ccvr.py",
        oracles("ccvr", teaching=True),
        [
            ("spread within clients only", "(within + between) /", "within /"),
            (
                "divided by n",
                "(within + between) / max(1, total - 1)",
                "(within + between) / total",
            ),
            (
                "clients' means count alike",
                "torch.stack([n * m for n, m, _ in known]).sum(0) / total",
                "torch.stack([m for n, m, _ in known]).mean(0)",
            ),
            ("noise without a root", "values.clamp_min(0).sqrt()", "values.clamp_min(0)"),
            ("no momentum", "momentum=self.server_momentum", "momentum=0.0"),
            (
                "OCA is calibrated too",
                '{**readouts, "aca": calibrated}',
                '{**readouts, "aca": calibrated, "oca": calibrated}',
            ),
            (
                "all of the model learns",
                "head = [p for p in model.parameters() if p.grad is not None]",
                "head = [p.requires_grad_() for p in list(model.parameters())[-1:]]",
            ),
            (
                "one pass too few",
                "for _ in range(self.epochs):",
                "for _ in range(self.epochs - 1):",
            ),
        ],
    ),
    "fedgen": Rules(
        "algorithms/fedgen.py",
        oracles("fedgen", teaching=True),
        [
            (
                "the diversity term dropped",
                "(loss + self.diversity * diversity_loss(noise, features)).backward()",
                "loss.backward()",
            ),
            ("the diversity term with the wrong sign", "torch.exp(-(apart", "torch.exp((apart"),
            (
                "labels drawn evenly on clients",
                "torch.multinomial(shares, count,",
                "torch.multinomial(torch.ones_like(shares), count,",
            ),
            (
                "labels drawn evenly on the server",
                "torch.multinomial(chances,",
                "torch.multinomial(torch.ones_like(chances),",
            ),
            (
                "shares of one round only",
                'known = server.memory("labels", weighted=False)',
                'known = server.memory(f"labels {server.round}", weighted=False)',
            ),
            (
                "trained against the old model",
                'task.load(f"teacher {k}", u["weights"])',
                'task.load(f"teacher {k}", state["weights"])',
            ),
            ("weight ignored", "plain(x, y) + self.weight * generated", "plain(x, y) + generated"),
            (
                "Adam forgets",
                'optimizer.step()\n        return {"generator": copy_of(generator), "adam": memory_of(optimizer, generator)}',
                'optimizer.step()\n        return {"generator": copy_of(generator), "adam": {}}',
            ),
            ("released draws by counts", 'sized = self.draws == "sized"', "sized = False"),
            (
                "released logits count alike",
                'elif self.ensemble != "labels":',
                'elif self.ensemble == "sizes":',
            ),
            ("no ReLU", "self.hidden, self.latent, self.relu)", "self.hidden, self.latent, False)"),
        ],
    ),
    "fedkf": Rules(
        FEDKF,
        oracles("fedkf", teaching=True),
        [
            (
                "taught by ACA",
                'teacher = server.overall or state["weights"]',
                'teacher = state["weights"]',
            ),
            (
                "γ ignored",
                "client.loss(x, y) + self.gamma * kl)",
                "client.loss(x, y) + kl)",
            ),
            ("λ₁ ignored", "self.lambda1 * one_hot_loss(logits)", "one_hot_loss(logits)"),
            (
                "λ₂ ignored",
                "one_hot_loss(logits) + self.lambda2 * activation",
                "one_hot_loss(logits) + activation",
            ),
            (
                "entropy with the wrong sign",
                "return entropy + self.lambda1",
                "return -entropy + self.lambda1",
            ),
            (
                "activation with the wrong sign",
                "return -(magnitude.mean()",
                "return (magnitude.mean()",
            ),
            ("the generator is not kept", "        client.state = samples.state()\n", ""),
            (
                "never resampled",
                "                        fake = samples.draw()\n                        logits = teacher(fake)\n",
                "                        logits = teacher(fake)\n",
            ),
            (
                "the adversarial term helps the model",
                "loss = loss - self.gamma * kl",
                "loss = loss + self.gamma * kl",
            ),
            ("entropy of each sample", "p = logits.softmax(1).mean(0)", "p = logits.softmax(1)[0]"),
            (
                "the generated batch moves batch norm",
                "            with client.aside():\n                kl = distil(logits.detach(), student(fake.detach()))\n",
                "            kl = distil(logits.detach(), student(fake.detach()))\n",
            ),
            (
                "the first round is never plain",
                'return round == 1 and self.first_round == "plain"',
                "return False",
            ),
        ],
    ),
    "fedkf-": Rules(
        FEDKF,
        oracles("fedkf", teaching=True),
        [
            ("taught by OCA", 'teacher: str = option("aca",', 'teacher: str = option("oca",'),
            (
                "the teacher is w⁰",
                'client.teacher(down["teacher" if "teacher" in down else "weights"])',
                "client.teacher(client.task.initial_weights)",
            ),
            (
                "likeliest class of the batch",
                "logits.argmax(1))",
                "logits.sum(0).argmax().expand(len(logits)))",
            ),
            ("scaled without log C", "1 + negative / math.log(p.numel())", "1 + negative"),
            ("features not absolute", "features.flatten(1).abs()", "features.flatten(1)"),
            (
                "soft labels of the student",
                "kl = distil(logits.detach(), ",
                "kl = distil(student(fake).detach(), ",
            ),
        ],
    ),
    "fedkf-server": Rules(
        "algorithms/fedkf_server.py",
        oracles("server", teaching=True),
        [
            ("one step", "for _ in range(self.generator_steps):", "for _ in range(1):"),
            (
                "taught by ACA",
                '(server.overall if self.teacher == "oca" else None) or state["weights"]',
                'state["weights"]',
            ),
            (
                "always by OCA",
                '(server.overall if self.teacher == "oca" else None)',
                "server.overall",
            ),
            ("Adam forgets", 'kept = state if "adam" in state else None', "kept = None"),
            (
                "clients get the first generator",
                'down.add("generator", state["generator"],',
                'down.add("generator", server.task.part(Generation).initial(server.task),',
            ),
            (
                "learns in a plain round",
                "if not self._plain(server.round):\n            state",
                "if True:\n            state",
            ),
        ],
    ),
    "fedkf+": Rules(
        "algorithms/fedkf_plus.py",
        oracles("plus", "tests/algorithms/test_fedkf_plus.py", teaching=True),
        [
            (
                "distils the same batch always",
                "pool.at(client.steps)\n                outputs",
                "pool.at(0)\n                outputs",
            ),
            ("γ ignored", "+ gamma * kl", "+ kl"),
            ("β ignored", "+ beta * kept", "+ kept"),
            (
                "the true class is taught, too",
                "without(outputs_of(teacher, data.images), data.labels).softmax(1)",
                "without(outputs_of(teacher, data.images), data.labels * 0).softmax(1)",
            ),
            ("own samples count in full", "self.beta * (1 - alike)", "self.beta"),
            ("few classes ignored", "self.gamma * (1 + self.scarcity * alike)", "self.gamma"),
            ("the generator does not hurry", "samples.haste = self.haste", "pass"),
            ("another sample's word", "own[index]", "own[index.flip(0)]"),
            ("a generator that does not learn", "self.train(client, samples, teacher)", "pass"),
            ("one step of the generator", "math.ceil(client.planned / self.generator_every)", "1"),
            ("the generator is forgotten", "client.state = samples.state()", "pass"),
            (
                "generated samples move the statistics",
                "with client.aside():\n            return",
                "if True:\n            return",
            ),
            ("warped samples left out", "if warped:", "if False:"),
            ("the drive ignored", "+ drive * (after", "+ (after"),
            ("driven whoever is away", "(away - FEW) / (MOST - FEW)", "1.0"),
            ("driven backwards", "(after[name] - before[name])", "(before[name] - after[name])"),
            ("always from the first mean", "new.replace(overall=after)", "new"),
            (
                "statistics of batches are driven, too",
                "for name in server.task.parameters:",
                "for name in weights:",
            ),
        ],
    ),
    "pool": Rules(
        "distillation/pool.py",
        oracles("plus", "tests/algorithms/test_fedkf_plus.py", teaching=True),
        [
            ("not shuffled", "self.inputs = together[order]", "self.inputs = together"),
            (
                "another input's word",
                "outputs_of(teacher, self.inputs)",
                "outputs_of(teacher, together)",
            ),
            ("only the first batch", "step % self.batches * self.batch", "0 * self.batch"),
            ("batches overlap", "step % self.batches * self.batch", "step % self.batches"),
            ("too few are drawn", "< count:", "< 0:"),
            ("too many are drawn", "torch.cat(parts)[:count]", "torch.cat(parts)"),
        ],
    ),
}
