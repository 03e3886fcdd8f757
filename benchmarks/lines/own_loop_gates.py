"""The loop with gates."""

import torch
from torch import nn
from torch.nn import functional as F

import sparsegate as sg


class Net(nn.Module):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(20, 64), nn.Linear(64, 4)

    def forward(self, inputs):
        """The logits."""
        return self.last(F.relu(self.first(inputs)))


torch.manual_seed(0)
inputs, labels = torch.randn(512, 20), torch.arange(512) % 4
epochs, batch = 20, 64

model = Net()
model = sg.gate(model)
optimizer = sg.GatedAdamW(model, lr=1e-2, target=sg.Target(keep=0.1), steps=epochs * 8)
for _ in range(epochs):
    for chosen in torch.randperm(len(inputs)).split(batch):
        loss = F.cross_entropy(model(inputs[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
model = sg.finish(model)
weights = [each for each in model.parameters() if each.ndim > 1]
print("kept", sum(int((each != 0).sum()) for each in weights) / sum(w.numel() for w in weights))
