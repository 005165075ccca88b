"""Reads the servers of the demo as a table, as people do with pandas: the same rows from the listener and from the views of a MongoDB server.

usage: tables.py OURS THEIRS
"""
import sys

import pandas
import pymongo


def frame(uri, *question):
    rows = pymongo.MongoClient(uri).get_default_database()["type.server"].find(*question).sort("_id", 1)
    return pandas.DataFrame(rows)


questions = [
    ({},),
    ({"active": True}, {"_id": 0, "public_id": 1, "hostname": 1}),
    ({"hostname": {"$regex": "7"}},),
]
sizes = []
for question in questions:
    ours, theirs = (frame(uri, *question) for uri in sys.argv[1:])
    pandas.testing.assert_frame_equal(ours, theirs)
    sizes.append(ours.shape)
if min(rows for rows, _ in sizes) == 0:
    sys.exit(f"a question finds nothing: {sizes}")
summaries = [column for column in frame(sys.argv[1]).columns if column.endswith("_summary")]
counts = [pymongo.MongoClient(uri).get_default_database()["type.server"].estimated_document_count() for uri in sys.argv[1:]]
if counts != [sizes[0][0]] * 2 or not summaries:
    sys.exit(f"{counts} rows are estimated of {sizes[0][0]}, with the summaries {summaries}")
print(f"pandas reads the same rows: {sizes}, with {', '.join(summaries)}")
