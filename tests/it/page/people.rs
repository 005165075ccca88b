//! Users and groups: who there is, a new user, and the change of one.

use serde_json::json;

use super::browser::Browser;
use crate::support::app::on_each_store;

on_each_store! {
    async fn a_user_is_made_changed_and_removed(app) {
        let mut browser = Browser::of_admin(app).await;
        let path = browser.page("/ui/").await.link("Users and groups");
        let page = browser.page(&path).await;
        page.shows("1 user").shows("admin").shows("New user").shows("base.*");
        let form = page.form(&path).with("user_name", "eve").with("last_name", "<b>Adler").with("active", "true");
        let refused = browser.submit(&form.clone().with("password", "short")).await;
        assert_eq!(refused.status, 400);
        refused.shows("password:").hides("value=\"short\"");
        assert_eq!(refused.form(&path).get("last_name"), "<b>Adler");
        let page = browser.submitted(&form.with("password", "a good password 1")).await;
        page.shows("2 users").shows("<b>Adler").shows("User");
        Browser::of(app, "eve", "a good password 1").await;

        let one = page.link("eve");
        let form = browser.page(&one).await.form(&one);
        assert_eq!(form.get("user_name"), "eve");
        browser.submitted(&form.clone().with("email", "eve@example.com").with("password", "another good one 2")).await.shows("eve@example.com");
        Browser::of(app, "eve", "another good one 2").await;
        let late = browser.submit(&form.with("first_name", "Eve")).await;
        assert_eq!(late.status, 412, "{}", late.text());
        let form = browser.page(&one).await.form(&one).without("active");
        browser.submitted(&form).await.shows("eve@example.com Users No");
        let form = browser.page(&one).await.form(&one).with("do", "delete");
        assert_eq!(browser.submit(&form).await.status, 400);
        browser.page("/ui/people/?name=EV").await.shows("1 user").hides("/ui/people/1\"");
        browser.submitted(&form.with("sure", "eve")).await.shows("1 user").hides("eve@example.com");
        assert_eq!(browser.get(&one).await.status, 404);
    }

    async fn nobody_gives_more_rights_than_they_have(app) {
        let rights = json!(["base.user-management.user.*", "base.user-management.group.view"]);
        let group = app.created("/groups/", &json!({"name": "clerks", "label": "Clerks", "rights": rights})).await;
        app.created("/users/", &json!({"user_name": "eve", "password": "a good password 1", "group_id": group})).await;
        let mut browser = Browser::of(app, "eve", "a good password 1").await;
        let form = browser.page("/ui/people/").await.form("/ui/people/").with("user_name", "mallory");
        let refused = browser.submit(&form.with("password", "a good password 2").with("group_id", "1")).await;
        assert_eq!(refused.status, 403, "{}", refused.text());
        let own = browser.page("/ui/people/1").await.form("/ui/people/1");
        assert_eq!(browser.submit(&own.clone().with("password", "taken over 123")).await.status, 403);
        browser.submit(&own.with("do", "delete").with("sure", "admin")).await.shows("user 1 cannot be deleted");
        Browser::of_admin(app).await;
    }
}
