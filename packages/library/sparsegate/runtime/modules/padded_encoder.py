"""`nn.TransformerEncoder` with padding, without torch's nested tensors."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

AnyModule = TypeVar("AnyModule", bound=nn.Module)


class PaddedEncoder(nn.TransformerEncoder):
    """Gives zeros where sequences are padded, as torch's nested tensors do.

    For an encoder in eval with a padding mask, torch leaves the padding out, which needs dense
    weights, and puts zeros there before the last norm. Here the layers compute every position.
    """

    def forward(  # type: ignore[override]
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Returns the encoded sequences."""
        out = super().forward(src, mask, src_key_padding_mask, is_causal)
        pads = src_key_padding_mask
        if pads is None or mask is not None or src.ndim != 3 or torch.is_autocast_enabled():
            return out
        if pads.is_floating_point():
            pads = pads != 0
        at_the_end = (pads[:, 1:] >= pads[:, :-1]).all() | (not self.mask_check)
        filler = out.new_zeros(out.shape[-1:])
        filler = filler if self.norm is None else self.norm(filler)
        return torch.where((pads & at_the_end)[..., None], filler, out)


def without_nested_tensors_(model: AnyModule) -> AnyModule:
    """Makes every encoder that uses nested tensors a `PaddedEncoder`, in place."""
    for module in model.modules():
        if type(module) is nn.TransformerEncoder and getattr(module, "use_nested_tensor", False):
            module.__class__ = PaddedEncoder
            module.use_nested_tensor = False
    return model
