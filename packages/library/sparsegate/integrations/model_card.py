"""The card of a network on the hub, in Markdown: its layers, size, accuracy and speed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparsegate.bench import Speed, speed_table
from sparsegate.files import Packed
from sparsegate.text_table import Row, markdown

RECORD_FILE = "record.json"
USE = """import sparsegate as sg

model = sg.from_hub("{repo_id}").into(Network())  # your model's class
fast = sg.sparse(model, example=inputs)  # skips the zeros where that is faster"""
TASK = "image-classification"
TAGS = ("sparsegate", "sparse", "pruning", "pytorch")


@dataclass(frozen=True)
class Records:
    """What was measured: the record of a run, and a comparison of speeds."""

    run: dict[str, Any] = field(default_factory=dict)
    """The value of a record.json; empty if there is none."""
    speed: Speed | None = None

    @classmethod
    def read(
        cls, run: Path | str | dict[str, Any] | None, speed: Path | str | dict[str, Any] | None
    ) -> Records:
        """The records in files, or their values.

        Args:
            run: the folder of a run, its record.json, or the value of that file.
            speed: what `sparsegate bench --out` wrote, or the value of that file.
        """
        value = _value(run) if run is not None else {}
        if value and not {"validation", "test", "run"} <= set(value):
            raise ValueError(f"{_named(run)} is not the record of a run: it has no accuracies")
        try:
            timed = Speed.from_json(_value(speed)) if speed is not None else None
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{_named(speed)} is not what sparsegate bench --out wrote: {error}"
            ) from error
        return cls(value, timed)


def card_text(
    packed: Packed,
    repo_id: str,
    *,
    records: Records,
    sizes: Mapping[str, int],
    license: str | None = None,  # noqa: A002
    use: str = USE,
) -> str:
    """The card: metadata for the hub, then what a reader wants to know first.

    Args:
        packed: the network.
        repo_id: the repository.
        records: what was measured.
        sizes: the bytes of each file.
        license: the license of the weights.
        use: code that loads the network, with {repo_id} in it.
    """
    name = repo_id.rpartition("/")[2]
    parts = [
        f"---\n{_metadata(name, records.run, license)}\n---",
        f"# {_plain(name)}",
        _summary(packed),
        f"## Use\n\n```python\n{use.format(repo_id=repo_id)}\n```",
        *_accuracy(records.run),
        f"## Layers\n\n{markdown(_layers(packed))}",
        f"## Files\n\n{markdown(_files(packed, sizes))}",
        *_speed(records.speed),
        *_training(records.run),
        "Made by [sparsegate](https://github.com/sparsegate/sparsegate).",
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(name: str, run: Mapping[str, Any], license: str | None) -> str:  # noqa: A002
    from huggingface_hub import EvalResult, ModelCardData

    results = None
    if run:
        results = [
            EvalResult(
                task_type=TASK,
                dataset_type=_data(run),
                dataset_name=_data(run),
                dataset_split="test",
                metric_type="accuracy",
                metric_value=run["test"],
            )
        ]
    return ModelCardData(
        library_name="sparsegate",
        tags=list(TAGS),
        license=license,
        model_name=name,
        eval_results=results,
    ).to_yaml()


def _summary(packed: Packed) -> str:
    kept, total = _counts(packed)
    rate = f"{total / kept:,.1f} times fewer" if kept else "none are left"
    return f"A sparse network: {kept:,} of {total:,} weights ({rate})."


def _accuracy(run: Mapping[str, Any]) -> list[str]:
    if not run:
        return []
    rows: list[Row] = [
        ("data", "test accuracy", "validation accuracy"),
        (_plain(_data(run)), f"{run['test']:.2f} %", f"{run['validation']:.2f} %"),
    ]
    return [f"## Accuracy\n\n{markdown(rows)}"]


def _layers(packed: Packed) -> list[Row]:
    rows: list[Row] = [("weight", "shape", "weights", "kept", "sparsity")]
    for name, entry in packed.entries.items():
        if len(entry.shape) >= 2:
            shape = "x".join(map(str, entry.shape))
            sparsity = f"{100 * (1 - entry.kept / max(1, entry.total)):.2f} %"
            rows.append((_plain(name), shape, f"{entry.total:,}", f"{entry.kept:,}", sparsity))
    return rows


def _files(packed: Packed, sizes: Mapping[str, int]) -> list[Row]:
    dense = sum(entry.num_bytes for entry in packed.entries.values())
    rows: list[Row] = [("file", "bytes", "times smaller than dense")]
    rows += [
        (f"`{name}`", f"{size:,}", f"{dense / max(1, size):.1f}") for name, size in sizes.items()
    ]
    return rows


def _speed(speed: Speed | None) -> list[str]:
    if speed is None:
        return []
    machine = ", ".join(
        f"{name} {value}" for name, value in speed.machine.items() if value is not None
    )
    about = f"Medians in milliseconds, with their quartiles; on {_plain(machine)}."
    command = _code(speed.command, "sh")
    return [f"## Speed\n\n{about}\n\n{markdown(speed_table(speed))}\n\n{command}"]


def _training(run: Mapping[str, Any]) -> list[str]:
    if not run:
        return []
    settings = run["run"]
    seed = settings.get("seed") if isinstance(settings, Mapping) else None
    versions = run.get("versions") or {}
    lines = [f"Seed {seed}; " + ", ".join(f"{name} {each}" for name, each in versions.items())]
    lines += [f"- {_plain(note)}" for note in run.get("notes", ())]
    settings_text = _code(json.dumps(settings, indent=1), "json")
    folded = f"<details><summary>All settings</summary>\n\n{settings_text}\n\n</details>"
    return ["\n\n".join(["## Training", _code(str(run.get("command", "")), "sh"), *lines, folded])]


def _counts(packed: Packed) -> tuple[int, int]:
    weights = [entry for entry in packed.entries.values() if len(entry.shape) >= 2]
    return sum(each.kept for each in weights), sum(each.total for each in weights)


def _data(run: Mapping[str, Any]) -> str:
    """The data's name; of a folder, its last part, since paths say nothing to others."""
    settings = run.get("run")
    data = str(settings.get("data", "")) if isinstance(settings, Mapping) else ""
    return Path(data).name or "unknown"


def _plain(text: str) -> str:
    """Text without what Markdown and HTML would take for markup."""
    return re.sub(r"([\\`*\[\]|<>#])", r"\\\1", " ".join(text.split()))


def _code(text: str, language: str) -> str:
    """A block of code, whatever the text contains."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _value(given: Path | str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    path = Path(given) / RECORD_FILE if Path(given).is_dir() else Path(given)
    try:
        value = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} is not a record: it holds a {type(value).__name__}")
    return value


def _named(given: object) -> str:
    return "the value" if isinstance(given, dict) else str(given)
