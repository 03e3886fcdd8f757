"""Small pairs of network and data for benchmarks/pairs.py: each trains in seconds on one core."""

from __future__ import annotations

import io
import tarfile
import wave
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparsegate_lab.data import load_data
from sparsegate_lab.models import LeNet5, ResNet20, SmallCNN

Splits = dict[str, tuple[Tensor, Tensor]]
CLASSES = 10
CONTEXT = 64  # characters that a language model reads


@dataclass(frozen=True)
class Task:
    """A network, its data, and how it is trained; the same for all methods."""

    about: str
    make: Callable[[], nn.Module]
    read: Callable[[Path], Splits]
    """Reads train, validation and test from the path that the command names."""
    epochs: int
    lr: float
    adam: bool = False
    """AdamW instead of SGD with momentum."""
    batch: int = 128
    prunable: tuple[str, ...] = ("*",)
    """Patterns of the weights that every method can prune; they alone get gates and are counted."""
    bits: bool = False
    """Whether the score is bits per label, where less is better, and not accuracy in per cent."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The cross-entropy of every label."""
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten())

    def is_prunable(self, name: str) -> bool:
        """Whether a weight of this name is counted."""
        return any(fnmatchcase(name, pattern) for pattern in self.prunable)


def images(limit: int | None = None) -> Callable[[Path], Splits]:
    """Reads any dataset of the laboratory; of the training images, the first `limit`."""

    def read(path: Path) -> Splits:
        data = load_data(str(path))
        mean, spread = (f(data.train.images.float()) for f in (torch.mean, torch.std))
        found = {
            name: ((split.images.float() - mean) / spread, split.labels.long())
            for name, split in (
                ("train", data.train),
                ("validation", data.validation),
                ("test", data.test),
            )
        }
        found["train"] = (found["train"][0][:limit], found["train"][1][:limit])
        return found

    return read


def spoken_digits(path: Path) -> Splits:
    """Spectra of 3,000 spoken digits from recordings.tar.xz; each speaker's 0 to 4 are the test.

    5 to 9 are for validation, the rest for training.
    """
    parts: dict[str, list[tuple[Tensor, int]]] = {"train": [], "validation": [], "test": []}
    with tarfile.open(path) as files:
        for member in files:
            if not member.name.endswith(".wav"):
                continue
            digit, _, index = Path(member.name).stem.split("_")
            content = files.extractfile(member)
            assert content is not None
            part = "test" if int(index) < 5 else "validation" if int(index) < 10 else "train"
            parts[part].append((spectrum(content.read()), int(digit)))
    return {
        name: (
            torch.stack([each for each, _ in pairs]),
            torch.tensor([digit for _, digit in pairs]),
        )
        for name, pairs in parts.items()
    }


