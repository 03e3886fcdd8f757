# Every target sets up what it needs; each works as the first command after cloning.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEED ?= $(shell $(PYTHON) -c 'import random; print(random.randrange(10**6))')
SETUP := constraints.txt requirements-dev.txt $(wildcard packages/*/pyproject.toml packages/*/setup.py \
	packages/runtime/sparsegate_runtime/kernels/c*/*)
CSRC := packages/runtime/sparsegate_runtime/kernels/csrc
WASM := packages/library/sparsegate/web/npm/sparsegate.wasm
WASM_EXPORTS := room load error num tensor memory run
PACKAGES := -e packages/runtime -e packages/library -e packages/lab
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-random test-seeds test-slow test-browser check docs sanitize wasm torture bench clean

demo: $(VENV)/.ready ## train a sparse LeNet-5 on MNIST (three minutes on two cores)
	$(BIN)/sparsegate train lenet5-demo

check test test-random test-slow test-seeds: export PYTHONDONTWRITEBYTECODE = # else each of many processes compiles every module

test: $(VENV)/.ready-dev ## the fast tests: no network, no GPU
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

test-random: SEED := $(SEED) # drawn once
test-random: $(VENV)/.ready-dev ## the fast tests on fresh random cases; make test-random SEED=7 repeats those of seed 7
	SPARSEGATE_SEED=$(SEED) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder --hypothesis-seed=$(SEED)

test-seeds: $(VENV)/.ready-dev ## the fast tests on fresh seeds for nine minutes, on all cores; DRAWS=1: only those that a seed changes
	$(BIN)/python -m benchmarks.torture.suites $(if $(DRAWS),--draws)

test-slow: $(VENV)/.ready-dev ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

test-browser: $(VENV)/.ready-dev ## the pages in a real browser: Debian's chromium, which playwright drives
	$(BIN)/python -m pytest -m browser -rs tests/lab tests/library/runtime/test_engine_page.py

check: $(VENV)/.ready-dev ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/test_architecture.py tests/test_surface.py

docs: $(VENV)/.ready-docs ## the documentation site, in build/docs; warnings are errors
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs build/docs
	@echo "open build/docs/index.html"

sanitize: $(VENV)/.ready-dev ## the C kernels under the address and undefined behaviour sanitizers (gcc on Linux)
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	gcc -std=c11 -g -O1 -Wall -Wextra -Werror -Wno-psabi -fopenmp -fPIC -shared -fsanitize=address,undefined -fno-sanitize-recover=all \
		packages/runtime/sparsegate_runtime/kernels/csrc/*.c -o "$$folder/kernels.so" && \
	SPARSEGATE_KERNELS="$$folder/kernels.so" ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)" \
		$(BIN)/python -m pytest tests/runtime tests/lab/methods/test_fastfood.py tests/lab/methods/test_fastfood_layer.py tests/library/runtime/modules \
		tests/library/test_fast_call.py tests/library/runtime/test_chain.py tests/library/runtime/test_engine.py tests/library/runtime/test_side_by_side.py tests/library/runtime/test_network_direct.py tests/library/runtime/test_winograd.py

wasm: $(VENV)/.ready-dev ## the engine of the web pages and the npm package, by the compiler of PyPI's ziglang
	$(INSTALL) ziglang
	cd $(CSRC) && $(abspath $(BIN))/python -m ziglang cc -target wasm32-wasi -mexec-model=reactor -std=c11 -O2 -msimd128 -DIMAGES_ALONE \
		-ffp-contract=off -fno-math-errno -fvisibility=hidden -Wall -Wextra -Wno-psabi -Wl,--no-entry -Wl,--gc-sections \
		-Wl,--strip-all -Wl,-z,stack-size=262144 -Wl,--export=__heap_base $(WASM_EXPORTS:%=-Wl,--export=sg_image_%) \
		image.c image_check.c engine.c processor.c engine_plain.c chain_plain.c -o $(abspath $(WASM))

torture: $(VENV)/.ready-dev ## attacks for some minutes, or make torture HOURS=8; SEED=7 repeats those of seed 7
	$(BIN)/python -m benchmarks.torture $(if $(HOURS),--hours $(HOURS)) $(if $(JOBS),--jobs $(JOBS)) --seed $(SEED)

bench: $(VENV)/.ready-dev ## the cost of gates and of the loop
	$(BIN)/python benchmarks/epoch_cost.py

$(VENV)/.ready: $(SETUP)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing (some minutes the first time) ..."
	$(INSTALL) $(PACKAGES)
	touch $@

$(VENV)/.ready-dev: $(SETUP)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing (some minutes the first time) ..."
	$(INSTALL) $(PACKAGES) -r requirements-dev.txt
	touch $@ $(VENV)/.ready

$(VENV)/.ready-docs: $(SETUP) requirements-docs.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing (some minutes the first time) ..."
	$(INSTALL) $(PACKAGES) -r requirements-docs.txt
	touch $@ $(VENV)/.ready

clean:
	rm -rf $(VENV) build dist packages/*/build packages/*/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
