# Every target installs what it needs into .venv; only Python 3.11+ and make are required.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BUILT_FROM := pyproject.toml hatch_build.py $(wildcard engine/millstream/log/kafka/*.[ch] engine/millstream/formats/*.[ch])
CASES ?= ../shared/qtt/cases
BATCH ?= all
SEEDS ?= 200
QUERIES ?= 2000
EVERY ?= 1
TREES ?= 100000
SEED ?= 0
SEQUENCES ?= 200
SAMPLE ?= 200
KILLS ?= 20
REQUESTS ?= 5000
PAYLOADS ?= 20000
SCHEMAS ?= 5000
ROWS ?= 100000
READS ?= 10000
BENCH_VENV := .venv-bench
PACKAGES_VENV := .venv-packages
SITE_VENV := .venv-site
DIST ?= dist
EVENTS ?= 2000000
RECORDS ?= 2000000
KEYS ?= 1000000
SECONDS ?= 20
READER ?= plain,compiled
MODES ?= alos,eos,eos100
PEERS ?= none
PEERS_FROM ?= ../shared/bench
MEMORY ?=
SHARE ?= 1
RANDOM ?= 200

.DEFAULT_GOAL := help
.PHONY: help setup demo test check golden docs console wheels check-wheels site clients conformance recovery kafka bench bench-formats bench-instance bench-state profile bench-kafka bench-avro bench-server isolation takeover trouble fuzz-http interchange fuzz-formats sim snapshots crash endurance durability crash-spark decimals differential refusals spark bench-spark

help:  ## Print the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

$(STAMP): $(BUILT_FROM)
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,demo]'
	@touch $(STAMP)

setup: $(STAMP)  ## Make .venv with everything in it

demo: $(STAMP)  ## Flights of 2013 through persistent queries, checked against plain DuckDB
	@$(BIN)/python -m tests.demo.run

clients: $(STAMP)  ## Install the published clients that tests/clients tries, each in a folder of its own
	@$(BIN)/python -m tests.clients.install

# Tests start many processes; where PYTHONDONTWRITEBYTECODE is set each would compile all it imports.
COMPILE := $(BIN)/python -m compileall -q grammar parser engine server cli tests
# And each pytest would rewrite the assertions of all tests, which takes as long as importing them.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

