"""The attack on network files: damaged ones with valid checksums are refused in words, or run."""

from __future__ import annotations

import zlib
from pathlib import Path
from random import Random

import numpy as np
import torch
from torch import nn

from sparsegate.runtime import save_network
from sparsegate_runtime import Network

from .attack import FAULT, Attack, refusal
from .bytes_changes import PLAIN

LIMIT = 2**24
MOST = 2**16
"""Elements of an input that is tried."""


class Mixed(nn.Module):
    """A convolution, an upsampling one, attention and a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.pool, self.wide = nn.MaxPool2d(3, 2, 1), nn.Upsample(scale_factor=2.0, mode="bilinear")
        self.attend = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, norm_first=True)
        self.cell = nn.GRU(16, 6, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Two tensors."""
        x = self.up(torch.relu(self.norm(self.stem(x))))
        x = self.wide(self.pool(x))
        tokens = self.attend(x.flatten(2).reshape(len(x), -1, 16))
        return torch.softmax(tokens, -1), self.cell(tokens)[0]


class Words(nn.Module):
    """An embedding with positions, and an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(50, 8), nn.Parameter(torch.randn(12, 8))
        self.cell, self.out = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Scores of every token."""
        return self.out(self.cell(self.table(ids) + self.places[: ids.shape[1]])[0])  # type: ignore[no-any-return]


class NetworkFiles(Attack):
    """Damages the graph or the weights of valid files, signs them again, and runs them."""

    title = "network files with damaged graphs or weights and valid checksums"
    patience = 120.0
    memory = 2**30

    def prepare(self, folder: Path) -> None:
        """Writes the files that are damaged."""
        torch.manual_seed(0)
        self._path = folder / "net.sgn"
        self._files = []
        for model, example in (
            (Mixed(), torch.randn(1, 3, 16, 16)),
            (Words(), torch.randint(0, 50, (1, 10))),
        ):
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.data *= torch.rand_like(parameter) < 0.3
            save_network(model.eval(), example, self._path)
            self._files.append(self._path.read_bytes())

    def attempt(self, draw: Random) -> str:
        """Damages a file, opens it and runs what comes out."""
        self._path.write_bytes(damaged(draw, draw.choice(self._files)))
        try:
            network = Network.load(self._path, limit=LIMIT)
        except ValueError as error:
            return refusal(error, self._path)
        return _run(network)


def damaged(draw: Random, file: bytes) -> bytes:
    """A file with changes in its graph or its weights; usually its checksums are right."""
    end = 16 + int.from_bytes(file[4:8], "little")
    graph, weights = file[16:end], file[end + 4 : -4]
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if draw.random() < 0.85:
            graph = draw.choice(PLAIN)(draw, graph, [graph])
        else:
            weights = draw.choice(PLAIN)(draw, weights, [weights])
    head = file[:4] + len(graph).to_bytes(4, "little") + (len(weights) + 4).to_bytes(8, "little")
    made = _signed(head + graph) + _signed(weights)
    return made if draw.random() < 0.97 else draw.choice(PLAIN)(draw, made, [made])


def _signed(part: bytes) -> bytes:
    return part + zlib.crc32(part).to_bytes(4, "little")


def _run(network: Network) -> str:
    """Runs a network on inputs of its shapes."""
    given = []
    for info in network.inputs:
        shape = [size if isinstance(size, int) else 2 for size in info.shape]
        if np.prod(shape, dtype=float) > MOST:
            return "too large to try"
        given.append(np.ones(shape, info.type))
    network.threads = 1
    try:
        found = network(*given)
    except ValueError as error:
        words = str(error)
        return "refused when run" if words and "\n" not in words else f"{FAULT}no words"
    return "accepted" if found is not None else f"{FAULT}no output"
