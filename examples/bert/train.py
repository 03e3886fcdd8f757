"""Fine-tunes a pretrained BERT on labeled sentences and prunes it at the same time."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    TrainingArguments,
)

import sparsegate as sg
from sparsegate.integrations.transformers import SparseTrainer


def read(path: Path, tokenizer: Any) -> list[dict[str, Any]]:
    """Sentences and labels: one pair a line, with a tab between them, as in SST-2."""
    rows = [line.rsplit("\t", 1) for line in path.read_text().splitlines()]
    rows = [row for row in rows if row[-1].isdigit()]
    tokens = tokenizer([text for text, _ in rows], truncation=True, max_length=48)
    return [
        {"input_ids": ids, "attention_mask": mask, "labels": int(label)}
        for ids, mask, (_, label) in zip(
            tokens["input_ids"], tokens["attention_mask"], rows, strict=True
        )
    ]


def accuracy(prediction: Any) -> dict[str, float]:
    """The accuracy in percent."""
    right = prediction.predictions.argmax(-1) == prediction.label_ids
    return {"accuracy": 100 * float(right.mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a model of transformers, by folder or by name on the hub")
    parser.add_argument("data", type=Path, help="folder with train.tsv and dev.tsv")
    parser.add_argument("--keep", type=float, default=0.2, help="fraction of weights that is left")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--out", type=Path, default=Path("sparse-bert"))
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=2)
    trainer = SparseTrainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(options.out),
            num_train_epochs=options.epochs,
            per_device_train_batch_size=32,
            learning_rate=2e-4,  # higher than for plain fine-tuning: there is more to learn again
            warmup_steps=0.06,
            save_strategy="no",
            report_to=[],
            logging_steps=20,
        ),
        train_dataset=read(options.data / "train.tsv", tokenizer),
        eval_dataset=read(options.data / "dev.tsv", tokenizer),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=accuracy,
        target=sg.Target(keep=options.keep),
    )
    trainer.train()
    print(f"{trainer.evaluate()['eval_accuracy']:.2f} % of {options.data / 'dev.tsv'}")
    trainer.save_model(options.out)
    tokenizer.save_pretrained(options.out)
    for name in ("model.safetensors", "model.sparse.safetensors"):
        print(f"{(options.out / name).stat().st_size:,} bytes in {options.out / name}")


if __name__ == "__main__":
    main()
