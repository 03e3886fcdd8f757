"""Makes a file of torchvision's names from convolutions that were saved in order.

    python benchmarks/features.py alexnet_features_fp16.npz alexnet-torchvision features.safetensors
    sparsegate train alexnet-imagenette-dense --weights features.safetensors --new-head 'classifier.*'

The source is an npz file with `Conv_0.weight`, `Conv_0.bias`, `Conv_1.weight` and so on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from sparsegate_lab.models import MODELS


def convolutions(path: Path, model: str) -> dict[str, Tensor]:
    """The tensors by the model's own names, in fp32."""
    with torch.device("meta"):
        network = MODELS[model]()
    layers = {name: each for name, each in network.named_modules() if isinstance(each, nn.Conv2d)}
    tensors: dict[str, Tensor] = {}
    with np.load(path) as source:
        if len(source.files) != 2 * len(layers):
            raise SystemExit(
                f"{path} has {len(source.files)} arrays, {model} has {len(layers)} convolutions"
            )
        for place, (name, layer) in enumerate(layers.items()):
            for kind, own in (("weight", layer.weight), ("bias", layer.bias)):
                tensor = torch.from_numpy(
                    source[f"Conv_{place}.{kind}"].astype(np.float32)
                ).contiguous()
                if own is None or tensor.shape != own.shape:
                    raise SystemExit(
                        f"Conv_{place}.{kind} is {tuple(tensor.shape)}, which {name} of {model} is "
                        "not"
                    )
                tensors[f"{name}.{kind}"] = tensor
    return tensors


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("model", choices=("alexnet-torchvision", "vgg16"))
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    tensors = convolutions(args.source, args.model)
    save_file(tensors, args.target)
    print(
        f"{args.target}: {sum(each.numel() for each in tensors.values()):,} numbers in "
        f"{len(tensors)} tensors"
    )


if __name__ == "__main__":
    main()