# The files of tests live for seconds and are synced all the time: where there is room, in memory.
IN_MEMORY := $(shell df --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 4000000 {print "TMPDIR=/dev/shm"}')
DRAWS ?= 1/4

test: $(STAMP) clients  ## All tests, with a share of the examples that are drawn at random (up to an hour): DRAWS=1 for all
	@$(COMPILE)
	@$(IN_MEMORY) TEST_DRAWS=$(DRAWS) $(PYTEST) -n 2 -o tmp_path_retention_policy=failed tests

check: $(STAMP)  ## Lint, spelling, types and the fast tests, as before each commit
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@git ls-files -z | xargs -0 $(BIN)/codespell
	@$(BIN)/mypy
	@$(COMPILE)
	@$(PYTEST) -n 2 -m "not slow" tests

golden: $(STAMP)  ## Rewrite the golden plans; review the diff
	@UPDATE_GOLDEN=1 $(BIN)/python -m pytest tests/unit tests/plans -k golden

docs: $(STAMP)  ## Rewrite the pages that are made from the source: functions, metrics, settings
	@$(BIN)/python -m tests.docs

console: $(STAMP)  ## Build the console of the server from server/console (needs npm)
	@$(BIN)/python -m tests.console.build

$(PACKAGES_VENV)/.installed: packaging/requirements.txt
	@test -d $(PACKAGES_VENV) || $(PYTHON) -m venv $(PACKAGES_VENV)
	@$(PACKAGES_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r packaging/requirements.txt
	@touch $@

wheels: $(PACKAGES_VENV)/.installed  ## Build sdist and wheels, with their bill of materials and licences, and check the Dockerfile: DIST=dir
	@$(PACKAGES_VENV)/bin/hadolint packaging/Dockerfile
	@$(PACKAGES_VENV)/bin/python -m tests.packages.wheels --dist $(DIST)
	@$(PACKAGES_VENV)/bin/python -m tests.packages.bill --dist $(DIST)

check-wheels: $(STAMP)  ## Install what `make wheels` built on each Python there is, and use it: DIST=dir
	@$(BIN)/python -m tests.packages.check --dist $(DIST)

$(SITE_VENV)/.installed: packaging/site-requirements.txt $(BUILT_FROM)
	@test -d $(SITE_VENV) || $(PYTHON) -m venv $(SITE_VENV)
	@$(SITE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r packaging/site-requirements.txt -e .
	@touch $@

site: $(SITE_VENV)/.installed  ## The documentation as pages in site/
	@PYTHONPATH=. $(SITE_VENV)/bin/mkdocs --quiet build

conformance: $(STAMP)  ## ksqlDB cases: CASES=dir [BATCH=n|all] [ONLY=glob] [TIER=n] [REPORT=file.json]
	@$(BIN)/python -m tests.conformance.run --cases '$(CASES)' --batch '$(BATCH)' \
		$(if $(ONLY),--only '$(ONLY)') $(if $(TIER),--tier $(TIER)) $(if $(REPORT),--report '$(REPORT)')

recovery: $(STAMP)  ## The same cases killed on the way: CASES=dir [LOG=simulated|embedded] [ONLY=glob] [SEED=n] [REPORT=file.json]
	@$(BIN)/python -m tests.conformance.recovery --cases '$(CASES)' $(if $(LOG),--log '$(LOG)') \
		$(if $(ONLY),--only '$(ONLY)') $(if $(SEED),--seed $(SEED)) $(if $(REPORT),--report '$(REPORT)')

$(BENCH_VENV)/.installed: $(BUILT_FROM)
	@test -d $(BENCH_VENV) || $(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

bench: $(BENCH_VENV)/.installed  ## Speed and latency without development packages: EVENTS=n [MEMORY=1]
	@$(BENCH_VENV)/bin/python -m compileall -q grammar parser engine server cli tests/bench
	@$(BENCH_VENV)/bin/python -m tests.bench.run --events $(EVENTS)
	@$(BENCH_VENV)/bin/python -m tests.bench.latency
	@$(BENCH_VENV)/bin/python -m tests.bench.memory $(if $(MEMORY),--memory)

bench-formats: $(STAMP) clients  ## CPU of reading and writing a record in each format, beside fastavro, Google's library and those of Java: ROWS=n
	@$(BIN)/python -m tests.bench.formats --records $(ROWS)

isolation: $(BENCH_VENV)/.installed  ## What a query with a slow Python function costs another one: EVENTS=n
	@$(BENCH_VENV)/bin/python -m tests.bench.isolation --events $(EVENTS)

$(BENCH_VENV)/.server: $(BENCH_VENV)/.installed
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[server]'
	@touch $@

bench-state: $(BENCH_VENV)/.installed  ## A state that is lost: from checkpoints and by replay: KEYS=n
	@$(BENCH_VENV)/bin/python -m tests.bench.lost_state --keys $(KEYS)

bench-server: $(BENCH_VENV)/.server  ## The HTTP server under load (needs wrk): [KEYS=n] [SECONDS=n]
	@$(BENCH_VENV)/bin/python -m compileall -q grammar parser engine server cli tests/bench
	@$(BENCH_VENV)/bin/python -m tests.bench.server.run --keys $(KEYS) --seconds $(SECONDS)
	@$(BENCH_VENV)/bin/python -m tests.bench.server.crowd --keys $(KEYS) --seconds $(SECONDS)

$(BENCH_VENV)/.kafka: $(BENCH_VENV)/.installed
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[kafka]'
	@touch $@

bench-kafka: $(BENCH_VENV)/.kafka  ## Speed on a broker of its own: [W=W1,W3] [PEERS=streams,flink] [RECORDS=n] [READER=plain] [MODES=eos] [MORE=--latency]
	@$(BENCH_VENV)/bin/python -m compileall -q grammar parser engine server cli tests/bench
	@$(BENCH_VENV)/bin/python -m tests.bench.kafka.run --events $(RECORDS) --readers '$(READER)' --modes '$(MODES)' \
		--peers '$(PEERS)' --sources '$(PEERS_FROM)' $(if $(W),--only '$(W)') $(MORE)

bench-avro: $(BENCH_VENV)/.kafka  ## Values in AVRO beside JSON, on a broker and registry of its own: [W=W1,W3] [PEERS=streams,flink] [RECORDS=n]
	@$(BENCH_VENV)/bin/python -m tests.bench.kafka.avro --events $(RECORDS) --peers '$(PEERS)' --sources '$(PEERS_FROM)' \
		$(if $(W),--only '$(W)')

.bench-peers/python/.installed:
	@$(PYTHON) -m venv .bench-peers/python
	@.bench-peers/python/bin/python -m pip install --quiet --disable-pip-version-check 'quixstreams>=3.28,<4' 'bytewax>=0.21,<0.22'
	@touch $@

bench-python-peers: $(BENCH_VENV)/.kafka .bench-peers/python/.installed  ## A processor with a store beside Quix and Bytewax, on a broker of its own: RECORDS=n
	@$(BENCH_VENV)/bin/python -m compileall -q grammar parser engine server cli tests/bench
	@$(BENCH_VENV)/bin/python -m tests.bench.kafka.python_peers --peers .bench-peers/python/bin/python --records $(RECORDS)

bench-instance: $(BENCH_VENV)/.kafka  ## Many queries that do little, embedded and on a broker of its own: [ONLY="create memory"] [SCALE=small|large] [TRICKLE=480]
	@$(BENCH_VENV)/bin/python -m compileall -q grammar parser engine server cli tests/bench
	@$(BENCH_VENV)/bin/python -m tests.bench.instance $(if $(ONLY),--only $(ONLY)) \
		$(if $(SCALE),--scale $(SCALE)) $(if $(TRICKLE),--trickle-seconds $(TRICKLE))

profile: $(BENCH_VENV)/.kafka  ## CPU for each record by stage: [W=W1,W3] [LOG=kafka, on a broker of its own] [EVENTS=n] [SECONDS=n, of the trickle]
	@$(BENCH_VENV)/bin/python -m tests.bench.profile $(or $(W),all) $(if $(LOG),--log '$(LOG)') --events $(EVENTS) --seconds $(SECONDS)

takeover: $(STAMP)  ## Who takes over a killed instance's tasks, and how soon, on a broker of its own: KILLS=n
	@$(BIN)/python -m tests.bench.kafka.takeover --kills $(KILLS)

trouble: $(STAMP)  ## Whether a broker, topic, client or disk in trouble holds up what is well, on brokers of its own: SECONDS=n [MORE=--at-least-once]
	@$(BIN)/python -m tests.bench.kafka.trouble --seconds $(SECONDS) $(MORE)

kafka: $(STAMP)  ## The log, the demo and conformance cases on a broker of its own: CASES=dir [SEQUENCES=n] [SAMPLE=n]
	@$(BIN)/python -m tests.kafka.run --cases '$(CASES)' --sequences $(SEQUENCES) --sample $(SAMPLE)

fuzz-http: $(STAMP) clients  ## Requests that schemathesis makes from the OpenAPI document, then attacks over HTTP/1.1 and HTTP/2: REQUESTS=n [SEED=n]
	@$(BIN)/python -m tests.fuzz.run --requests $(REQUESTS) --seed $(SEED)
	@$(BIN)/python -m tests.fuzz.attacks

interchange: $(STAMP) clients  ## Random schemas of AVRO and PROTOBUF with libraries of Python and Java, both ways: SCHEMAS=n
	@$(BIN)/python -m tests.clients.interchange --schemas $(SCHEMAS)

fuzz-formats: $(STAMP)  ## Mutated payloads for each format: PAYLOADS=n [SEED=n]
	@$(BIN)/python -m tests.fuzz.payloads --payloads $(PAYLOADS) --seed $(SEED)

sim: $(STAMP)  ## Seeded simulation of the runtime: SEEDS=n
	@$(BIN)/python -m tests.simulation.run --seeds $(SEEDS)

snapshots: $(STAMP)  ## Pull queries over several tables under load: READS=n [LOG=kafka] [INSTANCES=n]
	@$(BIN)/python -m tests.snapshots.run --reads $(READS) $(if $(LOG),--log '$(LOG)') \
		$(if $(INSTANCES),--instances $(INSTANCES))

crash: $(STAMP)  ## SIGKILL a real process: KILLS=n [LOG=embedded|kafka] [KIND=log|compaction|engine|processor|checkpoints|topology|backfill|replace|pipeline] [FORMAT=AVRO|PROTOBUF|JSON_SR] [SEED=n] [ENGINE="--at-least-once --more 37"]
ifeq ($(LOG),kafka)
	@set -e; for kind in $(or $(KIND),engine backfill replace pipeline); do \
		case $$kind in engine) run=kafka_crash ;; backfill) run=kafka_backfill_crash ;; \
			replace) run="kafka_backfill_crash --replace" ;; pipeline) run=kafka_pipeline_crash ;; \
			*) echo "on Kafka there is no KIND=$$kind"; exit 2 ;; esac; \
		test $$kind != engine || run="$$run $(ENGINE)"; \
		$(BIN)/python -m tests.crash.$$run --kills $(KILLS) --seed $(SEED); done
