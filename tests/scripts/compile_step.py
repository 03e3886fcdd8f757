"""Compiles whole training steps and the changes of images, and prints, as JSON, how far they are from eager.

A process of its own, because torch.compile cannot trace the checks of signatures that the tests
install.
"""

import json
import sys

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

import sparsegate as sg
from sparsegate_lab.data import IMAGENET, Fit, Flip, Jitter, RandomCrop, Shift
from sparsegate_lab.train.batches import changed

BACKEND = "aot_eager"  # traces all that inductor would, without a compiler's minutes


def optimizers(way: str, model: nn.Module) -> list[Optimizer]:
    penalty = sg.Penalty(count=2.0, bimodal=1.0)
    if way == "apart":
        sgd = torch.optim.SGD(sg.weights(model), lr=0.1, momentum=0.9, weight_decay=0.01)
        return [sgd, sg.GateSGD(model, lr=1.0, penalty=penalty)]
    small = way == "small"
    return [
        sg.GatedSGD(model, lr=0.1, weight_decay=0.01, gate_lr=1.0, penalty=penalty, small=small)
    ]


def trained(way: str, *, compiled: bool) -> Tensor:
    """All weights and gates after some steps."""
    torch.manual_seed(0)
    model = sg.gate(nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4)))
    images, labels = torch.randn(6, 1, 5, 5), torch.randint(4, (6,))
    moved = optimizers(way, model)

    def step(images: Tensor, labels: Tensor) -> None:
        nn.functional.cross_entropy(model(images), labels).backward()
        for optimizer in moved:
            optimizer.step()
            optimizer.zero_grad()

    torch._dynamo.reset()
    run = torch.compile(step, backend=BACKEND) if compiled else step
    for _ in range(5):
        run(images, labels)
    return torch.cat([each.flatten().float() for each in model.state_dict().values()])


def changes_gap() -> float:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (6, 3, 20, 20), dtype=torch.uint8, generator=generator)
    augments = (Shift(2), Flip(), RandomCrop((28, 28), 0.35), Jitter(0.2))
    drawn = tuple(augment.draw(6, generator) for augment in augments)
    settings = (images, drawn, augments, Fit((28, 28), IMAGENET))
    compiled = torch.compile(changed, dynamic=False, fullgraph=True, backend=BACKEND)
    return float((compiled(*settings) - changed(*settings)).abs().max())


def main() -> None:
    torch.set_num_threads(1)
    found = {
        way: float((trained(way, compiled=True) - trained(way, compiled=False)).abs().max())
        for way in ("apart", "together", "small")
    }
    json.dump(found | {"changes": changes_gap()}, sys.stdout)


if __name__ == "__main__":
    main()
