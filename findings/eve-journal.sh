#!/usr/bin/env bash
# One would guess: Eve's settings for write concerns take `j`, as its documentation says ("w, wtimeout, j, fsync"), so that a write is
# on disk before it is answered.
# What happens: in the setting of a resource everything but `w` is dropped without a word. In the setting of all resources `j` ends
# the first use of the database with an error about an unknown option.
# Why it matters: who keeps an inventory in Eve, and asks for the journal, believes that no acknowledged write can be lost. Whoever
# compares write rates with Eve's compares unlike things; `{"w": "majority"}` does wait for the disk.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install eve==2.3.1 pymongo==4.20.1 Flask==3.1.3 Werkzeug==3.1.9
"$work/venv/bin/pip" freeze | grep -iE '^(eve|pymongo)=='
"$work/venv/bin/python" - << 'PYTHON'
from eve import Eve

# Nobody answers there, and nobody is asked: only what Eve makes of its settings is looked at.
ADDRESS = {"MONGO_URI": "mongodb://127.0.0.1:1/inventory"}
CONCERN = {"w": 1, "j": True}


def of_servers(settings):
    app = Eve(settings=ADDRESS | settings)
    with app.app_context():
        return app.data.get_collection_with_write_concern("servers", "servers").write_concern.document


for_one = of_servers({"DOMAIN": {"servers": {"mongo_write_concern": CONCERN}}})
print("set for the resource:", CONCERN, "used:", for_one)
try:
    for_all = of_servers({"MONGO_WRITE_CONCERN": CONCERN, "DOMAIN": {"servers": {}}})
except Exception as error:
    for_all = f"{type(error).__name__}: {str(error).split('.')[0]}"
print("set for all:", CONCERN, "result:", for_all)
assert for_one == {"w": 1} and for_all == "ConfigurationError: Unknown option: j", "Eve behaves differently now"
PYTHON