else
	@set -e; for kind in $(or $(KIND),log engine processor checkpoints backfill replace pipeline); do \
		$(BIN)/python -m tests.crash.crash --kind $$kind --kills $(KILLS) --seed $(SEED) \
			$(if $(FORMAT),--format $(FORMAT)); done
endif

endurance: $(STAMP)  ## A simulated year of twenty queries: files, opening, memory and CPU stay as they are: [MINUTES=15]
	@$(BIN)/python -m tests.endurance.run --minutes $(or $(MINUTES),15)

durability: $(STAMP)  ## Loss of power at random moments, and damaged files (needs cc): [IMAGES=n] [FLIPS=n] [SEED=n]
	@$(BIN)/python -m tests.durability.images --images $(or $(IMAGES),500) --seed $(SEED)
	@$(BIN)/python -m tests.durability.flips --flips $(or $(FLIPS),500) --seed $(SEED)

crash-spark: $(VENV)/.spark  ## SIGKILL an engine that back-fills on Spark, or Spark's driver: KILLS=n [MINUTES=n] [LOG=embedded|kafka] [KIND=replace] [SEED=n]
ifeq ($(LOG),kafka)
	@$(BIN)/python -m tests.crash.kafka_backfill_crash --backend spark $(if $(filter replace,$(KIND)),--replace) \
		--kills $(KILLS) --seed $(SEED) $(if $(MINUTES),--minutes $(MINUTES))
