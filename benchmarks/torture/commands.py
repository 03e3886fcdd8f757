"""The attack on the command line: random words are done, or refused in one line."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from .attack import FAULT, Attack
from .digits import write_digits
from .process import ended, problems, started

FLAGS = {
    "train": (
        *("--epochs", "--batch-size", "--lr", "--momentum", "--weight-decay", "--seed", "--shift"),
        *("--penalty.count", "--penalty.bimodal", "--gate-lr", "--ramp", "--target.keep", "--crop"),
        *("--target.weights", "--target.bytes", "--target.price", "--target.begin", "--erase"),
        *("--method", "--draw", "--update", "--precision", "--weights", "--save-every", "--warmup"),
        *("--label-smoothing", "--clip", "--average", "--stop.rate", "--distil.teacher", "--data"),
    ),
    "compress": ("--bits", "--tune", "--data", "--model", "--per", "--order"),
    "export": ("--to", "--model", "--data", "--int8"),
    "inspect": ("--help", "--verbose"),
    "report": ("--out", "--help"),
}
VALUES = (
    *("0", "1", "2", "-1", "0.5", "1e30", "inf", "nan", "-0", "", "abc", "99999999999999999999"),
    *("1e-30", "dense", "magnitude", "sample", "together", "bf16", "mnist", "None", "true", "c"),
    *("network", "layer", "lenet300", "../x", "/", "é", "1,2", "0.05 0.1"),
)
MODELS = ("lenet300", "lenet300", "lenet5", "lenet5-demo", "vgg16", "unknown", "", "-")


class Commands(Attack):
    """Random flags and values, for a verb that has them."""

    title = "random commands: no traceback, and nothing half-written"
    patience = 600.0

    def prepare(self, folder: Path) -> None:
        """Digits, and the run that other verbs work on."""
        self._folder, self._output = folder, folder / "output.txt"
        self._data = write_digits(folder / "digits", 300)
        words = ["train", "lenet300", "--data", str(self._data), "--epochs", "1"]
        done = ended(
            started([*words, "--folder", str(folder / "runs")], self._output), self._output
        )
        (self._run,) = (folder / "runs").iterdir() if not done.status else [folder]

    def attempt(self, draw: Random) -> str:
        """Runs a command."""
        verb = draw.choice([*FLAGS, "train", "train"])
        scratch = self._folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        words = [verb, *self._fixed(verb, draw, scratch)]
        for _ in range(draw.randint(0, 4)):
            words += [
                draw.choice(FLAGS[verb]),
                *draw.sample(VALUES, draw.choice((0, 1, 1, 1, 1, 2))),
            ]
        done = ended(started(words, self._output, file_limit=2**26), self._output, patience=40)
        if wrong := problems(done):
            if wrong == "hangs" and "--epochs" in words:
                return "stopped: it trains for long"
            return f"{FAULT}{wrong}"
        if done.status and not done.text.strip():
            return f"{FAULT}status {done.status} without a word"
        if list(scratch.rglob("*.partial")):
            return f"{FAULT}a partial file is left"
        return "done" if done.status == 0 else "refused"

    def _fixed(self, verb: str, draw: Random, scratch: Path) -> list[str]:
        if verb == "train":
            words = [draw.choice(MODELS), "--data", str(self._data), "--epochs", "1"]
            return [*words, "--folder", str(scratch)]
        run = draw.choice([str(self._run)] * 5 + [str(self._run / "network.sg"), "/nowhere", ""])
        out = str(scratch / draw.choice(("x.sg", "x.sparse.safetensors", "x.c", "x.html", "x")))
        return [run, *([out] if verb in ("compress", "export") else [])]
