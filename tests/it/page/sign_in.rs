//! Signing in, coming back after a session has ended, signing out.

use reqwest::Method;
use serde_json::json;

use super::browser::Browser;
use crate::support::app::{ADMIN_PASSWORD, on_each_store, send};

on_each_store! {
    async fn who_signs_in_gets_a_cookie_that_scripts_and_other_sites_do_not_get(app) {
        let mut browser = Browser::new(app);
        let page = browser.page("/ui/sign-in").await;
        page.shows("User name").shows("Password").shows("Sign in");
        let signed_in = browser.sign_in("admin", ADMIN_PASSWORD, "/ui/changes/").await;
        assert_eq!((signed_in.status.as_u16(), signed_in.location()), (303, "/ui/changes/".to_owned()));
        let cookie = signed_in.header("set-cookie");
        assert!(cookie.ends_with("; Path=/ui/; HttpOnly; SameSite=Strict"), "{cookie}");
        browser.page("/ui/").await.shows("admin").shows("Sign out");
    }

    async fn a_wrong_password_and_an_unknown_name_look_the_same(app) {
        let mut browser = Browser::new(app);
        for (name, password) in [("admin", "wrong"), ("nobody", ADMIN_PASSWORD), ("", ""), ("admin", "")] {
            let page = browser.sign_in(name, password, "/ui/").await;
            assert_eq!(page.status, 401);
            page.shows("The user name or the password is wrong.");
            assert!(browser.cookie.is_none());
        }
    }

    async fn without_a_session_a_page_leads_to_the_sign_in_and_back(app) {
        let type_id = app.create_type("server", &[("hostname", "text")]).await;
        let mut browser = Browser::new(app);
        let wanted = format!("/ui/types/{type_id}?has.hostname=web&sort=-hostname");
        let page = browser.get(&wanted).await;
        assert_eq!(page.status, 303);
        let form = browser.page(&page.location()).await.shows("Your session has ended").form("/ui/sign-in");
        assert_eq!(form.get("next"), wanted);
        browser.submitted(&form.with("user_name", "admin").with("password", ADMIN_PASSWORD)).await.shows("0 objects found");
    }

    async fn a_sign_out_ends_the_session_also_for_who_kept_the_cookie(app) {
        let mut browser = Browser::of_admin(app).await;
        let kept = browser.cookie.clone();
        let form = browser.page("/ui/").await.form("/ui/sign-out");
        let page = browser.submit(&form).await;
        assert_eq!((page.status.as_u16(), page.location()), (303, "/ui/sign-in".to_owned()));
        assert!(browser.cookie.is_none());
        browser.cookie = kept;
        assert_eq!(browser.get("/ui/").await.status, 303);
    }

    async fn a_new_password_ends_the_sessions_of_the_user(app) {
        let body = json!({"user_name": "ada", "password": "first password", "group_id": 1});
        let id = app.created("/users/", &body).await;
        let mut browser = Browser::of(app, "ada", "first password").await;
        browser.page("/ui/").await;
        let changed = app.patch(&format!("/users/{id}/password"), &json!({"password": "second password"})).await;
        assert!(changed.status.is_success(), "{}", changed.text);
        assert_eq!(browser.get("/ui/").await.status, 303);
    }

    async fn what_was_typed_outlives_the_session(app) {
        let type_id = app.create_type("server", &[("hostname", "text"), ("notes", "textarea")]).await;
        let id = app.create_object(type_id, &json!({"hostname": "web-1"})).await;
        let mut browser = Browser::of_admin(app).await;
        let action = format!("/ui/objects/{id}/edit");
        let form = browser.page(&action).await.form(&action).with("f.notes", "a\r\n<b>b</b>");
        browser.cookie = None;
        let page = browser.submit(&form).await;
        assert_eq!(page.status, 401);
        let form = page.shows("What you typed is kept").form("/ui/sign-in");
        let page = browser.submit(&form.with("user_name", "admin").with("password", ADMIN_PASSWORD)).await;
        assert_eq!(page.status, 200, "{}", page.html);
        let form = page.shows("What you typed was not saved yet").form(&action);
        browser.submitted(&form).await.shows("Saved.").shows("a <b>b</b>");
    }

    async fn a_link_from_another_site_works_for_who_is_signed_in(app) {
        let mut browser = Browser::new(app);
        // The browser holds the cookie back.
        let page = browser.send(Method::GET, "/ui/changes/", &[("sec-fetch-site", "cross-site")], None).await;
        assert!(page.html.contains("http-equiv=\"refresh\" content=\"0;url=/ui/changes/\""), "{}", page.html);
        assert_eq!(page.link("Continue"), "/ui/changes/");
    }

    async fn a_cookie_opens_no_rest_and_a_token_opens_no_page(app) {
        let mut browser = Browser::of_admin(app).await;
        browser.page("/ui/").await;
        let cookie = browser.cookie.clone().expect("a cookie");
        let answer = send(app.anonymous(Method::GET, "/objects/").header("cookie", &cookie)).await;
        answer.error(401, "token_missing");
        let token = app.login("admin", ADMIN_PASSWORD).await;
        browser.cookie = None;
        let page = browser.send(Method::GET, "/ui/", &[("authorization", &format!("Bearer {token}"))], None).await;
        assert_eq!(page.status, 303);
        browser.cookie = Some(format!("inventory_session={token}"));
        assert_eq!(browser.get("/ui/").await.status, 303);
    }
}
