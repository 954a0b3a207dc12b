# hopsyncd in a container: a user without rights, folders mounted read-only, data in one volume.
#
#   docker build -t hopsyncd .
#   docker run --rm -v ~/notes:/notes:ro -v hopsyncd:/data hopsyncd init --folder /notes
#   docker run -d --name hopsyncd -v ~/notes:/notes:ro -v hopsyncd:/data hopsyncd
#   docker exec hopsyncd hopsyncd query "Who directed the film that ...?"
FROM python:3.12-slim

# Of the sources only those of git need a program.
RUN apt-get update \
    && apt-get install -y --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 hopsyncd \
    && install -d -m 700 -o hopsyncd -g hopsyncd /data

COPY . /src
# Such as "postgres", or "postgres,s3".
ARG EXTRAS=""
RUN pip install --no-cache-dir "/src${EXTRAS:+[$EXTRAS]}" && rm -rf /src

USER hopsyncd
ENV HOPSYNCD_HOME=/data
VOLUME /data
# The first import of models and index takes longest.
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s CMD ["hopsyncd", "status", "--json"]
ENTRYPOINT ["hopsyncd"]
CMD ["serve"]
