"""A small network with a node of nearly every kind, made without torch."""

import numpy as np
import pytest

from sparsegate_runtime.engine import Function
from sparsegate_runtime.engine import network as n
from sparsegate_runtime.network_file import Capture, Symbol, sketch_of


def weights(random, *shape, kept=0.4):
    array = random.normal(size=shape).astype(np.float32)
    return array * (random.random(shape) < kept) if len(shape) > 1 else array


def small_network(batch=2):
    """An image goes through convolutions and attention, indices through an embedding."""
    random = np.random.default_rng(0)
    image = n.Input(shape=(batch, 2, 6, 5), index=0, name="image")
    ids = n.Input(shape=(batch, 3), index=1, name="ids", kind="int64")
    conv = n.Conv(
        inputs=(image,), shape=(batch, 4, 6, 5), weight=weights(random, 4, 2, 3, 3), bias=weights(random, 4),
        stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1, name="stem",
    )  # fmt: skip
    relu = n.Map(inputs=(conv,), shape=conv.shape, function=Function.RELU)
    pool = n.Pool(
        inputs=(relu,),
        shape=(batch, 4, 3, 3),
        largest=True,
        kernel=(3, 3),
        stride=(2, 2),
        padding=(1, 1),
        dilation=(1, 1),
    )
    up = n.TransposedConv(
        inputs=(pool,), shape=(batch, 2, 6, 6), weight=weights(random, 4, 2, 2, 2), bias=None,
        stride=(2, 2), padding=(0, 0), dilation=(1, 1), groups=1, name="up",
    )  # fmt: skip
    norm = n.GroupNorm(inputs=(up,), shape=up.shape, weight=None, bias=None, eps=1e-5, groups=1)
    flat = n.Reshape(inputs=(norm,), shape=(batch, 6, 12))
    mean = n.Reduce(inputs=(flat,), shape=(batch, 1, 12), function="mean", dimensions=(1,))
    table = n.Embedding(
        inputs=(ids,), shape=(batch, 3, 12), table=weights(random, 7, 12), name="table"
    )
    both = n.Join(inputs=(mean, table), shape=(batch, 4, 12), dimension=1)
    position = n.Constant(shape=(1, 4, 12), value=weights(random, 1, 4, 12), name="position")
    summed = n.Map(inputs=(both, position), shape=both.shape, function=Function.ADD)
    linear = n.Linear(
        inputs=(summed,), shape=(batch, 4, 12), weight=weights(random, 12, 12), bias=weights(random, 12), name="mix",
        unscaled=None,
    )  # fmt: skip
    normed = n.LayerNorm(
        inputs=(linear,),
        shape=linear.shape,
        weight=weights(random, 12),
        bias=weights(random, 12),
        eps=1e-5,
    )
    heads = n.Permute(
        inputs=(n.Reshape(inputs=(normed,), shape=(batch, 4, 2, 6)),),
        shape=(batch, 2, 4, 6),
        dimensions=(0, 2, 1, 3),
    )
    attended = n.Attention(inputs=(heads, heads, heads), shape=heads.shape, causal=True, scale=0.5)
    product = n.Product(
        inputs=(
            attended,
            n.Permute(inputs=(attended,), shape=(batch, 2, 6, 4), dimensions=(0, 1, 3, 2)),
        ),
        shape=(batch, 2, 4, 4),
    )
    sums = n.Linear(
        inputs=(summed,),
        shape=(batch, 4, 12),
        weight=weights(random, 12, 12),
        bias=None,
        name="cell",
    )
    cell = n.Recurrent(
        inputs=(sums,),
        shape=(batch, 4, 3),
        cell="lstm",
        weight=weights(random, 12, 3),
        bias=weights(random, 12),
        name="cell",
    )
    last = n.Slice(inputs=(cell,), shape=(batch, 1, 3), dimension=1, start=3, step=1)
    padded = n.Pad(inputs=(last,), shape=(batch, 2, 3), sides=((0, 0), (0, 1), (0, 0)), value=1.5)
    soft = n.Softmax(inputs=(product,), shape=product.shape, dimension=3)
    found = []

    def visit(node):
        for read in node.inputs:
            visit(read)
        if node not in found:
            found.append(node)

    outputs = (soft, padded)
    for node in (image, ids, *outputs):
        visit(node)
    return n.Network(tuple(found), outputs)


@pytest.fixture(scope="session")
def sketch():
    captures = [Capture(small_network(batch), {"batch": batch}) for batch in (2, 3)]
    return sketch_of(captures, [Symbol("batch", example=2)], outputs=["scores", "last"])


@pytest.fixture(scope="session")
def inputs():
    random = np.random.default_rng(1)
    return random.normal(size=(2, 2, 6, 5)).astype(np.float32), random.integers(0, 7, (2, 3))
