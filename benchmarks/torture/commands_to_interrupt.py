"""The commands that the attack on interrupted commands runs."""

from __future__ import annotations

SHORT = ["--epochs", "4", "--batch-size", "50"]
GATES = [*SHORT, "--penalty.count", "4", "--gate-lr", "100", "--ramp", "0.2"]
"""Settings that close many gates in a few steps."""
METHODS = (
    *("dense", "svd", "neuron", "magnitude", "collins_kohli", "lasso", "obd", "architecture"),
    *("sparse_vd", "gsm", "alternating", "feather", "gradual_magnitude", "learned_thresholds"),
    *("rigl", "st3", "predicted", "fastfood", "product_quantised"),
)
TRAININGS: dict[str, list[str]] = {
    "plain": GATES,
    "bimodal": [*GATES, "--penalty.bimodal", "1"],
    "keep": [*SHORT, "--target.keep", "0.05"],
    "bytes": [*SHORT, "--target.bytes", "20000"],
    "weights": [*SHORT, "--target.weights", "3000"],
    "max drop": [*SHORT, "--target.max-drop", "5"],
    "sample": [*GATES, "--draw", "sample"],
    "together": [*GATES, "--update", "together"],
    "small": [*GATES, "--update", "small"],
    "average": [*GATES, "--average", "0.9"],
    "save every 2": [*GATES, "--save-every", "2"],
    "momentum": [*GATES, "--momentum", "0.5", "--shift", "3"],
    "teacher": [*GATES, "--distil.teacher", "{run}"],
    "pretrained": [*SHORT, "--weights", "{run}", "--keep", "0.2"],
    **{name: [*SHORT, "--method", name] for name in METHODS},
}
"""Ways to train; `{run}` is the folder of a run that has ended."""
PAIRS: dict[str, list[str]] = {
    **{name: TRAININGS[name] for name in ("plain", "keep", "sample", "together", "save every 2")},
    **{name: TRAININGS[name] for name in ("dense", "magnitude", "rigl")},
    "shard": [*GATES, "--shard"],
}
"""Ways to train in two processes."""
MAKINGS: dict[str, list[str]] = {
    "pack": ["compress", "{run}", "{out}/x.sg"],
    "pack for safetensors": ["compress", "{run}", "{out}/x.sparse.safetensors"],
    "pack rounded": ["compress", "{run}", "{out}/x.sg", "--bits", "3"],
    "pack tuned": ["compress", "{run}", "{out}/x.sg", "--bits", "2", "--tune", "1"],
    "C code": ["export", "{run}", "{out}/net.c", "--to", "c"],
    "page to draw on": ["export", "{run}", "{out}/net.html", "--to", "web"],
    "page": ["report", "{run}", "--out", "{out}/page.html"],
    "comparison": ["report", "{run}", "{run}/record.json", "--out", "{out}/page.html"],
}
"""Ways to make files in the folder `{out}` of a run that has ended."""
WRITTEN = (
    *("run.json", "step-*", "network.safetensors", "network.sg", "record.json"),
    *(".step-*.partial", ".network*.partial", ".record*.partial", ".*.partial"),
)
"""Files that are waited for, so that a kill hits what follows."""
