"""LSTM, GRU and plain recurrent layers whose matrices are sparse."""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import finalize

import torch
from torch import Tensor, nn

from sparsegate_runtime.engine import LANES, LONG, POINTER, Rows, Slices, scratch
from sparsegate_runtime.kernels import KERNELS

from ..chain import VARIANT
from ..chain_in_c import CLayer
from .kept import Kept
from .linear import multiply
from .sparse_module import SparseModule, checked

CELLS = {"RNN_TANH": 0, "RNN_RELU": 1, "LSTM": 2, "GRU": 3}
MOST_COLUMNS = 2**16
FEW = 4
"""From this number of sequences on, computing sixteen at a time is faster."""


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

    One product multiplies the inputs of all time steps. Packed sequences run by torch, with dense
    weights that are made for the call.
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
                self.hold_bias(weight, name)

    @classmethod
    def of(cls, cell: nn.RNNBase) -> SparseRecurrent:
        """Makes the sparse form of a recurrent layer."""
        return cls(cell)

    def flatten_parameters(self) -> None:
        """Does nothing: there are no parameters to lay out."""

    def forward(self, x: Any, hx: Any = None) -> Any:
        """Returns outputs and last states, like the ordinary layer."""
        if not isinstance(x, Tensor):
            return self.ordinary()(x, hx)
        if not torch.compiler.is_compiling():
            x = checked(x, x.shape[-1] if x.ndim else 0, self.input_size)
        batched = x.ndim == 3
        out = x[:, None] if not batched else x.transpose(0, 1) if self.batch_first else x
        states = self._first_states(out, hx, batched=batched)
        lasts: list[tuple[Tensor, ...]] = []
        for number in range(self.num_layers):
            outputs = []
            for reverse in range(1 + self.bidirectional):
                made, *last = self._direction(
                    out, [one[len(lasts)] for one in states], number, reverse
                )
                outputs.append(made)
                lasts.append(tuple(last))
            out = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
        every = [torch.stack(one) for one in list(zip(*lasts, strict=True))[: len(states)]]
        every = every if batched else [one[:, 0] for one in every]
        last_states: Any = tuple(every) if self.mode == "LSTM" else every[0]
        if not batched:
            return out[:, 0], last_states
        return out.transpose(0, 1) if self.batch_first else out, last_states

    def ordinary(self) -> nn.RNNBase:
        """An ordinary layer with dense weights, made for one call."""
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
                f"expected {count} initial states of shape {shape}, "
                f"got {[tuple(s.shape) for s in given]}"
            )
        return tuple(state.float() for state in given)

    def _direction(
        self, x: Tensor, states: list[Tensor], number: int, reverse: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Runs one layer in one direction: returns outputs, last state and last memory."""
        suffix = f"l{number}" + ("_reverse" if reverse else "")
        bias_in, bias = (getattr(self, f"bias_{one}_{suffix}", None) for one in ("ih", "hh"))
        sums = multiply(x, self.kept(f"weight_ih_{suffix}"), bias_in)
        return steps(sums, states, self.kept(f"weight_hh_{suffix}"), bias, self.mode, reverse)

    def extra_repr(self) -> str:
        """Sizes and sparsity, for `print`."""
        matrices = [self.kept(name) for name in self.__dict__["_shapes"]]
        kept = sum(len(matrix.value) for matrix in matrices)
        total = sum(matrix.shape[0] * matrix.shape[1] for matrix in matrices)
        return (
            f"{self.mode}, {self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"{1 - kept / total:.1%} zeros{self.note}"
        )


def steps(
    sums: Tensor, states: list[Tensor], kept: Kept, bias: Tensor | None, mode: str, reverse: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Runs all steps, given what the inputs add to each gate; compilers see one operator."""
    state, memory = states[0], states[-1]
    if torch.compiler.is_compiling():
        parts = (kept.start, kept.column, kept.value, bias)
        found: tuple[Tensor, Tensor, Tensor] = sparse_steps(
            sums, state, memory, *parts, mode, reverse
        )
        return found
    return _run(sums, state, memory, kept, bias, mode, reverse)


def _run(
    sums: Tensor,
    state: Tensor,
    memory: Tensor,
    kept: Kept,
    bias: Tensor | None,
    mode: str,
    reverse: int,
) -> tuple[Tensor, Tensor, Tensor]:
    num_steps, images, rows = sums.shape
    sums, hidden = sums.contiguous(), kept.shape[1]
    state, memory = (one.clone(memory_format=torch.contiguous_format) for one in (state, memory))
    out = sums.new_empty(num_steps, images, hidden)
    if not out.numel():
        return out, state, memory
    single = images < FEW and hidden <= MOST_COLUMNS
    recurrent = ctypes.addressof(_matrix(kept, bias, mode, single=single).recurrent)
    call = CSequence(
        recurrent,
        sums.data_ptr(),
        out.data_ptr(),
        state.data_ptr(),
        memory.data_ptr(),
        num_steps,
        images,
        images * rows,
        rows,
        images * hidden,
        hidden,
        reverse,
    )
    assert KERNELS is not None
    threads = min(torch.get_num_threads(), -(-images // (1 if single else LANES)))
    room = scratch(threads * KERNELS.sg_recurrent_scratch(recurrent, single))
    KERNELS.sg_recurrent(ctypes.addressof(call), room, single, threads, VARIANT)
    return out, state, memory


class _Matrix:
    """The recurrent matrix, packed for one sequence or for sixteen."""

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


_MATRICES: dict[int, dict[tuple[int, str, bool], _Matrix]] = {}
"""Packed matrices by the address of their values."""


def _matrix(kept: Kept, bias: Tensor | None, mode: str, *, single: bool) -> _Matrix:
    """The packed matrix; it lives as long as the tensor of the values."""
    place = kept.value.data_ptr()
    if place not in _MATRICES:
        _MATRICES[place] = {}
        finalize(kept.value, _MATRICES.pop, place, None)
    forms, key = _MATRICES[place], (0 if bias is None else bias.data_ptr(), mode, single)
    if key not in forms:
        forms[key] = _Matrix(kept, bias, CELLS[mode], single=single)
    return forms[key]


SCHEMA = (
    "(Tensor sums, Tensor state, Tensor memory, Tensor start, Tensor column, Tensor value, "
    "Tensor? bias, str mode, int reverse) -> (Tensor, Tensor, Tensor)"
)


@torch.library.custom_op("sparsegate::recurrent", mutates_args=(), schema=SCHEMA)
def sparse_steps(
    sums: Tensor,
    state: Tensor,
    memory: Tensor,
    start: Tensor,
    column: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mode: str,
    reverse: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """All steps of a recurrent layer as an operator for compilers."""
    kept = Kept(start, column, value, (len(start) - 1, state.shape[-1]))
    return _run(sums, state, memory, kept, bias, mode, reverse)


@sparse_steps.register_fake
def _(sums: Tensor, state: Tensor, memory: Tensor, *_others: Any) -> Any:
    out = sums.new_empty(*sums.shape[:2], state.shape[-1])
    return out, torch.empty_like(state), torch.empty_like(memory)


def fits_recurrent(module: nn.Module) -> bool:
    """Whether the kernels can run a module: LSTM, GRU or RNN without projections."""
    return type(module) in (nn.LSTM, nn.GRU, nn.RNN) and not getattr(module, "proj_size", 0)
