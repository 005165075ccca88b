"""Asks the listener and a MongoDB server the questions that come as lines, and says of each how the answers differ.

usage: ask.py LISTENER SERVER DATABASE"""

import base64
import json
import sys

import bson
import pymongo
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

RAW = CodecOptions(document_class=RawBSONDocument)
# Dates beyond those of Python are numbers.
SHOWN = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)


def collection(uri: str, database: str):
    client = pymongo.MongoClient(uri, directConnection=True, serverSelectionTimeoutMS=60_000)
    return client[database].get_collection("framework.objects", codec_options=RAW)


def document(text: str) -> RawBSONDocument:
    return RawBSONDocument(base64.b64decode(text))


def answer(documents, question: dict):
    try:
        if "pipeline" in question:
            found = documents.aggregate([document(stage) for stage in question["pipeline"]])
        else:
            projection = document(question["projection"]) if "projection" in question else None
            bounds = {"skip": question["skip"], "limit": question["limit"]}
            found = documents.find(document(question["filter"]), projection, **bounds)
            if "sort" in question:
                # pymongo takes directions that are whole numbers alone.
                parts = {"filter": document(question["filter"]), "sort": document(question["sort"]), "batchSize": 1000}
                parts |= bounds if projection is None else {"projection": projection, **bounds}
                command = {"find": documents.name, **parts}
                found = documents.database.command(command, codec_options=RAW)["cursor"]["firstBatch"]
        return [one.raw for one in found]
    except OperationFailure as error:
        return error.code


def shown(found):
    """Two NaN are one: their signs depend on the processor."""
    return found if isinstance(found, int) else [repr(bson.decode(raw, SHOWN)) for raw in found]


listener = collection(sys.argv[1], "inventory")
server = collection(sys.argv[2], sys.argv[3])
for line in sys.stdin:
    question = json.loads(line)
    ours, theirs = answer(listener, question), answer(server, question)
    equal = ours == theirs or shown(ours) == shown(theirs)
    print("equal" if equal else f"the listener: {shown(ours)}; MongoDB: {shown(theirs)}", flush=True)
