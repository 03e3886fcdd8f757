"""Finished runs that teach another run by distillation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sparsegate.distil import check_distil


@dataclass(frozen=True)
class Teacher:
    """The teacher of a run; false if there is none."""

    teacher: str = ""
    """Folder of a finished run, or several separated by commas, whose logits are averaged."""

    temperature: float = 4.0
    """Divisor of the logits; higher values emphasize small probabilities."""

    share: float = 0.5
    """Weight of the teacher's loss, in [0, 1]; the labels have the rest."""

    content: str = ""
    """Hash of the teachers' networks, set when training begins; another teacher is refused."""

    def __post_init__(self) -> None:
        check_distil(self.temperature, self.share)
        if self.content and not self.teacher:
            raise ValueError(
                f"content is the hash of a teacher, and teacher is empty; got {self.content!r}"
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
        """The hash of the networks in the folders; raises if it is not `content`."""
        digest = hashlib.blake2b(digest_size=8)
        for network in self.networks:
            if not network.exists():
                raise ValueError(
                    f"no finished run in {network.parent}: {network.name} is missing; "
                    "train it first"
                )
            digest.update(network.read_bytes())
        found = digest.hexdigest()
        if self.content not in ("", found):
            raise ValueError(
                f"the network in {self.teacher} is {found}, not {self.content}: "
                "it is another teacher"
            )
        return found
