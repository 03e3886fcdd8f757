"""LSTM, GRU and plain recurrent layers whose matrices are sparse."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor, nn

from sparsegate_runtime.engine import LANES, LONG, POINTER, Rows, Slices, scratch
from sparsegate_runtime.kernels import KERNELS

from ..chain import VARIANT
from ..chain_in_c import CLayer
from .kept import Kept
from .linear import multiply
from .sparse_module import SparseModule, check_input

CELLS = {"RNN_TANH": 0, "RNN_RELU": 1, "LSTM": 2, "GRU": 3}
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
MOST_COLUMNS = 2**16
FEW = 4
"""From this number of sequences on, sixteen at a time are faster."""


class CRecurrent(ctypes.Structure):
    """`Recurrent` of recurrent.h."""

    _fields_ = (("cell", LONG), ("hidden", LONG), ("matrix", CLayer))


class CSequence(ctypes.Structure):
    """`Sequence` of recurrent.h."""

    _fields_ = (
        *((name, POINTER) for name in ("net", "input", "out", "state", "memory")),
        *((name, LONG) for name in ("steps", "images")),
        *((name, LONG) for name in ("in_step", "in_image", "out_step", "out_image", "reverse")),
    )


class SparseRecurrent(SparseModule):
    """Computes an `LSTM`, `GRU` or `RNN` without the zeros of its matrices, in C.

    >>> cell = nn.GRU(4, 3)
    >>> x = torch.ones(5, 2, 4)
    >>> torch.allclose(SparseRecurrent.of(cell)(x)[0], cell(x)[0], atol=1e-6)
    True

    All time steps of a layer's input are multiplied in one product. Packed sequences run by torch, with dense weights
    that are made for the call.
    """

    def __init__(self, cell: nn.RNNBase) -> None:
        super().__init__()
        self.mode, self.hidden_size, self.input_size = cell.mode, cell.hidden_size, cell.input_size
        self.num_layers, self.bidirectional = cell.num_layers, cell.bidirectional
        self.batch_first, self.bias, self.dropout = cell.batch_first, cell.bias, cell.dropout
        self.proj_size = cell.proj_size
        for name, weight in cell.named_parameters():
            if weight.ndim == 2:
                self.hold(name, Kept.of(weight))
            else:
                self.register_buffer(name, weight.detach().clone())
        self.__dict__["_packed"] = {}

    @classmethod
    def of(cls, cell: nn.RNNBase) -> SparseRecurrent:
        """The sparse form of a recurrent layer."""
        return cls(cell)

    def flatten_parameters(self) -> None:
        """Does nothing: there are no parameters to lay out."""

    def forward(self, x: Any, hx: Any = None) -> Any:
        """Outputs and last states, as the ordinary layer gives them."""
        if not isinstance(x, Tensor) or torch.compiler.is_compiling():
            return self.ordinary()(x, hx)
        check_input(x, x.shape[-1] if x.ndim else 0, self.input_size)
        batched = x.ndim == 3
        steps_first = x[:, None] if not batched else x.transpose(0, 1) if self.batch_first else x
        states = self._first_states(steps_first, hx, batched=batched)
        out = steps_first
        for number in range(self.num_layers):
            outputs = [
                self._direction(out, states, number, reverse=reverse)
                for reverse in range(1 + self.bidirectional)
            ]
            out = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
        last: Any = states if self.mode == "LSTM" else states[0]
        if not batched:
            last = (
                tuple(state[:, 0] for state in states) if self.mode == "LSTM" else states[0][:, 0]
            )
            return out[:, 0], last
        return out.transpose(0, 1) if self.batch_first else out, last

    def ordinary(self) -> nn.RNNBase:
        """The ordinary layer, with dense weights made for it."""
        kinds = {"LSTM": nn.LSTM, "GRU": nn.GRU}
        settings: dict[str, Any] = {
            "num_layers": self.num_layers,
            "bias": self.bias,
            "batch_first": self.batch_first,
            "bidirectional": self.bidirectional,
        }
        if self.mode in kinds:
            made: nn.RNNBase = kinds[self.mode](self.input_size, self.hidden_size, **settings)
        else:
            kind = self.mode.removeprefix("RNN_").lower()
            made = nn.RNN(self.input_size, self.hidden_size, nonlinearity=kind, **settings)
        made.load_state_dict(self.state_dict())
        return made.eval().requires_grad_(False)

    def _first_states(self, x: Tensor, hx: Any, *, batched: bool) -> tuple[Tensor, ...]:
        shape = (self.num_layers * (1 + self.bidirectional), x.shape[1], self.hidden_size)
        count = 2 if self.mode == "LSTM" else 1
        if hx is None:
            return tuple(x.new_zeros(shape) for _ in range(count))
        given = tuple(hx) if count == 2 else (hx,)
        given = tuple(state if batched else state[:, None] for state in given)
        if len(given) != count or any(tuple(state.shape) != shape for state in given):
            raise ValueError(
                f"expected {count} first states of shape {shape}, got {[tuple(s.shape) for s in given]}"
            )
        return tuple(state.float().contiguous().clone() for state in given)

    def _direction(
        self, x: Tensor, states: tuple[Tensor, ...], number: int, *, reverse: int
    ) -> Tensor:
        """One layer in one direction over all steps; the states are changed in place."""
        suffix = f"l{number}" + ("_reverse" if reverse else "")
        bias_in = getattr(self, f"bias_ih_{suffix}", None)
        sums = multiply(x, self.kept(f"weight_ih_{suffix}"), bias_in).contiguous()
        steps, images, rows = sums.shape
        out = x.new_empty(steps, images, self.hidden_size)
        if not out.numel():
            return out
        single = images < FEW and self.hidden_size <= MOST_COLUMNS
        packed = self._matrix(suffix, single=single)
        index = number * (1 + self.bidirectional) + reverse
        state = states[0][index]
        memory = states[1][index] if self.mode == "LSTM" else state
        call = CSequence(
            ctypes.addressof(packed.recurrent),
            sums.data_ptr(),
            out.data_ptr(),
            state.data_ptr(),
            memory.data_ptr(),
            steps,
            images,
            images * rows,
            rows,
            images * self.hidden_size,
            self.hidden_size,
            reverse,
        )
        assert KERNELS is not None
        lanes = 1 if single else LANES
        threads = min(torch.get_num_threads(), -(-images // lanes))
        room = scratch(
            threads * KERNELS.sg_recurrent_scratch(ctypes.addressof(packed.recurrent), single)
        )
        KERNELS.sg_recurrent(ctypes.addressof(call), room, single, threads, VARIANT)
        return out

    def _matrix(self, suffix: str, *, single: bool) -> _Matrix:
        made: dict[Any, _Matrix] = self.__dict__["_packed"]
        kept = self.kept(f"weight_hh_{suffix}")
        key = (suffix, single, kept.value.data_ptr())
        if key not in made:
            bias = getattr(self, f"bias_hh_{suffix}", None)
            made[key] = _Matrix(kept, bias, CELLS[self.mode], single=single)
        return made[key]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_packed": {}}  # pointers do not travel

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseRecurrent:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__getstate__())
        for name in ("_buffers", "_modules", "_parameters", "_shapes"):
            made.__dict__[name] = dict(self.__dict__[name])  # tensors are never changed: shared
        return made

    def extra_repr(self) -> str:
        """Sizes and sparsity, for `print`."""
        matrices = [self.kept(name) for name in self.__dict__["_shapes"]]
        kept = sum(len(matrix.value) for matrix in matrices)
        total = sum(matrix.shape[0] * matrix.shape[1] for matrix in matrices)
        return (
            f"{self.mode}, {self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"{1 - kept / total:.1%} zeros{self.note}"
        )


class _Matrix:
    """The recurrent matrix in the form that one image, or sixteen, need."""

    def __init__(self, kept: Kept, bias: Tensor | None, cell: int, *, single: bool) -> None:
        rows, hidden = kept.shape
        weights = kept.weights()
        base = torch.zeros(rows) if bias is None else bias.detach().float().contiguous()
        matrix = CLayer(is_linear=1, rows=rows, bias=base.data_ptr())
        arrays: Rows | Slices
        if single:
            arrays = Slices.of(weights)
            matrix.slices = arrays.as_c()
        else:
            offset = 4 * LANES * weights.column
            arrays = Rows.of(weights, offset, weights.column * 0)
            matrix.panel = arrays.as_c()
        self.recurrent = CRecurrent(cell, hidden, matrix)
        self._keep = (arrays, base)


def fits_recurrent(module: nn.Module) -> bool:
    """Whether the kernels can run a module: LSTM, GRU or RNN without projections."""
    return type(module) in (nn.LSTM, nn.GRU, nn.RNN) and not getattr(module, "proj_size", 0)
