"""What is said of a target that training cannot end on."""


class UnreachableTarget(UserWarning):
    """A target that cannot be met, with the nearest that can."""
