# Everything here makes the virtual environment it needs; `make help` lists it.
SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
# Further requirements of the environment, for instance DJANGO='Django~=5.2.0'.
DJANGO ?=
PYTEST_ARGS ?=
CHECKER_STEPS ?= 50000
FUZZ_ROUNDS ?= 10
# For instance CHAOS_ARGS='--seconds 600 --database postgresql'; `make chaos CHAOS_ARGS=--help` lists all.
CHAOS_ARGS ?=
# Processes that run the tests side by side; 0 for one after the other, in this process. They wait more than they work.
TEST_PROCESSES ?= 3
# For instance BENCH_ARGS='--full --peer django_taskq --case drain'; `make bench BENCH_ARGS=--help` lists all.
BENCH_ARGS ?=
CLIENT := clients/node
RECEIPTS := testproject/receipts

##@ Start here

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make <target> [VARIABLE=value]" } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z][a-z-]*:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nVariables: PYTHON=/path/to/python, VENV=%s, PYTEST_ARGS="-k name"\n' '$(VENV)'

.PHONY: test
test: $(VENV)/.has-test node-if-there ## Run the tests (makes .venv; needs Python 3.11 or newer, and no running server)
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadscope $(PYTEST_ARGS)

.PHONY: demo
demo: $(VENV)/.has-demo node-quietly ## Serve the shop with worker and admin until Ctrl+C (needs no running server either)
	@$(BIN)/python -m scripts.demo

.PHONY: demo-check
demo-check: $(VENV)/.has-demo node-quietly ## Run the demo without a person: place orders, wait until all is done, report
	@$(BIN)/python -m scripts.demo --check

.PHONY: check
check: lint types imports test ## Run every check and the tests

##@ Checks

.PHONY: lint
lint: $(VENV)/.has-dev ## Check style and format (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: format
format: $(VENV)/.has-dev ## Format the code and mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: types
types: $(VENV)/.has-dev ## Check types: mypy on the package, mypy and pyright on the sample of a user's code
	$(BIN)/mypy
	$(BIN)/mypy --strict tests/typing
	$(BIN)/pyright --pythonpath $(BIN)/python tests/typing

.PHONY: imports
imports: $(VENV)/.has-dev ## Check that imports run downward only (import-linter)
	$(BIN)/lint-imports

##@ More tests

.PHONY: core
core: $(VENV)/.has-test node-if-there ## Run the tests without the slow ones, as for VENV=.venvs/5.2 MIN=11 MAX=11 DJANGO='Django~=5.2.0'
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadscope -m "not slow" $(PYTEST_ARGS)

.PHONY: matrix
matrix: $(VENV)/.has-test ## Run the broker suite on Redis 6.2, Redis 8 and Valkey 8 (fetched when possible)
	PYTHON=$(BIN)/python scripts/servers.sh $(PYTEST_ARGS)

.PHONY: checker
checker: $(VENV)/.has-test ## Run the random checker of the protocol for CHECKER_STEPS steps
	TASKQ_CHECKER_STEPS=$(CHECKER_STEPS) $(BIN)/python -m pytest -s tests/checker/test_checker.py $(PYTEST_ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.has-test node ## Write and read random records in both languages, with FUZZ_ROUNDS new seeds
	@for round in $$(seq $(FUZZ_ROUNDS)); do \
		TASKQ_FUZZ_SEED=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') \
			$(BIN)/python -m pytest -q tests/node -k "fuzz or hops" $(PYTEST_ARGS) || exit; \
	done

.PHONY: chaos
chaos: $(VENV)/.has-test ## Break everything around producers and workers, and judge what became of each task (CHAOS_ARGS)
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

##@ The client for Node.js

.PHONY: node
node: ## Build the client of clients/node, for the shop too (needs Node.js 20 or newer, and npm)
	@scripts/has_node.sh
	@$(MAKE) --silent $(CLIENT)/dist/.built $(RECEIPTS)/node_modules/.package-lock.json

.PHONY: node-test
node-test: node ## Check its types, and run its tests
	cd $(CLIENT) && npm run --silent check && npm test --silent

# What doesn't need the client goes on without it. Tests of it are skipped where Node.js is missing, but in CI; where it is there
# and the build fails, they fail.
.PHONY: node-if-there
node-if-there:
	@! scripts/has_node.sh || $(MAKE) --silent node || echo "Going on without the client for Node.js; tests that need it will fail." >&2

# The demo says itself what it does without, and a registry that doesn't answer isn't waited for.
.PHONY: node-quietly
node-quietly:
	@npm_config_fetch_retries=0 npm_config_fetch_timeout=20000 $(MAKE) --silent node >/dev/null 2>&1 || true

# npm writes this file last.
$(CLIENT)/node_modules/.package-lock.json: $(CLIENT)/package.json $(CLIENT)/package-lock.json
	cd $(CLIENT) && npm ci --loglevel=error --no-fund --no-audit
	touch $@

$(CLIENT)/dist/.built: $(CLIENT)/node_modules/.package-lock.json $(CLIENT)/package.json $(CLIENT)/tsconfig.json \
		$(wildcard $(CLIENT)/scripts/*.js $(CLIENT)/src/*.ts $(CLIENT)/src/*/*.ts django_taskq/lua/*.lua)
	cd $(CLIENT) && npm run --silent build
	touch $@

# It holds a link to the client, and nothing else.
$(RECEIPTS)/node_modules/.package-lock.json: $(RECEIPTS)/package.json $(RECEIPTS)/package-lock.json
	cd $(RECEIPTS) && npm ci --offline --loglevel=error --no-fund --no-audit
	touch $@

##@ Measuring

.PHONY: bench
bench: $(VENV)/.has-test ## Measure this queue beside others (BENCH_ARGS; needs redis-server, Node.js, PostgreSQL)
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

##@ Release

.PHONY: wheel
wheel: $(VENV)/.has-test ## Build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls -1 dist

.PHONY: clean
clean: ## Remove environments, caches and builds
	rm -rf .venv .venvs .servers build dist $(CLIENT)/dist $(CLIENT)/lua $(CLIENT)/node_modules $(RECEIPTS)/node_modules *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.has-%: setup.cfg pyproject.toml scripts/make_venv.sh scripts/pick_python.sh
	@scripts/make_venv.sh $(VENV) $* $(if $(DJANGO),'$(DJANGO)')
