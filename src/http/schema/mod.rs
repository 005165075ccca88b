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

pub(super) use self::bodies::{
    CategoryBody, CategoryPatch, GroupBody, GroupPatch, LoginBody, NewObject, NewSetting, NewToken, NewUser,
    ObjectBody, ObjectPatch, ObjectQuery, PasswordBody, PipelineBody, RevertBody, SettingBody, SettingPatch, StateBody,
    TypeBody, TypeChange, TypePatch, UndoBody, UserBody, UserPatch, WebhookBody, WebhookPatch,
};
pub(super) use self::parameters::{
    At, Atomic, Cascade, CategoryListing, DanglingParameters, DescriptionVersion, DryRun, Explain, ExportParameters,
    Following, Forget, GraphParameters, GroupMembers, IdempotencyHeader, IfMatch, IfNoneMatch, ImportParameters,
    Listing, Moments, ObjectListing, OfAddresses, Paging, ProposalParameters, References, Replay, ResultParameters,
    RightListing, RouteInQuestion, SearchParameters, Selected,
};
pub(super) use self::views::{
    Aggregated, Category, CategoryOrNode, ChangedObjects, Changes, Cleaned, ComparedObjects, CreatedObjects,
    DanglingReferences, Deleted, DeletedObjects, DeletedWith, Delivery, Dependent, Diff, FoundObjects, FreeAddress,
    Group, Health, Inserted, InsertedSetting, InsertedToken, InsertedWebhook, ListOf, ListedObject, LogEntry,
    MigrationStep, Misfit, Misfits, ObjectGraph, PlannedMigration, PlannedStep, RemovedObjects, RenderedObject,
    Results, RightOrBranch, SecurityLevels, ServiceInfo, Single, StoredObject, Tested, Type, TypeDifference,
    TypeMigration, TypePlan, UndoneRequest, UndoneResource, Updated, User, UserSetting, UserToken, Webhook,
    WrittenObject,
};
