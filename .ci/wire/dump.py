"""Reads every collection from the listener by raw batches, writes it into an empty database of a MongoDB server, and compares
it, byte by byte and in order, with what `migrate` wrote there.

usage: dump.py FROM TO
"""
import sys

import pymongo
from bson import CodecOptions
from bson.raw_bson import RawBSONDocument

raw = CodecOptions(RawBSONDocument)
source = pymongo.MongoClient(sys.argv[1]).get_default_database(codec_options=raw)
server = pymongo.MongoClient(sys.argv[2])
target = server.get_database("dumped", codec_options=raw)
migrated = server.get_default_database(codec_options=raw)
server.drop_database("dumped")
# Tables are no stored documents.
for name in [name for name in source.list_collection_names() if not name.startswith("type.")]:
    documents = list(source[name].find())
    if documents:
        target[name].insert_many(documents)
    wanted = [bytes(one.raw) for one in migrated[name].find().sort("$natural", 1)]
    dumped = [bytes(one.raw) for one in target[name].find().sort("$natural", 1)]
    if wanted != dumped:
        sys.exit(f"{name}: the dump differs from what migrate wrote: {len(dumped)} and {len(wanted)} documents")
    print(f"{name}: {len(dumped)} documents are equal")
