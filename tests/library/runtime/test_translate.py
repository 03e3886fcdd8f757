"""Operators that the engine computes by several of its operations, against torch in float64."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparsegate.runtime.planned import Planned

from .test_engine import Does, difference

TOKENS, IMAGE = (10, 16), (4, 13, 14)


def on_tokens(forward, shape=TOKENS, outputs=8):
    return Does(lambda m, x: forward(m.a(x), x), a=nn.Linear(shape[-1], outputs)), shape


def on_images(forward, shape=IMAGE):
    return Does(lambda m, x: forward(m.a(x)), a=nn.Conv2d(4, 8, 3)), shape


def padded(mode):
    return nn.Conv2d(4, 8, 3, padding=2, padding_mode=mode), IMAGE


def tokens_of(size):
    return torch.ones(size, size, dtype=torch.bool).tril()


CASES = {
    "repeat interleave": on_tokens(lambda a, x: a.repeat_interleave(3, 1)),
    "repeat": on_tokens(lambda a, x: a.repeat(1, 2, 3)),
    "tile": on_tokens(lambda a, x: a.tile(2)),
    "einsum": on_tokens(lambda a, x: torch.einsum("bid,bjd->bij", a, x), outputs=16),
    "einsum of heads": on_tokens(
        lambda a, x: torch.einsum(
            "bihd,bjhd->bhij", a.unflatten(2, (4, 4)), x.unflatten(2, (4, 4))
        ),
        outputs=16,
    ),
    "einsum in another order": on_tokens(
        lambda a, x: torch.einsum("bid,bjd->jbi", a, x), outputs=16
    ),
    "pool rounded up": on_images(lambda a: F.max_pool2d(a, 3, 2, 1, ceil_mode=True), (4, 12, 15)),
    "largest of all": on_images(lambda a: F.adaptive_max_pool2d(a, 1)),
    "reflected": padded("reflect"),
    "replicated": padded("replicate"),
    "circular": padded("circular"),
    "flipped": on_tokens(lambda a, x: a.flip(1)),
    "unshuffled": on_images(lambda a: F.pixel_unshuffle(a, 2), (4, 12, 14)),
    "channels shuffled": on_images(lambda a: F.channel_shuffle(a, 4)),
    "nearest exact": on_images(lambda a: F.interpolate(a, scale_factor=1.5, mode="nearest-exact")),
    "variance": on_tokens(lambda a, x: a.var(-1, keepdim=True)),
    "standard deviation": on_tokens(lambda a, x: a.std((1, 2), unbiased=False)),
    "unit length": on_tokens(lambda a, x: F.normalize(a, dim=-1)),
    "sum of sizes": on_tokens(lambda a, x: a.norm(p=1, dim=1)),
    "cosine": on_tokens(lambda a, x: F.cosine_similarity(a, x, dim=-1), outputs=16),
    "selu": on_tokens(lambda a, x: F.selu(a)),
    "celu": on_tokens(lambda a, x: F.celu(a, 0.5)),
    "log of the sigmoid": on_tokens(lambda a, x: F.logsigmoid(a)),
    "softplus": on_tokens(lambda a, x: F.softplus(a, beta=2)),
    "softshrink": on_tokens(lambda a, x: F.softshrink(a, 0.3)),
    "threshold": on_tokens(lambda a, x: F.threshold(a, 0.1, -3)),
    "log of one more": on_tokens(lambda a, x: torch.log1p(a.abs())),
    "one less than e": on_tokens(lambda a, x: torch.expm1(a)),
    "log of the sum": on_tokens(lambda a, x: a.logsumexp(-1)),
    "largest of a dimension": on_tokens(lambda a, x: a.max(1).values),
    "smallest of a dimension": on_tokens(lambda a, x: a.min(2, keepdim=True)[0]),
    "masked scores": on_tokens(
        lambda a, x: (a @ x.mT).masked_fill(~tokens_of(x.shape[1]), float("-inf")).softmax(-1),
        outputs=16,
    ),
    "scores chosen": on_tokens(
        lambda a, x: torch.where(tokens_of(x.shape[1]), a @ x.mT, -1e4).softmax(-1), outputs=16
    ),
    "chosen by a sign": on_tokens(lambda a, x: torch.where(a > 0, a, 0.2 * x), outputs=16),
    "times a condition": on_tokens(lambda a, x: x * (a < x), outputs=16),
    "no logarithm of less": on_tokens(lambda a, x: torch.where(a > 0.1, a.log(), 0.0)),
    "both conditions": on_tokens(lambda a, x: a * ((a > 0) & (x < 1)), outputs=16),
    "one of two conditions": on_tokens(lambda a, x: a * ((a > 0) | ~(x < 1)), outputs=16),
    "lower triangle": on_tokens(lambda a, x: (a @ x.mT).tril(1), outputs=16),
    "upper triangle": on_tokens(lambda a, x: (a @ x.mT).triu(), outputs=16),
    "some positions": on_tokens(lambda a, x: a[:, torch.tensor([0, 3, 4, 9, 3])]),
    "some features": on_tokens(lambda a, x: a.index_select(2, torch.tensor([7, 0, 1]))),
    "products and a sum": on_tokens(
        lambda a, x: torch.baddbmm(x @ x.mT, a, x.mT, alpha=0.5), outputs=16
    ),
    "product and a sum": on_tokens(lambda a, x: torch.addcmul(x, a, x, value=0.5), outputs=16),
    "between two": on_tokens(lambda a, x: torch.lerp(x, a, 0.3), outputs=16),
    "twice taken away": on_tokens(lambda a, x: torch.sub(x, a, alpha=2), outputs=16),
    "power of two": on_tokens(lambda a, x: 2.0**a),
    "rounded quotient": on_tokens(lambda a, x: torch.div(a, 0.37, rounding_mode="floor")),
    "computed weight": on_tokens(lambda a, x: F.linear(x, a[0]), outputs=16),
    "beside ones": on_tokens(lambda a, x: torch.cat([torch.ones_like(a), a], 1)),
}


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_torch_does(name):
    torch.manual_seed(1)
    model, shape = CASES[name]
    x = torch.randn(3, *shape)
    planned = Planned.of(model.eval(), x)
    assert planned.left == []
    wanted = copy.deepcopy(model).double()(x.double())
    assert difference(planned([x]), wanted) < 2e-5
