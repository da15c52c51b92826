# Medley's control plane: api, gateway, reconcile and every other command. Nodes get their code from it when they start.
#
#   docker build -t medley .                     with Google's command-line tool, without which SkyPilot launches nothing on GCP
#   docker build -t medley --target control .    without it, 0.4 GB less
#
# Set BASE and GCLOUD to digests of your own registry, and deploy the result by its digest. Google keeps a version of
# GCLOUD for a year: later, name a newer one.
ARG BASE=debian:12.12-slim
ARG GCLOUD=gcr.io/google.com/cloudsdktool/google-cloud-cli:573.0.0-stable

FROM ${BASE} AS build
# Versions of Debian's packages are the release's: an older one is taken off its servers with every security update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
# What builds the console stays here, in an environment of its own.
RUN python3 -m venv /opt/medley && python3 -m venv /opt/build
WORKDIR /src
COPY pyproject.toml README.md ./
COPY agents agents
COPY control control
COPY migrations migrations
COPY policies policies
COPY sdk sdk
COPY templates_lib templates_lib
RUN /opt/medley/bin/pip install --no-cache-dir --no-compile '.[clouds,serve,tracing]'
COPY web web
RUN web/npm.sh /opt/build/bin/python --prefix web ci --no-fund --no-audit \
    && MEDLEY_PYTHON=/opt/medley/bin/python web/npm.sh /opt/build/bin/python --prefix web run build
# Again, with the console in it
RUN /opt/medley/bin/pip install --no-cache-dir --no-compile --no-deps --force-reinstall . \
    && /opt/medley/bin/python -m compileall -q -j 0 -x '/tests?/' /opt/medley/lib

FROM ${BASE} AS control
# SkyPilot copies files with rsync over ssh, and asks for the rest before it launches on Kubernetes.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl netcat-openbsd openssh-client procps python3 rsync socat \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --shell /usr/sbin/nologin medley \
    && install --directory --owner medley --group medley --mode 0700 /var/lib/medley
COPY --from=build /opt/medley /opt/medley
ENV PATH=/opt/medley/bin:/usr/local/bin:/usr/bin:/bin \
    MEDLEY_HOME=/var/lib/medley \
    HF_HOME=/tmp/huggingface \
    NUMBA_CACHE_DIR=/tmp/numba \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
# All else may be read-only.
VOLUME ["/var/lib/medley", "/tmp"]
EXPOSE 8000 8080 7501 7502 7503
ENTRYPOINT ["medley"]
CMD ["--help"]

FROM ${GCLOUD} AS gcloud

FROM control
COPY --from=gcloud /usr/lib/google-cloud-sdk /usr/lib/google-cloud-sdk
ENV PATH=/opt/medley/bin:/usr/lib/google-cloud-sdk/bin:/usr/local/bin:/usr/bin:/bin
