# forewarn: `make help` lists what there is. Needs Python 3.11 to 3.14 with venv, and make.
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
OLDEST := .cache/constraints-minimum.txt
INSTALL := $(BIN)/python .build/installing.py
.DEFAULT_GOAL := help
# Tests start many processes, and each would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE

GROUPS = 'Start here|install run test check format docs' 'Build|help standalone serve lock wheelhouse release advisories site' \
    'Test|browser coverage test-minimum test-slow e2e cluster cluster-down hostile mutants soak e2e-scale bench docs-style' \
    'Compare with Kubernetes (needs Go)|oracle campaign owners-campaign scenarios-campaign yaml-oracle kubelet-oracle karpenter-oracle' \
    'New Kubernetes minors|releases field-tables feature-gates'

help: ## this list
	@for group in $(GROUPS); do \
	    printf '%s:\n' "$${group%%|*}"; \
	    for target in $${group#*|}; do sed -n "s/^\($$target\):.*## /\1|/p" $(MAKEFILE_LIST); done \
	        | awk -F'|' '{printf "  make %-18s %s\n", $$1, $$2}'; \
	done

$(VENV)/run: setup.cfg $(CONSTRAINTS)
	@for part in policies webhook; do [ -e $$part ] || ln -s src/forewarn/$$part; done  # in an sdist
	@test -x $(BIN)/python || $(PYTHON) -I src/forewarn/python_version.py
	@test -x $(BIN)/python || { echo 'making $(VENV)' >&2; $(PYTHON) -m venv $(VENV); }
	@echo 'installing forewarn and its libraries into $(VENV): half a minute to two' >&2
	@$(INSTALL) -c $(CONSTRAINTS) -e '.[webhook,live,devices,lsp]'
	@touch $@

$(VENV)/dev: $(VENV)/run
	@echo 'installing what its tests need into $(VENV)' >&2
	@$(INSTALL) -c $(CONSTRAINTS) -e '.[webhook,live,devices,lsp,dev]'
	@touch $@

install: $(VENV)/run ## .venv with the command .venv/bin/forewarn

run: $(VENV)/run ## the webhook and the linter at work on a small sample cluster
	@$(BIN)/forewarn demo

standalone: $(VENV)/dev ## one file for this Python and machine in .cache: linter, what-if commands, live clusters
	rm -rf .cache/standalone
	@echo 'installing forewarn into .cache/standalone' >&2
	@$(INSTALL) -c $(CONSTRAINTS) --target .cache/standalone '.[live]'
	@rm -f .cache/forewarn-py*.pyz
	$(BIN)/python .build/standalone.py .cache/standalone .cache/forewarn-{}.pyz
	$(BIN)/python .build/krew.py .cache/forewarn-py*.pyz .cache/krew
	@ls -l .cache/forewarn-py*.pyz .cache/krew

lock: $(VENV)/dev ## requirements-image.txt and requirements-lint.txt: what an image and the action have, with hashes
	$(BIN)/python .build/lock.py lock

wheelhouse: $(VENV)/dev ## .cache/wheelhouse, all that `docker build` needs beside its base, for amd64 and arm64
	$(BIN)/python .build/lock.py wheelhouse .cache/wheelhouse

$(VENV)/release: $(VENV)/dev
	@echo 'installing what a release needs into $(VENV)' >&2
	@$(INSTALL) -c $(CONSTRAINTS) -e '.[release]'
	@touch $@

release: $(VENV)/release ## dist/: wheel, sdist, chart and single file, with checksums, bill of materials and provenance
	$(BIN)/python .build/release.py dist

advisories: $(VENV)/release ## does anybody warn of what an image has? (asks the Python index's service)
	$(BIN)/python .build/advisories.py

serve: $(VENV)/run ## keep the webhook running on the sample cluster
	$(BIN)/forewarn webhook serve --cluster webhook/sample/cluster.yaml

test: $(VENV)/dev ## every test but the slow and the end-to-end ones
	TEST_LIMIT=3600 $(BIN)/python -m pytest -q -n auto --dist worksteal --ignore tests/e2e -m 'not slow and not e2e and not browser'

test-minimum: $(OLDEST) ## the same with the oldest versions of dependencies that setup.cfg allows
	$(MAKE) test VENV=.cache/venv-minimum CONSTRAINTS=$(OLDEST)

$(OLDEST): constraints.txt constraints-minimum.txt
	mkdir -p .cache
	awk -F== 'NR==FNR {if (!/^#/) oldest[tolower($$1)] = $$0; next} {name = tolower($$1); print (name in oldest) ? oldest[name] : $$0}' \
	    constraints-minimum.txt constraints.txt > $@

browser: $(VENV)/dev ## reports and the pages of `forewarn ui` in Chromium (CHROMIUM=FILE; default: the one on your PATH)
	@$(BIN)/python -c 'import playwright' 2>/dev/null || $(INSTALL) -c $(CONSTRAINTS) -e '.[browser]'
	$(BIN)/python -m pytest -q -m browser tests/policies/ui tests/policies/test_html_in_a_browser.py
	$(BIN)/python -m tests.benchmarks.bench_ui

coverage: $(VENV)/dev ## the same, and which branches of the sources it takes; fails below what setup.cfg asks for
	rm -f .cache/coverage*
	mkdir -p .cache
	TEST_LIMIT=7200 $(BIN)/coverage run -m pytest -q -n auto --dist worksteal --ignore tests/e2e -m 'not slow and not e2e and not browser'
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

test-slow: $(VENV)/dev ## minutes of random clusters and objects
	$(BIN)/python -m pytest -q -n auto -o faulthandler_timeout=3600 -m slow

e2e: $(VENV)/dev ## the real control plane, built once (Go from the machine or a wheel); KUBERNETES=1.34 for another minor's, CORE=1 for less
	CORE=$(CORE) $(BIN)/python tests/e2e/build.py
	$(BIN)/python -m pytest -v -s -o faulthandler_timeout=3600 -m 'e2e$(if $(CORE), and not whole)' tests/e2e

cluster: $(VENV)/run ## a control plane that stays, with three nodes, to try an installation on; HELM=1 builds helm too
	@HELM=$(HELM) $(BIN)/python tests/e2e/cluster.py up

cluster-down: ## end what `make cluster` has started
	@$(BIN)/python tests/e2e/cluster.py down

.PHONY: cluster cluster-down

hostile: $(VENV)/dev ## search for hostile files, trees, names and objects that cost too much; MINUTES=60 for longer
	RANDOM_CASES=$(or $(MINUTES),10) $(BIN)/python -m pytest -q -n auto tests/hostile/test_files.py tests/policies/ui/test_server.py $(if $(SEED),--hypothesis-seed $(SEED))
	$(BIN)/python tests/hostile/search.py --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(OVER),--over $(OVER))

