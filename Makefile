# `make run` and `make test` need only Python 3.11+, pip and make.
PYTHON ?= python3
SOURCE ?= tests/data/sample.ogg
OUT ?= out
HOURS ?= 1
BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.bench-ready

.PHONY: run test test-tls test-browser check setup bench bench-collections bench-denoise bench-download bench-e2e bench-http bench-memory bench-mutated bench-quality bench-search chaos chaos-cluster chaos-disk load soak clean

run: $(READY)
	$(BIN)/ytcaption transcribe "$(SOURCE)" --output "$(OUT)"

test: $(READY)
	scripts/test $(ARGS)

test-tls: $(READY)
	TESTS_OVER_TLS=1 scripts/test $(or $(ARGS),tests/end_to_end)

test-browser: $(READY)
	scripts/test-browser $(ARGS)

check: $(READY)
	scripts/check

bench: $(if $(AUDIO),$(BENCH_READY))
	$(if $(AUDIO),,$(error AUDIO is not set: make bench AUDIO=folder, with recordings and a .txt beside each))
	$(BIN)/python -m benchmarks.asr "$(AUDIO)" --out "$(OUT)" $(ARGS)

bench-denoise: $(if $(AUDIO),$(READY))
	$(if $(AUDIO),,$(error AUDIO is not set: make bench-denoise AUDIO=folder, with recordings and a .txt beside each))
	$(BIN)/python -m benchmarks.denoise "$(AUDIO)" --out "$(OUT)" $(ARGS)

bench-quality: $(if $(CORPUS),$(READY))
	$(if $(CORPUS),,$(error CORPUS is not set: make bench-quality CORPUS=folder, with recordings and a .txt beside each))
	$(BIN)/python -m benchmarks.quality "$(CORPUS)" --out "$(OUT)" $(ARGS)

bench-mutated: $(READY)
	$(BIN)/python -m benchmarks.mutated $(ARGS)

bench-memory: $(READY)
	$(BIN)/python -m benchmarks.memory $(ARGS)

bench-e2e: $(READY)
	$(if $(AUDIO),,$(error AUDIO is not set: make bench-e2e AUDIO=folder, with recordings and a .txt beside each))
	GRPC_VERBOSITY=ERROR $(BIN)/python -m benchmarks.overlap "$(AUDIO)" $(ARGS)

bench-download: $(READY)
	GRPC_VERBOSITY=ERROR $(BIN)/python -m benchmarks.downloading $(ARGS)

bench-http: $(READY)
	GRPC_VERBOSITY=ERROR $(BIN)/python -m benchmarks.http $(ARGS)

bench-collections: $(READY)
	GRPC_VERBOSITY=ERROR $(BIN)/python -m benchmarks.collections $(ARGS)

bench-search: $(READY)
	GRPC_VERBOSITY=ERROR $(BIN)/python -m benchmarks.search $(ARGS)

chaos: $(READY)
	$(BIN)/python -m benchmarks.chaos $(ARGS)

chaos-cluster: $(READY)
	$(BIN)/python -m benchmarks.chaos_cluster $(ARGS)

chaos-disk: $(READY)
	$(BIN)/python -m benchmarks.chaos_cluster --phase disk $(ARGS)

soak: $(READY)
	$(BIN)/python -m benchmarks.soak --hours "$(HOURS)" $(ARGS)

load: $(READY)
	GRPC_VERBOSITY=ERROR $(BIN)/python -m benchmarks.load $(ARGS)

setup: $(READY)

$(READY): pyproject.toml requirements.lock scripts/install scripts/setup
	PYTHON="$(PYTHON)" scripts/setup
	touch $@

$(BENCH_READY): $(READY)
	$(BIN)/python scripts/install --dependencies bench
	touch $@

clean:
	rm -rf .venv out
