"""Describes a run; the hash of its settings names its folder."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from sparsegate_lab.data import Storing
from sparsegate_lab.method import Method
from sparsegate_lab.methods import METHODS, LearnedGates
from sparsegate_lab.record import CONTENT
from sparsegate_runtime.checksum import without_checksum
from sparsegate_runtime.schema import SchemaError, parse_fields

from .stop import Stop
from .teacher import Teacher
from .weights import content_hash

NORMALISE = ("data", "imagenet")
PRECISIONS = ("fp32", "bf16", "fp16")
AnyMethod = TypeVar("AnyMethod", bound=Method)


@dataclass(frozen=True)
class Run(Generic[AnyMethod]):
    """Everything that determines a trained network."""

    model: str = "lenet5"
    """A registered network, or module:Class."""

    data: str = "mnist"
    """mnist, a dataset in $SPARSEGATE_DATA, a folder (images, CIFAR, idx), hub:OWNER/NAME,
    a .safetensors file of four tensors, or module:function."""

    method: AnyMethod = dataclasses.field(default_factory=LearnedGates)  # type: ignore[assignment]
    """How the network is made smaller."""

    weights: str = ""
    """Initial weights: a .pth or .safetensors file, a run's folder, or hf://OWNER/NAME/FILE."""

    new_head: tuple[str, ...] = ()
    """Layers that do not take their initial weights, such as classifier.6 or classifier.*"""

    front: str = ""
    """Part that begins the network, such as features: frozen, its outputs are computed once."""

    epochs: int = 20
    """Passes over the training images."""

    batch_size: int = 128
    """Images in a step, over all processes."""

    lr: float = 0.03
    """Initial learning rate of the weights (SGD with momentum); it follows a cosine to zero."""

    momentum: float = 0.9
    """Momentum of the weights."""

    weight_decay: float = 1e-4
    """Weight decay; gates have none."""

    warmup: float = 0.0
    """Fraction of training over which the learning rate rises from zero."""

    clip: float = 0.0
    """Largest norm of the gradients of all weights; 0: no clipping."""

    label_smoothing: float = 0.0
    """Label smoothing: fraction of each label that is spread over all classes."""

    stop: Stop = dataclasses.field(default_factory=Stop)
    """When training may end before its last epoch."""

    shift: int = 2
    """Training images are shifted by up to this many pixels."""

    flip: bool = False
    """Mirror every other training image."""

    crop: float = 0.0
    """Train on random crops of at least this fraction of the area; 0: on whole images."""

    jitter: float = 0.0
    """Change brightness, contrast and color of training images by up to this fraction."""

    erase: int = 0
    """Side in pixels of a gray square that covers a part of every training image; 0: none."""

    normalise: Literal["data", "imagenet"] = "data"
    """Normalize by mean and deviation of the training images, or of ImageNet."""

    stored_size: int = 256
    """Side in pixels of the squares in which photographs are cached."""

    bad_images: Literal["stop", "skip"] = "stop"
    """What to do with a photograph that cannot be decoded."""

    seed: int = 0
    """Seed of all random numbers."""

    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Type of the forward and backward pass; weights and gates stay in fp32. fp16 needs a GPU."""

    compile: bool = False
    """Compile the network with torch.compile; often faster on a GPU, seldom on a CPU."""

    distil: Teacher = dataclasses.field(default_factory=Teacher)
    """A finished run that teaches this one, in addition to the labels."""

    average: float | None = None
    """Decay of a moving average of the weights after the mask is frozen; 1: a plain mean."""

    def __post_init__(self) -> None:
        _check_training(self)
        _check_loss(self)
        _check_images(self)
        _check_front(self)
        if self.clip and getattr(self.method, "update", "apart") != "apart":
            raise ValueError(
                "with one optimizer for weights and gates, clip would affect both; leave clip out, "
                "or use update apart"
            )
        if self.new_head and not self.weights:
            raise ValueError(
                "new_head says which layers of --weights are not used, and there are no weights"
            )
        if self.average is not None and self.method.freezes_at is None:
            raise ValueError(
                f"average needs a mask that is frozen before the end; {self.method_name} has none"
            )

    @property
    def method_name(self) -> str:
        """The method's name in the registry, or its class's name if it is not registered."""
        kinds = {kind: name for name, kind in METHODS.items()}
        return kinds.get(type(self.method), type(self.method).__name__)

    @property
    def name(self) -> str:
        """Model, method and a hash of all settings: the run's folder.

        >>> Run(epochs=5).name == Run(epochs=5).name != Run(epochs=6).name
        True
        """
        settings = self.to_json()
        settings.pop("weights")  # its content counts, not its path
        if not self.front:
            settings.pop("front")  # runs had names before there were fronts
        digest = hashlib.blake2b(
            json.dumps(settings, sort_keys=True).encode(), digest_size=4
        ).hexdigest()
        model = re.sub(r"[^\w.-]+", "-", self.model)  # of module:Class or file.py:Class
        return f"{model}-{self.method_name}-{digest}"

    def to_json(self) -> dict[str, Any]:
        """All settings as plain values, the method's name, and a hash of the initial weights."""
        settings = _plain(self)
        content = {CONTENT: content_hash(self.weights)} if self.weights else {}
        return {**settings, "method": {"name": self.method_name, **settings["method"]}, **content}

    def to_flags(self) -> list[str]:
        """The words after `sparsegate train` that describe this run.

        >>> Run(model="lenet300", epochs=5, method=LearnedGates(ramp=0.1)).to_flags()
        ['lenet300', '--method', 'learned_gates', '--epochs', '5', '--ramp', '0.1']
        """
        usual: Run[Any] = Run(model=self.model, method=self.method)
        method = changed_flags(self.method, type(self.method)())
        return [self.model, "--method", self.method_name, *changed_flags(self, usual), *method]

    @classmethod
    def from_json(cls, value: Any) -> Run[Any]:
        """The run in a dictionary that `to_json` made.

        >>> Run.from_json(Run(epochs=5).to_json()) == Run(epochs=5)
        True
        """
        value = without_checksum(value)
        method = value.get("method") if isinstance(value, dict) else None
        if not isinstance(method, dict) or not isinstance(method.get("name"), str):
            raise SchemaError("method: expected an object with a name, as in a run's run.json")
        kind = METHODS[method["name"]]
        settings = {name: each for name, each in value.items() if name != CONTENT}
        settings["method"] = {name: each for name, each in method.items() if name != "name"}
        run: Run[Any] = parse_fields(cls, settings, kinds={"method": kind})
        return run


