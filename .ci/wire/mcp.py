"""Asks mongodb-mcp-server, as an assistant would, for collections, indexes, numbers and documents behind the listener, and for the rows of a
type there and in the view of a MongoDB server.

usage: mcp.py SERVER OURS THEIRS
"""
import json
import re
import subprocess
import sys

server, ours, theirs = sys.argv[1:]


class Server:
    """The program, connected to a database."""

    def __init__(self, uri):
        command = [server, "--connectionString", uri, "--telemetry", "disabled", "--readOnly"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.ask("initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo={"name": "check", "version": "1"})
        self.send(method="notifications/initialized")

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        self.send(id=method, method=method, params=params)
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == method:
                return answer["result"]
        sys.exit("mongodb-mcp-server ended")

    def tool(self, name, expected, **arguments):
        answer = self.ask("tools/call", name=name, arguments={"connectionId": "preconfigured", "database": "inventory", **arguments})
        text = "\n".join(part["text"] for part in answer["content"])
        if answer.get("isError") or expected not in text:
            sys.exit(f"{name}: {expected!r} is not in the answer:\n{text[:2000]}")
        # Each answer marks what documents say by a word of its own.
        return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", text)


listener = Server(ours)
objects = {"collection": "framework.objects"}
listener.tool("list-collections", "type.server")
listener.tool("collection-indexes", "Found 4 classic indexes", **objects)
listener.tool("collection-storage-size", "The size of", **objects)
listener.tool("db-stats", "Statistics")
listener.tool("collection-schema", "fields in the sampled schema", **objects)
listener.tool("count", "Found 2000 documents", **objects)
listener.tool("find", '"public_id":{"$numberLong":"17"}', filter={"public_id": 17}, **objects)
listener.tool("aggregate", '"types":9', pipeline=[{"$group": {"_id": "$type_id"}}, {"$count": "types"}], **objects)
print("8 of its tools answer: collections, indexes, sizes, statistics, a schema, numbers, documents, an aggregation")


def rows(program):
    table = {"collection": "type.server"}
    places = [{"$group": {"_id": "$rack_summary", "n": {"$sum": 1}}}, {"$sort": {"n": -1, "_id": 1}}, {"$limit": 5}]
    return [
        program.tool("count", "Found", query={"active": True}, **table),
        program.tool("find", "rack_summary", filter={"hostname": {"$regex": "7"}}, sort={"public_id": 1}, limit=3, **table),
        program.tool("aggregate", '"n":', pipeline=places, **table),
    ]


server_of_views = Server(theirs)
if rows(listener) != rows(server_of_views):
    sys.exit("the rows of type.server are not those of the view")
for program in (listener, server_of_views):
    program.process.terminate()
print("a number, rows and an aggregation of type.server are the same as those of the view")
