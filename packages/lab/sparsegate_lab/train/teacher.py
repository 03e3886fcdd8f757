"""Finished runs as the teachers of another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sparsegate.distil import check_distil


@dataclass(frozen=True)
class Teacher:
    """From whom a run learns beside the labels; without a folder there is none, and it is false."""

    teacher: str = ""
    """Folder of a finished run, whose network is the teacher; of several, divided by commas, the mean logits teach."""

    temperature: float = 4.0
    """What logits are divided by; the higher, the more the teacher's small probabilities say."""

    share: float = 0.5
    """Weight of the teacher against the labels, in [0, 1]."""

    content: str = ""
    """Hash of the teacher's network, or of all: found when training begins, an error if another one is given."""

    def __post_init__(self) -> None:
        check_distil(self.temperature, self.share)
        if self.content and not self.teacher:
            raise ValueError(
                f"content is the hash of a teacher, and there is none: {self.content!r}"
            )

    def __bool__(self) -> bool:
        return bool(self.teacher)

    @property
    def networks(self) -> tuple[Path, ...]:
        """The files of the teachers' networks."""
        return tuple(
            Path(folder.strip()) / "network.safetensors" for folder in self.teacher.split(",")
        )

    def hash_of_content(self) -> str:
        """The hash of the networks in the folders, which must be the one that is named, if one is."""
        digest = hashlib.blake2b(digest_size=8)
        for network in self.networks:
            if not network.exists():
                raise ValueError(
                    f"no finished run in {network.parent}: {network.name} is missing; train it first"
                )
            digest.update(network.read_bytes())
        found = digest.hexdigest()
        if self.content not in ("", found):
            raise ValueError(
                f"the network in {self.teacher} is {found}, not {self.content}: it is another teacher"
            )
        return found
