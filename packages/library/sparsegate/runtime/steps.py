"""Runs a model of transformers token by token in the engine, with its cache."""

from __future__ import annotations

import inspect
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from sparsegate.graph import tensors_in
from sparsegate_runtime.engine import LANES, UnplannedError, give_back

from .planned import TYPES, Planned
from .step_capture import Step, captured_step, with_cache
from .trial import are_near

MOST_PLANS = 8
"""Kinds of calls that are planned; the model's own code runs further ones."""
ROOM = 64
"""Tokens that a cache has room for beyond those that it holds; also floats behind the last."""
ROUNDS = 3
"""Tokens that are timed if torch runs a part of the plan."""
OFFSET = 5
"""Captured is a cache longer by this than the real one: a plan that depends on it is found out."""


class Store:
    """The keys and values of all layers as the engine reads them: of keys, tokens are innermost."""

    def __init__(self, cache: Any, past: int, room: int) -> None:
        self.room = -(-room // LANES) * LANES
        if self.room % 256 == 0:
            self.room += LANES  # features at such distances would share sets of the processor
        key, value = cache.layers[0].keys, cache.layers[0].values
        layers, (batch, heads, _, features) = len(cache.layers), key.shape
        self.keys = _empty(layers, batch, heads, features, self.room)
        self.values = _empty(layers, batch, heads, self.room, value.shape[3])
        self._state = np.array([past, self.room], np.int64)
        self.state = torch.from_numpy(self._state)
        self.views: tuple[tuple[Tensor, ...], tuple[Tensor, ...]] = ((), ())
        for index, layer in enumerate(cache.layers):
            self.keys[index, ..., :past] = layer.keys.mT
            self.values[index, :, :, :past] = layer.values

    @property
    def past(self) -> int:
        """The number of tokens."""
        return int(self._state[0])

    @past.setter
    def past(self, count: int) -> None:
        self._state[0] = count

    def show(self, cache: Any) -> None:
        """Lets a cache hold views of the tokens."""
        count = self.past
        self.views = self.keys[..., :count].mT.unbind(0), self.values[:, :, :, :count].unbind(0)
        for layer, key, value in zip(cache.layers, *self.views, strict=True):
            layer.keys, layer.values = key, value

    def is_of(self, cache: Any) -> bool:
        """Whether a cache holds what `show` gave it, and nothing else."""
        return len(cache.layers) == len(self.views[0]) and all(
            layer.keys is key and layer.values is value
            for layer, key, value in zip(cache.layers, *self.views, strict=True)
        )


def _empty(*shape: int) -> Tensor:
    """Zeros; what lies behind them may be read, too."""
    count = int(np.prod(shape))
    return torch.zeros(count + ROOM)[:count].view(shape)


class Steps:
    """Runs calls of a model with one new token for every text and a cache of earlier ones.

    The cache stays what it was, transformers' `DynamicCache`; its tensors become views of memory
    that the engine writes to. A cache that was changed in between is copied anew.
    """

    def __init__(self, own: Callable[..., Any], dense: Callable[[], nn.Module]) -> None:
        self._own, self._dense = own, dense
        self.plans: dict[Any, Planned | None] = {}
        self._stores: WeakKeyDictionary[Any, Store] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._takes_positions = "position_ids" in inspect.signature(own).parameters

    def __call__(self, kwargs: Mapping[str, Any]) -> Any | None:
        """The model's outputs; None if its own code must run."""
        cache, ids = kwargs["past_key_values"], kwargs.get("input_ids")
        if not _is_dynamic(cache) or _wants_gradients(kwargs, cache):
            return None
        store = self._stores.get(cache)
        if store is not None and (store.past >= store.room or not store.is_of(cache)):
            store = None
        past = _length(cache) if store is None else store.past
        if not past or not isinstance(ids, Tensor) or ids.ndim != 2 or ids.shape[1] != 1:
            return None
        if ids.shape[0] != cache.layers[0].keys.shape[0] or not _sees_all(kwargs, past):
            return None
        given = {name: one for name, one in kwargs.items() if isinstance(one, Tensor)}
        given.pop("attention_mask", None)
        if self._takes_positions and "position_ids" not in given:
            given["position_ids"] = torch.full((len(ids), 1), past)
        fixed = {
            name: one
            for name, one in kwargs.items()
            if name not in given and name not in ("past_key_values", "attention_mask")
        }
        with torch.no_grad():
            planned = self._planned(kwargs, given, fixed, past)
            if planned is None:
                return None
            if store is None:
                store = self._stores[cache] = Store(cache, past, past + max(ROOM, past))
            return _run(planned, given, store, cache)

    def _planned(
        self, kwargs: Mapping[str, Any], given: dict[str, Tensor], fixed: dict[str, Any], past: int
    ) -> Planned | None:
        key = _key(given, fixed)
        if key is None:
            return None
        if key not in self.plans:
            with self._lock:
                if key not in self.plans:
                    full = len(self.plans) >= MOST_PLANS
                    self.plans[key] = None if full else self._plan(kwargs, given, fixed, past)
        return self.plans[key]

    def _plan(
        self, kwargs: Mapping[str, Any], given: dict[str, Tensor], fixed: dict[str, Any], past: int
    ) -> Planned | None:
        cache = kwargs["past_key_values"]
        try:
            store = Store(cache, past, past + 1)
            step = Step(self._dense(), fixed, len(cache.layers), past + OFFSET)
            example = {
                "given": {name: given[name] for name in sorted(given)},
                "keys": store.keys,
                "values": store.values,
                "state": store.state,
            }
            made = Planned(captured_step(step, example))
            self._check(made, kwargs, given, past)
        except Exception as error:  # the model's own code runs instead
            first = str(error).strip().partition("\n")[0]
            warnings.warn(f"tokens with a cache run by the model's own code: {first}", stacklevel=6)
            return None
        give_back()
        return made

    def _check(
        self, made: Planned, kwargs: Mapping[str, Any], given: dict[str, Tensor], past: int
    ) -> None:
        """Raises UnplannedError if the model's own code gives something else, or is faster."""
        caches = [_copy(kwargs["past_key_values"]) for _ in range(2)]
        store = Store(caches[0], past, past + 1 + ROUNDS)
        ways: tuple[Callable[[], Any], ...] = (
            lambda: _run(made, given, store, caches[0]),
            lambda: self._own(**{**kwargs, "past_key_values": caches[1]}),
        )
        found, wanted = (way() for way in ways)
        ours, theirs = (
            [*_outputs(out), *_contents(cache)]
            for out, cache in zip((found, wanted), caches, strict=True)
        )
        if type(found) is not type(wanted) or not are_near(ours, theirs):
            raise UnplannedError("it computes something else than its captured operations")
        if made.left and _seconds(ways[0]) > _seconds(ways[1]):
            raise UnplannedError(f"the engine has no {made.left[0]}, and was slower")


def _seconds(way: Callable[[], Any]) -> float:
    """The least time of some more tokens."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        way()
        times.append(time.perf_counter() - began)
    return min(times)


def _run(planned: Planned, given: Mapping[str, Tensor], store: Store, cache: Any) -> Any:
    """The model's outputs; the cache has one token more then."""
    leaves = [given[name] for name in sorted(given)]
    found = planned([*leaves, store.keys, store.values, store.state])
    store.past += 1
    store.show(cache)
    return with_cache(found, cache)


def _outputs(out: Mapping[str, Any]) -> list[Tensor]:
    return tensors_in({name: one for name, one in out.items() if name != "past_key_values"})


def _wants_gradients(kwargs: Mapping[str, Any], cache: Any) -> bool:
    """Whether a gradient is to flow to an input; the model's own code says what it cannot."""
    if not torch.is_grad_enabled():
        return False
    given = [*kwargs.values(), *_contents(cache)]
    return any(isinstance(one, Tensor) and one.requires_grad for one in given)


def _contents(cache: Any) -> list[Tensor]:
    return [one for layer in cache.layers for one in (layer.keys, layer.values)]


def _copy(cache: Any) -> Any:
    """A copy of a cache that shares no memory with it."""
    made = type(cache)()
    for index, layer in enumerate(cache.layers):
        made.update(layer.keys.clone(), layer.values.clone(), index)
    return made


def _is_dynamic(cache: Any) -> bool:
    """Whether it is the cache that `generate` makes for a decoder."""
    transformers = sys.modules.get("transformers")
    return transformers is not None and type(cache) is transformers.DynamicCache


def _length(cache: Any) -> int:
    """The number of tokens in a cache; 0 if it is empty, or has layers that the engine lacks."""
    kind = sys.modules["transformers"].cache_utils.DynamicLayer
    layers = cache.layers
    if not layers or cache.offloading or any(type(one) is not kind for one in layers):
        return 0
    if not all(one.is_initialized and one.keys is not None for one in layers):
        return 0
    shapes = {(one.keys.shape, one.values.shape) for one in layers}
    kinds = {(t.dtype, t.device.type, t.ndim) for one in layers for t in (one.keys, one.values)}
    if len(shapes) != 1 or kinds != {(torch.float32, "cpu", 4)}:
        return 0
    return int(layers[0].keys.shape[2])


def _sees_all(kwargs: Mapping[str, Any], past: int) -> bool:
    """Whether the mask hides no token."""
    mask = kwargs.get("attention_mask")
    if mask is None:
        return True
    is_plain = isinstance(mask, Tensor) and mask.shape == (len(kwargs["input_ids"]), past + 1)
    return is_plain and bool(mask.all())


def _key(given: Mapping[str, Tensor], fixed: Mapping[str, Any]) -> Any:
    """What tells kinds of calls apart; None if the engine cannot take one."""
    for one in given.values():
        if not one.is_cpu or one.dtype not in TYPES.values() or type(one) is not Tensor:
            return None
    if not all(one is None or isinstance(one, bool | int | float | str) for one in fixed.values()):
        return None
    return (
        *((name, given[name].shape, given[name].dtype) for name in sorted(given)),
        *((name, fixed[name]) for name in sorted(fixed)),
    )
