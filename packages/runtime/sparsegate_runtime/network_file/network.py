"""Runs a network from a file, without PyTorch."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime import threads as thread_count
from sparsegate_runtime.engine import INSTRUCTION_SETS, Plan, Tensor, ThreadMemory, image_of
from sparsegate_runtime.engine import network as n
from sparsegate_runtime.files import default_limit

from .build import KINDS, Builder
from .container import decode
from .fit import DiffersError, fit
from .kinds import TYPES
from .scaled import scaled
from .sketch import Sketch

MOST_PLANS = 16
"""Plans for different sizes of the inputs that are kept."""


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a network.

    Attributes:
        name: its name.
        type: `float32`, `int64` or `bool`.
        shape: its sizes. A size that depends on the caller is a name such as `batch`, or a formula
            such as `2 * length`.

    """

    name: str
    type: str
    shape: tuple[int | str, ...]


class Network:
    """A network that computes its outputs from numpy arrays.

        net = Network.load("net.sgn")
        scores = net(images)

    The first call with inputs of new sizes plans the network, and the plan is kept for later calls.
    Several threads may call one network at the same time.

    Attributes:
        inputs: name, type and shape of every input, in the order of a call's arguments.
        outputs: the same of every output.
        threads: how many threads a call uses; None for all cores, or `OMP_NUM_THREADS`.

    """

    def __init__(self, sketch: Sketch, *, file_bytes: int = 0, limit: int | None = None) -> None:
        self.sketch = scaled(sketch)
        self.threads: int | None = None
        self._file_bytes, self._limit = file_bytes, limit
        self._plans: OrderedDict[tuple[int, ...], _PlannedNetwork] = OrderedDict()
        self._lock = threading.Lock()
        self._names = [symbol.name for symbol in sketch.symbols]
        self.inputs = tuple(self._input(one.fields) for one in sketch.inputs)
        self._check_symbols()
        self.outputs = self._outputs()

    @classmethod
    def load(cls, path: Path | str, *, limit: int | None = None) -> Network:
        """Reads a network from an `.sgn` file.

        Args:
            path: the file.
            limit: the most bytes that a tensor may take. The default is half of the machine's
                memory, and at most 4096 times the bytes of the file and the inputs together; but
                256 MiB are always allowed.

        Raises:
            ValueError: the file is damaged, truncated, or of a later version.

        """
        try:
            return cls.from_bytes(Path(path).read_bytes(), limit=limit)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def from_bytes(cls, raw: bytes | memoryview, *, limit: int | None = None) -> Network:
        """Reads a network from the bytes of an `.sgn` file."""
        return cls(decode(raw, limit=limit), file_bytes=len(raw), limit=limit)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """The output of the network, or a tuple of all outputs if it has several.

        Args:
            inputs: arrays, in the order of `inputs`.
            named: arrays by the names of the inputs.

        Raises:
            ValueError: an input is missing, or of another type or shape.

        """
        given = self._arrays(inputs, named)
        found = self._plan(given).run(given, self.threads or thread_count.count())
        return found[0] if len(found) == 1 else tuple(found)

    def built(self, **sizes: int) -> n.Network:
        """The engine's network for inputs of these sizes; those left out are the example's.

        Args:
            sizes: the value of every symbol, such as `batch=1`.

        """
        unknown = set(sizes) - set(self._names)
        if unknown:
            names = ", ".join(self._names) or "none"
            raise ValueError(f"the sizes that vary are {names}, got {', '.join(sorted(unknown))}")
        for symbol in self.sketch.symbols:
            symbol.check(sizes.get(symbol.name, symbol.example))
        whole = {one.name: sizes.get(one.name, one.example) for one in self.sketch.symbols}
        return self._build(whole, 0)

    def image(self, instruction_set: str | None = None, **sizes: int) -> bytes:
        """A program image for inputs of fixed sizes, which C programs load.

        Args:
            instruction_set: the one to plan for, such as `avx2`; this machine's if not given. An
                image runs with every instruction set.
            sizes: the value of every symbol, such as `batch=1`; the example's if left out.

        """
        if instruction_set not in (None, *INSTRUCTION_SETS):
            known = ", ".join(INSTRUCTION_SETS)
            raise ValueError(f"expected an instruction set of {known}, got {instruction_set!r}")
        variant = None if instruction_set is None else INSTRUCTION_SETS[instruction_set]
        plan = Plan(self.built(**sizes), variant=variant)
        names = [info.name for info in self.inputs], [info.name for info in self.outputs]
        return image_of(plan, inputs=names[0], outputs=names[1])

    # -- inputs -----------------------------------------------------------------------------------

    def _input(self, fields: Any) -> TensorInfo:
        sizes: list[int | str] = []
        for size in fields["shape"]:
            if len(size.variables) > 1 or (size.variables and size.encode()[0] & 2):
                raise ValueError(f"the input {fields['name']} has a size that is not one symbol")
            if size.variables and size.variables[0] >= len(self._names):
                raise ValueError(f"the input {fields['name']} has a size that depends on a tensor")
            sizes.append(self._names[size.variables[0]] if size.variables else size.offset)
        return TensorInfo(fields["name"], KINDS[TYPES[fields["type"]]], tuple(sizes))

    def _check_symbols(self) -> None:
        given = {size for info in self.inputs for size in info.shape}
        missing = [name for name in self._names if name not in given]
        if missing:
            raise ValueError(f"no input has the size {missing[0]!r}")

    def _arrays(self, inputs: Sequence[Any], named: dict[str, Any]) -> list[NDArray[Any]]:
        names = [info.name for info in self.inputs]
        unknown = [name for name in named if name not in names[len(inputs) :]]
        if len(inputs) + len(named) != len(names) or unknown:
            got = [f"{len(inputs)} in order", *named]
            raise ValueError(
                f"expected the inputs {', '.join(names) or 'none'}, got {', '.join(got)}"
            )
        whole = [*inputs, *(named[name] for name in names[len(inputs) :])]
        return [_checked(one, info) for one, info in zip(whole, self.inputs, strict=True)]

    def _sizes(self, shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The value of every symbol."""
        found: dict[str, int] = {}
        for shape, info in zip(shapes, self.inputs, strict=True):
            for size, wanted in zip(shape, info.shape, strict=True):
                if isinstance(wanted, str) and found.setdefault(wanted, size) != size:
                    raise ValueError(
                        f"the inputs disagree: the {wanted} is {found[wanted]}, but {size} in the "
                        f"input {info.name}"
                    )
        for symbol in self.sketch.symbols:
            symbol.check(found[symbol.name])
        return tuple(found[name] for name in self._names)

    # -- plans ------------------------------------------------------------------------------------

    def _plan(self, given: Sequence[NDArray[Any]]) -> _PlannedNetwork:
        sizes = self._sizes([one.shape for one in given])
        with self._lock:
            if sizes in self._plans:
                self._plans.move_to_end(sizes)
                return self._plans[sizes]
            named = dict(zip(self._names, sizes, strict=True))
            input_bytes = sum(one.nbytes for one in given)
            made = _PlannedNetwork(self._build(named, input_bytes), self._most_bytes(input_bytes))
            self._plans[sizes] = made
            if len(self._plans) > MOST_PLANS:
                self._plans.popitem(last=False)
        return made

    def _build(self, sizes: dict[str, int], input_bytes: int) -> n.Network:
        most = max(1, self._most_bytes(input_bytes) // 4)
        return Builder(self.sketch, sizes, most).build()

    def _most_bytes(self, input_bytes: int) -> int:
        """The most bytes of one tensor."""
        if self._limit is not None:
            return self._limit
        return default_limit(self._file_bytes + input_bytes)

    def _outputs(self) -> tuple[TensorInfo, ...]:
        """Names and types, and how the shapes follow from symbols."""
        sizes = [{one.name: one.example for one in self.sketch.symbols}]
        for one in self.sketch.symbols:
            other = one.example + 1 if one.example != one.most else max(one.least, one.example // 2)
            sizes.append({**sizes[0], one.name: other})
        built = [self._build(sizes[0], 0)]
        for each in sizes[1:]:
            try:
                built.append(self._build(each, 0))
            except ValueError:  # not every size is possible
                continue
        values = [[each[name] for name in self._names] for each in sizes[: len(built)]]
        found = []
        for number, (_, name) in enumerate(self.sketch.outputs):
            nodes = [network.outputs[number] for network in built]
            kind = _kind(built[0].outputs[number])
            shapes = zip(*(node.shape for node in nodes), strict=True)
            shape = tuple(self._words(list(each), values) for each in shapes)
            found.append(TensorInfo(name, kind, shape))
        return tuple(found)

    def _words(self, sizes: list[int], values: list[list[int]]) -> int | str:
        try:
            size = fit(sizes, values)
        except DiffersError:
            return "?"
        return size.words(self._names) if size.variables else size.offset


def _kind(node: n.Node) -> str:
    """The type of a value."""
    while isinstance(node, n.Reshape):
        (node,) = node.inputs
    if isinstance(node, n.Constant):
        return str(node.value.dtype)
    return node.kind if isinstance(node, n.Input) else "float32"


def _checked(value: Any, info: TensorInfo) -> NDArray[Any]:
    """An input in the type that the network reads; raises ValueError if it does not fit."""
    array = np.asarray(value)
    if not np.can_cast(array.dtype, info.type, casting="same_kind"):
        raise ValueError(f"the input {info.name} must be {info.type}, got {array.dtype}")
    fits = array.ndim == len(info.shape) and all(
        isinstance(wanted, str) or size == wanted
        for size, wanted in zip(array.shape, info.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(map(str, info.shape))
        raise ValueError(f"the input {info.name} must have the shape ({wanted}), got {array.shape}")
    return np.ascontiguousarray(array, info.type)


class _PlannedNetwork:
    """The engine's plan; several threads may run it at once.

    Raises:
        ValueError: the engine cannot plan the network, or the plan takes too much memory.

    """

    def __init__(self, network: n.Network, most_bytes: int) -> None:
        try:
            self.plan = Plan(network)
        except (AssertionError, ArithmeticError, LookupError, TypeError) as error:
            raise ValueError(
                f"the engine cannot plan this network ({type(error).__name__}: {error})"
            ) from error
        if 4 * self.plan.arena > most_bytes:
            raise ValueError(
                f"a run takes {4 * self.plan.arena:,} bytes, more than the limit of "
                f"{most_bytes:,}; raise limit= to run"
            )
        self.shapes = [one.shape for one in network.outputs]
        self._memory = ThreadMemory(self.plan)

    def run(self, inputs: Sequence[NDArray[Any]], threads: int) -> list[NDArray[Any]]:
        """The outputs for contiguous inputs of the plan's shapes."""
        outputs = [self._output(one, inputs) for one in self.plan.outputs]
        self.plan.run(
            self._memory(threads),
            [one.ctypes.data for one in inputs],
            [one.ctypes.data for one in outputs],
            threads=threads,
        )
        return outputs

    def _output(self, place: Tensor, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Memory for an output; an input that is an output, too, is copied."""
        if place.buffer in self.plan.inputs:
            given = inputs[self.plan.inputs.index(place.buffer)]
            return given.reshape(place.shape).copy()
        return np.empty(place.shape, np.float32)
