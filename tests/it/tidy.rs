//! The shape of the sources: who imports whom, that every file says what it is, and in which words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module, and the other modules of this package that it may name. `docs/architecture.md` has the same table.
const LAYERS: &[(&str, &[&str])] = &[
    ("raw", &[]),
    ("address", &[]),
    ("admission", &[]),
    ("json", &["raw"]),
    ("suggest", &[]),
    ("history", &["pointer"]),
    ("outgoing", &[]),
    ("plural", &[]),
    ("pointer", &[]),
    ("query", &["raw", "address", "admission", "suggest", "pointer"]),
    ("clock", &[]),
    ("metrics", &[]),
    ("logging", &["clock"]),
    ("domain", &["json", "raw", "address", "suggest", "pointer"]),
    ("store", &["query", "metrics", "admission", "plural"]),
    ("render", &["domain", "json", "raw"]),
    ("exchange", &["domain", "json", "raw", "query"]),
    ("auth", &["domain"]),
    ("rate_limits", &["auth", "settings"]),
    ("oidc", &["auth", "clock", "outgoing", "plural"]),
    (
        "service",
        &[
            "domain", "query", "json", "raw", "store", "render", "exchange", "auth", "oidc", "outgoing", "history",
            "clock", "metrics", "address", "admission", "suggest", "plural", "pointer",
        ],
    ),
    ("moving", &["service", "query", "json", "store", "exchange", "auth", "domain", "metrics", "progress", "plural"]),
    ("progress", &[]),
    ("wire", &["service", "query", "store", "auth", "domain", "settings", "suggest", "admission", "rate_limits"]),
    (
        "http",
        &[
            "service", "history", "query", "json", "store", "exchange", "auth", "domain", "settings", "suggest",
            "plural", "pointer", "logging", "metrics", "address", "admission", "rate_limits",
        ],
    ),
    ("page", &["auth", "domain", "exchange", "http", "json", "query", "render", "service", "store"]),
    ("settings", &["admission", "auth", "logging", "query", "store", "suggest"]),
    ("demo", &["domain", "progress", "query", "service", "store"]),
    (
        "app",
        &[
            "admission", "auth", "clock", "http", "metrics", "moving", "oidc", "outgoing", "page", "plural",
            "rate_limits", "service", "settings", "store", "wire",
        ],
    ),
    (
        "cli",
        &[
            "app", "auth", "clock", "demo", "domain", "exchange", "history", "http", "logging", "moving", "oidc",
            "plural", "progress", "query", "service", "settings", "store", "suggest",
        ],
    ),
];

/// The rooms of the embedded store, from the ground up: each may name those before it. `src/store/embedded/mod.rs` says what lives there.
const ROOMS: [&str; 11] =
    ["failure", "options", "file", "catalog", "index", "plan", "read", "write", "open", "upkeep", "writer"];

/// Every file below a folder of the package.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                files.push(entry);
            }
        }
    }
    assert!(!files.is_empty());
    files
}

/// Every Rust file below a folder of the package.
fn sources(folder: &str) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// The part of a file before its tests, without comments.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a readable file");
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The modules of this package that a piece of code names after `crate::`.
fn named(code: &str) -> impl Iterator<Item = &str> {
    code.split("crate::")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
}

#[test]
fn every_file_says_what_it_is() {
    for file in sources("src").into_iter().chain(sources("tests")) {
        let text = fs::read_to_string(&file).expect("a readable file");
        assert!(text.starts_with("//! "), "{} does not begin with //!", file.display());
    }
}

