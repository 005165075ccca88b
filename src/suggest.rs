//! "Did you mean": the known name that is most similar to a misspelt one.

/// Longer names get no suggestion, because comparing takes time in proportion to their length.
const LONGEST: usize = 64;

/// The nearest of the known names, if it differs in at most a third of the letters.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    near(name, known.iter().copied(), 1).first().copied()
}

/// The nearest of the known names, the nearest first, `most` at most. Each differs in at most a third of the letters.
pub fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    let furthest = (name.chars().count() / 3).max(1);
    let measured = known.map(|candidate| (distance(name, candidate), candidate));
    let mut near: Vec<(usize, &str)> = measured.filter(|(distance, _)| *distance <= furthest).collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().take(most).map(|(_, name)| name).collect()
}

/// The known name that this one is most likely a misspelling of: within two edits that change less than half of it.
pub fn misspelt<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let measured = known.iter().map(|candidate| (distance(name, candidate), *candidate));
    let near = measured.filter(|(edits, _)| *edits <= 2 && edits * 2 < name.chars().count());
    near.min_by_key(|(edits, _)| *edits).map(|(_, candidate)| candidate)
}

/// `, did you mean $regex?` when a known name is near, else nothing.
pub fn hint(name: &str, known: &[&str]) -> String {
    nearest(name, known).map(|candidate| format!(", did you mean {candidate}?")).unwrap_or_default()
}

/// How many letters must be changed, added, dropped, or swapped with their neighbour, whatever their case.
pub fn distance(left: &str, right: &str) -> usize {
    strsim::osa_distance(&left.to_lowercase(), &right.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_could_be_meant() {
        let known = ["filter", "limit", "page"];
        assert_eq!(nearest("fliter", &known), Some("filter"));
        assert_eq!(nearest("LIMITS", &known), Some("limit"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest(&"limit".repeat(20), &known), None);
        assert_eq!(misspelt("feilds", &["fields", "label"]), Some("fields"));
        assert_eq!(misspelt("Fields", &["fields"]), Some("fields"));
        assert_eq!(misspelt("url", &["tel", "ref"]), None);
        assert_eq!(misspelt("dat", &["date"]), Some("date"));
        assert_eq!(misspelt("free", &["href"]), None);
        assert_eq!(hint("pgae", &known), ", did you mean page?");
    }
}
