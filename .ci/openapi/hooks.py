"""What schemathesis cannot know of the service: formats of its own, rules that no schema can say, and the one user and
the one token that the run itself needs.
"""

import json
import re

import schemathesis
from hypothesis import strategies as st

PATHS = ["public_id", "type_id", "name", "label", "active", "fields.name", "fields.value", "user_name", "no.such"]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
CONDITIONS = st.one_of(
    VALUES,
    st.dictionaries(st.sampled_from(["$eq", "$ne", "$gt", "$lte"]), VALUES, min_size=1, max_size=2),
    st.builds(lambda values: {"$in": values}, st.lists(VALUES, max_size=3)),
    st.builds(lambda wanted: {"$exists": wanted}, st.booleans()),
    st.builds(lambda wanted: {"$elemMatch": {"name": wanted}}, st.text("abc", max_size=3)),
)
FILTERS = st.recursive(
    st.dictionaries(st.sampled_from(PATHS), CONDITIONS, max_size=2),
    lambda inner: st.builds(
        lambda word, parts: {word: parts},
        st.sampled_from(["$and", "$or", "$nor"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=4,
)
NAMES = st.sampled_from([path for path in PATHS if "." not in path])

schemathesis.openapi.format("mongodb-filter", FILTERS.map(json.dumps))
schemathesis.openapi.format(
    "mongodb-projection",
    st.one_of(
        st.dictionaries(NAMES, st.just(1), max_size=2),
        st.lists(NAMES, max_size=2, unique=True),
    ).map(json.dumps),
)
schemathesis.openapi.format("sort-keys", st.sampled_from(PATHS + ["name,-public_id", "-label"]))
# The first entries of the log are there; other moments may be in the future.
schemathesis.openapi.format("moment", st.sampled_from(["1", "2", "3"]))
schemathesis.openapi.format("cursor", st.sampled_from(["0", "1", "2"]))
# Such a name leads nowhere, so nothing is sent.
schemathesis.openapi.format(
    "webhook-url", st.sampled_from(["https://hooks.invalid/", "https://hooks.invalid:8443/inventory?key=value"])
)
schemathesis.openapi.format("resources", st.sampled_from(["objects", "types", "categories", "objects,types"]))
schemathesis.openapi.format("field-pattern", st.sampled_from(["[a-z]+", "\\d{2,4}", "(a|b)*", ".*"]))


schemathesis.openapi.format("date-form", st.sampled_from(["ymd", "dmy", "mdy", "%d.%m.%Y", "%m/%d/%y %H:%M"]))
schemathesis.openapi.format("words", st.sampled_from(["ja", "x,on", "oui, si"]))
schemathesis.openapi.format("columns", st.sampled_from(["fields", "all", "public_id,active", "active", "version,views"]))
schemathesis.openapi.format("network", st.sampled_from(["10.0.0.0/24", "10.0.0.0/31", "2001:db8::/64"]))


@schemathesis.serializer("application/x-ndjson")
def lines_of_json(ctx, value) -> bytes:
    """Lines as they come; an array as a line each."""
    if isinstance(value, list):
        return b"".join(json.dumps(item, default=str).encode() + b"\n" for item in value)
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, (bytes, bytearray)) else json.dumps(value, default=str).encode()


# A request can keep its schema and still break a rule: about what is stored, about other members of the same body, or
# about the time. These are the codes, and the messages of violations, that say so.
RULES = re.compile(
    r"\w+_taken|type_missing|type_in_use|object_referenced|group_(stays|has_users|to_move_to)|\w+_user_stays"
    r"|last_administrator|too_many_ids|import_(refused|key)|export_does_not_fit|quota_exceeded|values_not_unique|field_not_unique|values_break_rules|migration_refused"
)
VIOLATIONS = re.compile(
    r"does not exist|was deleted since|the path says|the type has no field|another field is called|must lie in the future|leads? nowhere"
    r"|would (be|close|make)|cannot be (its|below)|is (its own|below)|needs a value|is t?here twice|must match the pattern"
    r"|is no default: it must be|is set by the service; |must be one of the options|must be (a string|a number|true, false|the id|a list of|an IPv4|a network|a MAC|\{\"\$date\") .*or null|is required"
    r"|a member's name must not start with \$|keeps the right base|cannot change|must be a string: the new password"
    r"|is about objects; add|cannot be understood as a filter|has no effect: the field refers to no type"
    r"|is the one of users whom their first sign-in at the issuer makes"
    r"|must have at most 1000 items|is in the list already|must not be null|only a select can have it"
    r"|cannot be (unique|in an index)|compares texts, and values of|the field has a default \(value\)|the same value of|which is unique"
    r"|neither the type nor its new state|the new state of the type|is a field that objects have|is the name that the field has"
    r"|is no option of the field in the new state"
    r"|it is the last part of the path"
    # To a schema 1.0 is a whole number.
    r"|must be a whole number without a fraction|must be a time of RFC 3339, as \S+, or the sequence of a log entry"
)
PARAMETERS = re.compile(r"cannot be used with (the view tree|after)|cannot be used behind a cursor|is no cursor of this list|must be from 1 to \d+ with after|has two paths below|must be 1 to 255 characters of ASCII, with or without quotes|is not offered for|too long for a cursor|is another name of view|is needed with (action|format)=|goes? with (format=|tables only)|must be left out (when sort has|beside a sort document)|a tag stands in quotes|a list takes|a pipeline takes|is no member by which log entries|is not known for log entries|is in the future|neither a time of RFC 3339|explains lists of the present|reads the present|is about objects; add|is for pages of JSON|no cursor (of changes|that this service)|too large for a sequence|has (a|no) field named|of \$match alone|leads nowhere|^value: |is no place in this list|has the word \S+, which true has too|needs from 1 to 8 words")


def breaks_a_rule(answer: dict, operation: str) -> bool:
    code, places = answer["code"], answer.get("errors", [])
    if code == "validation_failed":
        return all(VIOLATIONS.search(place["message"]) for place in places)
    if code == "parameter_invalid":
        return PARAMETERS.search(answer["message"]) is not None
    if code == "json_malformed":
        return "has a zero byte in its name" in answer["message"]
    # What stands in a filter or a projection, besides being an object, no schema says.
    return RULES.fullmatch(code) is not None or (code.startswith("query_") and ("objects/" in operation or "reports/" in operation))


@schemathesis.check
def good_data_is_refused_for_a_rule_only(ctx, response, case) -> None:
    """The other half of `positive_data_acceptance`, which is told to let 400 pass."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    answer = response.json()
    if not breaks_a_rule(answer, case.operation.label):
        raise AssertionError(f"data that keeps its schema was refused: {json.dumps(answer)}")


@schemathesis.check
def the_code_of_an_error_is_described(ctx, response, case) -> None:
    if response.status_code < 400 or response.status_code == 405:
        return
    described = case.operation.definition.raw["responses"].get(str(response.status_code), {}).get("x-codes")
    if described is None:
        return
    code = response.json()["code"]
    if not any(re.fullmatch(known.replace("<number>", r"\d+"), code) for known in described):
        raise AssertionError(f"{code} is not among {described}")


def mostly_there(parameters):
    """Whole numbers say what there is, mostly: of all numbers hardly any is an id."""
    for name in ("public_id", "token_id", "type_id", "public_ids"):
        number = (parameters or {}).get(name)
        if isinstance(number, int) and not isinstance(number, bool) and number % 4:
            parameters[name] = 1 + number // 4 % 12
    return parameters


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    return mostly_there(path_parameters)


@schemathesis.hook
def map_query(context, query):
    return mostly_there(query)


@schemathesis.hook
def before_call(context, case, kwargs) -> None:
    """Turns aside what would end the run: changes of user 1, and the end of his token 1."""
    path = case.path_parameters
    if not path or case.method not in ("PUT", "PATCH", "DELETE") or not case.operation.path.startswith("/rest/users/"):
        return
    for name in ("public_id", "token_id"):
        if str(path.get(name)) == "1" and (name == "token_id" or "token_id" not in path):
            path[name] = 2
