"""Every number that the paper prints."""

from __future__ import annotations

from .printed import Printed, PrintedTable

# Printed counts are cut rather than rounded: 86.8 % of fc2's 5K leave 0.66K, printed as 0.6K; 92.8
# % of conv2's 25K leave 1.8K, printed as 1.78K. "Compression Rate(%)" in Table 2 heads rates, not
# percentages.

LAYERS = ("initial", "final", "sparsity")
COMPARE = ("parameters", "with indices", "accuracy", "rate")

LENET5_LAYERS = PrintedTable(
    "Table 1",
    "Compression results for LeNet-5",
    LAYERS,
    {
        "conv1": ("0.5K", "0.04K", "91"),
        "conv2": ("25K", "1.78K", "92.8"),
        "fc1": ("400K", "15.4K", "96.1"),
        "fc2": ("5K", "0.6K", "86.8"),
        "total": ("431K", "17.9K", "95.84"),
    },
)

LENET5_COMPARE = PrintedTable(
    "Table 2",
    "Comparison of compression performance on LeNet-5",
    COMPARE,
    {
        "Baseline": ("431K", "", "99.20", "1x"),
        "SVD (rank-10)": ("43.6K", "", "98.47", "10x"),
        "Architecture Learning": ("40.9K", "", "99.04", "10.5x"),
        "Adaptive Fastfood-1024": ("38.8K", "", "99.29", "11x"),
        "Han et al.": ("36K", "72K", "99.23", "12x"),
        "Method-1": ("18K", "36K", "99.19", "24x"),
        "Method-2": ("22K", "44K", "99.33", "19x"),
    },
)

ALEXNET_LAYERS = PrintedTable(
    "Table 3",
    "Layer-wise compression performance on AlexNet",
    LAYERS,
    {
        "conv (5 layers)": ("2.3M", "2.3M", ""),
        "fc6": ("38M", "1.3M", "96.5"),
        "fc7": ("17M", "1M", "94"),
        "fc8": ("4M", "1.2M", "70"),
        "total": ("60.9M", "5.9M", "90"),
    },
)

VGG16_LAYERS = PrintedTable(
    "Table 4",
    "Layer-wise compression performance on VGG-16",
    LAYERS,
    {
        "conv1_1 to conv4_3 (10 layers)": ("6.7M", "6.7M", ""),
        "conv5_1": ("2M", "2M", ""),
        "conv5_2": ("2M", "235K", "88.2"),
        "conv5_3": ("2M", "235K", "88.2"),
        "fc6": ("103M", "102K", "99.9"),
        "fc7": ("17M", "167K", "99.01"),
        "fc8": ("4M", "409K", "89.7"),
        "total": ("138M", "9.85M", "92.85"),
    },
)

# Rows are (lambda1, lambda2). The variance is that of one element of a drawn mask, g(1-g), as a
# mean over fc1's gates in percent: 25 at the most, with all gates at one half. That of the
# sparsity as a whole would be near 1e-7.
LAMBDA = PrintedTable(
    "Table 5",
    "Effect of the lambda parameters on sparsity",
    ("sparsity [T]", "mean sparsity [S]", "variance [S]"),
    {
        "(0, 0)": ("54.5", "53.1", "16.1"),
        "(1, 1)": ("98.3", "93.7", "3.3"),
        "(1, 0)": ("62.1", "57.3", "5.4"),
        "(0, 1)": ("99.0", "92.7", "4.1"),
    },
)

ALEXNET_COMPARE = PrintedTable(
    "Table 6",
    "Comparison of compression performance on AlexNet",
    COMPARE,
    {
        "Baseline": ("60.9M", "", "57.2", ""),
        "Neuron pruning": ("39.6M", "", "55.60", "1.5x"),
        "SVD-quarter-F": ("25.6M", "", "56.18", "2.3x"),
        "Adaptive Fastfood-32": ("22.5M", "", "57.39", "2.7x"),
        "Adaptive Fastfood-16": ("16.4M", "", "57.1", "3.7x"),
        "ACDC": ("11.9M", "", "56.73", "5x"),
        "Collins & Kohli": ("8.5M", "17M", "55.60", "7x"),
        "Han et al.": ("6.7M", "13.4M", "57.2", "9x"),
        "Proposed method": ("5.9M", "11.8M", "56.96", "10.3x"),
    },
)

VGG16_COMPARE = PrintedTable(
    "Table 7",
    "Comparison of compression performance on VGG-16",
    COMPARE,
    {
        "Baseline": ("138M", "", "68.97", ""),
        "Han et al.": ("10.3M", "20.6M", "68.66", "13x"),
        "Proposed method": ("9.8M", "19.6M", "69.04", "14x"),
    },
)

# What stands in the running text, not in a table. Closed: the percentage of gates that are so
# before fine-tuning.
LENET5_PRICES = PrintedTable(
    "Section 4",
    "Prices of the two networks for LeNet-5",
    ("lambda1", "lambda2"),
    {"Method-1": ("0.001", "0.05"), "Method-2": ("0.01", "0.1")},
)
FINE_TUNING = PrintedTable(
    "Section 4",
    "Fine-tuning of pretrained networks",
    (
        "iterations",
        "hours",
        "closed in fully connected layers",
        "closed in the last two convolutions",
    ),
    {
        "AlexNet": ("30K", "18", "95", ""),
        "VGG-16": ("40K", "24", "95", "88"),
        "AlexNet, Han et al.": ("", "173", "", ""),
        "AlexNet, trained from nothing": ("", "75", "", ""),
    },
)
GATES = PrintedTable(
    "Sections 2 and 4",
    "Values of gates",
    ("value",),
    {"threshold": ("0.5",), "pretrained, open": ("1",), "pretrained, closed": ("0.49",)},
)

TABLES = (
    LENET5_LAYERS,
    LENET5_COMPARE,
    ALEXNET_LAYERS,
    VGG16_LAYERS,
    LAMBDA,
    ALEXNET_COMPARE,
    VGG16_COMPARE,
    LENET5_PRICES,
    FINE_TUNING,
    GATES,
)


def numbers() -> list[Printed]:
    """Returns every number, with its table, row and column."""
    return [number for table in TABLES for number in table.numbers()]
