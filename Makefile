# Two commands need nothing but Python 3.11+, pip and make: `make run` and `make test`.
PYTHON ?= python3
SOURCE ?= tests/data/sample.ogg
OUT ?= out
BIN := .venv/bin
READY := .venv/.ready

.PHONY: run test check setup bench bench-download chaos load clean

run: $(READY)
	$(BIN)/ytcaption transcribe "$(SOURCE)" --output "$(OUT)"

test: $(READY)
	scripts/test $(ARGS)

check: $(READY)
	scripts/check

bench: $(READY)
	$(BIN)/python -m benchmarks.memory

bench-download: $(READY)
	GRPC_VERBOSITY=ERROR $(BIN)/python -m benchmarks.downloading $(ARGS)

chaos: $(READY)
	$(BIN)/python -m benchmarks.chaos $(ARGS)

load: $(READY)
	GRPC_VERBOSITY=ERROR $(BIN)/python -m benchmarks.load $(ARGS)

setup: $(READY)

$(READY): pyproject.toml constraints.txt scripts/setup
	PYTHON="$(PYTHON)" scripts/setup
	touch $@

clean:
	rm -rf .venv out
