"""The first session of README.md, by a client that openapi-python-client made of the description.

usage: session.py ORIGIN, in the directory of `inventory_client`
"""

import json
import os
import sys

sys.path.insert(0, os.getcwd())

from inventory_client import AuthenticatedClient, Client
from inventory_client.api.auth import login
from inventory_client.api.objects import (
    create_object,
    delete_object,
    get_object,
    list_objects,
    patch_object,
    render_object,
)
from inventory_client.api.rights import explain_right
from inventory_client.api.types import create_type, delete_type, get_type
from inventory_client.models import (
    ErrorBody,
    ListObjectsOrder,
    ListObjectsView,
    LoginBody,
    NewObject,
    ObjectPatch,
    RenderedObject,
    StoredObject,
    TypeBody,
)

ORIGIN = sys.argv[1]
PASSWORD = os.environ["INVENTORY__AUTH__INITIAL_ADMIN_PASSWORD"]

SERVER = {
    "name": "ci-server",
    "label": "Server",
    "author_id": 1,
    "fields": [
        {"type": "text", "name": "hostname", "label": "Host name", "required": True, "regex": "[a-z][a-z0-9-]*"},
        {"type": "number", "name": "units", "label": "Height units"},
        {
            "type": "select",
            "name": "state",
            "label": "State",
            "value": "spare",
            "options": [{"name": "spare", "label": "Spare"}, {"name": "live", "label": "Live"}],
        },
    ],
    "render_meta": {
        "icon": "fa-server",
        "sections": [
            {"type": "section", "name": "general", "label": "General", "fields": ["hostname", "units", "state"]}
        ],
        "externals": [
            {"name": "ssh", "href": "ssh://{}", "label": "Log in", "icon": "fa-terminal", "fields": ["hostname"]}
        ],
        "summary": {"fields": ["hostname", "state"]},
    },
}


def new_object(type_id: int, name: str) -> NewObject:
    fields = [{"name": "hostname", "value": name}, {"name": "units", "value": 2}]
    return NewObject.from_dict({"type_id": type_id, "author_id": 1, "fields": fields})


def value_of(item: StoredObject, name: str) -> object:
    return next(field.value for field in item.fields if field.name == name)


refused = login.sync(client=Client(ORIGIN), body=LoginBody(user_name="admin", password="wrong"))
assert isinstance(refused, ErrorBody) and refused.code == "credentials_wrong", refused
signed_in = login.sync(client=Client(ORIGIN), body=LoginBody(user_name="admin", password=PASSWORD))
print(f"signed in as {signed_in.user.user_name}")
client = AuthenticatedClient(ORIGIN, token=signed_in.token)

type_id = create_type.sync(client=client, body=TypeBody.from_dict(SERVER)).result_id
stored = get_type.sync(type_id, client=client).result
assert [field.name for field in stored.fields] == ["hostname", "units", "state"], stored
print(f"made the type {type_id}, {stored.name}")

ids = [create_object.sync(client=client, body=new_object(type_id, name)).result_id for name in ("web-1", "web-2", "db-1")]
native = get_object.sync(ids[2], client=client)
assert value_of(native, "hostname") == "db-1" and value_of(native, "state") == "spare", native
rendered = render_object.sync(ids[2], client=client)
assert isinstance(rendered, RenderedObject), rendered
information = rendered.type_information
assert information.summary_line == "db-1 | spare" and information.externals[0].href == "ssh://db-1", information
print(f"made the objects {ids}; {ids[2]} is rendered as {information.summary_line!r}")

wanted = {"type_id": type_id, "fields": {"$elemMatch": {"name": "hostname", "value": {"$regex": "^web"}}}}
page = list_objects.sync(client=client, filter_=json.dumps(wanted), sort="fields.hostname", order=ListObjectsOrder.VALUE_NEGATIVE_1)
assert page.total == 2 and [item.public_id for item in page.results] == [ids[1], ids[0]], page
views = list_objects.sync(client=client, filter_=json.dumps(wanted), view=ListObjectsView.RENDER, limit=1, page=2)
assert isinstance(views.results[0], RenderedObject) and views.pager.total_pages == 2, views
print(f"found {page.total} whose name begins with web")

tag = get_object.sync_detailed(ids[2], client=client).headers["ETag"]
live = ObjectPatch.from_dict({"fields": [{"name": "state", "value": "live"}]})
changed = patch_object.sync(ids[2], client=client, body=live, if_match=tag)
assert value_of(changed.result, "state") == "live", changed
stale = patch_object.sync(ids[2], client=client, body=live, if_match=tag)
assert isinstance(stale, ErrorBody) and stale.code == "precondition_failed", stale
print(f"changed {ids[2]} to version {changed.result.version}; a second change with the same tag was refused")

wrong = create_object.sync(client=client, body=new_object(type_id, "Web 1"))
assert isinstance(wrong, ErrorBody) and wrong.errors[0].pointer == "/fields/0/value", wrong
print(f"refused: {wrong.errors[0].pointer} {wrong.errors[0].message}")

answer = explain_right.sync(client=client, method="DELETE", path=f"/objects/{ids[0]}").result
assert answer.granted and answer.right == "base.framework.object.delete", answer
assert delete_object.sync(ids[0], client=client).deleted_entry.public_id == ids[0]
in_use = delete_type.sync(type_id, client=client)
assert isinstance(in_use, ErrorBody) and in_use.code == "type_in_use", in_use
gone = delete_type.sync(type_id, client=client, cascade=True)
assert gone.also_changed.additional_properties["objects"] == 2, gone
assert get_object.sync(ids[1], client=client).code == "object_not_found"
print("deleted an object, then the type with the others")
