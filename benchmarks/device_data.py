"""Takes data to a machine that accepts only so many bytes at a time: pieces here, the whole there.

    python benchmarks/device_data.py pack SOURCE PIECES          # here: PIECES/0/data.tar, PIECES/1/data.tar, ...
    python benchmarks/device_data.py unpack PIECES/0 TARGET      # there, once for every piece, in any order

When the last piece has come, TARGET gets imagenette/ (train, val), cifar10/ (binary files) and the
convolutions of AlexNet and VGG-16 with torchvision's names. TARGET must be a folder that the next
transfer leaves alone.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

TAKEN = (
    "imagenette/train.tar.gz",
    "imagenette/val.tar.gz",
    "weights/alexnet_features_fp16.npz",
    "weights/vgg16_features_fp16.npz",
    "cifar10/train_0.medxz",
    "cifar10/train_1.medxz",
    "cifar10/test.medxz",
    "cifar10/labels.npz",
    "tools/medxz.py",
)
LIMIT = 44 << 20


def pack(source: Path, pieces: Path) -> None:
    """Cuts one archive of everything into pieces."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name in TAKEN:
            archive.add(source / name, name)
    content = whole.getvalue()
    count = -(-len(content) // LIMIT)
    for number in range(count):
        folder = pieces / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "data.tar").write_bytes(content[number * LIMIT : (number + 1) * LIMIT])
        (folder / "piece.json").write_text(json.dumps({"number": number, "count": count}))
        print(f"{folder}: {(folder / 'data.tar').stat().st_size / 2**20:.1f} MiB")


def unpack(piece: Path, target: Path) -> None:
    """Lays a piece aside; unpacks all of them when this was the last one."""
    about = json.loads((piece / "piece.json").read_text())
    aside = target / "pieces"
    aside.mkdir(parents=True, exist_ok=True)
    (aside / f"{about['number']}").write_bytes((piece / "data.tar").read_bytes())
    here = sorted(aside.iterdir(), key=lambda path: int(path.name))
    print(f"{len(here)} of {about['count']} pieces are in {target}")
    if len(here) == about["count"]:
        with tarfile.open(
            fileobj=io.BytesIO(b"".join(path.read_bytes() for path in here))
        ) as archive:
            archive.extractall(target / "packed", filter="data")
        _open(target / "packed", target)


def _open(packed: Path, target: Path) -> None:
    for split in ("train", "val"):
        with tarfile.open(packed / "imagenette" / f"{split}.tar.gz") as archive:
            archive.extractall(target / "imagenette", filter="data")
    here = Path(__file__).parent
    _python(
        here / "cifar10_binary.py",
        packed / "cifar10",
        target / "cifar10",
        "--tool",
        packed / "tools" / "medxz.py",
    )
    for name, model in (("alexnet", "alexnet-torchvision"), ("vgg16", "vgg16")):
        source = packed / "weights" / f"{name}_features_fp16.npz"
        _python(here / "features.py", source, model, target / f"{name}_features.safetensors")


def _python(*words: Path | str) -> None:
    subprocess.run([sys.executable, *map(str, words)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("pack", "unpack"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    (pack if args.verb == "pack" else unpack)(args.source, args.target)


if __name__ == "__main__":
    main()