mutants: $(VENV)/dev ## do tests notice a changed operator, constant or condition? a sample; SEED=1 MOST=100 MINUTES=30
	$(BIN)/python tests/mutants/run.py $(if $(SEED),--seed $(SEED)) --most $(or $(MOST),100) --minutes $(or $(MINUTES),30)

soak: $(VENV)/dev ## the webhook under load on the real control plane; MINUTES=60 for longer
	$(BIN)/python -m pytest -q -s -o faulthandler_timeout=0 -m e2e tests/e2e/soak.py

e2e-scale: $(VENV)/dev ## a cluster of 150,000 pods (some 5 minutes, 8 GB); PODS=15000 for fewer
	$(BIN)/python -m pytest -q -s -o faulthandler_timeout=3600 -m e2e tests/e2e/scale.py

bench: $(VENV)/dev ## predictions on large clusters, linting and start-up: minutes; .cache/bench.json
	mkdir -p .cache
	$(BIN)/python tests/benchmarks/bench_preemption.py --json .cache/bench.json
	$(BIN)/python tests/benchmarks/bench_simulation.py
	$(BIN)/python tests/benchmarks/bench_lint.py
	$(BIN)/python tests/benchmarks/bench_startup.py
	$(BIN)/python tests/benchmarks/bench_startup.py --tricks

