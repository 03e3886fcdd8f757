"""Computes the paper's three columns for a run with gates on fc1 alone."""

from __future__ import annotations

from sparsegate_lab.record import Record
from sparsegate_lab.study import Study, Summary

LAYER = "fc1.weight"


def threshold_sparsity(study: Study) -> Summary:
    """[T]: the percentage of fc1's weights that are zero in the finished network."""
    return study.summary(_sparsity)


def sampled_sparsity(study: Study) -> Summary:
    """[S]: the percentage of fc1's weights that a drawn mask is expected to remove."""
    return study.summary(lambda record: 100 * (1 - record.epochs[-1].keep))


def sampled_variance(study: Study) -> Summary:
    """[S]: the variance g(1-g) of one element of a drawn mask, in percent, averaged over gates."""
    return study.summary(lambda record: 100 * record.epochs[-1].variance)


def accuracy(study: Study) -> Summary:
    """Test accuracy of the finished network, whose mask is the threshold's."""
    return study.summary(lambda record: record.test)


def _sparsity(record: Record) -> float:
    return next(layer.sparsity for layer in record.layers if layer.name == LAYER)
