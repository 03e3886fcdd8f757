"""What has been read of a TensorFlow Lite graph, whose images have their channels last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparsegate_runtime.engine import network as n

from . import onnx_elements, onnx_layers
from .reading import OnnxOperation, OnnxReading, Value

ONNX_RULES = {**onnx_elements.RULES, **onnx_layers.RULES}
CHANNELS_FIRST = (0, 3, 1, 2)
"""The dimensions of [batch, height, width, channels] as the engine has them."""
CHANNELS_LAST = (0, 2, 3, 1)
ACTIVATIONS: dict[int, tuple[str, dict[str, float]]] = {
    1: ("Relu", {}),
    2: ("Clip", {"min": -1.0, "max": 1.0}),
    3: ("Clip", {"min": 0.0, "max": 6.0}),
    4: ("Tanh", {}),
}
"""The ONNX operations of activations that are part of other operations, by their numbers."""


@dataclass(frozen=True)
class TfliteOperation:
    """An operation with its tensors by number, and its options."""

    kind: str
    name: str
    """The name of its first output."""
    inputs: tuple[int, ...]
    """A negative number is an input that is left out."""
    outputs: tuple[int, ...]
    options: Any

    def get(self, option: str, other: Any = 0) -> Any:
        """An option; the other value if the file does not state it."""
        return other if self.options is None else getattr(self.options, option)()

    def refused(self, why: str) -> ValueError:
        """An error that names the operation."""
        return self.as_onnx((), {}).refused(why)

    def as_onnx(self, inputs: Sequence[str], attributes: dict[str, Any]) -> OnnxOperation:
        """The same operation in ONNX's terms."""
        return OnnxOperation(self.kind, self.name, tuple(inputs), (), attributes)


@dataclass(eq=False)
class TfliteReading:
    """The values of a graph by the numbers of their tensors.

    A value is held as the file has it, or with its channels first, or both. Operations on images
    read and make the second, so that nothing is moved between them.
    """

    onnx: OnnxReading = field(default_factory=lambda: OnnxReading({}))

    def put(self, tensor: int, value: Value, *, images: bool = False) -> None:
        """Holds a value."""
        self.onnx.values[_key(tensor, images)] = value

    def keep(
        self, operation: TfliteOperation, value: Value, *, images: bool = False, output: int = 0
    ) -> None:
        """Holds an output, after the activation that is part of the operation."""
        number = operation.get("FusedActivationFunction") if _has_activation(operation) else 0
        if number and number not in ACTIVATIONS:
            raise operation.refused("its activation is unknown")
        if number:
            kind, attributes = ACTIVATIONS[number]
            value = self.run(kind, operation, [self.named(value)], **attributes)
        self.put(operation.outputs[output], value, images=images)

    def held(self, operation: TfliteOperation, index: int) -> Value:
        """An input in one of its forms."""
        number = _number(operation, index)
        for images in (False, True):
            if _key(number, images) in self.onnx.values:
                return self.onnx.values[_key(number, images)]
        raise operation.refused(f"nothing computes its input {index}")

    def is_images(self, operation: TfliteOperation, *indices: int) -> bool:
        """Whether inputs are best read with their channels first."""
        held = [self.held(operation, index) for index in indices]
        nodes = [one for one in held if isinstance(one, n.Node)]
        first = any(
            _key(_number(operation, index), images=True) in self.onnx.values for index in indices
        )
        return first and all(len(one.shape) == len(CHANNELS_FIRST) for one in nodes)

    def name(self, operation: TfliteOperation, index: int, *, images: bool = False) -> str:
        """The name of an input in a form, which is made if necessary."""
        value, number = self.held(operation, index), _number(operation, index)
        key = _key(number, images)
        if key not in self.onnx.values:
            order = CHANNELS_FIRST if images else CHANNELS_LAST
            if isinstance(value, np.ndarray):
                self.put(number, _moved(value, order), images=images)
            elif len(value.shape) != len(order):
                raise operation.refused(f"it reads {len(value.shape)} dimensions; expected 4")
            else:
                self.put(number, self.onnx.permute(value, order), images=images)
        return key

    def named(self, value: Value) -> str:
        """A name for a value that no tensor holds."""
        key = f"value {len(self.onnx.values)}"
        self.onnx.values[key] = value
        return key

    def array(self, operation: TfliteOperation, index: int) -> NDArray[Any]:
        """A constant input."""
        value = self.held(operation, index)
        if isinstance(value, n.Node):
            raise operation.refused(f"its input {index} is not a constant")
        return value

    def numbers(self, operation: TfliteOperation, index: int) -> list[int]:
        """The integers of a constant input."""
        return [int(one) for one in self.array(operation, index).reshape(-1)]

    def run(
        self, kind: str, operation: TfliteOperation, names: Sequence[str], **attributes: Any
    ) -> Value:
        """The result of the ONNX operation that an operation, or a part of it, equals."""
        return ONNX_RULES[kind](self.onnx, operation.as_onnx(names, attributes))


def is_given(operation: TfliteOperation, index: int) -> bool:
    """Whether an input is there."""
    return index < len(operation.inputs) and operation.inputs[index] >= 0


def _number(operation: TfliteOperation, index: int) -> int:
    if not is_given(operation, index):
        raise operation.refused(f"it has no input {index}")
    return operation.inputs[index]


def _key(tensor: int, images: bool) -> str:
    return f"{tensor} channels first" if images else str(tensor)


def _has_activation(operation: TfliteOperation) -> bool:
    return hasattr(operation.options, "FusedActivationFunction")


def _moved(array: NDArray[Any], order: tuple[int, ...]) -> NDArray[Any]:
    """A constant that is broadcast to images, with its dimensions in their order."""
    if array.ndim == 0:
        return array
    whole = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
    return np.ascontiguousarray(whole.transpose(order))


TfliteRule: TypeAlias = Callable[[TfliteReading, TfliteOperation], None]
