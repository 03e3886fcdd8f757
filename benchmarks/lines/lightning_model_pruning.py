"""The network in Lightning with its own callback."""

import lightning
import torch
from lightning.pytorch.callbacks import ModelPruning
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(512, 20), torch.arange(512) % 4)


class Module(lightning.LightningModule):
    """The network and its loss."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))

    def training_step(self, batch, index):
        """The loss of a batch."""
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


module = Module()
trainer = lightning.Trainer(
    max_epochs=20,
    callbacks=[ModelPruning("l1_unstructured", amount=1 - 0.1 ** (1 / 20))],
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(module, DataLoader(data, batch_size=64))
weights = [each for each in module.parameters() if each.ndim > 1]
print("kept", sum(int((each != 0).sum()) for each in weights) / sum(w.numel() for w in weights))
