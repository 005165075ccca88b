//! Addresses within the page: a path, and parameters in order.

use crate::http::links::encode_segment;

/// A path with parameters.
#[derive(Debug, Clone)]
pub struct Address {
    path: String,
    parameters: Vec<(String, String)>,
}

impl Address {
    /// Without parameters.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), parameters: Vec::new() }
    }

    /// With these parameters.
    pub fn of(path: impl Into<String>, parameters: &[(String, String)]) -> Self {
        Self { path: path.into(), parameters: parameters.to_vec() }
    }

    /// One more parameter.
    #[must_use]
    pub fn and(mut self, name: &str, value: impl ToString) -> Self {
        self.parameters.push((name.to_owned(), value.to_string()));
        self
    }

    /// The same without the parameters of a name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.parameters.retain(|(known, _)| known != name);
        self
    }

    /// The same, with this as the only value of a name.
    #[must_use]
    pub fn with(self, name: &str, value: impl ToString) -> Self {
        self.without(name).and(name, value)
    }

    /// Its parameters, as a browser takes them.
    pub fn query(&self) -> String {
        let pairs: Vec<String> = self
            .parameters
            .iter()
            .map(|(name, value)| format!("{}={}", encode_segment(name), encode_segment(value)))
            .collect();
        pairs.join("&")
    }

    /// As a browser takes it.
    pub fn text(&self) -> String {
        if self.parameters.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query()) }
    }
}

/// The page of an object.
pub fn of_object(id: i64) -> String {
    format!("/ui/objects/{id}")
}

/// The list of a type.
pub fn of_type(id: i64) -> String {
    format!("/ui/types/{id}")
}

/// The definition of a type.
pub fn of_definition(id: i64) -> String {
    format!("/ui/types/{id}/definition")
}
