"""Distillation: what algorithms with a teacher share, its losses and the samples it judges."""

SAMPLES = {
    "trained": "fedkf.distillation.generators:TrainedGenerator",
    "noise": "fedkf.distillation.samples:Noise",
    "field": "fedkf.distillation.samples:Field",
    "warp": "fedkf.distillation.samples:Warp",
    "own": "fedkf.distillation.samples:Own",
}
"""The sources of samples that a configuration can name."""


def samples_for(name: str, shape: tuple[int, ...]) -> str:
    """What a name of a source stands for where inputs have this shape: `warp` has three kinds."""
    if name != "warp" or len(shape) == 3:
        return name
    kind = "SignalWarp" if len(shape) == 2 else "VectorWarp"
    return f"fedkf.distillation.signal_warps:{kind}"
