#!/usr/bin/env bash
# One would guess: OpenAPI 3.2 is compatible with 3.1, so a description that uses nothing new is read as before.
# What happens: openapi-python-client refuses the document for the number alone. The same document that says 3.1.0 gives a client.
# Why it matters: a service that moves its description to 3.2 takes the clients of its users away. It has to go on offering 3.1.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install openapi-python-client==0.29.1 ruff==0.14.5
cd "$work"
export PATH="$work/venv/bin:$PATH"
openapi-python-client --version
for version in 3.1.0 3.2.0; do
    cat > "$version.json" << DESCRIPTION
{"openapi": "$version", "info": {"title": "hosts", "version": "1"}, "paths": {"/hosts": {"get": {"operationId": "list_hosts",
 "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": {"type": "array", "items": {"type": "string"}}}}}}}}}}
DESCRIPTION
    status=0
    openapi-python-client generate --path "$version.json" --output-path "client-$version" > "$version.log" 2>&1 || status=$?
    echo "$version: status $status, $(grep -o 'Only OpenAPI versions.*supported, got [0-9.]*' "$version.log" || echo 'a client')" >> seen.txt
done
cat seen.txt
diff - seen.txt << 'EXPECTED' || { echo "the behaviour has changed"; exit 1; }
3.1.0: status 0, a client
3.2.0: status 1, Only OpenAPI versions 3.1.* are supported, got 3.2.0
EXPECTED
echo "as described: the same description is refused under the number 3.2.0"
