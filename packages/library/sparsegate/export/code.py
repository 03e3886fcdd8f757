"""The C code of a network, as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from torch import Tensor, nn

from sparsegate_runtime.version import VERSION

from .c.fp32 import Fp32
from .c.header import HEADER
from .c.int8 import Int8
from .c.main import MAIN
from .c.program import program, stack_bytes
from .c.text import Dialect, named
from .int8_scales import scales_of
from .layer import num_weights
from .normalise import Normalise
from .numbers import c_float
from .plan import Stage, plan_stages
from .read import Network, as_images, read_network

Dtype: TypeAlias = Literal["fp32", "int8"]

MAX_WEIGHTS = 25_000
"""Surviving weights that are written unless more are asked for; so many compile in about a minute."""

BYTES = Normalise(0.0, 255.0)


@dataclass(frozen=True)
class Code:
    """A network in C."""

    name: str
    source: str
    header: str
    num_weights: int
    image: tuple[int, ...]
    """The shape of one image."""
    outputs: tuple[int, ...]
    """The shape of what is made of it."""


def generate(
    model: nn.Module,
    name: str,
    *,
    example: Tensor,
    dtype: Dtype = "fp32",
    max_weights: int = MAX_WEIGHTS,
    normalise: Normalise = BYTES,
) -> Code:
    """The C code of a model in eval."""
    if not isinstance(example, Tensor):
        raise ValueError(f"example is a batch of images, a tensor, got {type(example).__name__}")
    example = example.detach().float().cpu() if example.is_floating_point() else example
    network = read_network(model, example)
    count = num_weights(network.layers)
    if count > max_weights:
        raise ValueError(
            f"{count:,} weights survive, and compiling more than {max_weights:,} takes minutes; prune further, or pass "
            f"max_weights={count} (by command: --max-weights {count})"
        )
    images = as_images(example.double())
    stages = plan_stages(network.layers, (images.shape[1], images.shape[2], images.shape[3]))
    dialect = _dialect(dtype, stages, images)
    body = program(name, stages, dialect) + _main(name, network, normalise)
    header = _header(name, network, f"{count:,} weights in {dtype}.", stages, dialect)
    return Code(name, body, header, count, network.image, network.outputs)


def identifier(stem: str) -> str:
    """A file's name as a name in C.

    >>> identifier("lenet-5"), identifier("5")
    ('lenet_5', 'net_5')
    """
    name = re.sub(r"[^0-9A-Za-z_]", "_", stem)
    return f"net_{name}" if re.match(r"\d|layer\d|$", name) else name


def _dialect(dtype: Dtype, stages: list[Stage], images: Tensor) -> Dialect:
    if dtype == "fp32":
        return Fp32(stages)
    if dtype == "int8":
        return Int8(stages, scales_of([stage.layer for stage in stages], images))
    raise ValueError(f"dtype is 'fp32' or 'int8', got {dtype!r}")


def _main(name: str, network: Network, normalise: Normalise) -> str:
    if isinstance(normalise.mean, tuple) or isinstance(normalise.spread, tuple):
        raise ValueError(
            "C code takes grey images, with one mean and one spread; these are for images in colours"
        )
    words = {
        "inputs": prod(network.image),
        "mean": c_float(normalise.mean),
        "spread": c_float(normalise.spread),
    }
    return named(_filled(MAIN, words), name)


def _header(name: str, network: Network, about: str, stages: list[Stage], dialect: Dialect) -> str:
    words = {
        "about": about,
        "version": VERSION,
        "inputs": prod(network.image),
        "outputs": prod(network.outputs),
        "shape": " x ".join(map(str, network.image)),
        "one": f"{stack_bytes(stages, dialect, images=1):,}",
        "stack": f"{stack_bytes(stages, dialect):,}",
    }
    return named(_filled(HEADER, words), name)


def _filled(template: str, words: dict[str, object]) -> str:
    """A template with its words; C has braces of its own, so only these words are looked for."""
    for word, value in words.items():
        template = template.replace(f"{{{word}}}", str(value))
    return template
