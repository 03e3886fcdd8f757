"""Turns the description of a run into its record."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from torch import nn

from sparsegate_lab.data import Dataset, Storing, load_data
from sparsegate_lab.methods import Dense
from sparsegate_lab.record import Record

from .evaluate import accuracy
from .folder import RunFolder
from .loop import Loop
from .malloc import keep_freed_memory
from .network import fresh_network
from .network_input import view_of
from .run import Run
from .shard import is_sharding
from .watch import Watcher


class MemoryShortError(RuntimeError):
    """The GPU has too little memory for a run."""


def train(
    run: Run[Any],
    *,
    folder: Path | str = "runs",
    watch: Watcher | None = None,
    command: str = "",
    save_every: int = 1,
    pack: bool = True,
    shard: bool = False,
) -> Record:
    """Trains the network that a run describes, and returns its record.

    The run's folder, `folder / run.name`, gets checkpoints as training goes on, then the finished network and the
    record. A run that was interrupted goes on from its last checkpoint; one that has ended returns its record at once.
    Checkpoints are written after every `save_every` epochs; without `pack` no small files are made of the network.
    With `shard`, several processes hold a part of the model each (FSDP2) instead of the whole (DDP).
    """
    options: dict[str, Any] = {
        "folder": folder,
        "watch": watch,
        "save_every": save_every,
        "pack": pack,
        "shard": shard,
    }
    run = _settled(run, lambda dense: train(dense, **options))
    place = RunFolder(Path(folder) / run.name, run, save_every, pack)
    if (record := place.record()) is not None:
        return record
    keep_freed_memory()
    watch = watch if watch is not None and os.environ.get("RANK", "0") == "0" else Watcher()
    try:
        data = load_data(run.data, Storing(run.stored_size, run.bad_images, progress=watch.decoded))
        model, num_weights = fresh_network(run, data)
        accelerator = _accelerator(run)
        sharding = is_sharding(accelerator, run.method, shard)
        baseline = _baseline(run, data, model, accelerator)
        model = run.method.prepare(model)
        loop = Loop(
            run, data, model, num_weights, accelerator, place, watch, baseline, shard=sharding
        )
        with place.opened() if accelerator.is_main_process else nullcontext():
            return loop.train(command)
    except torch.OutOfMemoryError as error:
        raise MemoryShortError(_short_of_memory(run)) from error
    finally:
        watch.closed()


def is_main_process() -> bool:
    """Whether this process is the one that writes and shows."""
    rank = os.environ.get(
        "RANK"
    )  # a run that had ended before has not met the other processes, and need not
    return rank == "0" if rank is not None else bool(PartialState().is_main_process)


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


def _baseline(
    run: Run[Any], data: Dataset, model: nn.Module, accelerator: Accelerator
) -> float | None:
    """Validation accuracy that an early stop compares with: the run's own, or that of the weights it begins with."""
    if not run.stop.rate or run.stop.baseline is not None:
        return run.stop.baseline
    if not run.weights:
        raise ValueError(
            "stop.rate compares with the weights that a run begins with, and this one has none; give --weights, or "
            "--stop.baseline, or train to the end: --stop.rate 0"
        )
    if run.new_head:
        raise ValueError(
            "stop.rate compares with the weights that a run begins with, and a new head has not learned anything yet; "
            "give --stop.baseline, train the head first, or train to the end: --stop.rate 0"
        )
    there = copy.deepcopy(model).to(accelerator.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return accuracy(there, data.validation, view_of(run, data), accelerator)


def _short_of_memory(run: Run[Any]) -> str:
    ways = [f"a smaller batch (--batch-size {run.batch_size // 2})"] if run.batch_size > 1 else []
    ways += ["half the precision (--precision bf16)"] if run.precision == "fp32" else []
    ways = ways or ["several GPUs that share the model (--shard)"]
    return f"the GPU has too little memory for batch_size {run.batch_size} in {run.precision}; try {' or '.join(ways)}"


def _accelerator(run: Run[Any]) -> Accelerator:
    AcceleratorState._reset_state()  # the precision of an earlier run in this process would be kept
    if run.precision == "bf16" and not torch.cuda.is_available():
        # Some virtual machines advertise AMX and kill the process that uses it.
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    if run.precision == "fp16" and not torch.cuda.is_available():
        raise ValueError("precision fp16 needs a GPU; on a CPU use bf16 or fp32")
    return Accelerator(
        mixed_precision="no" if run.precision == "fp32" else run.precision,
        cpu=not torch.accelerator.is_available(),  # unless told, accelerate lets several CPU processes go alone
    )
