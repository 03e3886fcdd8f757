"""The engines that a network could run by instead, each prepared the way its own documentation says."""

from __future__ import annotations

import os
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate.speed import BASELINE
from sparsegate_runtime.registry import Registry

Forward = Callable[[Tensor], Tensor]
OPSET = 13  # the newest that the last release of DeepSparse knows well


class Rival(ABC):
    """An engine that runs ordinary models on the CPU."""

    package: str
    """What to install for it."""
    skips_zeros = False
    """Whether it gains from zeros."""

    def available(self) -> bool:
        """Whether it is installed."""
        return self.version() is not None

    def version(self) -> str | None:
        """Its version, if it is installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    @abstractmethod
    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """The model's forward pass for batches like the example, by so many threads."""


class Eager(Rival):
    """Torch as it is; its threads are torch's own, so these must be as many already."""

    package = "torch"

    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """The model itself."""
        return model


class Compiled(Rival):
    """`torch.compile` for one shape, with its default settings."""

    package = "torch"

    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """Compiles at once, with torch's present number of threads."""
        torch.compiler.reset()
        compiled: Forward = torch.compile(model, dynamic=False)
        compiled(example)
        return compiled


class OnnxRuntime(Rival):
    """ONNX Runtime on the CPU."""

    package = "onnxruntime"

    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """A session whose threads do not spin when it has nothing to do, since others are timed in between."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.force_spinning_stop", "1")
        with _onnx(model, example) as path:
            session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
        return lambda x: torch.from_numpy(session.run(None, {"x": x.numpy()})[0])


class OpenVino(Rival):
    """OpenVINO on the CPU, for latency."""

    package = "openvino"

    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """A compiled model in float32: its default is bfloat16 on some machines, which is another computation."""
        import openvino

        core = openvino.Core()
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }
        with _onnx(model, example) as path:
            request = core.compile_model(
                core.read_model(path), "CPU", settings
            ).create_infer_request()

        bound: list[
            Tensor
        ] = []  # handing over a new array costs 0.05 ms a call, as much as a small network

        def forward(x: Tensor) -> Tensor:
            if not bound or bound[0] is not x:
                bound[:] = [x]
                request.set_input_tensor(openvino.Tensor(x.numpy(), shared_memory=True))
            request.infer()
            return torch.from_numpy(request.get_output_tensor().data)

        return forward


class DeepSparse(Rival):
    """DeepSparse, the last engine for sparse networks on CPUs; it needs an old Python, numpy and onnx."""

    package = "deepsparse"
    skips_zeros = True

    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """An engine for the example's batch; it asks nobody on the internet."""
        os.environ["NM_DISABLE_ANALYTICS"] = "1"
        from deepsparse import Engine

        with _onnx(model, example) as path:
            engine: Any = Engine(model=path, batch_size=len(example), num_cores=threads)
        return lambda x: torch.from_numpy(engine.run([x.numpy()], val_inp=False)[0])


def write_onnx(model: nn.Module, example: Tensor, path: Path) -> None:
    """Writes a model as ONNX, for batches of the example's size; the input is called x, the output y."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # this exporter is the old one, and the only one that needs no more packages
        torch.onnx.export(
            *(model, (example,), path),
            dynamo=False,
            opset_version=OPSET,
            input_names=["x"],
            output_names=["y"],
        )


@contextmanager
def _onnx(model: nn.Module, example: Tensor) -> Iterator[str]:
    """The path of a model's ONNX file, which is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        write_onnx(model, example, path)
        yield str(path)


RIVALS: Registry[Rival] = Registry(
    "engine",
    {
        BASELINE: Eager(),
        "torch.compile": Compiled(),
        "onnxruntime": OnnxRuntime(),
        "openvino": OpenVino(),
        "deepsparse": DeepSparse(),
    },
)
"""Every engine that `sparsegate bench` knows; those that are not installed are left out there."""
