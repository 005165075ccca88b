//! The settings: where they come from, what is refused, and the table of them in `docs/settings.md`.

use std::fs;
use std::path::Path;

use inventory_service::settings::{Overrides, Settings, reference};
use tempfile::TempDir;

/// Half of a key that may sign tokens.
const KEY: &str = "a-key-of-a-trial-only";
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/settings.md");
const BEGIN: &str = "<!-- settings: written by a test, INVENTORY_WRITE_DOCS=1 cargo test --test it settings:: -->\n";
const END: &str = "<!-- end of settings -->\n";

/// What a process in this directory gets.
fn load(directory: &Path, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Settings, String> {
    let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let overrides = Overrides { values: owned(flags) };
    Settings::from_sources(directory, &owned(variables), &overrides).map_err(|error| error.to_string())
}

fn refused(variables: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    let directory = TempDir::new().expect("a temporary directory");
    load(directory.path(), variables, flags).expect_err("the settings are refused")
}

/// A directory with these files below `config`.
fn configured(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().expect("a temporary directory");
    fs::create_dir(directory.path().join("config")).expect("a directory");
    for (name, content) in files {
        fs::write(directory.path().join("config").join(name), content).expect("a file");
    }
    directory
}

#[test]
fn later_sources_win() {
    let directory = configured(&[
        ("base.toml", "[server]\nport = 1\nworkers = 1\nhost = \"base\"\n[api]\nmax_limit = 1\n"),
        ("blue.toml", "[server]\nport = 2\nworkers = 2\nhost = \"blue\"\n"),
    ]);
    let variables =
        [("INVENTORY_ENVIRONMENT", "blue"), ("INVENTORY__SERVER__PORT", "3"), ("INVENTORY__SERVER__WORKERS", "3")];
    let settings = load(directory.path(), &variables, &[("server.port", "4")]).expect("settings");
    assert_eq!((settings.server.port, settings.server.workers), (4, 3));
    assert_eq!((settings.server.host.as_str(), settings.api.max_limit), ("blue", 1));
}

#[test]
fn the_later_of_two_flags_wins_also_where_it_is_empty() {
    let flags = [("auth.signing_key", "0123456789abcdef0123456789abcdef"), ("auth.signing_key", "")];
    let directory = TempDir::new().expect("a temporary directory");
    assert_eq!(load(directory.path(), &[], &flags).expect("settings").auth.signing_key, None);
    let told = refused(&[], &[("store.uri", "embedded:w"), ("store.uri", "")]);
    assert!(told.contains("store.uri"), "{told}");
}

#[test]
fn what_is_missing_is_not_the_fault_of_a_file_that_leaves_it_empty() {
    let directory = configured(&[("base.toml", "[server.tls]\ncertificate = \"\"\nkey = \"\"\n")]);
    let refusal = load(directory.path(), &[], &[("server.tls.certificate", "cert.pem")]);
    let refusal = refusal.expect_err("the settings are refused");
    assert_eq!(refusal, "server.tls.key: is needed, because server.tls.certificate is given");
}

#[test]
fn an_unknown_key_is_refused_wherever_it_stands() {
    let directory = configured(&[("local.toml", "[server]\nprot = 1\n[stoer]\nuri = \"embedded:x\"\n")]);
    let refusal = load(directory.path(), &[("INVENTORY__LOG__LEVLE", "info")], &[("api.max_limits", "1")]);
    let refusal = refusal.expect_err("the settings are refused");
    let file = directory.path().join("config/local.toml");
    let lines: Vec<&str> = refusal.lines().collect();
    assert_eq!(lines.len(), 4, "{refusal}");
    for expected in [
        &format!("{}: there is no setting server.prot; did you mean server.port?", file.display()),
        &format!("{}: there is no setting stoer.uri; did you mean store.uri?", file.display()),
        "the variable INVENTORY__LOG__LEVLE: there is no setting log.levle; did you mean log.level?",
        "--set api.max_limits: there is no setting api.max_limits; did you mean api.max_limit?",
    ] {
        assert!(lines.contains(&expected), "{expected} is not in {refusal}");
    }
}

#[test]
fn a_misspelt_level_of_the_log_is_refused() {
    assert!(refused(&[], &[("log.level", "inof")]).starts_with("log.level: \"inof\" is no level"));
    assert!(refused(&[], &[("log.level", "info,actix_server=wran")]).contains("\"wran\" is no level"));
    let directory = TempDir::new().expect("a temporary directory");
    assert!(load(directory.path(), &[], &[("log.level", "inventory_service=debug/list")]).is_ok());
}

#[test]
fn a_file_that_cannot_be_read_as_settings_is_named() {
    let directory = configured(&[("local.toml", "[server\nport = 1\n")]);
    let refusal = load(directory.path(), &[], &[]).expect_err("the file is no TOML");
    let file = directory.path().join("config/local.toml");
    assert!(refusal.starts_with(&format!("{} is not TOML: ", file.display())), "{refusal}");
    assert!(refusal.contains("line 1"), "{refusal}");
    fs::remove_file(&file).expect("the file is gone");
    fs::create_dir(&file).expect("a directory in its place");
    let refusal = load(directory.path(), &[], &[]).expect_err("the file is a directory");
    assert!(refusal.starts_with(&format!("{} cannot be read: ", file.display())), "{refusal}");
}

#[test]
fn a_list_in_the_place_of_a_text_names_its_key_and_its_source() {
    let directory = configured(&[("local.toml", "[server]\nhost = [\"127.0.0.1\"]\n")]);
    let refusal = load(directory.path(), &[], &[]).expect_err("the host is a list");
    let file = directory.path().join("config/local.toml");
    assert!(
        refusal.starts_with(&format!("{}: server.host cannot be a list; write a text", file.display())),
        "{refusal}"
    );
}

#[test]
fn a_setting_that_does_nothing_without_another_asks_for_it() {
    assert_eq!(
        refused(&[], &[("server.rate_limit.user_burst", "5")]),
        "server.rate_limit.user_per_minute: is needed, because server.rate_limit.user_burst is given"
    );
    assert_eq!(
        refused(&[], &[("server.rate_limit.address_burst", "5")]),
        "server.rate_limit.address_per_minute: is needed, because server.rate_limit.address_burst is given"
    );
    assert_eq!(
        refused(&[], &[("auth.oidc.groups", "/admins = admin")]),
        "auth.oidc.issuer: is needed, because auth.oidc.groups is given"
    );
}

#[test]
fn the_file_of_an_environment_that_is_named_has_to_be_there() {
    let refusal = refused(&[("INVENTORY_ENVIRONMENT", "prodution")], &[]);
    assert_eq!(refusal, "INVENTORY_ENVIRONMENT asks for config/prodution.toml, which is not there");
}

#[test]
fn a_misspelt_name_of_the_environment_is_noticed() {
    let refusal = refused(&[("INVENTORY_ENVIROMENT", "production")], &[]);
    assert_eq!(refusal, "the variable INVENTORY_ENVIROMENT: write INVENTORY_ENVIRONMENT");
}

#[test]
fn an_address_without_a_port_and_one_that_is_given_twice_are_refused() {
    let refusal = refused(&[], &[("metrics.address", "127.0.0.1")]);
    assert_eq!(refusal, "metrics.address: must be an address and a port, for instance 127.0.0.1:9090");
    let refusal = refused(&[], &[("wire.address", "27017")]);
    assert_eq!(refusal, "wire.address: must be an address and a port, for instance 127.0.0.1:27017");
    let twice = [("server.host", "127.0.0.1"), ("server.port", "4100"), ("metrics.address", "127.0.0.1:4100")];
    let refusal = refused(&[], &twice);
    assert_eq!(refusal, "metrics.address: is the address of server.port too; give one of them another port");
}

#[test]
fn a_variable_with_single_underscores_is_noticed() {
    assert_eq!(
        refused(&[("INVENTORY_STORE_URI", "embedded:x"), ("INVENTORY_AUTH__SIGNING_KEY_FILE", "x")], &[]),
        "the variable INVENTORY_STORE_URI: write INVENTORY__STORE__URI\n\
         the variable INVENTORY_AUTH__SIGNING_KEY_FILE: write INVENTORY__AUTH__SIGNING_KEY_FILE"
    );
}

#[test]
fn a_value_of_the_wrong_kind_names_its_key_and_its_source() {
    let refusal = refused(&[("INVENTORY__SERVER__PORT", "many")], &[]);
    let whole = "server.port cannot be \"many\"; write a whole number, 0 or more";
    assert_eq!(refusal, format!("the variable INVENTORY__SERVER__PORT: {whole}"));
    let directory = configured(&[("local.toml", "[server]\nport = 99999\n")]);
    let refusal = load(directory.path(), &[], &[]).expect_err("the port is too large");
    let file = directory.path().join("config/local.toml");
    let ports = "server.port cannot be \"99999\"; write a whole number from 0 to 65535";
    assert_eq!(refusal, format!("{}: {ports}", file.display()));
    assert_eq!(
        refused(&[], &[("server.compression.enabled", "maybe")]),
        "--set server.compression.enabled: server.compression.enabled cannot be \"maybe\"; write true or false"
    );
}

#[test]
fn a_number_is_neither_rounded_nor_made_of_a_word_in_any_source() {
    for (line, key, shown) in [
        ("[server]\nport = 22051.5\n", "server.port", "22051.5"),
        ("[server]\nport = true\n", "server.port", "true"),
        ("[history]\nkeep_days = true\n", "history.keep_days", "true"),
        ("[server]\nport = \"on\"\n", "server.port", "on"),
    ] {
        let directory = configured(&[("local.toml", line)]);
        let refusal = load(directory.path(), &[], &[]).expect_err("it is no whole number");
        let file = directory.path().join("config/local.toml");
        let told = format!("{}: {key} cannot be \"{shown}\"; write a whole number", file.display());
        assert!(refusal.starts_with(&told), "{refusal}");
    }
    let told = "the variable INVENTORY__SERVER__PORT: server.port cannot be \"yes\"; write a whole number";
    assert!(refused(&[("INVENTORY__SERVER__PORT", "yes")], &[]).starts_with(told));
    let directory = configured(&[("local.toml", "[server]\nport = \"9000\"\n[server.compression]\nenabled = false\n")]);
    assert_eq!(load(directory.path(), &[], &[]).expect("settings").server.port, 9000);
}

#[test]
fn a_section_that_does_not_exist_is_refused_also_where_it_is_empty() {
    for (text, told) in [
        ("[foo]\n", "there is no setting foo; the sections are server, "),
        ("[server.trusted_proxies]\n", "server.trusted_proxies cannot be a table; write a text"),
        (
            "[auth.oidc]\ngroups = { admins = \"admin\" }\n",
            "auth.oidc.groups cannot be a table; write a text, for instance \"admins = admin; ",
        ),
    ] {
        let directory = configured(&[("local.toml", text)]);
        let refusal = load(directory.path(), &[], &[]).expect_err("there is no such section");
        let file = directory.path().join("config/local.toml");
        assert!(refusal.starts_with(&format!("{}: {told}", file.display())), "{refusal}");
    }
    let directory = configured(&[("local.toml", "[server]\n[server.tls]\n[auth]\n")]);
    assert!(load(directory.path(), &[], &[]).is_ok());
}

#[test]
fn the_files_that_were_read_are_named_in_full() {
    let directory = configured(&[("base.toml", "[server]\nport = 1\n")]);
    let (read, missing) = (directory.path().join("config/base.toml"), directory.path().join("config/local.toml"));
    let settings = load(&directory.path().join("./."), &[], &[]).expect("settings");
    assert_eq!((&settings.files.read, &settings.files.missing), (&vec![read.clone()], &vec![missing.clone()]));
    assert_eq!(settings.files.to_string(), format!("read from {}", read.display()));
    fs::remove_file(&read).expect("the file is gone");
    let settings = load(directory.path(), &[], &[]).expect("settings");
    let told = format!("no settings file was read, there is no {} and no {}", read.display(), missing.display());
    assert_eq!(settings.files.to_string(), told);
}

#[test]
fn a_value_that_is_none_of_the_choices_gets_them() {
    assert_eq!(
        refused(&[("INVENTORY__LOG__FORMAT", "xml")], &[]),
        "the variable INVENTORY__LOG__FORMAT: log.format cannot be \"xml\"; write text or json"
    );
    assert_eq!(
        refused(&[("INVENTORY__API__UNKNOWN_PARAMETERS", "warn")], &[]),
        "the variable INVENTORY__API__UNKNOWN_PARAMETERS: api.unknown_parameters cannot be \"warn\"; write refuse or ignore"
    );
    assert_eq!(
        refused(&[("INVENTORY__API__COMPATIBILITY", "datagerry")], &[]),
        "the variable INVENTORY__API__COMPATIBILITY: api.compatibility cannot be \"datagerry\"; write none or datagerry-1.7"
    );
    assert_eq!(
        refused(&[("INVENTORY__LOG__LEVEL", "loud")], &[]),
        "the variable INVENTORY__LOG__LEVEL: log.level: \"loud\" is no level; write error, warn, info, debug, trace or off"
    );
    let durability = refused(&[("INVENTORY__STORE__DURABILITY", "foo")], &[]);
    let choices = "the variable INVENTORY__STORE__DURABILITY: there is no setting store.durability; store has uri, ";
    assert!(durability.starts_with(choices), "{durability}");
}

#[test]
fn a_value_out_of_its_range_names_the_file_that_has_it() {
    let directory = configured(&[("local.toml", "[api]\nmax_limit = 0\n")]);
    let refusal = load(directory.path(), &[], &[]).expect_err("the limit is too small");
    let file = directory.path().join("config/local.toml");
    assert_eq!(refusal, format!("{}: api.max_limit: must be at least 1", file.display()));
    // What was typed on the command line is in sight.
    for key in [
        "api.max_limit", "query.max_depth", "query.max_nodes", "query.max_in_items", "query.max_regex_chars",
        "store.connect_timeout_ms",
    ] {
        assert_eq!(refused(&[], &[(key, "0")]), format!("{key}: must be at least 1"));
    }
    let with_query = refused(&[], &[("api.base_url", "https://inventory.example.org?a")]);
    assert!(with_query.starts_with("api.base_url: must end with its path"), "{with_query}");
    assert!(!refused(&[("INVENTORY__STORE__URI", "db:hush")], &[]).contains("hush"));
}

#[test]
fn an_issuer_of_tokens_is_refused_with_its_place_and_the_remedy() {
    let issuer = ("INVENTORY__AUTH__OIDC__ISSUER", "https://login.example.org");
    assert_eq!(refused(&[issuer], &[]), "auth.oidc.audience: is needed, because auth.oidc.issuer is given");
    assert_eq!(
        refused(&[("INVENTORY__AUTH__OIDC__ISSUER", "http://login.example.org")], &[]),
        "the variable INVENTORY__AUTH__OIDC__ISSUER: auth.oidc.issuer: must start with https://; http:// is for an issuer \
         on this machine alone"
    );
    let audience = ("INVENTORY__AUTH__OIDC__AUDIENCE", "inventory");
    let groups = ("INVENTORY__AUTH__OIDC__GROUPS", "admins");
    assert_eq!(
        refused(&[issuer, audience, groups], &[]),
        "the variable INVENTORY__AUTH__OIDC__GROUPS: auth.oidc.groups: \"admins\" has no equals sign between a value of \
         the claim and a group"
    );
    let own = [("auth.oidc.issuer", "https://x.example"), ("auth.issuer", "https://x.example")];
    assert!(refused(&[], &own).starts_with("auth.oidc.issuer: must not be auth.issuer"));
}

#[test]
fn compatibility_turns_on_what_its_clients_need() {
    let directory = TempDir::new().expect("a temporary directory");
    let load = |flags: &[(&str, &str)]| load(directory.path(), &[], flags).expect("settings");
    let settings = load(&[]);
    assert_eq!((settings.auth.basic, settings.api.max_limit, settings.store.leads_datagerry), (false, 10_000, false));
    let settings = load(&[("api.compatibility", "datagerry-1.7")]);
    assert_eq!((settings.auth.basic, settings.api.max_limit, settings.store.leads_datagerry), (true, 100_000, true));
    let settings = load(&[("api.compatibility", "datagerry-1.7"), ("api.max_limit", "200000")]);
    assert_eq!(settings.api.max_limit, 200_000);
}

#[test]
fn passwords_have_a_character_at_least() {
    let wrong = "auth.min_password_length: must be between 1 and 1024";
    assert_eq!(refused(&[], &[("auth.min_password_length", "0")]), wrong);
    assert_eq!(refused(&[], &[("auth.min_password_length", "1025")]), wrong);
    let short = [("auth.min_password_length", "4"), ("auth.initial_admin_password", "abc")];
    assert_eq!(refused(&[], &short), "auth.initial_admin_password: must have at least 4 characters");
}

#[test]
fn a_secret_can_stand_in_a_file() {
    let directory = configured(&[("uri", "mongodb://app:secret@db/inventory\n"), ("key", &KEY.repeat(2))]);
    let path = |name: &str| directory.path().join("config").join(name).display().to_string();
    fs::write(directory.path().join("config/local.toml"), format!("[auth]\nsigning_key_file = \"{}\"\n", path("key")))
        .expect("a file");
    let settings = load(directory.path(), &[("INVENTORY__STORE__URI_FILE", &path("uri"))], &[]).expect("settings");
    assert_eq!(settings.store.uri.expose(), "mongodb://app:secret@db/inventory");
    assert_eq!(settings.auth.signing_key.expect("a key").expose(), KEY.repeat(2));
}

#[test]
fn a_later_source_wins_over_the_file_of_a_secret() {
    let directory = configured(&[("uri", "embedded:one")]);
    let path = directory.path().join("config/uri").display().to_string();
    let variables = [("INVENTORY__STORE__URI_FILE", path.as_str()), ("INVENTORY__AUTH__SIGNING_KEY_FILE", "")];
    let settings = load(directory.path(), &variables, &[("store.uri", "embedded:two")]).expect("settings");
    assert_eq!(settings.store.uri.expose(), "embedded:two");
    assert_eq!(settings.auth.signing_key, None, "an empty name is none");
}

#[test]
fn an_empty_variable_is_nothing_beside_the_file_of_its_secret() {
    let directory = configured(&[("uri", "embedded:one"), ("token", &"t".repeat(16))]);
    let path = |name: &str| directory.path().join("config").join(name).display().to_string();
    let (uri, token) = (path("uri"), path("token"));
    // In either order, since the order of variables means nothing.
    let variables = [
        ("INVENTORY__STORE__URI", ""),
        ("INVENTORY__STORE__URI_FILE", uri.as_str()),
        ("INVENTORY__METRICS__TOKEN_FILE", token.as_str()),
        ("INVENTORY__METRICS__TOKEN", ""),
    ];
    let settings = load(directory.path(), &variables, &[]).expect("settings");
    assert_eq!(settings.store.uri.expose(), "embedded:one");
    assert_eq!(settings.metrics.token.expose(), "t".repeat(16));
}

#[test]
fn a_refused_file_of_a_secret_is_named_with_its_variable_and_without_what_it_holds() {
    let directory = configured(&[]);
    let file = directory.path().join("config/key");
    fs::write(&file, b"hush\xff").expect("a file");
    let path = file.display().to_string();
    let refusal = refused(&[("INVENTORY__AUTH__SIGNING_KEY_FILE", &path)], &[]);
    let begin = format!("the variable INVENTORY__AUTH__SIGNING_KEY_FILE: auth.signing_key_file: {path} cannot be read");
    assert!(refusal.starts_with(&begin) && !refusal.contains("hush"), "{refusal}");
    fs::write(&file, "hush").expect("a file");
    let refusal = refused(&[("INVENTORY__AUTH__SIGNING_KEY_FILE", &path)], &[]);
    assert!(refusal.contains("auth.signing_key") && !refusal.contains("hush"), "{refusal}");
}

#[test]
fn a_secret_that_cannot_be_read_is_refused() {
    let directory = configured(&[("empty", "\n")]);
    let empty = directory.path().join("config/empty").display().to_string();
    let refusal =
        refused(&[("INVENTORY__STORE__URI_FILE", &empty), ("INVENTORY__AUTH__SIGNING_KEY_FILE", "/no/x")], &[]);
    assert!(refusal.contains(&format!("store.uri_file: {empty} is empty")), "{refusal}");
    assert!(refusal.contains("auth.signing_key_file: /no/x cannot be read: No such file"), "{refusal}");
    let twice = [("INVENTORY__STORE__URI_FILE", empty.as_str()), ("INVENTORY__STORE__URI", "embedded:x")];
    assert!(refused(&twice, &[]).contains("store.uri and store.uri_file are both given; keep one of them"));
    let no_secret = refused(&[("INVENTORY__SERVER__HOST_FILE", &empty)], &[]);
    assert!(no_secret.contains("there is no setting server.host_file; did you mean server.host?"), "{no_secret}");
}

#[test]
fn an_empty_secret_means_none() {
    let settings = Settings::defaults(&[("auth.signing_key", ""), ("auth.initial_admin_password", "")]);
    let auth = settings.expect("settings").auth;
    assert_eq!((auth.signing_key, auth.initial_admin_password), (None, None));
}

#[test]
fn settings_do_not_print_the_password_of_the_store() {
    let settings = Settings::defaults(&[("store.uri", "mongodb://app:hush@db/inventory")]).expect("settings");
    assert!(!format!("{settings:?}").contains("hush"));
}

#[test]
fn the_table_of_settings_in_the_documents_is_the_present_one() {
    let document = fs::read_to_string(DOCUMENT).expect("docs/settings.md");
    let (before, rest) = document.split_once(BEGIN).expect("the beginning of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let wanted = format!("{before}{BEGIN}{}{END}{after}", reference::table());
    if std::env::var_os("INVENTORY_WRITE_DOCS").is_some() {
        fs::write(DOCUMENT, &wanted).expect("docs/settings.md can be written");
    } else {
        assert!(document == wanted, "docs/settings.md is behind config/base.toml; run with INVENTORY_WRITE_DOCS=1");
    }
}

#[test]
fn a_database_of_mongodb_itself_is_no_place_for_the_store() {
    for (uri, name) in [
        ("mongodb://127.0.0.1/admin", "admin"),
        ("mongodb://app:h%2Fush@one:27017,two:27018/local?replicaSet=rs0", "local"),
        ("mongodb+srv://db.example.org/config", "config"),
        ("mongodb://127.0.0.1/%61dmin", "admin"),
        ("mongodb://127.0.0.1/Admin", "Admin"),
    ] {
        let told = refused(&[("INVENTORY__STORE__URI", uri)], &[]);
        let expected = format!(
            "the variable INVENTORY__STORE__URI: store.uri: names the database {name}, which is MongoDB's own; name \
             another one, for instance /inventory, and where {name} was meant as the place of users, append \
             ?authSource={name}"
        );
        assert_eq!(told, expected, "{uri}");
    }
    for uri in ["mongodb://127.0.0.1/?authSource=admin", "mongodb://admin:local@config/inventory", "mongodb://admin"] {
        assert!(Settings::defaults(&[("store.uri", uri)]).is_ok(), "{uri}");
    }
}

#[test]
fn values_that_no_machine_can_use_are_refused() {
    for (key, value, expected) in [
        ("server.json_mib", "16777216", "must be at most 65536 MiB, that is 64 GiB"),
        ("server.json_mib", "99999999999", "must be at most 65536 MiB, that is 64 GiB"),
        ("store.cache_mib", "67108864", "must be at most 4194304 MiB, that is 4 TiB"),
        ("admission.memory_mib", "201326592", "must be at most 4194304 MiB, that is 4 TiB"),
        ("server.workers", "513", "must be at most 512 threads"),
        ("server.request_timeout_s", "9223372036854775807", "must be at most 31536000 seconds, a year"),
        ("store.start_wait_s", "9223372036854775807", "must be at most 31536000 seconds, a year"),
        ("api.transfer_timeout_s", "9223372036854775807", "must be at most 31536000 seconds, a year"),
        ("query.max_time_ms", "2147483648", "must be at most 86400000 milliseconds, a day"),
        ("store.write_timeout_ms", "2147483648", "must be at most 86400000 milliseconds, a day"),
        ("store.write_timeout_ms", "0", "must be at least 1"),
        ("store.connect_timeout_ms", "9223372036854775807", "must be at most 86400000 milliseconds, a day"),
        ("admission.wait_ms", "9223372036854775807", "must be at most 86400000 milliseconds, a day"),
        ("store.max_connections", "4294967295", "must be at most 100000 connections"),
        ("store.min_connections", "101", "must be at most store.max_connections, which is 100"),
    ] {
        assert_eq!(refused(&[], &[(key, value)]), format!("{key}: {expected}"));
    }
}

#[test]
fn networks_of_webhooks_are_networks_and_their_time_is_bounded() {
    let wrong = "webhooks.allowed_networks: 10.0.0.0/99 is neither an IP address nor a network such as 10.0.0.0/8";
    assert_eq!(refused(&[], &[("webhooks.allowed_networks", "10.0.0.1, 10.0.0.0/99")]), wrong);
    let wrong = "webhooks.timeout_ms: must be from 100 to 30000";
    assert_eq!(refused(&[], &[("webhooks.timeout_ms", "99")]), wrong);
    assert_eq!(refused(&[], &[("webhooks.timeout_ms", "30001")]), wrong);
    let allowed = Settings::defaults(&[("webhooks.allowed_networks", "10.0.0.1, fd00::/8")]).expect("settings");
    assert_eq!(allowed.webhooks.networks().expect("networks").len(), 2);
}