oracle: ## .cache/oracle, kube-scheduler's own code to compare with (needs Go); KUBERNETES=1.35.8 for another release
	tests/oracle/build.sh $(KUBERNETES)

campaign: $(VENV)/dev ## random cases for every oracle there is, 30,000 each, in chunks (hours); MINORS=1.36 for one
	$(BIN)/python tests/oracle/campaign.py $(if $(MINORS),--minors $(MINORS))

owners-campaign: $(VENV)/dev ## whatif against the scenario oracle, 500 random clusters an event (needs `make oracle`); EVENTS=zone COUNT=50 SEED=2
	$(BIN)/python tests/oracle/owners.py $(if $(EVENTS),--events $(EVENTS)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

scenarios-campaign: $(VENV)/dev ## simulations against the scenario oracle, 10,000 fresh scenarios (hours; needs `make oracle`); COUNT=1000 SEED=7002
	$(BIN)/python tests/oracle/scenarios_campaign.py $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

yaml-oracle: $(VENV)/dev ## ask kubectl's YAML reader and ours about 20,000 mutated texts (needs Go); SUITE=DIR, SEED=1, COUNT=100000
	cd tests/yaml_oracle && CGO_ENABLED=0 go build -o ../../.cache/yaml-oracle .
	PYTHONPATH=. $(BIN)/python tests/yaml_oracle/compare.py $(if $(SUITE),--suite $(SUITE)) $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT))

kubelet-oracle: $(VENV)/dev ## ask the kubelet's own functions and ours about 10,000 random nodes (needs Go); SEED=1, COUNT=1000
	cd tests/kubelet_oracle && CGO_ENABLED=0 go build -o ../../.cache/kubelet-oracle .
	PYTHONPATH=. $(BIN)/python tests/kubelet_oracle/compare.py $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(RECORD),--record $(RECORD))

field-tables: $(VENV)/dev ## the fields of Kubernetes' kinds, by minor, made of its OpenAPI (needs Go)
	$(BIN)/python docs/field_tables.py

feature-gates: $(VENV)/dev ## the feature gates of each minor, made of Kubernetes' own list (needs Go)
	$(BIN)/python .build/feature_gates.py

releases: $(VENV)/dev ## what a new minor of Kubernetes needs here, from its module (needs Go); KUBERNETES=1.38.0
	$(BIN)/python .build/new_minor.py $(KUBERNETES)

format: $(VENV)/dev ## rewrite the sources in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/dev ## rewrite what is made from the code: rules, tables and commands in docs/, the schema, RBAC, the audit-only manifest
	$(BIN)/python docs/generate.py

site: $(VENV)/dev ## the pages of docs/ as a site in .cache/site; a link that leads nowhere ends it
	@$(BIN)/python -c 'import material' 2>/dev/null || $(INSTALL) -c $(CONSTRAINTS) -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file .build/mkdocs.yml

.PHONY: site

check: $(VENV)/dev ## format, lint, types, import contracts, generated docs, style of texts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy docs/examples/python
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/python .build/docs_style.py

docs-style: $(VENV)/dev ## style of README, docs and help texts, by Vale; P='README.md docs/guides' for these, with warnings
	$(BIN)/python .build/docs_style.py $(if $(P),--warnings $(P))

karpenter-oracle: $(VENV)/dev ## ask Karpenter's own provisioner and ours about 1,000 random cases (needs Go); SEED=1, COUNT=100
	cd tests/oracle/karpenter && CGO_ENABLED=0 go build -o ../../../.cache/karpenter-oracle .
	PYTHONPATH=. $(BIN)/python tests/oracle/karpenter/compare.py $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT))

.PHONY: help install run standalone lock wheelhouse release advisories serve test test-minimum coverage test-slow browser e2e hostile mutants soak e2e-scale bench oracle campaign owners-campaign scenarios-campaign yaml-oracle kubelet-oracle karpenter-oracle field-tables feature-gates releases format docs docs-style check
