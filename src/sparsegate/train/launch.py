"""Turns the description of a run into its record."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedType
from accelerate.state import AcceleratorState, PartialState
from torch import nn

from sparsegate.data import Dataset, load_data
from sparsegate.methods import Dense
from sparsegate.models import MODELS
from sparsegate.record import Record

from .evaluate import count_layers
from .folder import RunFolder
from .heap import keep_freed_memory
from .loop import Loop
from .run import Run
from .seed import fold
from .watch import Watcher


def train(run: Run[Any], *, folder: Path | str = "runs", watch: Watcher | None = None, command: str = "") -> Record:
    """Trains the network that a run describes, and returns its record.

    The run's folder, `folder / run.name`, gets checkpoints as training goes on, then the finished network and the
    record. A run that was interrupted goes on from its last checkpoint; one that has ended returns its record at once.
    """
    run = _settled(run, lambda dense: train(dense, folder=folder, watch=watch))
    place = RunFolder(Path(folder) / run.name, run)
    if (record := place.record()) is not None:
        return record
    keep_freed_memory()
    data = load_data(run.data)
    model, num_weights = _build(run, data)
    accelerator = _accelerator(run)
    loop = Loop(run, data, model, num_weights, accelerator, place, watch or Watcher())
    with place.opened() if accelerator.is_main_process else nullcontext():
        try:
            return loop.train(command)
        finally:
            loop.watch.closed()


def is_main_process() -> bool:
    """Whether this process is the one that writes and shows."""
    return bool(PartialState().is_main_process)


def leave_group() -> None:
    """Waits for the other processes and closes the connections: one that ends early can bring the others down."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def _settled(run: Run[Any], train_dense: Callable[[Run[Any]], Record]) -> Run[Any]:
    """The run with what it takes from others: the hash of its teacher, and the accuracy that a drop counts from."""
    if run.distil:
        run = replace(run, distil=replace(run.distil, content=run.distil.hash_of_content()))
    target = getattr(run.method, "target", None)
    if target is None or target.max_drop is None or target.baseline is not None:
        return run
    baseline = train_dense(replace(run, method=Dense(), average=None)).validation
    return replace(run, method=replace(run.method, target=replace(target, baseline=baseline)))


def _build(run: Run[Any], data: Dataset) -> tuple[nn.Module, int]:
    """The model, prepared by the run's method, and how many weights it had before."""
    build = MODELS[run.model]
    wanted = build.image_shape  # type: ignore[attr-defined]
    if data.image_shape != wanted:
        raise ValueError(f"{run.model} takes images of shape {wanted}, {run.data} has {data.image_shape}")
    torch.manual_seed(fold(run.seed, "weights"))
    model = build(num_classes=data.num_classes)
    num_weights = sum(layer.total for layer in count_layers(model))
    return run.method.prepare(model), num_weights


def _accelerator(run: Run[Any]) -> Accelerator:
    AcceleratorState._reset_state()  # the precision of an earlier run in this process would be kept
    if run.precision == "bf16" and not torch.cuda.is_available():
        # Some virtual machines advertise AMX and kill the process that uses it.
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    if run.precision == "fp16" and not torch.cuda.is_available():
        raise ValueError("precision fp16 needs a GPU; on a CPU use bf16 or fp32")
    accelerator = Accelerator(
        mixed_precision="no" if run.precision == "fp32" else run.precision,
        cpu=not torch.accelerator.is_available(),  # unless told, accelerate lets several CPU processes go alone
    )
    if accelerator.distributed_type in (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM):
        raise ValueError(
            f"training by command does not shard the model yet ({accelerator.distributed_type}); use plain DDP"
        )
    return accelerator
