"""The attack on readers of JSON: what does not fit is refused by file, in one line."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import nn

import sparsegate as sg
from sparsegate.bench import Speed, Timing, speed_table
from sparsegate.runtime import load_choices, save_choices
from sparsegate_lab.methods import LearnedGates
from sparsegate_lab.record import Epoch, Layer, Record
from sparsegate_lab.report import NetworkView, comparison_page, run_page
from sparsegate_lab.study import Study
from sparsegate_lab.train import Run
from sparsegate_runtime.schema import load_json

from .attack import Attack, refusal
from .json_changes import changed_json

PAGES = 16
"""Of so many files, one is shown on its own page."""


class Jsons(Attack):
    """Damages a JSON file, reads it, and uses what was read."""

    patience = 120.0  # on a machine that is busy with other things
    memory = 2**30

    def __init__(
        self,
        title: str,
        name: str,
        make: Callable[[], list[str]],
        use: Callable[[Path], Any],
        *,
        share: float = 0.3,
    ) -> None:
        self.title, self.share = title, share
        self._name, self._make, self._use = name, make, use

    def prepare(self, folder: Path) -> None:
        """Makes the files that are damaged."""
        self._path, self._texts = folder / self._name, self._make()
        for text in self._texts:
            self._path.write_text(text)
            self._use(self._path)

    def attempt(self, draw: Random) -> str:
        """Damages a file and reads it."""
        self._path.write_bytes(changed_json(draw, draw.choice(self._texts)))
        try:
            self._use(self._path)
        except ValueError as error:
            return refusal(error, self._path)
        return "accepted"


def a_record() -> Record:
    """A small record with a value in every field."""
    epochs = tuple(
        Epoch(number, 1 / number, 90.0 + number, kept=100 - number, gates=tuple(range(32)))
        for number in (1, 2, 3)
    )
    layers = (Layer("fc1.weight", (20, 30), 600, 40), Layer("fc2.weight", (10, 20), 200, 30, 7))
    run = Run(model="lenet300", epochs=3)
    return Record(
        run.name, run.to_json(), "sparsegate train", {"cores": 2, "processor": "a"}, {"torch": "2"},
        layers, 30, 28, 93.0, 92.5, epochs, 3.25, ("a note",), (0, 3, 9), tuple(range(32)), "ab",
    )  # fmt: skip


def records() -> list[str]:
    """What a run writes."""
    return [json.dumps(a_record().to_json(), indent=1)]


def use_record(path: Path) -> None:
    """Reads a record and makes a page of it."""
    record = Record.load(path)
    comparison_page([record, a_record()])
    if path.stat().st_size % PAGES == 0:  # a page takes longer than all the rest
        run_page(record, NetworkView((), None, (), 0, {}, None, "no network"), None)


def studies() -> list[str]:
    """What several seeds write."""
    return [json.dumps(Study("title", "command", (a_record(), a_record())).to_json())]


def use_study(path: Path) -> None:
    """Reads a study and its frontier."""
    study = Study.load(path)
    study.frontier()
    json.dumps(study.to_json())


def runs() -> list[str]:
    """Settings of runs."""
    targeted = LearnedGates(target=sg.Target(keep=0.1))
    return [json.dumps(run.to_json()) for run in (Run(), Run(method=targeted), Run(model="lenet5"))]


def use_run(path: Path) -> None:
    """Reads a run, and writes it as flags."""
    run = load_json(path, Run.from_json)
    run.to_flags()
    if not run.weights and Run.from_json(run.to_json()).name != run.name:
        raise AssertionError("the same settings make two runs")


def choices() -> list[str]:
    """What a fast network has measured."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    fast = sg.sparse(model, torch.randn(3, 6), kernel="chain")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "choices.json"
        save_choices(fast.choices, path)
        return [path.read_text()]


def use_choices(path: Path) -> None:
    """Reads choices and prints them."""
    for choice in load_choices(path):
        choice.table()
        _ = choice.kernels


def speeds() -> list[str]:
    """What the bench writes."""
    timing = Timing(
        1, 2, {"torch eager": 6.0, "sparsegate": 2.0}, {"sparsegate": 1e-6},
        quartiles={"sparsegate": (1.9, 2.2)},
    )  # fmt: skip
    speed = Speed(
        "lenet5", "bench", {"cores": 2}, {"torch": "2"}, (timing,), ({"name": "fc1"},), ("note",)
    )
    return [json.dumps(speed.to_json())]


def use_speed(path: Path) -> None:
    """Reads speeds and prints them."""
    speed_table(Speed.load(path))


MUTATED = "mutated JSON:"
JSONS: dict[str, Attack] = {
    "record": Jsons(
        f"{MUTATED} record.json, read and shown on a page", "record.json", records, use_record
    ),
    "study": Jsons(f"{MUTATED} studies", "study.json", studies, use_study),
    "run": Jsons(f"{MUTATED} run.json", "run.json", runs, use_run),
    "choices": Jsons(f"{MUTATED} choices.json", "choices.json", choices, use_choices),
    "speed": Jsons(f"{MUTATED} records of the bench", "speed.json", speeds, use_speed),
}
