"""Wrong rules that every algorithm would share: T1, metrics, codecs, batches, selection."""

from catalogue import Rules

T1 = ["tests/algorithms/test_oracle.py", "tests/core/test_memory.py", "tests/core/test_overall.py"]

BATCHES = [
    "tests/core/test_batches.py",
    "tests/core/test_client.py",
    "tests/algorithms/test_oracle.py",
    "tests/algorithms/test_qffl.py",
]

MODULES = {
    "t1": Rules(
        "core/memory.py",
        T1,
        [
            (
                "the old slot stays in the sum",
                "            self._add(self.slots[client], -size)\n        else:",
                "            pass\n        else:",
            ),
            (
                "slots count alike",
                "        self._add(value, size)\n",
                "        self._add(value, 1)\n",
            ),
            ("`all` is `seen`", 'if scope == "all" else 0', "if False else 0"),
            ("`seen` is `all`", 'if scope == "all" else 0', "if True else 0"),
            (
                "seen anew every time",
                "        else:\n            self._seen_size += size",
                "        self._seen_size += size",
            ),
            (
                "the slot is not replaced",
                "        self.slots[client] = value\n",
                "        self.slots.setdefault(client, value)\n",
            ),
            (
                "integers of the latest client",
                "if self._largest < 0 or (size, -client) >=",
                "if True or (size, -client) >=",
            ),
            (
                "summed anew without sizes",
                "self._add(self.slots[client], self.sizes[client])",
                "self._add(self.slots[client], 1)",
            ),
            ("sum kept in float32", "dtype=torch.float64)", "dtype=torch.float32)"),
        ],
    ),
    "metrics": Rules(
        "metrics/__init__.py",
        ["tests/metrics/test_metrics.py", "src/fedkf/metrics/__init__.py"],
        [
            (
                "AMP counts clients alike",
                "math.fsum(a * n for a, n in pairs) / math.fsum(n for _, n in pairs)",
                "math.fsum(a for a, n in pairs) / len(pairs)",
            ),
            (
                "FM of a sample",
                "for a in known) / len(known)\n",
                "for a in known) / max(1, len(known) - 1)\n",
            ),
            (
                "FM is a deviation",
                "return math.fsum((a - mean) ** 2 for a in known) / len(known)",
                "return math.sqrt(math.fsum((a - mean) ** 2 for a in known) / len(known))",
            ),
            (
                "WLP is the best",
                "return min(_tested(accuracies))",
                "return max(_tested(accuracies))",
            ),
            (
                "clients without tests count as 0",
                "known = [a for a in accuracies if a is not None and not math.isnan(a)]",
                "known = [0.0 if a is None or math.isnan(a) else a for a in accuracies]",
            ),
            (
                "the best tenth",
                "known = sorted(_tested(accuracies))\n    count",
                "known = sorted(_tested(accuracies), reverse=True)\n    count",
            ),
            (
                "tenths rounded down",
                "count = math.ceil(len(known) / 10)",
                "count = max(1, len(known) // 10)",
            ),
        ],
    ),
    "codecs": Rules(
        "core/codec.py",
        ["tests/core/test_codec.py"],
        [
            (
                "differences added to nothing",
                "weights[name] = (like.double() + delta).to(like.dtype)",
                "weights[name] = delta.to(like.dtype)",
            ),
            ("rounded down", ".round()\n", ".floor()\n"),
            ("one bit too few", "top = 2 ** (bits - 1) - 1", "top = 2 ** (bits - 2) - 1"),
            (
                "no scale",
                "whole.view(like.shape).double() * wire[SCALE + name]",
                "whole.view(like.shape).double()",
            ),
            (
                "biases are quantised too",
                "tensor.is_floating_point() and tensor.ndim > 1",
                "tensor.is_floating_point()",
            ),
            (
                "the halves of a byte exchanged",
                "torch.stack([packed & 15, packed >> 4], 1)",
                "torch.stack([packed >> 4, packed & 15], 1)",
            ),
            (
                "half stays half",
                "t.to(base[n].dtype) if n in base else t for n, t in wire.items()",
                "t for n, t in wire.items()",
            ),
            (
                "uplink as the downlink",
                "return change(upload, down, self.uplink, encode)",
                "return change(upload, down, self.downlink, encode)",
            ),
        ],
    ),
    "batches": Rules(
        "core/batches.py",
        BATCHES,
        [
            (
                "not shuffled",
                "split = torch.randperm(size, generator=random).split(training.batch_size)",
                "split = torch.arange(size).split(training.batch_size)",
            ),
            (
                "one epoch",
                "for _ in range(training.local_epochs):\n            yield from split",
                "for _ in range(1):\n            yield from split",
            ),
            ("partial batches kept under equal steps", "order[: size - size % batch]", "order"),
            (
                "one step too many",
                "wanted = training.local_epochs * training.steps_per_epoch",
                "wanted = training.local_epochs * training.steps_per_epoch + 1",
            ),
            (
                "never reshuffled",
                "    while wanted > 0:\n        order = torch.randperm(size, generator=random)\n",
                "    order = torch.randperm(size, generator=random)\n    while wanted > 0:\n",
            ),
        ],
    ),
    "a client's batches": Rules(
        "core/client.py",
        BATCHES,
        [
            (
                "the same stream for every purpose",
                "torch_generator(purpose, self.round, self.id)\n        epoch",
                'torch_generator("batches", self.round, self.id)\n        epoch',
            ),
            (
                "single samples under batch norm",
                "if len(index) == 1 and self.normalises_batches:",
                "if False:",
            ),
            ("own batches never", "        if own:\n", "        if False:\n"),
        ],
    ),
    "how many are active": Rules(
        "core/schedule.py",
        ["tests/core/test_selection.py"],
        [
            (
                "halves rounded down",
                "math.floor(round(fraction * clients, 9) + 0.5)",
                "math.ceil(round(fraction * clients, 9) - 0.5)",
            ),
            ("rounding errors decide", "round(fraction * clients, 9)", "fraction * clients"),
            ("none at all", "max(1, math.floor(", "max(0, math.floor("),
        ],
    ),
    "selection": Rules(
        "core/federation.py",
        ["tests/core/test_selection.py"],
        [
            ("with replacement", "count, replace=False", "count, replace=True"),
            (
                "the same clients every round",
                'numpy_generator("selection", round)',
                'numpy_generator("selection", 1)',
            ),
            (
                "the first clients",
                "sorted(random.choice(clients, count, replace=False).tolist())",
                "list(range(count))",
            ),
            (
                "the last client never",
                "random.choice(clients, count",
                "random.choice(clients - (clients > count), count",
            ),
            (
                "in the order drawn",
                "return sorted(random.choice(clients, count, replace=False).tolist())",
                "return list(random.choice(clients, count, replace=False).tolist())",
            ),
        ],
    ),
}
