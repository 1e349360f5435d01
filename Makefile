# Each target sets up .venv by itself when it is missing or older than pyproject.toml.
PYTHON ?= python3
VENV := .venv
HARBOR := .venv-harbor
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Tests start the interpreter hundreds of times: each would compile all of kode again without these.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test test-all check bench soak harbor picture models clean

run: $(READY)
	@$(BIN)/kode $(ARGS)

# What to run after every change. Processes beside each other write no screens anew, so that what
# would do it is left out.
test: $(READY)
	$(BIN)/pytest -n auto --dist worksteal -p no:inline_snapshot -m "not slow" $(ARGS)

# Everything, each moment and case: hours. `.ci/run` takes a sample of it.
test-all: $(READY)
	EVERYTHING=1 $(BIN)/pytest -n auto $(ARGS)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.budgets

bench: $(READY)
	$(BIN)/python -m bench $(ARGS)

soak: $(READY)
	EVERYTHING=1 $(BIN)/pytest -n 0 -s tests/faults/test_soak.py $(ARGS)

# kode as an agent of Harbor, in an environment that has both.
harbor: $(HARBOR)/.ready
	$(HARBOR)/bin/pytest tests/bench/harbor/test_harbor.py $(ARGS)

picture: $(READY)
	$(BIN)/python docs/picture.py

# Updates the table of models from the newest litellm on PyPI.
models: $(READY)
	$(BIN)/python -m scripts.models $(ARGS)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "kode needs Python 3.11 or later: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV), once: one to three minutes with pip, seconds with uv."
	@if command -v uv >/dev/null; then \
		uv venv --quiet --allow-existing --seed --python $(PYTHON) $(VENV) \
			&& uv pip install --python $(BIN)/python -e '.[dev]'; \
	else \
		$(PYTHON) -m venv $(VENV) \
			&& $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -e '.[dev]'; \
	fi
	@touch $(READY)

# kode comes last: its `openai` has to win over the one that Harbor's litellm asks for.
$(HARBOR)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' \
		|| { echo "Harbor needs Python 3.12 or later: make PYTHON=python3.13 harbor"; exit 1; }
	@$(PYTHON) -m venv $(HARBOR)
	@$(HARBOR)/bin/python -m pip install --quiet --disable-pip-version-check 'harbor>=0.25'
	@$(HARBOR)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) $(HARBOR) .pytest_cache .mypy_cache .ruff_cache .hypothesis
