//! The parts of the service that read bytes of clients and of the store, compiled for the fuzzer alone.

// So that the laws name the same paths here and in the tests of the service.
extern crate self as inventory_service;

#[path = "../../src/domain/mod.rs"]
pub mod domain;
#[path = "../../src/exchange/mod.rs"]
pub mod exchange;
#[expect(unused_imports, reason = "render uses the rest")]
#[path = "../../src/json/mod.rs"]
pub mod json;
#[path = "../laws/mod.rs"]
pub mod laws;
#[path = "../../src/query/mod.rs"]
pub mod query;
#[path = "../../src/raw.rs"]
pub mod raw;

/// Of signing in what reads headers.
#[path = "../../src/auth"]
pub mod auth {
    pub mod header;
    mod secret;
    pub use self::header::Authorization;
    pub use self::secret::Secret;
}

/// Of the server what reads parameters and heads.
#[path = "../../src/http"]
pub mod http {
    pub mod links;
    pub mod params;

    /// What lies before the routes.
    #[path = "edge"]
    pub mod edge {
        pub mod coding;
        pub mod forwarded;
    }

    /// Errors, as far as reading parameters makes them.
    pub mod error {
        use actix_web::http::StatusCode;

        use crate::query::QueryError;

        /// An answer that is an error.
        #[derive(Debug)]
        pub struct ApiError(pub StatusCode, pub String);

        impl ApiError {
            /// An error with a code and a sentence.
            pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
                Self(status, format!("{code}: {}", message.into()))
            }

            /// 400 for a query parameter.
            pub fn parameter(name: &str, message: impl Into<String>) -> Self {
                Self::new(StatusCode::BAD_REQUEST, "parameter_invalid", format!("{name}: {}", message.into()))
            }
        }

        impl From<QueryError> for ApiError {
            fn from(error: QueryError) -> Self {
                Self::new(StatusCode::BAD_REQUEST, "query", error.to_string())
            }
        }
    }
}

/// Of moving data what reads the lines of packages.
#[path = "../../src/moving"]
pub mod moving {
    /// Packages on their way in.
    #[path = "import"]
    pub mod import {
        pub mod line;
    }
}

/// What reading parameters needs of the settings.
pub mod settings {
    /// What happens to a query parameter that a route does not know.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum UnknownParameters {
        /// It is an error.
        Refuse,
        /// It has no effect.
        Ignore,
    }
}

/// The part of the store that is pure: the keys of its indexes.
#[path = "../../src/store"]
pub mod store {
    /// The embedded store.
    #[expect(dead_code, reason = "the store around it uses the rest")]
    pub mod embedded {
        pub use self::index::key;

        /// Keys of documents.
        pub mod index {
            mod inverted;
            pub mod key;
            mod number;
        }
    }
}
