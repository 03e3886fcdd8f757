"""Reads folders of photographs: `train` and `val` with one folder per class, as for ImageNet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .dataset import Dataset
from .photo_dataset import photo_dataset, validation_last
from .photos import PhotoSource, Storing

ENDINGS = (".jpeg", ".jpg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")
SHOWN = 5  # names in a message
TESTS = ("val", "test")  # the folder that is the test set, the first that is there


def is_image_folder(folder: Path) -> bool:
    """Whether a folder has a folder `train`."""
    return (folder / "train").is_dir()


def read_image_folder(folder: Path, storing: Storing | None = None) -> Dataset:
    """The photographs of a folder, decoded once and cached.

    `val` is the test set. Every tenth image by name of each class in `train` is for validation, or
    fewer of a large set: 50,000 in all. A note lists files that are not images.
    """
    tests = [name for name in TESTS if (folder / name).is_dir()]
    if not tests:
        raise ValueError(
            f"{folder}: expected the folder {' or '.join(TESTS)} next to train, as the test set"
        )
    classes = _classes(folder / "train")
    _check_same(classes, _classes(folder / tests[0]), folder, tests[0])
    (train, train_strays), (test, test_strays) = (
        _listed(folder, split, classes) for split in ("train", tests[0])
    )
    strays = train_strays + test_strays
    order, num_train = validation_last([file.label for file in train])
    return photo_dataset(
        FolderSource(folder / "train", tuple(train[index] for index in order)),
        num_train,
        FolderSource(folder / tests[0], tuple(test)),
        storing or Storing(),
        (_describe_strays(strays),) if strays else (),
    )


class File(NamedTuple):
    """An image in a folder."""

    name: str
    """Its path relative to the folder."""
    label: int
    """Its class."""
    size: int
    """Its size in bytes."""
    changed: int
    """Time of its last change, in nanoseconds."""


@dataclass(frozen=True)
class FolderSource(PhotoSource):
    """Files in a folder, with their classes."""

    folder: Path
    files: tuple[File, ...]

    def labels(self) -> list[int]:
        """The class of each."""
        return [file.label for file in self.files]

    def name(self, index: int) -> str:
        """The file's path."""
        return _readable(self.folder / self.files[index].name)

    def read(self, index: int) -> bytes:
        """The file's content."""
        return (self.folder / self.files[index].name).read_bytes()

    def key(self) -> str:
        """Names, classes, sizes and times of change, so a folder that moves keeps its key.

        A photograph replaced by one of the same size and time goes unnoticed.
        """
        return "\n".join("\0".join(map(str, file)) for file in self.files)


def _classes(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        names = sorted(
            entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")
        )
    if not names:
        raise ValueError(f"{folder}: expected one folder of images for each class, got none")
    return names


def _check_same(train: list[str], test: list[str], folder: Path, test_name: str) -> None:
    for has, lacks, names in (
        ("train", test_name, set(train) - set(test)),
        (test_name, "train", set(test) - set(train)),
    ):
        if names:
            raise ValueError(
                f"{folder / lacks} lacks {len(names)} class folder"
                f"{'s' if len(names) > 1 else ''} that {has} has: "
                f"{_shown(sorted(names))}; both need the same classes"
            )


def _listed(folder: Path, split: str, classes: list[str]) -> tuple[list[File], list[str]]:
    """All images of a split, and the names of other files, those outside of classes first."""
    files: list[File] = []
    outside = [
        path
        for path in (folder / split).iterdir()
        if path.is_file() and not path.name.startswith(".")
    ]
    strays = sorted(_readable(path.relative_to(folder)) for path in outside)
    for label, name in enumerate(classes):
        path = folder / split / name
        with os.scandir(path) as entries:
            found = list(entries)
        images = [entry for entry in found if _is_image(entry)]
        if not images:
            raise ValueError(
                f"{path} has no images; expected files that end in {', '.join(ENDINGS)}"
            )
        files += sorted(_file(f"{name}/{entry.name}", label, entry.stat()) for entry in images)
        others = [
            Path(entry) for entry in found if not (_is_image(entry) or entry.name.startswith("."))
        ]
        strays += sorted(
            _readable(file.relative_to(folder)) for other in others for file in _files(other)
        )
    return files, strays


def _file(name: str, label: int, about: os.stat_result) -> File:
    return File(name, label, about.st_size, about.st_mtime_ns)


def _is_image(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(ENDINGS) and entry.is_file()


def _files(path: Path) -> list[Path]:
    """The file itself, or all files in a folder."""
    return [file for file in (path, *path.rglob("*")) if file.is_file()]


def _readable(path: Path) -> str:
    """The path, with replacement characters for bytes that are not text."""
    return os.fsencode(path).decode(errors="replace")


def _describe_strays(strays: list[str]) -> str:
    count = "1 file was" if len(strays) == 1 else f"{len(strays):,} files were"
    return (
        f"{count} not used; an image is directly in the folder of its class and ends in "
        f"{', '.join(ENDINGS)}: {_shown(strays)}"
    )


def _shown(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" ..." if len(names) > SHOWN else "")
