//! The schemas of bodies, parameters and answers. Handlers name them; [`openapi`](super::openapi) collects them.

pub mod bodies;
pub mod parameters;
pub mod views;

/// Describes an operation before its handler: summary, parameters, body and answers.
///
/// The description is a type with the handler's name, so `http::routes` writes the name once for both. The library wants a
/// method and a path here; they are not used, those of `http::routes` count.
macro_rules! operation {
    ($(#[$($doc:tt)*])* $name:ident: $($described:tt)*) => {
        #[expect(non_camel_case_types, reason = "it has the name of its handler")]
        pub(in crate::http) enum $name {}

        const _: () = {
            $(#[$($doc)*])*
            #[utoipa::path(get, path = "", operation_id = stringify!($name), impl_for = $name, $($described)*)]
            fn _described() {}
        };
    };
}

pub(super) use operation;

pub(super) use self::{bodies::*, parameters::*, views::*};