def spectrum(content: bytes) -> Tensor:
    """Logarithms of 40 bands at 50 moments of the first second, with mean zero."""
    with wave.open(io.BytesIO(content)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    sound = torch.zeros(8000)
    sound[: min(8000, len(samples))] = torch.from_numpy(samples[:8000] / 32768.0)
    power = torch.stft(sound, 256, 160, window=torch.hann_window(256), return_complex=True).abs()
    bands = F.adaptive_avg_pool1d(power[1:121].T, 40).T[:, :50]
    logs = bands.clamp_min(1e-4).log()
    return (logs - logs.mean()) / logs.std().clamp_min(1e-3)


def characters(path: Path, limit: int = 1_000_000) -> Splits:
    """Windows of a text; its last tenth is half validation and half test."""
    text = path.read_text()
    alphabet = {each: index for index, each in enumerate(sorted(set(text)))}
    codes = torch.tensor([alphabet[each] for each in text])
    cut, half = len(codes) * 9 // 10, len(codes) * 19 // 20
    parts = {"train": codes[:limit], "validation": codes[cut:half], "test": codes[half:]}
    return {name: windows(part) for name, part in parts.items()}


def windows(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs, and what follows each of their characters."""
    count = (len(codes) - 1) // CONTEXT
    inputs, following = codes[: count * CONTEXT], codes[1 : count * CONTEXT + 1]
    return inputs.view(count, CONTEXT), following.view(count, CONTEXT)


def activity(path: Path) -> Splits:
    """Windows of movements from the file of benchmarks/activity.py; people 26 to 30 are the test.

    22 to 25 are for validation, the others for training. Every channel has mean zero.
    """
    with np.load(path) as file:
        inputs, labels, people = (
            torch.from_numpy(file[name]) for name in ("inputs", "labels", "people")
        )
    inputs, train = inputs.float(), people <= 21
    mean, spread = (f(inputs[train], (0, 2), keepdim=True) for f in (torch.mean, torch.std))
    parts = {"train": train, "validation": (people > 21) & (people <= 25), "test": people > 25}
    return {name: ((inputs[each] - mean) / spread, labels[each]) for name, each in parts.items()}


def motion_network() -> nn.Module:
    """Three convolutions in time over 6 channels, and two connected layers; 108,800 weights."""
    # 108 800 = 6*5*64 + 2 * 64*5*64 + 1024*64 + 64*6 weights
    layers: list[nn.Module] = []
    for ins in (6, 64, 64):
        layers += [nn.Conv1d(ins, 64, 5, padding=2), nn.BatchNorm1d(64), nn.ReLU()]
        layers += [nn.MaxPool1d(2)]
    connected = (nn.Linear(64 * 16, 64), nn.ReLU(), nn.Linear(64, 6))
    return nn.Sequential(*layers, nn.Flatten(), *connected)


def sound_network() -> nn.Module:
    """Three convolutions in time over 40 bands, 43,840 weights."""
    # 43 840 = 40*5*64 + 64*5*64 + 64*5*32 + 32*10 weights
    layers: list[nn.Module] = []
    for ins, outs in ((40, 64), (64, 64), (64, 32)):
        layers += [nn.Conv1d(ins, outs, 5, padding=2), nn.BatchNorm1d(outs), nn.ReLU()]
        layers += [nn.MaxPool1d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, CLASSES))


class CharTransformer(nn.Module):
    """Two causal blocks of width 96 with heads of 24, without dropout."""

    def __init__(self, width: int = 96, letters: int = 65) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, codes: Tensor) -> Tensor:
        """The logits of each next character."""
        hidden = self.letters(codes) + self.places.weight[: codes.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        logits: Tensor = self.head(self.norm(hidden))
        return logits


class Block(nn.Module):
    """Attention and a feed-forward part, both behind a norm and around a sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.read, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        """One block."""
        batch, steps, width = hidden.shape
        parts = self.read(self.before(hidden)).view(batch, steps, 3, 4, width // 4)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(found.transpose(1, 2).reshape(batch, steps, width))
        return hidden + self.narrow(F.gelu(self.wide(self.between(hidden))))


class CharLSTM(nn.Module):
    """One LSTM of 128 cells, written with linear layers so that every method can prune it."""

    def __init__(self, width: int = 128, letters: int = 65) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, width)
        self.read, self.again = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)
        self.head = nn.Linear(width, letters)

    def forward(self, codes: Tensor) -> Tensor:
        """The logits of each next character."""
        reads = self.read(self.letters(codes)).unbind(1)
        state = cell = reads[0].new_zeros(len(codes), reads[0].shape[1] // 4)
        states = []
        for each in reads:
            enter, forget, out, new = (each + self.again(state)).chunk(4, 1)
            cell = cell * (forget + 1).sigmoid() + enter.sigmoid() * new.tanh()
            state = out.sigmoid() * cell.tanh()
            states.append(state)
        logits: Tensor = self.head(torch.stack(states, 1))
        return logits


TASKS: dict[str, Task] = {
    "fashion-lenet5": Task(
        "LeNet-5 (430,500 weights), Fashion-MNIST", LeNet5, images(), epochs=8, lr=0.03,
    ),
    "fashion-small-cnn": Task(
        "small-cnn (105,744 weights), Fashion-MNIST", SmallCNN, images(), epochs=8, lr=0.03,
    ),
    "cifar10-resnet20": Task(
        "ResNet-20 (268,336 weights), CIFAR-10", ResNet20, images(), epochs=3, lr=0.05,
    ),
    "activity": Task(
        "three Conv1d and two Linear (108,800 weights), UCI HAPT",
        motion_network, activity, epochs=15, lr=0.03, batch=64,
    ),
    "spoken-digits": Task(
        "three Conv1d (43,840 weights), 2,400 spoken digits",
        sound_network, spoken_digits, epochs=15, lr=0.03, batch=64,
    ),
    "shakespeare-transformer": Task(
        "two blocks of width 96 (227,424 weights besides embeddings), tiny Shakespeare",
        CharTransformer, characters, epochs=4, lr=2e-3, adam=True, batch=32, bits=True,
        prunable=("blocks*", "head*"),
    ),
    "shakespeare-lstm": Task(
        "LSTM of 128 cells (139,392 weights besides embeddings), tiny Shakespeare",
        CharLSTM, characters, epochs=4, lr=4e-3, adam=True, batch=64, bits=True,
        prunable=("read*", "again*", "head*"),
    ),
}  # fmt: skip
