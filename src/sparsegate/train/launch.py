"""Turns the description of a run into its record."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedType
from accelerate.state import AcceleratorState, PartialState

from sparsegate.data import load_data
from sparsegate.record import Record

from .folder import RunFolder
from .heap import keep_freed_memory
from .loop import Loop
from .network import fresh_network
from .run import Run
from .watch import Watcher


def train(run: Run[Any], *, folder: Path | str = "runs", watch: Watcher | None = None, command: str = "") -> Record:
    """Trains the network that a run describes, and returns its record.

    The run's folder, `folder / run.name`, gets checkpoints as training goes on, then the finished network and the
    record. A run that was interrupted goes on from its last checkpoint; one that has ended returns its record at once.
    """
    place = RunFolder(Path(folder) / run.name, run)
    if (record := place.record()) is not None:
        return record
    keep_freed_memory()
    data = load_data(run.data)
    model, num_weights = fresh_network(run, data)
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