#[test]
fn nothing_lower_knows_anything_higher() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for file in sources("src") {
        let inside = file.strip_prefix(&root).expect("a file below src").to_string_lossy().into_owned();
        let module = inside.split(['/', '.']).next().unwrap_or_default();
        if ["lib", "main"].contains(&module) {
            continue;
        }
        let layer = LAYERS.iter().find(|(name, _)| *name == module);
        let (_, allowed) = layer.unwrap_or_else(|| panic!("LAYERS does not have {module}"));
        let code = code(&file);
        let others = named(&code).filter(|name| *name != module && LAYERS.iter().any(|(known, _)| known == name));
        wrong.extend(others.filter(|name| !allowed.contains(name)).map(|name| format!("{inside} names {name}")));
        for (library, homes) in
            [("actix_web", &["http", "page", "app"][..]), ("mongodb::", &["store"]), ("redb::", &["store"])]
        {
            if code.contains(library) && !homes.contains(&module) {
                wrong.push(format!("{inside} names {library}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_architecture_page_has_the_table_of_layers() {
    let page = document("docs/architecture.md");
    let mut told = BTreeMap::new();
    for row in page
        .lines()
        .skip_while(|line| *line != "| module | may import |")
        .skip(2)
        .take_while(|line| line.starts_with('|'))
    {
        let (modules, may) = row.trim_matches('|').split_once('|').expect("two columns");
        let names = |cell: &str| -> BTreeSet<String> {
            let cell = cell.split(';').next().unwrap_or_default();
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        // A row of parts says what holds for a part of a module.
        if modules.contains("::") {
            continue;
        }
        told.extend(names(modules).into_iter().map(|module| (module, names(may))));
    }
    let held =
        LAYERS.iter().map(|(module, may)| ((*module).to_owned(), may.iter().map(|name| (*name).to_owned()).collect()));
    assert_eq!(told, held.collect::<BTreeMap<_, BTreeSet<_>>>());
}

/// Where a file is below `src`, as a module: `store::embedded::index::key`.
fn module_of(file: &Path) -> String {
    let inside = file.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("a file below src");
    let inside = inside.with_extension("").to_string_lossy().replace('/', "::");
    inside.strip_suffix("::mod").unwrap_or(&inside).to_owned()
}

/// The files of a folder, and which of the others each of them imports: by whole paths, and by `super` and `self`.
fn imports(folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let files: Vec<PathBuf> = sources(folder)
        .into_iter()
        .filter(|file| !file.components().any(|part| part.as_os_str() == "trials"))
        .collect();
    let modules: BTreeSet<String> = files.iter().map(|file| module_of(file)).collect();
    let known = |path: &str| {
        let mut path = path;
        loop {
            if modules.contains(path) {
                return Some(path.to_owned());
            }
            path = path.rsplit_once("::")?.0;
        }
    };
    let mut imports = BTreeMap::new();
    for file in &files {
        let (own, code) = (module_of(file), code(file));
        let mut named = BTreeSet::new();
        for statement in code.split("use ").skip(1) {
            let Some((tree, _)) = statement.split_once(';') else { continue };
            let (head, leaves) = tree.split_once('{').unwrap_or((tree, ""));
            let mut head = head.trim().trim_end_matches("::");
            let mut above = own.as_str();
            let from = if let Some(path) = head.strip_prefix("crate::") {
                path.to_owned()
            } else if head.starts_with("super") || head.starts_with("self::") {
                while let Some(rest) = head.strip_prefix("super") {
                    above = above.rsplit_once("::").map_or("", |(above, _)| above);
                    head = rest.trim_start_matches("::");
                }
                format!("{above}::{}", head.trim_start_matches("self::"))
            } else {
                continue;
            };
            let leaves = leaves.split(['{', '}', ',']).map(|leaf| leaf.split(" as ").next().unwrap_or_default().trim());
            let paths = leaves.map(|leaf| format!("{from}::{leaf}")).chain([from.clone()]);
            named.extend(paths.filter_map(|path| known(&path)).filter(|path| *path != own));
        }
        // A file in a folder is also named by the folder's own path; that is the folder, not a file.
        let inner: BTreeSet<String> =
            named.iter().filter(|path| !own.starts_with(&format!("{path}::"))).cloned().collect();
        imports.insert(own, inner);
    }
    imports
}

#[test]
fn no_room_of_the_embedded_store_knows_a_higher_one() {
    let place = |module: &str| {
        let room = module.strip_prefix("store::embedded::")?.split("::").next()?;
        ROOMS.iter().position(|known| *known == room)
    };
    let mut wrong = Vec::new();
    for (own, named) in imports("src/store/embedded") {
        let Some(own_place) = place(&own) else {
            assert_eq!(own, "store::embedded", "a file without a room");
            continue;
        };
        let higher = named.iter().filter(|path| place(path).is_none_or(|place| place > own_place));
        wrong.extend(higher.map(|path| format!("{own} names {path}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let text = document("src/store/embedded/mod.rs");
    let rooms: Vec<&str> = text.lines().filter(|line| line.starts_with("//! | [`")).collect();
    let said: Vec<&str> = rooms.iter().flat_map(|row| row.split('|').nth(1).unwrap_or_default().split('`')).collect();
    let said: Vec<&str> = said.into_iter().filter(|word| ROOMS.contains(word)).collect();
    assert_eq!(said, ROOMS, "the table in mod.rs");
}

/// Follows imports from a file until it comes back to it.
fn circle(own: &str, imports: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let (mut seen, mut next) = (BTreeSet::new(), imports.get(own)?.clone());
    while let Some(path) = next.pop_first() {
        if imports.get(&path).is_some_and(|named| named.contains(own)) {
            return Some(path);
        }
        if seen.insert(path.clone()) {
            next.extend(imports.get(&path).into_iter().flatten().cloned());
        }
    }
    None
}

/// The line in the header of a folder's `mod.rs` that makes the folder count as one file in the search for circles.
const IS_RECURSIVE: &str = "//! The files of this folder refer to each other.";

/// The maximum number of such folders.
const MOST_RECURSIVE: usize = 2;

/// The folders whose header has this line, as modules.
fn recursive_folders() -> Vec<String> {
    let says_so = |file: &PathBuf| {
        let text = fs::read_to_string(file).expect("a readable file");
        text.lines().take_while(|line| line.starts_with("//!")).any(|line| line == IS_RECURSIVE)
    };
    let folders = sources("src").into_iter().filter(|file| file.ends_with("mod.rs") && says_so(file));
    folders.map(|file| module_of(&file)).collect()
}

/// The imports, each of these folders as one file.
fn joined(imports: &BTreeMap<String, BTreeSet<String>>, folders: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let place = |path: &String| folders.iter().find(|folder| is_within(path, folder)).unwrap_or(path).clone();
    let mut joined: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (own, named) in imports {
        let own = place(own);
        let others: Vec<String> = named.iter().map(place).filter(|path| *path != own).collect();
        joined.entry(own).or_default().extend(others);
    }
    joined
}

/// Whether a module is this folder, or in it.
fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let (imports, folders) = (imports("src"), recursive_folders());
    assert!(imports.len() > 400 && imports.values().flatten().count() > 1500, "{imports:?}");
    assert!(folders.len() <= MOST_RECURSIVE, "too many folders are recursive: {folders:?}");
    for folder in &folders {
        let mut files = imports.keys().filter(|own| is_within(own, folder));
        assert!(
            files.any(|own| circle(own, &imports).is_some()),
            "{folder} has no circle: drop the line in its header"
        );
    }
    let imports = joined(&imports, &folders);
    let circles: Vec<String> =
        imports.keys().filter_map(|own| circle(own, &imports).map(|last| format!("{own} .. {last}"))).collect();
    assert!(circles.is_empty(), "{circles:#?}");
}

/// Who may give work to another thread without a turn: what no request asks for, or what has a bound of its own.
const WITHOUT_A_TURN: [&str; 2] = ["store/embedded/mod.rs", "store/embedded/read/dump.rs"];

#[test]
fn all_work_of_requests_goes_through_admission() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for file in ["src/http", "src/service", "src/store", "src/wire"].into_iter().flat_map(sources) {
        let inside = file.strip_prefix(&root).expect("a file below src").to_string_lossy().into_owned();
        let code = code(&file);
        let gives_work = ["spawn_blocking(", "web::block(", "block_in_place("].iter().any(|call| code.contains(call));
        if gives_work && !WITHOUT_A_TURN.contains(&inside.as_str()) && !inside.contains("/trials/") {
            wrong.push(inside);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A clock that is set back would change what such a file does.
#[test]
fn the_embedded_store_reads_no_clock_that_can_be_set() {
    let clocks = ["SystemTime", "Utc::", "Local::", "DateTime::now", "ObjectId::new", "UNIX_EPOCH"];
    for file in sources("src/store/embedded") {
        let code = code(&file);
        let named: Vec<_> = clocks.iter().filter(|clock| code.contains(**clock)).collect();
        assert!(named.is_empty(), "{} names {named:?}", file.display());
    }
}

/// A document of the package.
fn document(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a document")
}

/// The names of tests in backticks.
fn tests_named_in(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect()
}

#[test]
fn every_test_that_the_security_documents_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, least) in [("docs/security.md", 40), ("docs/security-asvs.md", 10)] {
        let text = document(path);
        let names = tests_named_in(&text);
        assert!(names.len() > least, "{names:?}");
        for name in names {
            let (modules, function) = name.rsplit_once("::").expect("a path");
            let folder = if modules.starts_with("src/") { root.to_owned() } else { root.join("tests/it") };
            let file = folder.join(format!("{}.rs", modules.replace("::", "/")));
            let code = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {}: {error}", file.display()));
            assert!(code.contains(&format!("fn {function}(")), "{name} is not in {}", file.display());
        }
    }
}

#[test]
fn every_row_of_the_policy_for_failing_storage_names_a_trial_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = document("docs/embedded-store.md");
    let (_, table) = text.split_once("| failure | operation |").expect("the table");
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 20, "{rows:?}");
    let mut trials = Vec::new();
    for row in rows {
        let cell = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
        let named: Vec<&str> = cell.split('`').filter(|part| part.contains("::")).collect();
        if cell.trim() == "the same" {
            continue;
        }
        assert!(!named.is_empty(), "no trial: {row}");
        trials.extend(named);
    }
    for name in trials {
        let (module, function) = name.split_once("::").expect("a path");
        let files =
            [root.join(format!("src/store/embedded/trials/{module}.rs")), root.join(format!("tests/it/{module}.rs"))];
        let has = |file: &std::path::PathBuf| {
            fs::read_to_string(file).is_ok_and(|code| code.contains(&format!("fn {function}(")))
        };
        assert!(files.iter().any(has), "{name} does not exist");
    }
}

/// What a text cites by a number, as in "section 4"; standards of others may be cited so.
fn numbered_sources(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().filter(|word| !word.starts_with("//")).collect();
    let cites = |at: usize| {
        let noun = words[at].trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let is_numbered = words.get(at + 1).is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let is_of_others = at >= 2 && words[at - 2].ends_with("RFC");
        matches!(noun.as_str(), "section" | "sections" | "decision" | "decisions") && is_numbered && !is_of_others
    };
    (0..words.len()).filter(|at| cites(*at)).map(|at| words[at..at + 2].join(" ")).collect()
}

/// What a text cites by its heading, as in "docs/<file>.md, <Heading>": the document, and the rest of the line.
fn cited_headings(text: &str) -> impl Iterator<Item = (String, &str)> {
    text.split("docs/").skip(1).filter_map(|rest| {
        let (name, after) = rest.split_once(".md")?;
        let cited = after.trim_start_matches('`').strip_prefix(", ")?.lines().next()?;
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        (is_name && cited.starts_with(char::is_uppercase)).then(|| (format!("docs/{name}.md"), cited))
    })
}

#[test]
fn what_is_cited_stands_in_the_documents() {
    let (mut wrong, mut headings) = (Vec::new(), 0);
    let folders = ["src", "tests", "benches", "fuzz/laws", "fuzz/targets", "docs", ".ci"].into_iter().flat_map(files);
    let pages = ["README.md", "CONTRIBUTING.md"].map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name));
    for file in folders.chain(pages) {
        let text = String::from_utf8_lossy(&fs::read(&file).expect("a readable file")).into_owned();
        if file.ends_with("tests/it/tidy.rs") {
            continue;
        }
        wrong.extend(numbered_sources(&text).into_iter().map(|cited| format!("{}: {cited}", file.display())));
        for (name, cited) in cited_headings(&text) {
            let page = document(&name);
            let mut known =
                page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches(['#', ' ']));
            let is_there = known.any(|heading| {
                cited.strip_prefix(heading).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            });
            headings += 1;
            if !is_there {
                wrong.push(format!("{}: {name}, {cited}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(headings > 30, "{headings} headings are cited");
}

#[test]
fn every_requirement_that_is_not_met_has_a_reason() {
    let text = document("docs/security-asvs.md");
    let cells = |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let is_number = |cell: &str| cell.split('.').count() == 3 && cell.split('.').all(|part| part.parse::<u8>().is_ok());
    let rows: Vec<Vec<String>> = text.lines().map(cells).filter(|cells| is_number(&cells[0])).collect();
    let numbers: Vec<Vec<u8>> =
        rows.iter().map(|row| row[0].split('.').map(|part| part.parse().expect("a number")).collect()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    let mut counted = 0;
    for row in &rows {
        let [number, level, _, kind, why] = row.as_slice() else { panic!("{row:?}") };
        assert!(["1", "2"].contains(&level.as_str()), "{number}: level {level}");
        assert!(["operator", "part", "open"].contains(&kind.as_str()), "{number}: there is no kind {kind}");
        assert!(why.len() > 5, "{number} gives no reason");
    }
    for kind in ["met", "operator", "part", "open", "none"] {
        let line = text.lines().find(|line| line.starts_with(&format!("| {kind} |"))).expect("a line about the kind");
        let count: usize = cells(line)[2].parse().expect("a number");
        let listed = rows.iter().filter(|row| row[3] == kind).count();
        assert!(["met", "none"].contains(&kind) || count == listed, "{kind}: {line}");
        counted += count;
    }
    // Levels 1 and 2 of the standard.
    assert_eq!(counted, 70 + 183);
}

/// Words and phrases that stopped readers who had not seen the code, in small letters. Comments of `src` and the pages use
/// the field's words in their place: the maximum number of something, after, next to, in addition to, continues, they.
const NOT_PLAIN: &[&str] = &[
    "anew", "as ever", "at the most", "behind", "beside", "by itself", "by other means", "by themselves", "for ever",
    "go on", "goes on", "going on", "goes with", "good to know", "he", "hear of", "hears of", "him", "himself", "his",
    "in front of", "in the place of", "in vain", "is said", "kin", "lone", "meant", "nobody knows", "of ours",
    "oneself", "ours", "said of", "so many", "speak of", "speaks of", "stand in", "stands at", "stands before",
    "stands in", "stranger", "strangers", "taken along", "to be had", "told", "truths", "turned back", "turns back",
    "what became of", "what becomes of", "what is said", "what there is", "what there was", "whoever",
    "without a word",
];

/// The words of a text outside backticks, each with the number of its line, in small letters and without punctuation. Only
/// lines that `is_read` accepts count. An empty word takes the place of everything else, so that no phrase spans it.
fn plain_words(text: &str, mut is_read: impl FnMut(&str) -> bool) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if !is_read(line) {
            words.push((number, String::new()));
            continue;
        }
        for (place, part) in line.split('`').enumerate() {
            if place % 2 == 1 {
                words.push((number, String::new()));
                continue;
            }
            for word in part.split_whitespace() {
                let word = word.trim_matches(|letter: char| !letter.is_alphanumeric());
                if !word.is_empty() {
                    words.push((number, word.to_lowercase()));
                }
            }
        }
    }
    words
}

#[test]
fn comments_and_pages_use_plain_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    for file in sources("src") {
        let text = fs::read_to_string(&file).expect("a readable file");
        let words = plain_words(&text, |line| line.trim_start().starts_with("//"));
        texts.push((file, words));
    }
    let pages = files("docs").into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "md"));
    for file in pages.chain(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name))) {
        let text = fs::read_to_string(&file).expect("a readable page");
        let mut is_code = false;
        // Links and tests name headings, so these keep their words.
        let words = plain_words(&text, |line| {
            let is_fence = line.trim_start().starts_with("```");
            if is_fence {
                is_code = !is_code;
            }
            !is_fence && !is_code && !line.starts_with('#')
        });
        texts.push((file, words));
    }
    let mut hits = Vec::new();
    for (file, words) in &texts {
        for phrase in NOT_PLAIN {
            let wanted: Vec<&str> = phrase.split(' ').collect();
            for found in words.windows(wanted.len()) {
                if found.iter().zip(&wanted).all(|((_, word), expected)| word == expected) {
                    hits.push(format!("{}:{}: {phrase}", file.display(), found[0].0));
                }
            }
        }
    }
    assert!(hits.is_empty(), "{hits:#?}");
    let read: usize = texts.iter().map(|(_, words)| words.len()).sum();
    assert!(texts.len() > 300 && read > 50_000, "{} texts with {read} words", texts.len());
}
