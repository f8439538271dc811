# The commands of this tree; `make help` lists them. `make demo` and `make test`
# do all set-up themselves: a virtual environment in .venv, PyTorch, the build.
#
# Variables: PYTHON (interpreter to make .venv with), VENV (where it is),
# TORCH_REQUIREMENT (see tools/prepare_venv.sh), JOBS (compilations and test
# processes at once), PYTEST_ARGS.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PYTEST_ARGS ?=

export FLAGTREE_BACKEND ?= ppu
export MAX_JOBS ?= $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK = 1

BIN := $(VENV)/bin
BUILD := build/release
CMAKE := $(BIN)/cmake
NATIVE_SOURCES := $(shell find CMakeLists.txt CMakePresets.json cmake include lib bin unittest \
  third_party -type f \( -name '*.cpp' -o -name '*.cc' -o -name '*.h' -o -name '*.def' \
  -o -name '*.cmake' -o -name '*.json' -o -name 'CMakeLists.txt' -o -name '*.map' \) 2>/dev/null)
# A Python file that appears or goes makes the tree be staged again; an edit
# shows at once, so only names count. The list is rewritten only when it differs.
PYTHON_LIST := build/python-files.txt
$(shell mkdir -p build; find python/triton third_party -name '*.py' | LC_ALL=C sort > $(PYTHON_LIST).new; \
  cmp -s $(PYTHON_LIST).new $(PYTHON_LIST) && rm -f $(PYTHON_LIST).new || mv $(PYTHON_LIST).new $(PYTHON_LIST))

.PHONY: help demo test test-cpp test-lit test-python sanitize lint format docs wheel clean distclean
.DEFAULT_GOAL := help

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

$(VENV)/.prepared: python/requirements.txt python/requirements-dev.txt tools/prepare_venv.sh
	@tools/prepare_host.sh $(PYTHON)
	@tools/prepare_venv.sh $(PYTHON) $(VENV)
	@touch $@

$(VENV)/.lint: python/requirements-lint.txt $(VENV)/.prepared
	$(BIN)/python -m pip --quiet install -r python/requirements-lint.txt
	@touch $@

# Installs the tree in place, sharing the build directory with the developer's
# own build, so that nothing is compiled twice.
$(VENV)/.installed: $(VENV)/.prepared $(NATIVE_SOURCES) $(PYTHON_LIST) setup.py \
  $(wildcard python/setup_tools/*)
	@test -e $(BUILD)/CMakeCache.txt || $(CMAKE) --preset release -DFLAGTREE_BUILD_TESTS=OFF \
	  -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DPython3_EXECUTABLE=$(abspath $(BIN)/python)
	FLAGTREE_BUILD_DIR=$(BUILD) $(BIN)/python -m pip --quiet install --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/.tests-built: $(VENV)/.installed
	@tools/prepare_host.sh $(PYTHON) tests
	$(CMAKE) -B $(BUILD) -DFLAGTREE_BUILD_TESTS=ON
	$(CMAKE) --build $(BUILD) --parallel $(JOBS)
	@touch $@

demo: $(VENV)/.installed ## build everything and show the main job
	$(BIN)/python tools/demo.py $(DEMO_ARGS)

test: $(VENV)/.tests-built ## run the C++ unit tests, lit and pytest
	$(BIN)/python tools/run_tests.py --build $(BUILD) --jobs $(JOBS) $(PYTEST_ARGS)

test-cpp test-lit test-python: test-%: $(VENV)/.tests-built ## run one of the three
	$(BIN)/python tools/run_tests.py --build $(BUILD) --jobs $(JOBS) --only $* $(PYTEST_ARGS)

sanitize: $(VENV)/.prepared ## run the C++ unit tests under ASan+UBSan and TSan
	@tools/prepare_host.sh $(PYTHON) tests
	for preset in asan tsan; do \
	  $(CMAKE) --preset $$preset -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) && \
	  $(CMAKE) --build --preset $$preset --parallel $(JOBS) && \
	  $(BIN)/ctest --preset $$preset --parallel $(JOBS) || exit 1; \
	done

lint: $(VENV)/.lint $(VENV)/.installed ## check format and types of everything
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/check_types.py
	git ls-files -z '*.cpp' '*.cc' '*.h' | xargs -0 $(BIN)/clang-format --dry-run -Werror

format: $(VENV)/.lint ## bring all sources into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	git ls-files -z '*.cpp' '*.cc' '*.h' | xargs -0 $(BIN)/clang-format -i

docs: $(VENV)/.lint ## build the documentation into site/
	$(BIN)/mkdocs build --strict --quiet

wheel: $(VENV)/.prepared ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

clean: ## remove what was built
	rm -rf build dist site .stage *.egg-info python/*.egg-info
	rm -f $(VENV)/.installed $(VENV)/.tests-built

distclean: clean ## remove the virtual environment as well
	rm -rf $(VENV)
