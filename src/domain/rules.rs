//! Rules for single values of a body with a valid shape, from the attributes of `validator`.

use validator::Validate;

use super::{Violation, Violations};

/// The violations of the rules, each at its member, in this order of members.
pub fn broken(rules: &impl Validate, members: &[&str]) -> Violations {
    let Err(errors) = rules.validate() else { return Violations::new() };
    let found = errors.field_errors();
    let mut violations = Violations::new();
    for name in members {
        for error in found.get(*name).into_iter().flat_map(|errors| errors.iter()) {
            let message = error.message.as_deref().unwrap_or("is not right");
            violations.push(Violation::new(format!("/{name}"), message));
        }
    }
    violations
}

/// A text has to have more than spaces.
///
/// # Errors
/// When it has not.
pub fn not_blank(text: &str) -> Result<(), validator::ValidationError> {
    if text.trim().is_empty() { Err(validator::ValidationError::new("blank")) } else { Ok(()) }
}
