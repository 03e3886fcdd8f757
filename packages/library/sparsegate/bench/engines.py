"""Inference engines for dense models, each set up as its documentation recommends."""

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

from sparsegate_runtime.registry import Registry

from .record import BASELINE

Forward = Callable[[Tensor], Tensor]
OPSET = 13  # the newest that the last release of DeepSparse supports well


class Engine(ABC):
    """An engine that runs ordinary models on the CPU."""

    package: str
    """The package that provides it."""
    skips_zeros = False
    """Whether zeros in the weights make it faster."""

    def available(self) -> bool:
        """Whether the package is installed."""
        return self.version() is not None

    def version(self) -> str | None:
        """The version of the package, or None if it is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    @abstractmethod
    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """Returns the model's forward pass for batches of the example's shape."""


class Eager(Engine):
    """PyTorch without compilation; set torch's own number of threads before the call."""

    package = "torch"

    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """Returns the model itself."""
        return model


class Compiled(Engine):
    """`torch.compile` for one shape, with its default settings."""

    package = "torch"

    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """Compiles now, with torch's current number of threads."""
        torch.compiler.reset()
        compiled: Forward = torch.compile(model, dynamic=False)
        compiled(example)
        return compiled


class OnnxRuntime(Engine):
    """ONNX Runtime on the CPU."""

    package = "onnxruntime"

    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """Opens a session whose idle threads do not spin, since other engines run in between."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.force_spinning_stop", "1")
        with _onnx_file(model, example) as path:
            session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
        return lambda x: torch.from_numpy(session.run(None, {"x": x.numpy()})[0])


class OpenVino(Engine):
    """OpenVINO on the CPU, tuned for latency."""

    package = "openvino"

    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """Compiles in float32; on some machines OpenVINO's default would be bfloat16."""
        import openvino

        core = openvino.Core()
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }
        with _onnx_file(model, example) as path:
            compiled = core.compile_model(core.read_model(path), "CPU", settings)
        request = compiled.create_infer_request()
        # A new input array costs 0.05 ms a call, as much as a small network: set it only once.
        bound: list[Tensor] = []

        def forward(x: Tensor) -> Tensor:
            if not bound or bound[0] is not x:
                bound[:] = [x]
                request.set_input_tensor(openvino.Tensor(x.numpy(), shared_memory=True))
            request.infer()
            return torch.from_numpy(request.get_output_tensor().data)

        return forward


class DeepSparse(Engine):
    """DeepSparse, the last sparse engine for CPUs; it needs an old Python, numpy and onnx."""

    package = "deepsparse"
    skips_zeros = True

    def prepare(self, model: nn.Module, example: Tensor, *, threads: int) -> Forward:
        """Builds an engine for the example's batch size, with its analytics turned off."""
        os.environ["NM_DISABLE_ANALYTICS"] = "1"
        from deepsparse import Engine as DeepSparseEngine

        with _onnx_file(model, example) as path:
            engine: Any = DeepSparseEngine(model=path, batch_size=len(example), num_cores=threads)
        return lambda x: torch.from_numpy(engine.run([x.numpy()], val_inp=False)[0])


def write_onnx(model: nn.Module, example: Tensor, path: Path) -> None:
    """Writes a model as ONNX for the example's batch size; the input is named x, the output y."""
    with warnings.catch_warnings():
        # The old exporter warns; the new one needs more packages.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (example,),
            path,
            dynamo=False,
            opset_version=OPSET,
            input_names=["x"],
            output_names=["y"],
        )


@contextmanager
def _onnx_file(model: nn.Module, example: Tensor) -> Iterator[str]:
    """The path of the model as a temporary ONNX file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        write_onnx(model, example, path)
        yield str(path)


ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        BASELINE: Eager(),
        "torch.compile": Compiled(),
        "onnxruntime": OnnxRuntime(),
        "openvino": OpenVino(),
        "deepsparse": DeepSparse(),
    },
)
"""Every engine that `sparsegate bench` compares with, if its package is installed."""
