"""Freezes the layers at the front of a network, so that their outputs are computed only once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float16, Int64, UInt8
from torch import Tensor, nn

from sparsegate_lab.data import Augment, Dataset, Flip, Split, hash_of_images, load_or_compute

BATCH = 64  # images that the front takes at a time
TOLERANCE = 1e-3  # of the logits when their front is computed before, relative to the largest
Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Reports no progress."""


class Stored(nn.Module):
    """Stands where the front was, and gives what the front gave."""

    def __init__(self) -> None:
        super().__init__()
        self.maps: Tensor | None = None

    def forward(self, _: Tensor) -> Tensor:
        """The maps of this batch."""
        assert self.maps is not None, "the network has to be called with maps"
        return self.maps


class Feed:
    """A hook that lets a network without its front be called with maps instead of images."""

    def __init__(self, stored: Stored, image_shape: tuple[int, ...]) -> None:
        self.stored, self.image_shape = stored, image_shape

    def __call__(self, _: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        """Hands the maps to the layer that gives them; the images are zeros without memory."""
        (maps,) = inputs
        self.stored.maps = maps
        return (maps.new_zeros(()).expand(len(maps), *self.image_shape),)


@dataclass(frozen=True)
class PickCopy(Augment):
    """Takes the maps of the image or of its mirror image, each with probability one half."""

    def draw(self, count: int, generator: torch.Generator) -> Int64[Tensor, "image 1"]:
        """One for each image to mirror, zero for the others."""
        return Flip().draw(count, generator)

    def apply(
        self, images: Float16[Tensor, "image copy *map"], drawn: Int64[Tensor, "image 1"]
    ) -> Float16[Tensor, "image 1 *map"]:
        """The chosen copy of each image's maps."""
        return images[torch.arange(len(images), device=images.device), drawn[:, 0]][:, None]


def first_copy(maps: Float16[Tensor, "image copy *map"]) -> Float[Tensor, "image *map"]:
    """What a network without its front takes: the maps of the images as they are, in fp32."""
    return maps[:, 0].float()


@dataclass(frozen=True, eq=False)
class Front:
    """The layers that a network's front consists of, taken out of the network."""

    name: str
    layers: nn.Module
    image_shape: tuple[int, int, int]

    @classmethod
    def taken_from(cls, model: nn.Module, name: str, image_shape: tuple[int, int, int]) -> Front:
        """Takes the front out of a network, in place; the network then takes maps, not images.

        Raises:
            ValueError: If there is no such layer, or the network reads more than its output.
        """
        layers = dict(model.named_children()).get(name)
        if layers is None:
            names = ", ".join(each for each, _ in model.named_children())
            raise ValueError(f"front is one of the network's parts ({names}), got {name!r}")
        front = cls(name, layers.eval().requires_grad_(False), image_shape)
        front._check(model)
        front._take_out(model)
        return front

    @property
    def num_kept(self) -> int:
        """The weights of the front that are not zero; all of them stay."""
        return sum(int(each.count_nonzero()) for each in self.layers.parameters() if each.ndim > 1)

    @property
    def hash(self) -> str:
        """A hash of what the front computes: its layers and their numbers."""
        digest = hashlib.blake2b(repr(self.layers).encode(), digest_size=16)
        for name, tensor in self.layers.state_dict().items():
            digest.update(f"{name} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().data)
        return digest.hexdigest()

    def put_back_(self, model: nn.Module) -> nn.Module:
        """Makes the network whole again, in place."""
        setattr(model, self.name, self.layers)
        hooks = model._forward_pre_hooks
        for key in [key for key, hook in hooks.items() if isinstance(hook, Feed)]:
            del hooks[key]
        return model

    def splits(
        self,
        data: Dataset,
        view: Callable[[Tensor], Tensor],
        device: torch.device,
        progress: Progress,
        *,
        mirrored: bool,
    ) -> dict[str, Split]:
        """The maps of all images, computed now or read from the cache.

        Args:
            data: The images.
            view: Turns bytes of images into the input of the network.
            device: Where they are computed.
            progress: Called with the number of images that are done, and of all; not if the maps
                were in the cache.
            mirrored: Whether training images have a second map, of their mirror image.
        """
        self.layers.to(device)
        copies = {"train": 1 + mirrored, "validation": 1, "test": 1}
        images = {name: getattr(data, name) for name in copies}
        total = sum(len(images[name]) * copies[name] for name in copies)
        found, done = {}, 0
        for name, split in images.items():
            maps = _Maps(self, view, device, copies[name])
            found[name] = maps.of(split, lambda more, done=done: progress(done + more, total))  # type: ignore[misc]
            done += len(split) * copies[name]
        return found

    @torch.no_grad()
    def _check(self, model: nn.Module) -> None:
        """Raises unless the network is the front and layers that read only its output."""
        was_training = model.training
        images = torch.randn(2, *self.image_shape, generator=torch.Generator().manual_seed(0))
        wanted = model.eval()(images)
        try:
            maps = self.layers(images)
            self._take_out(model)
            found = model(maps)
        except RuntimeError:  # such as of shapes
            found = torch.full_like(wanted, torch.inf)
        finally:
            self.put_back_(model).train(was_training)
        if not (found - wanted).abs().max() <= TOLERANCE * wanted.abs().max():
            raise ValueError(
                f"front {self.name} does not fit: layers behind it read more than its output, or "
                "layers before it change the images; name the first part of the network"
            )

    def _take_out(self, model: nn.Module) -> None:
        stored = Stored()
        setattr(model, self.name, stored)
        model.register_forward_pre_hook(Feed(stored, self.image_shape))


@dataclass(frozen=True)
class _Maps:
    """Computes the maps of images."""

    front: Front
    view: Callable[[Tensor], Tensor]
    device: torch.device
    copies: int

    def of(self, split: Split, progress: Callable[[int], None]) -> Split:
        """A split with maps instead of images; the maps have a dimension of copies."""
        shape = (len(split), self.copies, *self._computed(split.images[:1]).shape[2:])
        key = f"{self.front.hash} {self.view} {hash_of_images(split.images)}"
        maps = load_or_compute(key, shape, lambda: self._parts(split.images, progress))
        return Split(maps, split.labels)

    def _parts(
        self, images: UInt8[Tensor, "image channel height width"], progress: Callable[[int], None]
    ) -> Iterator[Float16[Tensor, "..."]]:
        for begin in range(0, len(images), BATCH):
            part = images[begin : begin + BATCH]
            yield self._computed(part)
            progress((begin + len(part)) * self.copies)

    @torch.no_grad()
    def _computed(
        self, images: UInt8[Tensor, "part channel height width"]
    ) -> Float16[Tensor, "part copy *map"]:
        images = images.to(self.device)
        copies = [images, images.flip(3)][: self.copies]
        maps = torch.stack([self.front.layers(self.view(copy)) for copy in copies], dim=1).half()
        if not maps.isfinite().all():
            raise ValueError(
                f"front {self.front.name} gives numbers that are not finite, or too large for "
                "fp16, in which they are kept"
            )
        return maps.cpu()
