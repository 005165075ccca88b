# Builds the service and puts it into an image with nothing else but CA certificates and the C library.
ARG RUST_IMAGE=rust:1.95-slim-bookworm
ARG BASE_IMAGE=gcr.io/distroless/cc-debian12:nonroot

FROM ${RUST_IMAGE} AS build
WORKDIR /build
COPY Cargo.toml Cargo.lock build.rs ./
COPY config config
COPY src src
# What `--version` names, for instance "0f2acd8 2026-11-23".
ARG INVENTORY_COMMIT=
# Crates and what was built of them outlive the layer, so a change of the service builds the service alone. Files are touched,
# since what an older checkout built would pass for newer than they are. Tests and benches stay outside, so that a change of them
# builds nothing; Cargo wants to see a file for each that Cargo.toml names.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/build/target,sharing=locked \
    find src config -type f -exec touch {} + \
    && for FILE in $(sed -n 's/^path = "\(tests\|benches\)\(.*\)"$/\1\2/p' Cargo.toml) benches/matcher.rs; do \
        mkdir -p "$(dirname "$FILE")" && echo 'fn main() {}' > "$FILE"; done \
    && cargo build --locked --release --bin inventory-service \
    && cp target/release/inventory-service /inventory-service \
    && mkdir /data

FROM ${BASE_IMAGE}
COPY --from=build /inventory-service /usr/local/bin/inventory-service
COPY --from=build --chown=10001:10001 /data /data
ENV INVENTORY__SERVER__HOST=0.0.0.0 \
    INVENTORY__STORE__URI=embedded:/data
WORKDIR /data
USER 10001:10001
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=5s --start-period=90s --retries=4 \
    CMD ["/usr/local/bin/inventory-service", "check", "--ready"]
ARG INVENTORY_COMMIT=
LABEL org.opencontainers.image.title="Inventory Service" \
    org.opencontainers.image.description="A CMDB over REST, on an embedded store or MongoDB" \
    org.opencontainers.image.version="0.2.0" \
    org.opencontainers.image.revision="${INVENTORY_COMMIT}" \
    org.opencontainers.image.licenses="MIT OR Apache-2.0"
ENTRYPOINT ["/usr/local/bin/inventory-service"]
CMD ["serve"]
