"""Trains the network that a run describes."""

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
from .inputs import Inputs, normaliser_of
from .learner import Learner
from .loop import Loop, check_checkpoint
from .malloc import keep_freed_memory
from .network import fresh_network, front_of
from .notes import Notes
from .run import Run
from .shard import is_sharding
from .watch import Watcher


class MemoryShortError(RuntimeError):
    """The GPU does not have enough memory for a run."""


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
    """Trains the network that a run describes.

    >>> record = train(Run(model="lenet300", epochs=5))  # doctest: +SKIP

    The folder of the run, `folder / run.name`, gets checkpoints during training, then the finished
    network and the record. An interrupted run continues from its last checkpoint. A run that has
    ended returns its record at once.

    Args:
        run: the description of the run.
        folder: the folder of all runs.
        watch: is called as the run proceeds, on the main process only.
        command: the words of the command, for the record.
        save_every: the number of epochs between two checkpoints.
        pack: whether to write packed files of the finished network.
        shard: whether several processes hold a part of the model each (FSDP2), instead of a copy.
    """
    options: dict[str, Any] = {
        "folder": folder,
        "watch": watch,
        "save_every": save_every,
        "pack": pack,
        "shard": shard,
    }
    run = _settled(run, lambda dense: train(dense, **options))
    run_folder = RunFolder(Path(folder) / run.name, run, save_every, pack)
    is_main = os.environ.get("RANK", "0") == "0"
    if (record := run_folder.record()) is not None:
        if is_main:
            run_folder.repair()
        return record
    keep_freed_memory()
    watch = watch if watch is not None and is_main else Watcher()
    try:
        return _train(run, run_folder, watch, command, shard)
    except torch.OutOfMemoryError as error:
        raise MemoryShortError(_memory_short(run)) from error
    finally:
        watch.closed()


def _train(run: Run[Any], folder: RunFolder, watch: Watcher, command: str, shard: bool) -> Record:
    data = load_data(run.data, Storing(run.stored_size, run.bad_images, progress=watch.decoded))
    model, num_weights = fresh_network(run, data)
    accelerator = _accelerator(run)
    sharded = is_sharding(accelerator, run.method, shard)
    baseline = _baseline(run, data, model, accelerator)
    front = front_of(run, model)
    inputs = Inputs.of(run, data, accelerator, front, watch.computed)
    checkpoint, progress = folder.checkpoints.newest(), 0.0
    if checkpoint is not None:
        check_checkpoint(checkpoint, folder, data.counts, run.epochs, len(inputs.batches))
        progress = checkpoint.step / (run.epochs * len(inputs.batches))
    model = run.method.prepare(model, progress)
    notes = Notes(watch if accelerator.is_main_process else Watcher(), data.notes)
    learner = Learner(run, model, inputs, notes, sharded=sharded, front=front)
    loop = Loop(learner, folder, num_weights=num_weights, baseline=baseline)
    with folder.opened() if accelerator.is_main_process else nullcontext():
        if folder.checkpoints.last_step() > (checkpoint.step if checkpoint is not None else 0) and (
            checkpoint is None or not checkpoint.damaged
        ):
            raise ValueError(
                f"another process has trained in {folder.path} in the meantime; run this again"
            )
        return loop.train(command, checkpoint)


def is_main_process() -> bool:
    """Whether this process is the one that writes and prints."""
    # Without RANK only: a run that had ended before has not connected to the other processes.
    rank = os.environ.get("RANK")
    return rank == "0" if rank is not None else bool(PartialState().is_main_process)


def leave_group() -> None:
    """Waits for the other processes, which may fail if one ends early, and disconnects."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def _settled(run: Run[Any], train_dense: Callable[[Run[Any]], Record]) -> Run[Any]:
    """The run with the hash of its teacher, and with the dense accuracy that max_drop needs."""
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
    """Validation accuracy that an early stop compares with; None if the run has no early stop."""
    if not run.stop.rate or run.stop.baseline is not None:
        return run.stop.baseline
    if not run.weights:
        raise ValueError(
            "stop.rate compares with the weights that a run begins with, and this one has none; "
            "give --weights, or --stop.baseline, or train to the end: --stop.rate 0"
        )
    if run.new_head:
        raise ValueError(
            "stop.rate compares with the weights that a run begins with, and a new head has not "
            "learned anything yet; give --stop.baseline, train the head first, or train to the "
            "end: --stop.rate 0"
        )
    moved = copy.deepcopy(model).to(accelerator.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return accuracy(moved, data.validation, normaliser_of(run, data), accelerator)


def _memory_short(run: Run[Any]) -> str:
    ways = [f"a smaller batch (--batch-size {run.batch_size // 2})"] if run.batch_size > 1 else []
    ways += ["half the precision (--precision bf16)"] if run.precision == "fp32" else []
    ways = ways or ["several GPUs that share the model (--shard)"]
    return (
        f"the GPU has too little memory for batch_size {run.batch_size} in {run.precision}; "
        f"try {' or '.join(ways)}"
    )


def _accelerator(run: Run[Any]) -> Accelerator:
    AcceleratorState._reset_state()  # the precision of an earlier run in this process would be kept
    if run.precision == "bf16" and not torch.cuda.is_available():
        # Some virtual machines advertise AMX and kill the process that uses it.
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    if run.precision == "fp16" and not torch.cuda.is_available():
        raise ValueError("precision fp16 needs a GPU; on a CPU use bf16 or fp32")
    return Accelerator(
        mixed_precision="no" if run.precision == "fp32" else run.precision,
        # Without this, accelerate does not connect several CPU processes.
        cpu=not torch.accelerator.is_available(),
    )
