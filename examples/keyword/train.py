"""Trains a recognizer of spoken digits with 1,500 weights, and writes it as C for a boards."""

from __future__ import annotations

import argparse
import wave
from pathlib import Path

import boards
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sparsegate as sg

RATE, FRAMES, BANDS = 8000, 24, 20


def spectrogram(path: Path) -> Tensor:
    """The loudness of 20 bands of frequency at 24 moments, however long the recording is."""
    with wave.open(str(path)) as file:
        sound = torch.frombuffer(bytearray(file.readframes(file.getnframes())), dtype=torch.int16)
    padded = F.pad(sound.float() / 32768, (0, max(0, 512 - len(sound))))
    parts = torch.stft(padded, 256, 64, window=torch.hann_window(256), return_complex=True)
    pooled = F.adaptive_avg_pool2d(parts.abs()[None, 1:81], (BANDS, FRAMES))
    loud = (pooled + 1e-4).log()
    return (loud - loud.mean()) / loud.std()


def read(folder: Path) -> tuple[list[Tensor], list[Tensor]]:
    """Recordings named DIGIT_SPEAKER_NUMBER.wav: those to learn from, and those numbered 0 to 4."""
    parts: tuple[list[tuple[Tensor, int]], ...] = ([], [])
    for path in sorted(folder.glob("*_*_*.wav")):
        digit, _, number = path.stem.split("_")
        parts[int(number) < 5].append((spectrogram(path), int(digit)))
    if not all(parts):
        raise ValueError(f"{folder} has no recordings named like 7_george_12.wav")
    stacked = [
        [torch.stack([each for each, _ in part]), torch.tensor([digit for _, digit in part])]
        for part in parts
    ]
    return stacked[0], stacked[1]


def network() -> nn.Module:
    """Two convolutions and two linear layers on a picture of 20 by 24: 36,410 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(384, 80), nn.ReLU(), nn.Linear(80, 10),
    )  # fmt: skip


def accuracy(model: nn.Module, sounds: Tensor, digits: Tensor) -> float:
    """The accuracy in percent."""
    with torch.no_grad():
        return 100 * float((model(sounds).argmax(1) == digits).float().mean())


def on_boards(source: Path, sounds: Tensor, digits: Tensor) -> None:
    """Runs the code on emulated boards, if their compiler and emulator are installed."""
    if not boards.is_installed():
        print("gcc-arm-none-eabi and qemu-system-arm are not installed; the code is not run")
        return
    for name, board in boards.BOARDS.items():
        run = boards.run(board, source, sounds)
        right = int((torch.from_numpy(run.outputs).argmax(1) == digits).sum())
        print(
            f"{name}: {right} of {len(digits)} right, {run.flash:,} bytes of flash, "
            f"{run.ram:,} of RAM, {run.instructions:,.0f} instructions"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of free-spoken-digit-dataset's recordings")
    parser.add_argument("--weights", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("keyword"), help="a folder")
    options = parser.parse_args()
    torch.manual_seed(0)
    (sounds, digits), unseen = read(options.data)
    steps = options.epochs * -(-len(sounds) // 50)

    model = sg.gate(network())
    target = sg.Target(weights=options.weights)
    optimizer = sg.GatedAdamW(model, lr=3e-3, target=target, steps=steps)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(options.epochs):
        for chosen in torch.randperm(len(sounds)).split(50):
            moved = torch.roll(sounds[chosen], int(torch.randint(-2, 3, ())), dims=3)
            loss = F.cross_entropy(model(moved), digits[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
    print(optimizer.found)
    model = sg.finish(model).eval()
    print(f"{accuracy(model, *unseen):.2f} % of {len(unseen[1])} recordings that it has not heard")
    options.out.mkdir(parents=True, exist_ok=True)
    source = options.out / "network.c"
    written = sg.to_c(model, source, example=sounds[:300], dtype="int8", form="tables")
    print(
        f"{written.num_weights} weights, {written.flash:,} bytes of tables, {written.ram:,} of RAM"
    )
    on_boards(source, unseen[0][::15], unseen[1][::15])


if __name__ == "__main__":
    main()
