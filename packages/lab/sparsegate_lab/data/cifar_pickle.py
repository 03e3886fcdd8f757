"""Reads the pickled batches of CIFAR by interpreting their opcodes, without Python's unpickler.

No name in a file is imported and nothing in it is called. An array stays a record of what the file
says until `as_array` checks it, so memory is bounded by the file's size.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_OPCODES = 1_000_000
"""A file of 50,000 images has about 200,000."""

ELEMENT_TYPES = {"u1|": "u1", "i8<": "<i8", "i8>": ">i8"}
"""Code and byte order of the element types that an array may have, and numpy's name for them."""

GLOBALS = {
    "_codecs encode": "encode",
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
}
"""What a pickle of numpy arrays refers to, and the name it has here."""

VALUES = (
    *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
)
"""Opcodes whose argument is the value."""

STRINGS = ("BINSTRING", "SHORT_BINSTRING", "STRING")
"""Opcodes of Python 2, whose strings are bytes."""

IGNORED = ("PROTO", "FRAME", "STOP")


@dataclass(frozen=True)
class Global:
    """A reference to something outside the file."""

    name: str


@dataclass
class PickledCall:
    """A call that the file asks for; it is never made."""

    name: str
    arguments: tuple[Any, ...]
    state: Any = None


def read_pickle(raw: bytes) -> Any:
    """The value in a pickle: dicts, lists, tuples, integers, strings, and arrays as `Call`s.

    Raises ValueError for any other pickle.
    """
    machine = _Machine(len(raw))
    for number, (opcode, argument, _) in enumerate(pickletools.genops(raw)):
        if number == MAX_OPCODES:
            raise ValueError(f"it has more than {MAX_OPCODES:,} opcodes")
        if (step := STEPS.get(opcode.name)) is None:
            raise ValueError(f"it has the opcode {opcode.name}, which no batch of CIFAR needs")
        step(machine, argument)
    return machine.pop()


def as_array(value: Any) -> NDArray[Any]:
    """The array that a `Call` describes, read only: its memory is the file's."""
    if not _has_state(value, "array", 5) or not _has_state(value.state[2], "dtype", 8):
        raise ValueError("expected a numpy array")
    _, shape, dtype, is_fortran, content = value.state
    element = ELEMENT_TYPES.get(_text(dtype.arguments[:1]) + _text(dtype.state[1:2]))
    if element is None:
        raise ValueError("expected an array of the element type u1 or i8")
    is_shape = isinstance(shape, tuple) and len(shape) in (1, 2)
    if not is_shape or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("expected an array of one or two dimensions")
    if not isinstance(content, bytes) or prod(shape) * int(element[-1]) != len(content):
        raise ValueError("the shape of an array does not fit its bytes")
    return np.frombuffer(content, element).reshape(shape, order="F" if is_fortran else "C")


def _has_state(value: Any, name: str, count: int) -> bool:
    """Whether a value is a `Call` of this name whose state is a tuple of `count` fields."""
    is_call = isinstance(value, PickledCall) and value.name == name
    return is_call and isinstance(value.state, tuple) and len(value.state) == count


def _text(found: tuple[Any, ...]) -> str:
    """The string in a tuple of one, which Python 2 wrote as bytes; empty for anything else."""
    (value,) = found or ("",)
    value = value.decode("latin-1") if isinstance(value, bytes) else value
    return value if isinstance(value, str) else ""


class _Machine:
    """The stack and the memo of a pickle that is being read."""

    def __init__(self, num_bytes: int) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.encodable = num_bytes  # a file may encode each of its characters once

    def pop(self) -> Any:
        """Takes the last value."""
        if not self.stack:
            raise ValueError("an opcode finds no value")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        """The last value, which must be of this kind."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise ValueError(f"an opcode finds no {kind.__name__}")
        return self.stack[-1]

    def pop_to_mark(self) -> list[Any]:
        """Takes the values since the last MARK."""
        if not self.marks:
            raise ValueError("an opcode finds no MARK")
        first = self.marks.pop()
        values = self.stack[first:]
        del self.stack[first:]
        return values

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def mark(self, _: Any) -> None:
        self.marks.append(len(self.stack))

    def push_string(self, text: str) -> None:
        self.push(text.encode("latin-1"))

    def push_tuple(self, count: int) -> None:
        self.push(tuple([self.pop() for _ in range(count)][::-1]))

    def make_tuple(self, _: Any) -> None:
        self.push(tuple(self.pop_to_mark()))

    def make_list(self, _: Any) -> None:
        self.push(self.pop_to_mark())

    def make_dict(self, _: Any) -> None:
        values = self.pop_to_mark()
        self.push({})
        self.set_items(values)

    def append(self, _: Any) -> None:
        value = self.pop()
        self.top(list).append(value)

    def extend(self, _: Any) -> None:
        values = self.pop_to_mark()
        self.top(list).extend(values)

    def set_item(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def set_all(self, _: Any) -> None:
        self.set_items(self.pop_to_mark())

    def set_items(self, values: list[Any]) -> None:
        keys = values[::2]
        # Strings only: the hash of a deeply nested tuple overflows the stack of C.
        if len(values) % 2 or not all(isinstance(key, bytes | str) for key in keys):
            raise ValueError("a key of a dict is not a string, or has no value")
        self.top(dict).update(zip(keys, values[1::2], strict=True))

    def put(self, index: int) -> None:
        self.memo[index] = self.top(object)

    def memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.top(object)

    def get(self, index: int) -> None:
        if index not in self.memo:
            raise ValueError("an opcode refers to a value that is not there")
        self.push(self.memo[index])

    def refer(self, name: str) -> None:
        if name not in GLOBALS:
            wanted = name.replace(" ", ".")[:80]
            raise ValueError(f"it asks for {wanted}, which no batch of CIFAR needs")
        self.push(Global(GLOBALS[name]))

    def refer_from_stack(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError("a name is not a string")
        self.refer(f"{module} {name}")

    def call(self, _: Any) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(arguments, tuple) or not isinstance(function, Global):
            raise ValueError("it calls something that is not a function")
        is_encode = function.name == "encode"
        self.push(self.encode(arguments) if is_encode else PickledCall(function.name, arguments))

    def encode(self, arguments: tuple[Any, ...]) -> bytes:
        """How Python 3 writes bytes under protocol 2: a text and its encoding."""
        text, encoding = arguments if len(arguments) == 2 else (None, None)
        if not isinstance(text, str) or encoding != "latin1":
            raise ValueError("it encodes something that is not a text in latin1")
        self.encodable -= len(text)
        if self.encodable < 0:
            raise ValueError("it encodes more text than it has")
        return text.encode("latin-1")

    def set_state(self, _: Any) -> None:
        state = self.pop()
        self.top(PickledCall).state = state


STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(VALUES, _Machine.push),
    **dict.fromkeys(STRINGS, _Machine.push_string),
    **dict.fromkeys(IGNORED, lambda *_: None),
    "TUPLE1": lambda machine, _: machine.push_tuple(1),
    "TUPLE2": lambda machine, _: machine.push_tuple(2),
    "TUPLE3": lambda machine, _: machine.push_tuple(3),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "MARK": _Machine.mark,
    "TUPLE": _Machine.make_tuple,
    "LIST": _Machine.make_list,
    "DICT": _Machine.make_dict,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.extend,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_all,
    "PUT": _Machine.put,
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "MEMOIZE": _Machine.memoize,
    "GET": _Machine.get,
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "GLOBAL": _Machine.refer,
    "STACK_GLOBAL": _Machine.refer_from_stack,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.set_state,
}
