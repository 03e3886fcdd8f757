"""What gates add to a step of the Trainer: dense and gated steps of a BERT as large as MiniLM, in turns."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import sparsegate as sg
from sparsegate.bench import machine, versions
from sparsegate.integrations.transformers import SparseTrainer

MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12}
WARM = 2  # steps that are not counted


class Stopwatch(TrainerCallback):  # type: ignore[misc]
    """Takes the time of every step, from its first batch to the end of the optimizer's step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Starts."""
        self.begun = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stops."""
        self.seconds.append(time.perf_counter() - self.begun)


def steps_of(kind: type[Trainer], options: argparse.Namespace) -> list[float]:
    """Seconds of each step of a short training."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(intermediate_size=1536, **MINILM))
    tokens = torch.randint(0, 30000, (options.batch * options.steps, options.tokens))
    data = [{"input_ids": each, "labels": 0} for each in tokens]
    watch = Stopwatch()
    sparse = {"target": sg.Target(keep=0.2)} if kind is SparseTrainer else {}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_steps=1000,
        )
        kind(model=model, args=arguments, train_dataset=data, callbacks=[watch], **sparse).train()
    return watch.seconds[WARM:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("results/trainer-step.json"))
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {"dense": [], "gates": []}
    for _ in range(options.rounds):
        for name, kind in (("dense", Trainer), ("gates", SparseTrainer)):
            seconds[name] += steps_of(kind, options)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    given = f"--rounds {options.rounds} --steps {options.steps} --batch {options.batch}"
    record = {
        "title": "A step of the Trainer on a BERT as large as MiniLM, dense and with gates",
        "command": f"python benchmarks/trainer_step.py {given} --tokens {options.tokens}",
        "machine": machine(),
        "versions": versions("torch", "transformers", "accelerate"),
        "seconds": {name: [round(each, 4) for each in times] for name, times in seconds.items()},
        "median_seconds": medians,
        "gates_over_dense": medians["gates"] / medians["dense"],
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(medians, record["gates_over_dense"])


if __name__ == "__main__":
    main()
