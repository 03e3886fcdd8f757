"""Plain tensors pass through; sharded ones are tried on two processes, with gates in them."""

import torch

from sparsegate.sharded import is_sharded, local, shared_like, sum_of_parts, whole


def test_a_plain_tensor_is_whole_here_and_is_not_shared_out():
    plain, other = torch.arange(3.0), torch.ones(3)
    assert not is_sharded(plain)
    assert local(plain) is plain
    assert whole(plain) is plain
    assert shared_like(plain, other) is other
    assert sum_of_parts(other, plain) is other
