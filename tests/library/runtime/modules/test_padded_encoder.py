"""Encoders with padded sequences give what torch gives, zeros at the padding included."""

import pytest
import torch
from torch import nn

import sparsegate as sg
from sparsegate.runtime.modules import swapped
from sparsegate_runtime.kernels import KERNELS

pytestmark = [
    pytest.mark.skipif(KERNELS is None, reason="kernels not built"),
    pytest.mark.filterwarnings("ignore"),
]


class Encoder(nn.Module):
    """Takes sequences and their padding."""

    def __init__(self, norm=None, *, check=True):
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=norm, mask_check=check)
        for weight in self.parameters():
            if weight.ndim > 1:
                weight.data.mul_(torch.rand_like(weight) < 0.2)
        self.requires_grad_(False).eval()

    def forward(self, x, pads=None, mask=None):
        return self.encoder(x, mask=mask, src_key_padding_mask=pads)


AT_THE_END = torch.arange(7) >= torch.tensor([[5], [7]])
IN_FRONT = AT_THE_END.flip(1)
CAUSAL = torch.ones(7, 7).triu(1).bool()


@pytest.mark.parametrize("first", [(), (AT_THE_END,)])
@pytest.mark.parametrize("norm", [None, nn.LayerNorm(32)])
@torch.no_grad()
def test_padding_gives_what_torch_gives(first, norm):
    if norm is not None:
        nn.init.ones_(norm.bias)
    model, x = Encoder(norm), torch.randn(2, 7, 32)
    forms = sg.sparse(model, (x, *first)), swapped(model, (x, *first), {}, force=True)[0]
    for fast in forms:
        for given in ((), (AT_THE_END,), (IN_FRONT,), (AT_THE_END, CAUSAL), (None, CAUSAL)):
            torch.testing.assert_close(fast(x, *given), model(x, *given), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_padding_as_numbers_and_without_a_check():
    model, x = Encoder(check=False), torch.randn(2, 7, 32)
    pads = torch.zeros(2, 7).masked_fill(AT_THE_END, -torch.inf)
    fast, _ = swapped(model, (x, pads), {}, force=True)
    torch.testing.assert_close(fast(x, pads), model(x, pads), rtol=1e-4, atol=1e-4)
    assert type(model.encoder) is nn.TransformerEncoder
