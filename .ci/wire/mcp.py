"""Asks mongodb-mcp-server, as an assistant would, for collections, indexes, numbers and documents behind the listener.

usage: mcp.py SERVER URI
"""
import json
import subprocess
import sys

server, uri = sys.argv[1:]
process = subprocess.Popen(
    [server, "--connectionString", uri, "--telemetry", "disabled", "--readOnly"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    text=True,
)


def send(**message):
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()


def ask(method, **params):
    send(id=method, method=method, params=params)
    for line in process.stdout:
        answer = json.loads(line)
        if answer.get("id") == method:
            return answer["result"]
    sys.exit("mongodb-mcp-server ended")


def tool(name, expected, **arguments):
    answer = ask("tools/call", name=name, arguments={"connectionId": "preconfigured", "database": "inventory", **arguments})
    text = "\n".join(part["text"] for part in answer["content"])
    if answer.get("isError") or expected not in text:
        sys.exit(f"{name}: {expected!r} is not in the answer:\n{text[:2000]}")


ask("initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo={"name": "check", "version": "1"})
send(method="notifications/initialized")
objects = {"collection": "framework.objects"}
tool("list-collections", "Found 6 collections")
tool("collection-indexes", "Found 4 classic indexes", **objects)
tool("collection-storage-size", "The size of", **objects)
tool("db-stats", "Statistics")
tool("collection-schema", "fields in the sampled schema", **objects)
tool("count", "Found 2000 documents", **objects)
tool("find", '"public_id":{"$numberLong":"17"}', filter={"public_id": 17}, **objects)
tool("aggregate", '"types":9', pipeline=[{"$group": {"_id": "$type_id"}}, {"$count": "types"}], **objects)
process.terminate()
print("8 of its tools answer: collections, indexes, sizes, statistics, a schema, numbers, documents, an aggregation")
