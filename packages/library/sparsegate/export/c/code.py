"""Writes the C code of a network, as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from torch import Tensor, nn

from sparsegate_runtime.version import VERSION

from ..layer import num_weights
from ..normalise import UNIT_RANGE, Normalise
from ..plan import Stage, plan_stages
from ..read import LayerList, as_images, read_network
from .fp32 import Fp32
from .int8 import Int8, scales_of
from .program import program, stack_bytes
from .templates import HEADER, MAIN
from .text import Dialect, c_float, named

Dtype: TypeAlias = Literal["fp32", "int8"]

MAX_WEIGHTS = 25_000
"""The largest number of weights that is exported by default; it compiles in about a minute."""

INCLUDES = "#include <math.h>\n#include <string.h>"


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
    """The shape of the outputs for one image."""


def generate(
    model: nn.Module,
    name: str,
    *,
    example: Tensor,
    dtype: Dtype = "fp32",
    max_weights: int = MAX_WEIGHTS,
    normalise: Normalise = UNIT_RANGE,
    header: str | None = None,
) -> Code:
    """The C code of a model in eval mode.

    Args:
        model: a chain of layers that `read_network` knows.
        name: prefix of the C functions, an identifier.
        example: a batch of inputs; int8 chooses its scales by their values.
        dtype: "fp32" or "int8".
        max_weights: refuse a model with more weights that are not zero.
        normalise: what the program's `main` does with the bytes of an image.
        header: file name of the header, `NAME.h` if None.

    """
    if not isinstance(example, Tensor):
        raise ValueError(
            f"example: expected a tensor, one batch of images, got {type(example).__name__}"
        )
    example = example.detach().float().cpu() if example.is_floating_point() else example
    network = read_network(model, example)
    count = num_weights(network.layers)
    if max_weights < 1:
        raise ValueError(f"max_weights is a number of weights, at least 1, got {max_weights}")
    if count > max_weights:
        raise ValueError(
            f"expected at most {max_weights:,} weights that are not zero, as more compile for "
            f"minutes, got {count:,}; prune further, or pass max_weights={count} "
            f"(command line: --max-weights {count})"
        )
    images = as_images(example.double())
    stages = plan_stages(network.layers, (images.shape[1], images.shape[2], images.shape[3]))
    dialect = _dialect(dtype, stages, images)
    source = "\n\n".join(
        [f'#include "{header or name + ".h"}"\n{INCLUDES}', program(name, stages, dialect)]
    )
    return Code(
        name,
        source + _main(name, network, normalise),
        _header(name, network, f"{count:,} weights in {dtype}.", stages, dialect),
        count,
        network.image,
        network.outputs,
    )


def identifier(stem: str) -> str:
    """A file's name as an identifier of C.

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
    raise ValueError(f"dtype: expected 'fp32' or 'int8', got {dtype!r}")


def _main(name: str, network: LayerList, normalise: Normalise) -> str:
    if isinstance(normalise.mean, tuple) or isinstance(normalise.spread, tuple):
        raise ValueError(
            "C code takes gray images: expected one mean and one spread to normalise by, got "
            f"{normalise}, which is for images in colors"
        )
    words = {
        "inputs": prod(network.image),
        "mean": c_float(normalise.mean),
        "spread": c_float(normalise.spread),
    }
    return named(_filled(MAIN, words), name)


def _header(
    name: str, network: LayerList, about: str, stages: list[Stage], dialect: Dialect
) -> str:
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
    """A template with these words replaced; all other braces are C's."""
    for word, value in words.items():
        template = template.replace(f"{{{word}}}", str(value))
    return template
