# docker build -t forewarn:0.1.0 .
FROM python:3.13.7-slim-bookworm AS build
WORKDIR /src
COPY setup.cfg pyproject.toml constraints.txt README.m[d] LICENSE ./
COPY .build .build
COPY policies policies
COPY webhook webhook
RUN python -m venv /opt/forewarn \
 && /opt/forewarn/bin/pip install --no-cache-dir --no-compile -c constraints.txt '.[webhook,live]' \
 && /opt/forewarn/bin/pip uninstall -y pip \
 && python -m compileall -q -j 0 /opt/forewarn/lib

FROM python:3.13.7-slim-bookworm
COPY --from=build /opt/forewarn /opt/forewarn
ENV PATH=/opt/forewarn/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["forewarn"]
CMD ["serve"]
