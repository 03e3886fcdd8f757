"""Inference engines for dense models, each set up as its documentation recommends."""

from __future__ import annotations

import io
import operator
import os
import sys
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate_runtime.registry import Registry

from .record import BASELINE

Forward = Callable[..., Tensor]
"""Takes the tensors of one batch."""
OPSET = 13
"""The newest version of ONNX that the last release of DeepSparse supports well."""
LATER = 17
"""The version for models that need operators of later ones, such as attention."""


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
    def prepare(self, model: nn.Module, *example: Tensor, threads: int) -> Forward:
        """Returns the model's forward pass for batches of the shapes of the example's tensors."""


class Eager(Engine):
    """PyTorch without compilation; set torch's own number of threads before the call."""

    package = "torch"

    def prepare(self, model: nn.Module, *example: Tensor, threads: int) -> Forward:
        """Returns the model itself."""
        return model


class Compiled(Engine):
    """`torch.compile` for one shape, with its default settings."""

    package = "torch"

    def prepare(self, model: nn.Module, *example: Tensor, threads: int) -> Forward:
        """Compiles now, with torch's current number of threads."""
        torch.compiler.reset()
        compiled: Forward = torch.compile(model, dynamic=False)
        compiled(*example)
        return compiled


class OnnxRuntime(Engine):
    """ONNX Runtime on the CPU."""

    package = "onnxruntime"

    def prepare(self, model: nn.Module, *example: Tensor, threads: int) -> Forward:
        """Opens a session whose idle threads do not spin, since other engines run in between."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.force_spinning_stop", "1")
        with _onnx_file(model, example) as path:
            session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
        names = [given.name for given in session.get_inputs()]

        def forward(*tensors: Tensor) -> Tensor:
            given = {name: x.numpy() for name, x in zip(names, tensors, strict=True)}
            return torch.from_numpy(session.run(None, given)[0])

        return forward


class OpenVino(Engine):
    """OpenVINO on the CPU, tuned for latency."""

    package = "openvino"

    def prepare(self, model: nn.Module, *example: Tensor, threads: int) -> Forward:
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

        def forward(*tensors: Tensor) -> Tensor:
            if len(bound) != len(tensors) or any(map(operator.is_not, bound, tensors)):
                bound[:] = tensors
                for index, x in enumerate(tensors):
                    array = openvino.Tensor(x.numpy(), shared_memory=True)
                    request.set_input_tensor(index, array)
            request.infer()
            return torch.from_numpy(request.get_output_tensor(0).data)

        return forward


class DeepSparse(Engine):
    """DeepSparse, the last sparse engine for CPUs; it needs an old Python, numpy and onnx."""

    package = "deepsparse"
    skips_zeros = True

    def prepare(self, model: nn.Module, *example: Tensor, threads: int) -> Forward:
        """Builds an engine for the example's batch size, with its analytics turned off."""
        os.environ["NM_DISABLE_ANALYTICS"] = "1"
        from deepsparse import Engine as DeepSparseEngine

        with _onnx_file(model, example) as path:
            engine: Any = DeepSparseEngine(
                model=path, batch_size=len(example[0]), num_cores=threads
            )

        def forward(*tensors: Tensor) -> Tensor:
            return torch.from_numpy(engine.run([x.numpy() for x in tensors], val_inp=False)[0])

        return forward


def write_onnx(model: nn.Module, example: Tensor | tuple[Tensor, ...], path: Path) -> None:
    """Writes a model as ONNX for the example's batch size, with inputs x, x1, ... and output y.

    All engines read what the old exporter writes. The new one is used for models that it refuses.
    """
    tensors = (example,) if isinstance(example, Tensor) else example
    names = ["x", *(f"x{index}" for index in range(1, len(tensors)))]
    ways: list[dict[str, Any]] = [
        {"dynamo": False, "opset_version": OPSET},
        {"dynamo": False, "opset_version": LATER},
        {"dynamo": True, "external_data": False, "verbose": False},
    ]
    for way in ways:
        try:
            with warnings.catch_warnings(), _without_output():
                warnings.simplefilter("ignore")  # the old exporter warns of its age
                torch.onnx.export(
                    model, tensors, path, input_names=names, output_names=["y"], **way
                )
            return
        except OSError:
            raise
        except Exception:
            if way is ways[-1]:
                raise


@contextmanager
def _without_output() -> Iterator[None]:
    """Drops what is printed: an exporter that fails shows its whole graph, by C++."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _onnx_file(model: nn.Module, example: tuple[Tensor, ...]) -> Iterator[str]:
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
