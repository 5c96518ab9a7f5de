"""Distillation: what algorithms with a teacher share, its losses and the samples it judges."""

SAMPLES = {
    "trained": "fedkf.distillation.generators:TrainedGenerator",
    "noise": "fedkf.distillation.samples:Noise",
    "field": "fedkf.distillation.samples:Field",
    "warp": "fedkf.distillation.samples:Warp",
}
"""The sources of samples that a configuration can name."""
