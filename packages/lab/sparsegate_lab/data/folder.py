"""Folders of photographs: `train` and `val` with a folder per class, as ImageNet is laid out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .dataset import Dataset
from .photo_dataset import aside, gathered
from .photos import Source, Storing

ENDINGS = (".jpeg", ".jpg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")
SHOWN = 5  # names in a message
TESTS = ("val", "test")  # the folder that is the test set, the first that is there


def is_image_folder(folder: Path) -> bool:
    """Whether a folder has a folder `train`."""
    return (folder / "train").is_dir()


def read_image_folder(folder: Path, storing: Storing | None = None) -> Dataset:
    """The photographs of a folder, decoded once and cached.

    `val` is the test set. The validation images are taken from `train`: of every class each tenth image by name, or
    fewer of a large set, 50,000 in all. Files that are not taken for images are told in a note.
    """
    tests = [name for name in TESTS if (folder / name).is_dir()]
    if not tests:
        raise ValueError(
            f"{folder} has a folder train, but no {' or '.join(TESTS)} beside it, which is the test set"
        )
    classes = _classes(folder / "train")
    _check_same(classes, _classes(folder / tests[0]), folder, tests[0])
    (train, train_strays), (test, test_strays) = (
        _listed(folder, split, classes) for split in ("train", tests[0])
    )
    strays = train_strays + test_strays
    order, num_train = aside([file.label for file in train])
    return gathered(
        FolderSource(folder / "train", tuple(train[place] for place in order)),
        num_train,
        FolderSource(folder / tests[0], tuple(test)),
        storing or Storing(),
        (_told(strays),) if strays else (),
    )


class File(NamedTuple):
    """An image under a folder."""

    name: str
    """Its path from the folder on."""
    label: int
    """Its class."""
    size: int
    """Its bytes."""
    changed: int
    """When its content was last written, in nanoseconds."""


@dataclass(frozen=True)
class FolderSource(Source):
    """Files under a folder, with their classes."""

    folder: Path
    files: tuple[File, ...]

    def labels(self) -> list[int]:
        """The class of each."""
        return [file.label for file in self.files]

    def name(self, place: int) -> str:
        """The file's path."""
        return _readable(self.folder / self.files[place].name)

    def read(self, place: int) -> bytes:
        """The file's content."""
        return (self.folder / self.files[place].name).read_bytes()

    def key(self) -> str:
        """Names, classes, sizes and times of change, not where the folder lies: one that is moved is the same.

        Not noticed is a photograph that is replaced by another of just its size and its time.
        """
        return "\n".join("\0".join(map(str, file)) for file in self.files)


def _classes(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        names = sorted(
            entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")
        )
    if not names:
        raise ValueError(
            f"{folder} has no folders in it; wanted one for each class, with its images"
        )
    return names


def _check_same(train: list[str], test: list[str], folder: Path, test_name: str) -> None:
    for has, lacks, names in (
        ("train", test_name, set(train) - set(test)),
        (test_name, "train", set(test) - set(train)),
    ):
        if names:
            raise ValueError(
                f"{folder / lacks} lacks {len(names)} class folder{'s' * (len(names) > 1)} that {has} has: "
                f"{_shown(sorted(names))}; both need the same classes"
            )


def _listed(folder: Path, split: str, classes: list[str]) -> tuple[list[File], list[str]]:
    """Every image of a split, and the names of files that are not taken for one, those beside the classes first."""
    files: list[File] = []
    beside = [
        path
        for path in (folder / split).iterdir()
        if path.is_file() and not path.name.startswith(".")
    ]
    strays = sorted(_readable(path.relative_to(folder)) for path in beside)
    for label, name in enumerate(classes):
        place = folder / split / name
        with os.scandir(place) as entries:
            found = list(entries)
        images = [entry for entry in found if _is_image(entry)]
        if not images:
            raise ValueError(f"{place} has no images; known endings are {', '.join(ENDINGS)}")
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
    """The file, or those in a folder and in all within it."""
    return [each for each in (path, *path.rglob("*")) if each.is_file()]


def _readable(path: Path) -> str:
    """The path, with marks for bytes that are no text, which nothing can show."""
    return os.fsencode(path).decode(errors="replace")


def _told(strays: list[str]) -> str:
    count = "1 file was not taken" if len(strays) == 1 else f"{len(strays):,} files were not taken"
    return (
        f"{count} for an image, which lies right in the folder of its class and ends in {', '.join(ENDINGS)}: "
        f"{_shown(strays)}"
    )


def _shown(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" ..." if len(names) > SHOWN else "")
