"""The attack on interrupted runs: killed or on a full disk, they end as uninterrupted ones."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from random import Random

from .attack import FAULT, Attack
from .digits import write_digits
from .process import Ended, ended, killed, problems, started

VARIANTS: dict[str, list[str]] = {
    "plain": [],
    "keep": ["--target.keep", "0.05"],
    "bytes": ["--target.bytes", "20000"],
    "max drop": ["--target.max-drop", "5"],
    "sample": ["--draw", "sample"],
    "together": ["--update", "together"],
    "small": ["--update", "small"],
    "magnitude": ["--method", "magnitude"],
    "svd": ["--method", "svd"],
    "sparse vd": ["--method", "sparse_vd"],
    "save every 2": ["--save-every", "2"],
    "dense": ["--method", "dense"],
    "momentum": ["--momentum", "0.5", "--shift", "2"],
}
LONGEST = 3.0
"""Seconds to the latest kill."""


class Interruptions(Attack):
    """Interrupts a command a few times at random moments, then lets it end."""

    patience = 600.0

    def prepare(self, folder: Path) -> None:
        """Digits to train on."""
        self._folder, self._straight = folder, dict[str, dict[str, bytes]]()
        self._data = write_digits(folder / "digits", 500)
        self._output = folder / "output.txt"

    def attempt(self, draw: Random) -> str:
        """Interrupts one variant of training, or the making of its page."""
        variant = draw.choice(list(VARIANTS))
        wanted = self._uninterrupted(variant)
        folder = self._folder / "interrupted"
        shutil.rmtree(folder, ignore_errors=True)
        times = draw.randint(1, 3)
        for _ in range(times):
            done = self._interrupted(draw, self._words(variant, folder), folder)
            if wrong := problems(done):
                return f"{FAULT}{variant}: interrupted: {wrong}"
        done = ended(started(self._words(variant, folder), self._output), self._output)
        if problems(done) or done.status:
            return f"{FAULT}{variant}: resumed: status {done.status} {problems(done)}"
        if left := [path.name for path in folder.rglob("*.partial")]:
            return f"{FAULT}{variant}: {left[0]} is left over"
        found = _content(folder)
        if different := sorted(name for name in wanted if found.get(name) != wanted[name]):
            return f"{FAULT}{variant}: {different[0]} differs from that of the uninterrupted run"
        return f"bit-identical and nothing left over, interrupted {times} times"

    def _interrupted(self, draw: Random, words: list[str], folder: Path) -> Ended:
        raise NotImplementedError

    def _words(self, variant: str, folder: Path) -> list[str]:
        flags = ["--data", self._data, "--epochs", 4, "--batch-size", 50, "--folder", folder]
        return ["train", "lenet300", *map(str, flags), *VARIANTS[variant]]

    def _uninterrupted(self, variant: str) -> dict[str, bytes]:
        if variant not in self._straight:
            folder = self._folder / "straight"
            shutil.rmtree(folder, ignore_errors=True)
            done = ended(started(self._words(variant, folder), self._output), self._output)
            if done.status:
                raise RuntimeError(f"{variant} does not train: {done.text[-300:]}")
            self._straight[variant] = _content(folder)
        return self._straight[variant]


class Kills(Interruptions):
    """SIGKILL, SIGTERM and Ctrl-C."""

    title = "random kills of a training, its packing and its page, then resumed"
    share = 3.0

    def _interrupted(self, draw: Random, words: list[str], folder: Path) -> Ended:
        number = draw.choice((signal.SIGKILL,) * 4 + (signal.SIGTERM, signal.SIGINT))
        seconds = draw.uniform(0, LONGEST) * draw.random()
        watched = draw.choice(("run.json", "step-*", "network.safetensors", "record.json"))
        child = started(words, self._output)
        killed(child, seconds, lambda: next(folder.rglob(watched), None) is not None, number)
        return ended(child, self._output)


class FullDisks(Interruptions):
    """Files that cannot grow beyond some size, as on a full disk."""

    title = "a full disk at a random file, then resumed with space"
    share = 1.0

    def _interrupted(self, draw: Random, words: list[str], folder: Path) -> Ended:
        limit = round(2 ** draw.uniform(6, 22))
        return ended(started(words, self._output, file_limit=limit), self._output)


def _content(folder: Path) -> dict[str, bytes]:
    """What must be the same: networks, and the record without times."""
    found = {}
    for path in folder.rglob("network*"):
        found[f"{path.parent.name}/{path.name}"] = path.read_bytes()
    for path in folder.rglob("record.json"):
        value = json.loads(path.read_text())
        for name in ("seconds", "command", "checksum"):
            value.pop(name, None)
        found[f"{path.parent.name}/record.json"] = json.dumps(value).encode()
    return found
