"""tap-mongodb discovers the collections of the listener and reads each of them whole, as a pipeline to a warehouse does.

usage: tap.py TAP URI
"""
import collections
import json
import subprocess
import sys
import tempfile
from urllib.parse import unquote

import pymongo
from pymongo.uri_parser import parse_uri

tap, uri = sys.argv[1:]
parsed = parse_uri(uri)
[(host, port)] = parsed["nodelist"]
database = pymongo.MongoClient(uri).get_default_database()
config = {"host": host, "port": str(port), "user": unquote(parsed["username"]), "password": unquote(parsed["password"]), "database": database.name}


def run(*arguments):
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


catalog = json.loads(run(("--discover", None)))
for stream in catalog["streams"]:
    stream["metadata"][0]["metadata"] |= {"selected": True, "replication-method": "FULL_TABLE"}
messages = map(json.loads, run(("--catalog", catalog)).splitlines())
read = collections.Counter(message["stream"] for message in messages if message["type"] == "RECORD")
wanted = {name: database[name].count_documents({}) for name in database.list_collection_names()}
found = {stream["table_name"]: read[stream["table_name"]] for stream in catalog["streams"]}
if found != wanted:
    sys.exit(f"tap-mongodb reads {found}, of {wanted}")
print(f"{len(found)} collections are discovered, {sum(found.values())} records are read")
