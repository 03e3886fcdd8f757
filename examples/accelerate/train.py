"""Trains a sparse network on several processes or GPUs: accelerate launch examples/accelerate/train.py."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import sparsegate as sg


def data() -> TensorDataset:
    """2,000 points on two intertwined spirals, with 18 inputs that say nothing."""
    turn = torch.linspace(0.5, 3.0, 1000)
    arms = [
        torch.stack([side * turn * torch.cos(3 * turn), side * turn * torch.sin(3 * turn)], 1)
        for side in (-1, 1)
    ]
    points = torch.cat([torch.cat(arms), torch.randn(2000, 18)], 1)
    return TensorDataset(points, torch.arange(2000) // 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=float, default=0.1, help="fraction of weights that is left")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("spirals.sg"))
    options = parser.parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=1)
    set_seed(0)
    points = data()
    loader = DataLoader(points, batch_size=100 // accelerator.num_processes, shuffle=True)

    model = nn.Sequential(
        nn.Linear(20, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 2)
    )
    model = sg.gate(model)  # before prepare, which may wrap it
    steps = options.epochs * len(points) // 100
    target = sg.Target(keep=options.keep)
    optimizer = sg.GatedAdamW(model, lr=3e-3, clip=1.0, target=target, steps=steps)
    model, prepared, loader = accelerator.prepare(model, optimizer, loader)

    for epoch in range(options.epochs):
        for inputs, labels in loader:
            loss = F.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            prepared.step()
            prepared.zero_grad()
        if epoch % 10 == 9:
            accelerator.print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
    accelerator.print(optimizer.found)

    model = sg.finish(accelerator.unwrap_model(model)).eval()
    inputs, labels = (each.to(accelerator.device) for each in points.tensors)
    right = (model(inputs).argmax(1) == labels).float().mean()
    kept = sum(int(each.count_nonzero()) for each in model.parameters() if each.ndim > 1)
    everyone = accelerator.gather(torch.tensor([kept], device=accelerator.device)).tolist()
    accelerator.print(f"{100 * right:.1f} % of the points; weights by process: {everyone}")
    if accelerator.is_main_process:
        sg.compress(model.cpu()).save(options.out)


if __name__ == "__main__":
    main()
