//! Rules that the Dockerfile keeps; `.ci/compose` holds docker-compose.yml to those of its own.

use std::fs;

fn dockerfile() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Dockerfile")).expect("the Dockerfile")
}

/// The instructions, each with its continued lines.
fn instructions() -> Vec<String> {
    let text = dockerfile().replace("\\\n", " ");
    let is_instruction = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    text.lines().filter(is_instruction).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn base_images_can_be_chosen_and_have_a_tag() {
    let instructions = instructions();
    let images: Vec<&String> = instructions.iter().filter(|line| line.starts_with("FROM ")).collect();
    assert_eq!(images.len(), 2);
    assert!(images.iter().all(|line| line.starts_with("FROM ${")), "{images:?}");
    for argument in instructions.iter().filter(|line| line.starts_with("ARG ") && line.contains("_IMAGE=")) {
        let (_, image) = argument.split_once('=').expect("a default");
        let (_, tag) = image.rsplit_once(':').expect("a tag");
        assert_ne!(tag, "latest");
    }
}

#[test]
fn the_image_runs_without_root_and_tells_its_health_by_itself() {
    let instructions = instructions();
    let last = |name: &str| {
        let found = instructions.iter().rev().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name}")).as_str()
    };
    assert_eq!(last("USER"), "USER 10001:10001");
    assert!(last("HEALTHCHECK").ends_with(r#"CMD ["/usr/local/bin/inventory-service", "check", "--ready"]"#));
    // Without a shell in between, which the image does not have, and which would swallow SIGTERM.
    assert!(last("ENTRYPOINT").starts_with("ENTRYPOINT [") && last("CMD").starts_with("CMD ["));
}

#[test]
fn the_image_tells_what_it_is() {
    let instructions = instructions();
    let labels = instructions.iter().find(|line| line.starts_with("LABEL ")).expect("labels");
    let version = format!("org.opencontainers.image.version=\"{}\"", env!("CARGO_PKG_VERSION"));
    let licences = format!("org.opencontainers.image.licenses=\"{}\"", env!("CARGO_PKG_LICENSE"));
    for wanted in [version.as_str(), licences.as_str(), "org.opencontainers.image.revision=\"${INVENTORY_COMMIT}\""] {
        assert!(labels.contains(wanted), "{wanted} is not in {labels}");
    }
    let last_stage = instructions.iter().rposition(|line| line.starts_with("FROM ")).expect("a stage");
    let argument = instructions.iter().rposition(|line| line == "ARG INVENTORY_COMMIT=").expect("the argument");
    assert!(argument > last_stage, "the last stage does not see arguments of the first one");
}

#[test]
fn nothing_secret_and_nothing_unneeded_gets_in() {
    let instructions = instructions();
    assert!(!instructions.iter().any(|line| line.starts_with("ADD ") || line.starts_with("COPY . ")));
    assert!(!instructions.iter().any(|line| line.starts_with("ENV ") && line.contains("PASSWORD")));
    let ignored = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/.dockerignore")).expect("the file");
    assert!(ignored.lines().any(|line| line == "*"), "only what is named gets in");
    for line in instructions.iter().filter(|line| line.starts_with("COPY ") && !line.contains("--from")) {
        let sources: Vec<&str> = line.split(' ').skip(1).collect();
        for source in &sources[..sources.len() - 1] {
            assert!(ignored.lines().any(|line| line == format!("!{source}")), "{source} is not let in");
        }
    }
}
