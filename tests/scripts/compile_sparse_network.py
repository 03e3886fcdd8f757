"""Compiles code around sparse networks as one graph each and prints, as JSON, how far it is from eager.

A process of its own, because torch.compile cannot trace the checks of signatures that the tests
install.
"""

import json
import sys

import torch
from torch import nn

import sparsegate as sg

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).eval()
head, images = nn.Linear(10, 2), torch.randn(4, 3, 8, 8)
found = {}
for kernel in ("chain", "dense"):
    torch._dynamo.reset()
    fast = sg.sparse(model, images, kernel=kernel)
    compiled = torch.compile(
        lambda x, fast=fast: head(fast(x * 2)), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    with torch.no_grad():
        for count in (4, 3, 7):  # the second time after calls that left a short cut
            x = torch.randn(count, 3, 8, 8)
            found[f"{kernel} {count}"] = float((compiled(x) - head(fast(x * 2))).abs().max())
        fast.load_state_dict({name: 2 * each for name, each in model.state_dict().items()})
        found[f"{kernel} loaded"] = float((compiled(images) - head(fast(images * 2))).abs().max())
try:
    compiled(images.clone().requires_grad_()).sum().backward()
except RuntimeError as error:
    found["backward"] = str(error)
sys.stdout.write(json.dumps(found))