else
	@$(BIN)/python -m tests.crash.spark_crash --kills $(KILLS) --seed $(SEED) $(if $(MINUTES),--minutes $(MINUTES))
endif

decimals: $(STAMP)  ## Random decimal arithmetic against exact whole numbers: TREES=n SEED=n
	@$(BIN)/python -m tests.decimals.run --trees $(TREES) --seed $(SEED)

refusals: $(STAMP)  ## Every statement of the conformance cases made wrong: EVERY=n tries one in n
	@$(BIN)/python -m tests.refusals.run --every $(EVERY)

differential: $(STAMP)  ## Random queries against plain DuckDB over the whole input: QUERIES=n SEED=n
	@$(BIN)/python -m tests.differential.run --queries $(QUERIES) --seed $(SEED)

$(VENV)/.spark: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[spark]'
	@touch $@

spark: $(VENV)/.spark  ## Bounded runs on Spark against the live engine, and a cluster: CASES=dir [SHARE=0..1] [RANDOM=n] [SMALL=1]
	@$(BIN)/python -m tests.spark.run --cases '$(CASES)' --share $(SHARE) --queries $(RANDOM) $(if $(SMALL),--small)

bench-spark: $(VENV)/.spark  ## CPU of a windowed count through Spark, without it, and in native Spark SQL; what an epoch of a pipeline takes: EVENTS=n
	@missed=0; $(BIN)/python -m tests.bench.spark --records $(EVENTS) || missed=1; \
		$(BIN)/python -m tests.bench.epochs || missed=1; exit $$missed
