"""The loop with NNCF, by learned masks."""

import nncf
import torch
from nncf.torch.function_hook.pruning.rb.losses import RBLoss
from nncf.torch.function_hook.pruning.rb.schedulers import ExponentialRBPruningScheduler
from torch import nn
from torch.nn import functional as F


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
model = nncf.prune(
    model, nncf.PruneMode.UNSTRUCTURED_REGULARIZATION_BASED, examples_inputs=inputs[:1]
)
rb_loss = RBLoss(model, target_ratio=0.9)
scheduler = ExponentialRBPruningScheduler(
    rb_loss, initial_ratio=0.1, target_ratio=0.9, target_epoch=15
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(epochs):
    scheduler.step()
    for chosen in torch.randperm(len(inputs)).split(batch):
        loss = F.cross_entropy(model(inputs[chosen]), labels[chosen]) + rb_loss()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
model = nncf.strip(model, strip_format=nncf.StripFormat.IN_PLACE, do_copy=False)
weights = [each for each in model.parameters() if each.ndim > 1]
print("kept", sum(int((each != 0).sum()) for each in weights) / sum(w.numel() for w in weights))
