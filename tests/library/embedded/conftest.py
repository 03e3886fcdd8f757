"""Small networks of every kind, and a compiler that turns their C code into functions."""

import ctypes
import subprocess

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree

import sparsegate as sg

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Werror")
GUARD = 64
"""Bytes behind the arena that nothing may write to."""


class Residual(nn.Module):
    """Skip connections, depthwise and dilated convolutions, pools that overlap, interpolation."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = nn.BatchNorm2d(8)
        self.wide = nn.Conv2d(16, 4, 3, stride=2, padding=2, dilation=2)
        self.up = nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2)

    def forward(self, image):
        one = self.first(image).relu()
        two = F.hardswish(self.norm(self.depthwise(one)) + one)
        both = F.max_pool2d(self.wide(torch.cat([one, two], 1)), 3, 2, 1)
        large = self.up(both)
        smooth = F.interpolate(large, scale_factor=2, mode="bilinear")
        return smooth.mean((2, 3)), torch.sigmoid(large).permute(0, 2, 3, 1)


class Sequence(nn.Module):
    """Recurrent layers in both directions, whose last states are results."""

    def __init__(self):
        super().__init__()
        self.both = nn.GRU(4, 5, 2, batch_first=True, bidirectional=True)
        self.cells = nn.LSTM(10, 6, batch_first=True)
        self.plain = nn.RNN(6, 3, nonlinearity="relu", batch_first=True, bias=False)

    def forward(self, sequence):
        sequence, (state, cell) = self.cells(self.both(sequence)[0])
        return self.plain(sequence)[0], state, cell


class Moves(nn.Module):
    """Slices, padding, splits, expansion, minima and functions of two tensors and of constants."""

    def __init__(self):
        super().__init__()
        self.register_buffer("factor", torch.linspace(0.5, 2, 6).reshape(1, 1, 6))
        self.slope = nn.PReLU(4)

    def forward(self, one, other):
        left, right = F.pad(one, (2, -1), value=0.25).chunk(2, -1)
        joined = torch.stack([left[..., ::2], right[..., 1:4]], 1).flatten(2)
        middle = one.roll(2, -1)[:, 1:3, :6] * self.factor - other[:, None, :]
        low = torch.maximum(middle, other[:, None, :].expand(-1, 2, -1)).amin(-1)
        return joined, low, self.slope(one) / 2 + 1


class Attention(nn.Module):
    """Tokens, embeddings, causal attention, norms and a softmax over another dimension."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(30, 8)
        self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, 12)
        self.group = nn.GroupNorm(2, 4)

    def forward(self, ids):
        tokens = self.norm(self.table(ids))
        heads = tokens.unflatten(-1, (2, 4)).transpose(1, 2)
        seen = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        shares = (heads @ heads.transpose(-1, -2)).softmax(-2)
        mixed = self.group((shares @ seen).transpose(-1, -2).flatten(1, 2)[:, :4])
        return self.out(F.gelu(tokens + seen.transpose(1, 2).flatten(2))), mixed


def _chain():
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(4, 8, 3, stride=2), nn.ReLU6(), nn.Flatten(), nn.Linear(200, 3)]
    return nn.Sequential(*layers, nn.Softmax(1))


def _signal():
    layers = [nn.Conv1d(6, 8, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2)]
    layers += [nn.Conv1d(8, 8, 3, groups=8), nn.Hardswish(), nn.AvgPool1d(4, padding=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 3))


NETWORKS = {
    "matrices": lambda: (
        nn.Sequential(nn.Linear(10, 7), nn.ReLU(), nn.Linear(7, 3)),
        torch.randn(9, 10),
    ),
    "far columns": lambda: (nn.Linear(2000, 3), torch.randn(9, 2000)),
    "a chain": lambda: (_chain(), torch.randn(9, 1, 24, 24)),
    "a signal": lambda: (_signal(), torch.randn(9, 6, 64)),
    "residual": lambda: (Residual(), torch.randn(9, 3, 17, 19)),
    "sequence": lambda: (Sequence(), torch.randn(9, 7, 4)),
    "moves": lambda: (Moves(), (torch.randn(9, 4, 8), torch.randn(9, 6))),
    "attention": lambda: (Attention(), torch.randint(0, 30, (9, 5))),
    "an encoder": lambda: (
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
        torch.randn(9, 5, 16),
    ),
}


def sparse(name):
    """A network in eval with 70 % zeros and statistics that matter, and inputs."""
    torch.manual_seed(0)
    model, example = NETWORKS[name]()
    model.train()
    with torch.no_grad():
        model(*(example if isinstance(example, tuple) else (example,)))
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter *= 1.5 * (torch.rand_like(parameter) < 0.3)
    return model.eval(), example


@pytest.fixture(params=NETWORKS)
def network(request):
    return sparse(request.param)


class Compiled:
    """The C code of a network as a function of tensors."""

    def __init__(self, model, example, folder, *flags, **settings):
        path = folder / "net.c"
        self.written = sg.to_c(model, path, example=example, form="tables", **settings)
        self.shapes = [one.shape for one in outputs_of(model, first_of(example))]
        library = folder / "net.so"
        words = ["-shared", "-fPIC", "-o", library, path, "-lm"]
        subprocess.run(["gcc", *STRICT, "-O0", *flags, *words], check=True, timeout=100)
        self.run = ctypes.CDLL(str(library)).net_run

    def __call__(self, example):
        """The results for one input; checks that nothing is written behind the arena."""
        arena = np.full(max(8, self.written.ram) + GUARD, 0xFF, np.uint8)
        inputs = [one.contiguous().numpy() for one in _pytree.tree_leaves(example)]
        found = [np.full(shape, np.nan, np.float32) for shape in self.shapes]
        arrays = [arena, *inputs, *found]
        self.run(*(ctypes.c_void_p(array.ctypes.data) for array in arrays))
        assert (arena[-GUARD + 8 :] == 0xFF).all(), "it writes behind its arena"
        return [torch.from_numpy(array) for array in found]


def outputs_of(model, example):
    """The tensors that a model gives."""
    with torch.no_grad():
        given = example if isinstance(example, tuple) else (example,)
        return _pytree.tree_leaves(model(*given))


def first_of(example, at=0):
    """One input of a batch, as a batch."""
    return _pytree.tree_map(lambda one: one[at : at + 1], example)
