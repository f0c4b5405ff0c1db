# The one image of Sandberth: operator, reporter and command line.
#
#   docker build --tag sandberth:dev .
#
# `sandberth cluster image` builds the same where a build cannot reach a package index or an image registry: it hands in
# the dependencies as build/image-site, and another BASE with Python 3.11 and CA certificates.
ARG BASE=python:3.11-slim

FROM ${BASE} AS dependencies
COPY constraints-image.txt build/image-sit[e] /site/
RUN test -d /site/kopf || python3 -m pip install --no-cache-dir --no-compile --no-deps --only-binary=:all: \
      --require-hashes --target=/site --requirement=/site/constraints-image.txt
# Sources of compiled modules and scripts that nobody calls; then bytecode, which a read-only root cannot be given later.
RUN rm -rf /site/bin /site/constraints-image.txt \
 && find /site -type f \( -name '*.c' -o -name '*.h' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pyi' \) -delete \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /site

FROM ${BASE} AS sandberth
COPY operator/sandberth /app/sandberth
COPY crds /app/sandberth/assets/crds
COPY manifests /app/sandberth/assets/manifests
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /app/sandberth \
 && printf '#!/usr/bin/env -S python3 -P\nfrom sandberth.cli import main\nmain()\n' > /app/sandberth-command && chmod 755 /app/sandberth-command

FROM ${BASE}
# Official images come without the bytecode of the standard library.
RUN python3 -m compileall -q -x '/(test|tests|idlelib|lib2to3|ensurepip|site-packages)/' \
      "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=dependencies /site /opt/sandberth
COPY --from=sandberth /app/sandberth /opt/sandberth/sandberth
COPY --from=sandberth /app/sandberth-command /usr/local/bin/sandberth
ENV PYTHONPATH=/opt/sandberth PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN echo "sandberth:x:65532:65532::/:/usr/sbin/nologin" >> /etc/passwd && echo "sandberth:x:65532:" >> /etc/group
USER 65532:65532
WORKDIR /
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="sandberth" \
      org.opencontainers.image.description="Spreads short-lived sandboxes over nodes by real load, also between two load reports" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENTRYPOINT ["sandberth"]
CMD ["--help"]
