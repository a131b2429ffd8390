# `make wheelhouse`, then: docker build -t forewarn:0.1.0 .
# For both architectures: docker buildx build --platform linux/amd64,linux/arm64 -t forewarn:0.1.0 .
# The build downloads only the base image. Its digest is that of the multi-platform index.
FROM python:3.13.13-slim-bookworm@sha256:355bfa66770995d7e9a0da4b3473b44d0cb451f6b56f5615ad9c39e3c4eca03f AS build
COPY requirements-image.txt /src/
COPY .cache/wheelhouse /src/wheelhouse
RUN python -m venv /opt/forewarn
RUN /opt/forewarn/bin/pip install --no-index --find-links /src/wheelhouse --no-compile --no-deps --require-hashes -r /src/requirements-image.txt
RUN /opt/forewarn/bin/pip install --no-index --no-compile --no-deps /src/wheelhouse/forewarn-*.whl
RUN /opt/forewarn/bin/pip check
RUN /opt/forewarn/bin/pip uninstall -y pip
RUN python -m compileall -q -j 0 /opt/forewarn/lib

FROM python:3.13.13-slim-bookworm@sha256:355bfa66770995d7e9a0da4b3473b44d0cb451f6b56f5615ad9c39e3c4eca03f
COPY --from=build /opt/forewarn /opt/forewarn
# Only /tmp is written, so the root file system can be read-only.
ENV PATH=/opt/forewarn/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["forewarn"]
CMD ["webhook", "serve"]