def _check_training(run: Run[Any]) -> None:
    if run.epochs < 1:
        raise ValueError(f"epochs is at least 1, got {run.epochs}")
    if run.batch_size < 1:
        raise ValueError(f"batch_size is at least 1, got {run.batch_size}")
    if not (0 < run.lr < math.inf and 0 <= run.momentum < 1 and 0 <= run.weight_decay < math.inf):
        raise ValueError(
            "lr is finite and above zero, momentum in [0, 1), and weight_decay finite and zero or "
            f"more, got lr={run.lr}, momentum={run.momentum}, weight_decay={run.weight_decay}"
        )
    if not 0 <= run.warmup < 1:
        raise ValueError(f"warmup is a fraction of training in [0, 1), got {run.warmup}")
    if run.precision not in PRECISIONS:
        raise ValueError(f"precision is fp32, bf16 or fp16, got {run.precision!r}")


def _check_loss(run: Run[Any]) -> None:
    if not run.clip >= 0:
        raise ValueError(f"clip is the length of a gradient, or 0 for none, got {run.clip}")
    if not 0 <= run.label_smoothing < 1:
        raise ValueError(f"label_smoothing is a share in [0, 1), got {run.label_smoothing}")
    if run.label_smoothing and run.distil:
        raise ValueError("a teacher's labels are soft already; leave label_smoothing or distil out")


def _check_images(run: Run[Any]) -> None:
    if not 0 <= run.shift <= 14:
        raise ValueError(f"shift is in pixels, from 0 (none) to 14, got {run.shift}")
    if not (0 <= run.crop <= 1 and 0 <= run.jitter < 1):
        raise ValueError(
            f"crop is in [0, 1] and jitter in [0, 1), got crop={run.crop}, jitter={run.jitter}"
        )
    if run.erase < 0:
        raise ValueError(f"erase is the side of a square in pixels, or 0 for none, got {run.erase}")
    if run.normalise not in NORMALISE:
        raise ValueError(f"normalise is one of {', '.join(NORMALISE)}, got {run.normalise!r}")
    Storing(size=run.stored_size, bad_images=run.bad_images)


def _check_front(run: Run[Any]) -> None:
    if not run.front:
        return
    if not run.weights:
        raise ValueError(
            "front freezes what a part of the network has learned, and without initial weights it "
            "has learned nothing; give --weights"
        )
    changed = [name for name in ("shift", "crop", "jitter", "erase") if getattr(run, name)]
    if changed:
        off = " ".join(f"--{name} 0" for name in changed)
        raise ValueError(
            "the outputs of a front are computed once, so images cannot change in every epoch, "
            f"except by --flip; add {off}"
        )


def _plain(value: Any) -> Any:
    """A setting as JSON returns it, with whole numbers as floats where floats are expected."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return [[name, each] for name, each in value.items()]  # the order counts
    if not dataclasses.is_dataclass(value):
        return value
    fields = {
        field.name: (str(field.type), getattr(value, field.name))
        for field in dataclasses.fields(value)
    }
    return {
        name: float(each) if kind.startswith("float") and isinstance(each, int) else _plain(each)
        for name, (kind, each) in fields.items()
    }


def changed_flags(settings: Any, usual: Any, prefix: str = "") -> list[str]:
    """The flags that turn the usual settings of a dataclass into the given ones.

    >>> @dataclasses.dataclass
    ... class Settings:
    ...     flip: bool = False
    ...     only: tuple[str, ...] = ("*",)
    >>> changed_flags(Settings(True, ("fc1.*", "fc2.*")), Settings())
    ['--flip', '--only', 'fc1.*', 'fc2.*']
    """
    words: list[str] = []
    for field in dataclasses.fields(settings):
        value, other = getattr(settings, field.name), getattr(usual, field.name)
        name = field.name.replace("_", "-")
        if value == other:
            continue
        if dataclasses.is_dataclass(value):
            words += changed_flags(value, other, f"{prefix}{name}.")
        elif isinstance(value, bool):
            words.append(f"--{prefix}{name}" if value else f"--{prefix}no-{name}")
        else:
            words += _flag(f"--{prefix}{name}", _words(value))
    return words


def _flag(name: str, values: list[str]) -> list[str]:
    if len(values) == 1 and values[0].startswith("-"):
        return [f"{name}={values[0]}"]  # or it would be taken for a flag
    return [name, *values]


def _words(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        value = tuple(value.items())
    if isinstance(value, tuple):
        return [word for element in value for word in _words(element)]
    return [str(value)]
