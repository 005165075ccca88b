//! The pure parts of the service, compiled for the fuzzer alone: what reads bytes of clients and of the store.

// So that the laws name the same paths here and in the tests of the service.
extern crate self as inventory_service;

#[expect(unused_imports, reason = "render uses the rest")]
#[path = "../../src/json/mod.rs"]
pub mod json;
#[path = "../laws/mod.rs"]
pub mod laws;
#[path = "../../src/query/mod.rs"]
pub mod query;
#[path = "../../src/raw.rs"]
pub mod raw;

/// The part of the store that is pure: the keys of its indexes.
#[path = "../../src/store"]
pub mod store {
    /// The embedded store.
    #[expect(dead_code, reason = "the store around it uses the rest")]
    pub mod embedded {
        pub mod key;
        mod number;
    }
}
