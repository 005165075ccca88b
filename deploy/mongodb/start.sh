#!/bin/bash
# Starts MongoDB with the given command, and makes what is there once: the key file, the replica set, the users.
# KEY_FILE is where the key is kept; start.js says what else it needs. READY_FILE is made when all is there, for health.sh.
set -euo pipefail
here="$(dirname "$0")"
rm -f "$READY_FILE"

if [ ! -s "$KEY_FILE" ]; then
    # A key of a replica set has to be secret even where the set has one member.
    (umask 277 && head -c 700 /dev/urandom | base64 > "$KEY_FILE.new")
    mv "$KEY_FILE.new" "$KEY_FILE"
    echo "start.sh: made $KEY_FILE"
fi

port=27017
for argument in "$@"; do
    case "$argument" in --port=*) port="${argument#--port=}" ;; esac
done

"$@" &
server=$!
trap 'kill -TERM "$server" 2> /dev/null' TERM INT

until mongosh --quiet --norc --file "$here/start.js" "mongodb://127.0.0.1:$port/?directConnection=true"; do
    # 3: what is wrong stays wrong.
    if [ "$?" -eq 3 ]; then
        kill -TERM "$server"
        wait "$server" || true
        exit 1
    fi
    if ! kill -0 "$server" 2> /dev/null; then break; fi
    sleep 1
done
touch "$READY_FILE"

# A signal ends the first wait; the second one waits for the server to have stored everything.
wait "$server" || true
wait "$server"
