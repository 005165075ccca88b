"""What a program does with pymongo. `.ci/wire/check` runs it against the listener and against a MongoDB server.

usage: session.py URI
"""
import hashlib
import sys

import bson
import pymongo
from bson.json_util import CANONICAL_JSON_OPTIONS, dumps
from bson.raw_bson import RawBSONDocument
from pymongo import monitoring


def show(name, value):
    print(f"{name}: {dumps(value, json_options=CANONICAL_JSON_OPTIONS)}")


class Batches(monitoring.CommandListener):
    """Counts how often a cursor was asked for more."""

    more = 0

    def started(self, event):
        self.more += event.command_name == "getMore"

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass


batches = Batches()
client = pymongo.MongoClient(sys.argv[1], compressors="zlib", event_listeners=[batches])
database = client.get_default_database()
objects, types = database["framework.objects"], database["framework.types"]

show("types", list(types.find({}, {"name": 1, "_id": 0}).sort("public_id", 1)))
show("one", objects.find_one({"public_id": 3}))
show("count", objects.count_documents({"active": True}))
show("limited count", objects.count_documents({}, skip=10, limit=100))
show("distinct", objects.distinct("author_id"))
show("group", list(objects.aggregate([{"$group": {"_id": "$type_id", "last": {"$max": "$public_id"}}}, {"$sort": {"_id": 1}}])))
show("range", [one["public_id"] for one in objects.find({"public_id": {"$gt": 5, "$lte": 9}}).sort("public_id", -1)])
with objects.find({}, batch_size=100).sort("public_id", 1) as cursor:
    show("cursor", [next(cursor)["public_id"] for _ in range(350)])
small = [{"$sort": {"public_id": 1}}, {"$set": {"n": {"$range": [0, 50]}}}, {"$unwind": "$n"}, {"$project": {"_id": 0, "public_id": 1, "n": 1}}]
batches.more = 0
count, checksum = 0, hashlib.sha256()
for one in database.get_collection("framework.objects", bson.CodecOptions(RawBSONDocument)).aggregate(small, batchSize=999):
    count += 1
    checksum.update(one.raw)
show("a cursor of 100,000 documents", [count, checksum.hexdigest(), batches.more])
with client.start_session() as session:
    show("session", objects.find_one({"public_id": 1}, session=session)["public_id"])
for name in ["framework.objects", "framework.types", "framework.categories", "management.groups"]:
    documents = [
        bson.encode(one) for batch in database[name].find_raw_batches() for one in bson.decode_iter(batch)
    ]
    raw = [bytes(one.raw) for one in database.get_collection(name, bson.CodecOptions(RawBSONDocument)).find()]
    show(f"bytes of {name}", [len(documents), sum(map(len, documents)), sorted(documents) == sorted(raw)])
for name, question in [("operator", {"a": {"$foo": 1}}), ("type", {"$expr": {"$add": ["$version", 1]}})]:
    try:
        list(objects.find(question))
    except pymongo.errors.OperationFailure as error:
        show(f"a wrong {name}", error.code)
