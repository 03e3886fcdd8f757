"""Loads the compiled kernels and declares their signatures to ctypes."""

from __future__ import annotations

import ctypes
import os
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

POINTER, LONG, INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
SIGNATURES = {
    "sg_any_zero": (POINTER, LONG, INT, INT),
    "sg_chain": (POINTER, POINTER, POINTER, LONG, POINTER, LONG, LONG, LONG),
    "sg_chain_direct": (POINTER, POINTER, POINTER, LONG, LONG),
    "sg_chain_scratch": (POINTER, LONG, LONG),
    "sg_count_ones": (POINTER, LONG, INT),
    "sg_engine_run": (POINTER, POINTER, LONG, LONG, POINTER, LONG, LONG),
    "sg_fastfood": (*(POINTER, LONG, LONG, LONG, LONG), *(POINTER,) * 6, INT),
    "sg_gaps_write": (
        POINTER,
        LONG,
        POINTER,
        LONG,
        INT,
        POINTER,
        LONG,
        INT,
        POINTER,
        LONG,
        INT,
        INT,
    ),
    "sg_image_load": (POINTER, LONG, POINTER, LONG),
    "sg_image_memory": (POINTER, LONG),
    "sg_image_num": (POINTER, LONG),
    "sg_image_room": (POINTER, LONG),
    "sg_image_run": (POINTER, POINTER, LONG, POINTER, POINTER),
    "sg_image_use": (POINTER, LONG),
    "sg_rans_bits": (POINTER, LONG, LONG, LONG, POINTER),
    "sg_rans_pieces": (POINTER, LONG, LONG, LONG, POINTER),
    "sg_rans_split": (POINTER, LONG, LONG, POINTER, POINTER, POINTER, POINTER),
    "sg_rans_symbols": (POINTER, LONG, LONG, POINTER, POINTER, POINTER, POINTER),
    "sg_recurrent": (POINTER, POINTER, LONG, LONG, LONG),
    "sg_recurrent_scratch": (POINTER, LONG),
    "sg_variant": (),
    "sg_winograd": (POINTER, POINTER, POINTER, LONG, POINTER, LONG, LONG),
    "sg_winograd_scratch": (POINTER, LONG),
}
RETURNING_POINTERS = {
    "sg_image_error": ((LONG,), ctypes.c_char_p),
    "sg_image_tensor": ((POINTER, LONG, LONG), POINTER),
}


def explain_missing() -> str:
    """A message for users without kernels: how to install them."""
    return "the C kernels were not built; install a C compiler, then install sparsegate again"


def _load() -> ctypes.CDLL | None:
    path = _path()
    if path is None:
        return None
    library = ctypes.CDLL(str(path))
    if not all(hasattr(library, name) for name in (*SIGNATURES, *RETURNING_POINTERS)):
        warnings.warn(
            f"{path.name} is of another version and not used; install sparsegate again",
            stacklevel=2,
        )
        return None
    for name, takes in SIGNATURES.items():
        getattr(library, name).argtypes = takes
        getattr(library, name).restype = LONG
    for name, (takes, returns) in RETURNING_POINTERS.items():
        getattr(library, name).argtypes = takes
        getattr(library, name).restype = returns
    return library


def _path() -> Path | None:
    """The library that SPARSEGATE_KERNELS names, or the one built at installation."""
    here, wanted = Path(__file__).parent, os.environ.get("SPARSEGATE_KERNELS")
    if wanted:
        return None if wanted == "off" else Path(wanted).absolute()
    return next(
        (path for suffix in EXTENSION_SUFFIXES if (path := here / f"_c{suffix}").exists()), None
    )


KERNELS = _load()
"""The library; None if it was not built, or the environment has SPARSEGATE_KERNELS=off."""
