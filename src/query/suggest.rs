//! "Did you mean": the known name that is nearest to a misspelt one.

/// Longer names are no misspelt operators. Comparing takes time in proportion to the length of the name.
const LONGEST: usize = 64;

/// `, did you mean $regex?` when a name among `known` is near, else nothing.
pub(super) fn nearest(name: &str, known: &[&str]) -> String {
    if name.len() > LONGEST {
        return String::new();
    }
    let furthest = (name.chars().count() / 3).max(1);
    known
        .iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= furthest)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| format!(", did you mean {candidate}?"))
        .unwrap_or_default()
}

/// How many letters must be changed, added, dropped, or swapped with their neighbour, whatever their case.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut rows = vec![(0..=right.len()).collect::<Vec<usize>>()];
    for (i, &a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in right.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(a != b)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == right[j - 1] && left[i - 1] == b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}
