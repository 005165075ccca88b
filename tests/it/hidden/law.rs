//! The law: two stores that differ only in objects which a caller may not read give that caller equal answers. Status, headers and
//! body are compared, apart from times and the ids of requests. The requests are generated; none of them changes anything.
//!
//! `INVENTORY_HIDDEN_CASES` says how many requests (400), `INVENTORY_HIDDEN_SEED` which ones.

use super::answers::Comparable;
use super::requests::{Asked, about, generated, walked};
use super::world::{UNSEEN, World};
use crate::differential::number;
use crate::support::app::{TestApp, on_each_store};

/// Asks everything in one world, then in another one, and compares.
async fn hold_the_law(app: &TestApp, requests: &[Asked]) {
    let mut world = World::new(app).await;
    let mut answers: Vec<Comparable> = Vec::with_capacity(requests.len());
    for asked in requests {
        answers.push(world.ask(app, asked).await);
    }
    for _ in 0..2 {
        world.change_what_is_hidden(app).await;
        for (asked, before) in requests.iter().zip(&answers) {
            let after = world.ask(app, asked).await;
            assert_eq!(before, &after, "hidden objects show in the answer to {asked:?}");
        }
    }
}

on_each_store! {
    async fn no_route_tells_of_hidden_objects(app) {
        hold_the_law(app, &walked()).await;
    }

    async fn a_hidden_id_is_an_id_of_nothing(app) {
        let (world, nothing) = (World::new(app).await, 999);
        for hidden in UNSEEN.filter(|id| [101, 104].contains(id)) {
            assert_eq!(app.get(&format!("/objects/{hidden}")).await.status, 200);
            for (of_hidden, of_nothing) in about(hidden).iter().zip(&about(nothing)) {
                let (one, other) = (world.ask(app, of_hidden).await, world.ask(app, of_nothing).await);
                assert_eq!(one.without(hidden), other.without(nothing), "{of_hidden:?}");
            }
        }
    }

    async fn no_question_tells_of_hidden_objects(app) {
        let cases = number("INVENTORY_HIDDEN_CASES").unwrap_or(400);
        let seed = number("INVENTORY_HIDDEN_SEED").unwrap_or(1);
        println!("{cases} questions, seed {seed}");
        hold_the_law(app, &generated(seed, cases)).await;
    }
}
