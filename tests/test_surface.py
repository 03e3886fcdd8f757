"""The public names, changed only on purpose."""

import inspect

import sparsegate as sg

PUBLIC = [
    "Census",
    "ClosedLayer",
    "Constant",
    "Distil",
    "Found",
    "Gate",
    "GateSGD",
    "GatedAdamW",
    "GatedSGD",
    "LargestWeights",
    "MovingAverage",
    "Nonzero",
    "NothingRemoved",
    "Packed",
    "Penalty",
    "Sample",
    "SavedNetwork",
    "Select",
    "SparseNetwork",
    "Target",
    "Threshold",
    "UnfinishedTarget",
    "UnreachableTarget",
    "__version__",
    "average",
    "compress",
    "cosine",
    "finish",
    "freeze_mask",
    "from_hub",
    "gate",
    "gates",
    "load",
    "push_to_hub",
    "quantise_",
    "ramp",
    "remove_dead_paths",
    "save_network",
    "shrink",
    "sparse",
    "to_c",
    "to_onnx",
    "weights",
]


def test_the_public_names_are_these():
    assert sorted(sg.__all__) == sorted(PUBLIC)
    assert all(hasattr(sg, name) for name in PUBLIC)


def test_every_public_name_is_documented():
    for name in PUBLIC:
        thing = getattr(sg, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name


def test_the_main_verbs_take_everything_but_the_model_by_keyword():
    for verb in (sg.gate, sg.GateSGD):
        first, *others = inspect.signature(verb).parameters.values()
        assert first.name == "model"
        assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in others)


def test_importing_the_package_does_not_import_what_takes_longest(python):
    slow = (
        "torch.distributed.tensor",
        "accelerate",
        "triton",
        "matplotlib",
        "optuna",
        "tyro",
        "onnx",
        "huggingface_hub",
        "sparsegate.bench",
        "sparsegate.embedded",
        "sparsegate.export",
        "sparsegate.runtime",
        "sparsegate_runtime.engine",
    )
    done = python(
        "-c", f"import sys, sparsegate; print([name for name in {slow} if name in sys.modules])"
    )
    assert done.stdout == "[]\n", done.stderr


def test_importing_the_library_loads_nothing_of_the_laboratory(python):
    script = "import sys, sparsegate; print([name for name in sys.modules if name.startswith('sparsegate_lab')])"
    done = python("-c", script)
    assert done.stdout == "[]\n", done.stderr


def test_the_runtime_works_where_torch_cannot_be_imported(python):
    script = "import sys; sys.modules['torch'] = None; import sparsegate_runtime, sparsegate_runtime.kernels; print(1)"
    done = python("-c", script)
    assert done.stdout == "1\n", done.stderr
