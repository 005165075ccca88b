//! Objects that a caller sees, and others that an access list hides from the caller.

use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document, doc};
use inventory_service::query::Filter;
use inventory_service::store::{Change, Unit};
use reqwest::Method;
use serde_json::json;

use super::answers::Comparable;
use super::requests::Asked;
use crate::api::people::Person;
use crate::searching::support::made_again;
use crate::support::app::{TestApp, send};

const OBJECTS: &str = "framework.objects";
/// Type 1 is open to all; nobody but the administrators may read objects of the types 2 and 3.
pub(super) const OPEN: i64 = 1;
pub(super) const HIDDEN: [i64; 2] = [2, 3];
/// The ids of the objects that are seen.
pub(super) const SEEN: std::ops::RangeInclusive<i64> = 1..=8;
/// Ids that hidden objects have in some worlds and that lead to nothing in others.
pub(super) const UNSEEN: std::ops::RangeInclusive<i64> = 101..=108;

/// The types, the caller, and which hidden objects there are now.
pub(super) struct World {
    caller: Person,
    number: i64,
}

impl World {
    pub(super) async fn new(app: &TestApp) -> Self {
        let field = |kind: &str, name: &str| json!({"type": kind, "name": name, "label": name});
        let reference =
            |name: &str, types: &[i64]| json!({"type": "ref", "name": name, "label": name, "ref_types": types});
        let open = json!([
            field("text", "name"),
            field("number", "size"),
            reference("to_open", &[OPEN]),
            reference("to_hidden", &[OPEN, HIDDEN[0]])
        ]);
        let closed = json!([field("text", "name"), field("number", "size"), reference("to_open", &[OPEN])]);
        for (id, name, fields) in [(OPEN, "open", &open), (HIDDEN[0], "closed", &closed), (HIDDEN[1], "shut", &closed)]
        {
            app.created("/types/", &json!({"public_id": id, "name": name, "author_id": 1, "fields": fields})).await;
        }
        let caller = Person::with_rights(app, "outsider", &["base.*"]).await;
        let all = ["CREATE", "READ", "UPDATE", "DELETE"];
        for (id, of_caller) in [(HIDDEN[0], &[][..]), (HIDDEN[1], &["CREATE"])] {
            let includes = json!({"1": all, caller.group_id.to_string(): of_caller});
            let acl = json!({"acl": {"activated": true, "groups": {"includes": includes}}});
            assert_eq!(app.patch(&format!("/types/{id}"), &acl).await.status, 202);
        }
        let of_all = json!({"pipeline": [{"$match": {"f.size": {"$gt": 0}}}, {"$group": {"_id": "$type_id", "n": {"$sum": 1}}}]});
        let group = format!("/reports/of-group?group_id={}", caller.group_id);
        for path in ["/reports/own", &group] {
            assert_eq!(app.put(path, &of_all).await.status, 201);
        }
        assert_eq!(caller.send(app, Method::PUT, "/reports/own", &of_all).await.status, 201);
        insert(app, SEEN.map(seen).collect()).await;
        let world = Self { caller, number: 0 };
        insert(app, world.hidden_objects()).await;
        made_again(&*app.store).await;
        world
    }

    /// Other hidden objects, with other values.
    pub(super) async fn change_what_is_hidden(&mut self, app: &TestApp) {
        self.number += 1;
        let filter = Filter::one_of("type_id", HIDDEN.map(Bson::Int64).to_vec());
        app.store.commit(Unit::of(Change::DeleteMany { collection: OBJECTS, filter })).await.expect("they are removed");
        insert(app, self.hidden_objects()).await;
        made_again(&*app.store).await;
    }

    pub(super) async fn ask(&self, app: &TestApp, asked: &Asked) -> Comparable {
        let mut request = self.caller.request(app, asked.method.clone(), &asked.path);
        for (name, value) in &asked.headers {
            request = request.header(*name, value);
        }
        request = match &asked.body {
            None => request,
            Some(body) => request.body(body.clone()),
        };
        let answer = Comparable::of(&send(request.query(&asked.parameters)).await);
        assert!(!asked.changes_nothing() || answer.status() >= 300, "{asked:?} was to be refused: {answer:?}");
        answer
    }

    pub(super) fn caller(&self) -> &Person {
        &self.caller
    }

    /// In every world some objects of each hidden type exist, and one of each refers to an object that is seen.
    fn hidden_objects(&self) -> Vec<Document> {
        let exists = |id: i64| (id + self.number) % 3 != 0 || [101, 104].contains(&id);
        UNSEEN.filter(|id| exists(*id)).map(|id| hidden(id, self.number)).collect()
    }
}

async fn insert(app: &TestApp, documents: Vec<Document>) {
    let insert = |document: &Document| Change::Insert {
        collection: OBJECTS,
        document: RawDocumentBuf::try_from(document).expect("it is BSON"),
    };
    let changes = documents.iter().map(insert).collect();
    app.store.commit(Unit { changes, ..Unit::default() }).await.expect("the objects can be stored");
}

fn object(id: i64, type_id: i64, views: i64, fields: Vec<(&str, Bson)>) -> Document {
    let fields: Vec<Document> = fields.into_iter().map(|(name, value)| doc! { "name": name, "value": value }).collect();
    doc! {
        "_id": id, "public_id": id, "type_id": type_id, "author_id": 1_i64, "editor_id": Bson::Null,
        "active": true, "version": "1.0.0", "views": views, "fields": fields,
        "creation_time": DateTime::from_millis(1_700_000_000_000), "last_edit_time": Bson::Null,
    }
}

fn seen(id: i64) -> Document {
    let fields = vec![
        ("name", Bson::from(format!("seen-{id}"))),
        ("size", Bson::Int64(id * 10)),
        // The last two refer to nothing that is seen.
        ("to_open", if id < 7 { Bson::Int64(id % 3 + 1) } else { Bson::Int64(99 + id) }),
        ("to_hidden", Bson::Int64(100 + id)),
    ];
    object(id, OPEN, id, fields)
}

fn hidden(id: i64, world: i64) -> Document {
    let name = if (id + world) % 2 == 0 { format!("secret-{}", "a".repeat(28)) } else { format!("other-{world}") };
    let fields = vec![
        ("name", Bson::from(name)),
        ("size", if (id + world) % 4 == 0 { Bson::from("much") } else { Bson::Int64(world * 1000 + id) }),
        ("to_open", Bson::Int64(if [101, 104].contains(&id) { 1 } else { id - 100 })),
    ];
    let type_id = if id < 104 { HIDDEN[0] } else { HIDDEN[1] };
    object(id, type_id, (id * 7 + world * 13) % 50, fields)
}
