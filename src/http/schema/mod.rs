//! The shapes that bodies, parameters and answers are described with. Handlers name them; [`openapi`](super::openapi) collects them.

pub mod bodies;
pub mod parameters;
pub mod views;

pub(super) use self::bodies::{
    CategoryBody, CategoryPatch, GroupBody, GroupPatch, LoginBody, NewObject, NewSetting, NewToken, NewUser,
    ObjectBody, ObjectPatch, ObjectQuery, PasswordBody, SettingBody, SettingPatch, StateBody, TypeBody, TypePatch,
    UserBody, UserPatch,
};
pub(super) use self::parameters::{
    Atomic, Cascade, CategoryListing, Explain, ExportParameters, GroupMembers, IdempotencyHeader, IfMatch, IfNoneMatch,
    ImportParameters, Listing, ObjectListing, Paging, References, RightListing, RouteInQuestion, Selected,
};
pub(super) use self::views::{
    Category, CategoryOrNode, ChangedObjects, Cleaned, CreatedObjects, Deleted, DeletedObjects, DeletedWith, Group,
    Health, Inserted, InsertedSetting, InsertedToken, ListOf, ListedObject, RemovedObjects, RenderedObject, Results,
    RightOrBranch, SecurityLevels, ServiceInfo, Single, StoredObject, Type, Updated, User, UserSetting, UserToken,
    WrittenObject,
};
