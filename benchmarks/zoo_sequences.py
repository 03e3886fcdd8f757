"""Networks for sequences: convolutions in time, recurrent ones, attention written by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def keywords() -> nn.Sequential:
    """Separable, dilated convolutions over the features of a second of speech."""
    layers: list[nn.Module] = [nn.Conv1d(40, 96, 5, padding=2), nn.BatchNorm1d(96), nn.ReLU()]
    for ins, outs, dilation in ((96, 96, 1), (96, 160, 2), (160, 160, 4), (160, 256, 8)):
        depth = nn.Conv1d(ins, ins, 9, padding=4 * dilation, dilation=dilation, groups=ins)
        layers += [depth, nn.Conv1d(ins, outs, 1, bias=False), nn.BatchNorm1d(outs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(256, 35))


class Tagger(nn.Module):
    """Words, a recurrent network, an output for every word."""

    def __init__(self, kind: type[nn.RNNBase], *, both: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(2000, 192)
        self.cell = kind(192, 384, 2, batch_first=True, bidirectional=both)
        self.out = nn.Linear(384 * (1 + both), 500)

    def forward(self, words: Tensor) -> Tensor:
        return self.out(self.cell(self.words(words))[0])


def encoder() -> nn.Module:
    """Torch's own transformer, with norms behind the sums and ReLU."""
    layer = nn.TransformerEncoderLayer(320, 5, 1280, batch_first=True)
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)


class Relative(nn.Module):
    """Attention with a bias for the distance, rotated queries and keys, and grouped heads."""

    def __init__(self, width: int, heads: int, shared: int) -> None:
        super().__init__()
        self.heads, self.shared = heads, shared
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.both = nn.Linear(width, 2 * width // shared)
        self.bias = nn.Parameter(torch.zeros(heads, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, width = x.shape
        size = width // self.heads
        query = self.query(x).view(batch, steps, self.heads, size).transpose(1, 2)
        key, value = (
            one.view(batch, steps, -1, size).transpose(1, 2).repeat_interleave(self.shared, 1)
            for one in self.both(x).chunk(2, -1)
        )
        at = torch.arange(steps)
        mask = self.bias * (at[:, None] - at).abs()
        found = F.scaled_dot_product_attention(query, key, value, mask)
        return self.out(found.transpose(1, 2).reshape(batch, steps, width))


class Conformer(nn.Module):
    """A layer of a Conformer: half a feed-forward, attention, convolution in time, the other half."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
            for _ in range(2)
        )
        self.attention = Relative(width, 4, 1)
        self.open = nn.Conv1d(width, 2 * width, 1)
        self.depth = nn.Conv1d(width, width, 15, padding=7, groups=width, bias=False)
        self.norm, self.close = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.feeds[0](self.norms[0](x))
        x = x + self.attention(self.norms[1](x))
        y = F.glu(self.open(self.norms[2](x).transpose(1, 2)), 1)
        x = x + self.close(F.silu(self.norm(self.depth(y)))).transpose(1, 2)
        return self.norms[4](x + 0.5 * self.feeds[1](self.norms[3](x)))


def conformer() -> nn.Sequential:
    """Three layers of a Conformer, behind a convolution that halves the steps."""

    class Halve(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(80, 256, 3, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.conv(x)).transpose(1, 2)

    return nn.Sequential(Halve(), *(Conformer() for _ in range(3)), nn.Linear(256, 128))


class Listener(nn.Module):
    """Of Wav2Vec 2's kind: strided convolutions over samples, then attention."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((1, 10, 5), (256, 3, 2), (256, 3, 2), (256, 3, 2), (256, 2, 2))
        self.convs = nn.ModuleList(nn.Conv1d(ins, 256, taps, step) for ins, taps, step in sizes)
        self.place = nn.Conv1d(256, 256, 32, padding=16, groups=8)
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.out = nn.Linear(256, 32)

    def forward(self, sound: Tensor) -> Tensor:
        x = sound[:, None]
        for layer in self.convs:
            x = F.gelu(layer(x))
        x = x + F.gelu(self.place(x))[..., :-1]
        return self.out(self.layers(x.transpose(1, 2)))
