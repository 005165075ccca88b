//! With whose eyes webhooks see.

use reqwest::Method;
use serde_json::{Value, json};

use super::receiver::{Receiver, World};
use crate::api::people::Person;

const RIGHTS: [&str; 4] =
    ["base.system.view", "base.system.edit", "base.framework.object.view", "base.framework.type.view"];

/// A type that nobody but the administrators sees, and one that everybody sees.
async fn types(world: &World) -> [i64; 2] {
    let secret = world.app.create_type("safe", &[("hostname", "text")]).await;
    let acl = json!({"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}});
    assert_eq!(world.app.patch(&format!("/types/{secret}"), &json!({"acl": acl})).await.status, 202);
    [secret, world.app.create_type("server", &[("hostname", "text")]).await]
}

async fn hook_of(world: &World, person: &Person, receiver: &Receiver) -> i64 {
    let body = json!({"name": "hook", "url": receiver.url(), "resources": ["objects"]});
    let made = person.send(&world.app, Method::POST, "/webhooks/", &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()["result_id"].as_i64().expect("an id")
}

async fn named(world: &World, type_id: i64, name: &str) {
    world.app.create_object(type_id, &json!({"hostname": name})).await;
}

fn name(value: Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

with_a_receiver! {
    async fn what_is_hidden_from_the_author_is_never_sent(world) {
        let [hidden, open] = types(&world).await;
        let person = Person::with_rights(&world.app, "limited", &RIGHTS).await;
        let receiver = Receiver::start();
        hook_of(&world, &person, &receiver).await;
        for number in 0..5 {
            named(&world, hidden, &format!("secret {number}")).await;
            named(&world, open, &format!("open {number}")).await;
        }
        for number in 0..5 {
            let came = receiver.next();
            assert_eq!(name(came.data("/document/fields/0/value")), format!("open {number}"));
        }
        // The access list of today counts.
        let everybody = json!({"acl": {"activated": false, "groups": {"includes": {}}}});
        assert_eq!(world.app.patch(&format!("/types/{hidden}"), &everybody).await.status, 202);
        named(&world, hidden, "no secret").await;
        assert_eq!(name(receiver.next().data("/document/fields/0/value")), "no secret");
    }

    async fn a_webhook_of_a_locked_user_is_paused(world) {
        let [_, open] = types(&world).await;
        let person = Person::with_rights(&world.app, "leaver", &RIGHTS).await;
        let receiver = Receiver::start();
        let hook = hook_of(&world, &person, &receiver).await;
        assert_eq!(world.app.patch(&format!("/users/{}", person.id), &json!({"active": false})).await.status, 202);
        named(&world, open, "a").await;
        let paused = world.in_state(hook, "paused").await;
        assert!(paused["reason"].as_str().expect("a reason").contains("locked"), "{paused}");
        assert!(receiver.rest().is_empty());
        // The user who saves it becomes its author, and it sends again.
        let resumed = world.app.patch(&format!("/webhooks/{hook}"), &json!({"active": true})).await.json();
        assert_eq!(resumed["result"]["author_id"], 1);
        assert_eq!(name(receiver.next().data("/document/fields/0/value")), "a");
    }

    async fn a_deleted_user_leaves_no_webhook_to_the_next_one_with_his_id(world) {
        let [_, open] = types(&world).await;
        let person = Person::with_rights(&world.app, "leaver", &RIGHTS).await;
        let receiver = Receiver::start();
        let [hook, off] = [hook_of(&world, &person, &receiver).await, hook_of(&world, &person, &receiver).await];
        let path = format!("/webhooks/{off}");
        assert_eq!(person.send(&world.app, Method::PATCH, &path, &json!({"active": false})).await.status, 202);
        assert_eq!(world.app.delete(&format!("/users/{}", person.id)).await.status, 202);
        let paused = world.read(hook).await;
        assert_eq!(paused["state"], "paused", "{paused}");
        assert!(paused["reason"].as_str().expect("a reason").contains("gone"), "{paused}");
        assert_eq!(world.read(off).await["state"], "off");
        let next = json!({"public_id": person.id, "user_name": "next", "password": "a-long-password", "group_id": person.group_id});
        assert_eq!(world.app.created("/users/", &next).await, person.id);
        let other = Receiver::start();
        world.webhook(&other, json!({"resources": ["objects"]})).await;
        named(&world, open, "a").await;
        assert_eq!(name(other.next().data("/document/fields/0/value")), "a");
        assert!(receiver.rest().is_empty());
    }

    async fn a_group_that_takes_its_users_along_leaves_no_active_webhook_of_theirs(world) {
        let person = Person::with_rights(&world.app, "leaver", &RIGHTS).await;
        let hook = hook_of(&world, &person, &Receiver::start()).await;
        let gone = world.app.delete(&format!("/groups/{}?action=DELETE", person.group_id)).await;
        assert!(gone.status.is_success(), "{}", gone.text);
        assert_eq!(world.read(hook).await["state"], "paused");
    }

    async fn a_webhook_of_a_user_who_lost_the_right_is_paused(world) {
        let [_, open] = types(&world).await;
        let person = Person::with_rights(&world.app, "mover", &RIGHTS).await;
        let receivers = [Receiver::start(), Receiver::start()];
        for (receiver, kept) in receivers.iter().zip([&RIGHTS[..2], &RIGHTS[2..]]) {
            let group = format!("/groups/{}", person.group_id);
            assert_eq!(world.app.patch(&group, &json!({"rights": RIGHTS})).await.status, 202);
            let hook = hook_of(&world, &person, receiver).await;
            assert_eq!(world.app.patch(&group, &json!({"rights": kept})).await.status, 202);
            named(&world, open, "a").await;
            world.in_state(hook, "paused").await;
            assert!(receiver.rest().is_empty());
        }
    }

    async fn a_change_by_another_user_makes_it_see_with_his_eyes(world) {
        let [hidden, open] = types(&world).await;
        let receiver = Receiver::start();
        let (hook, _) = world.webhook(&receiver, json!({"resources": ["objects"]})).await;
        named(&world, hidden, "seen by the administrator").await;
        assert_eq!(name(receiver.next().data("/document/fields/0/value")), "seen by the administrator");
        let person = Person::with_rights(&world.app, "editor", &RIGHTS).await;
        let elsewhere = Receiver::start();
        let moved = json!({"url": elsewhere.url()});
        let patched = person.send(&world.app, Method::PATCH, &format!("/webhooks/{hook}"), &moved).await;
        assert_eq!(patched.json()["result"]["author_id"], person.id, "{}", patched.text);
        named(&world, hidden, "secret").await;
        named(&world, open, "open").await;
        assert_eq!(name(elsewhere.next().data("/document/fields/0/value")), "open");
        // A user who may not see objects does not get to see them this way.
        let blind = Person::with_rights(&world.app, "blind", &RIGHTS[..2]).await;
        blind.send(&world.app, Method::PATCH, &format!("/webhooks/{hook}"), &moved).await.error(403, "right_missing");
    }

    async fn a_token_makes_no_webhook_that_sees_more_than_the_token(world) {
        let receiver = Receiver::start();
        let body = json!({"name": "ci", "rights": ["base.system.edit", "base.framework.type.view"]});
        let token = world.app.post("/users/1/tokens/", &body).await.json()["token"].as_str().expect("a token").to_owned();
        let machine = Person { id: 1, group_id: 1, token };
        let asked = json!({"name": "a", "url": receiver.url(), "resources": ["objects"]});
        machine.send(&world.app, Method::POST, "/webhooks/", &asked).await.error(403, "right_missing");
        let asked = json!({"name": "a", "url": receiver.url()});
        let made = machine.send(&world.app, Method::POST, "/webhooks/", &asked).await;
        assert_eq!(made.json()["raw"]["resources"], json!(["types"]), "{}", made.text);
    }
}
