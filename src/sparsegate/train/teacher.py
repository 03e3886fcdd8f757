"""A finished run as the teacher of another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sparsegate.distil import check_distil


@dataclass(frozen=True)
class Teacher:
    """From whom a run learns beside the labels; without a folder there is none, and it is false."""

    teacher: str = ""
    """Folder of a finished run, whose network is the teacher."""

    temperature: float = 4.0
    """What logits are divided by; the higher, the more the teacher's small probabilities say."""

    share: float = 0.5
    """Weight of the teacher against the labels, in [0, 1]."""

    content: str = ""
    """Hash of the teacher's network: found when training begins, and an error if another one is given."""

    def __post_init__(self) -> None:
        check_distil(self.temperature, self.share)
        if self.content and not self.teacher:
            raise ValueError(f"content is the hash of a teacher, and there is none: {self.content!r}")

    def __bool__(self) -> bool:
        return bool(self.teacher)

    @property
    def network(self) -> Path:
        """The file of the teacher's network."""
        return Path(self.teacher) / "network.safetensors"

    def hash_of_content(self) -> str:
        """The hash of the network in the folder, which must be the one that is named, if one is."""
        if not self.network.exists():
            raise ValueError(f"no finished run in {self.teacher}: {self.network.name} is missing; train it first")
        found = hashlib.blake2b(self.network.read_bytes(), digest_size=8).hexdigest()
        if self.content not in ("", found):
            raise ValueError(f"the network in {self.teacher} is {found}, not {self.content}: it is another teacher")
        return found
