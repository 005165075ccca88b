"""tap-mongodb discovers the collections of the listener and reads each of them whole, as a pipeline to a warehouse does. It discovers no
views; of the view of a MongoDB server it reads the same records by the catalog of the listener.

usage: tap.py TAP OURS THEIRS
"""
import collections
import json
import subprocess
import sys
import tempfile
from urllib.parse import unquote

import pymongo
from pymongo.uri_parser import parse_uri

tap, ours, theirs = sys.argv[1:]
database = pymongo.MongoClient(ours).get_default_database()


def config(uri, user, password):
    [(host, port)] = parse_uri(uri)["nodelist"]
    return {"host": host, "port": str(port), "user": user, "password": password, "database": database.name}


def run(config, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        command = [tap]
        for option, content in [("--config", config), *arguments]:
            if content is not None:
                path = f"{folder}/{option.strip('-')}.json"
                with open(path, "w") as file:
                    json.dump(content, file)
            command += [option] if content is None else [option, path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def records(config, catalog):
    messages = map(json.loads, run(config, ("--catalog", catalog)).splitlines())
    return [(message["stream"], message["record"]) for message in messages if message["type"] == "RECORD"]


parsed = parse_uri(ours)
listener = config(ours, unquote(parsed["username"]), unquote(parsed["password"]))
catalog = json.loads(run(listener, ("--discover", None)))
for stream in catalog["streams"]:
    stream["metadata"][0]["metadata"] |= {"selected": True, "replication-method": "FULL_TABLE"}
all_records = records(listener, catalog)
read = collections.Counter(stream for stream, _ in all_records)
wanted = {name: database[name].count_documents({}) for name in database.list_collection_names()}
found = {stream["table_name"]: read[stream["table_name"]] for stream in catalog["streams"]}
if found != wanted:
    sys.exit(f"tap-mongodb reads {found}, of {wanted}")
print(f"{len(found)} collections are discovered, {sum(found.values())} records are read")

server = pymongo.MongoClient(theirs).get_default_database()
if not server.command("usersInfo", "tap")["users"]:
    server.command("createUser", "tap", pwd="tap", roles=["read"])
catalog["streams"] = [stream for stream in catalog["streams"] if stream["table_name"] == "type.server"]
there = records(config(theirs, "tap", "tap"), catalog)
here = [record for record in all_records if record[0] == "type.server"]
if here != there or not here:
    sys.exit(f"type.server has {len(here)} records here and {len(there)} there, or they differ")
print(f"{len(here)} records of type.server are the same as those of the view")
