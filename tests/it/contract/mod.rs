//! What every store must do, as small cases; each adapter runs all of them with [`store_contract`].
//!
//! A case gets a store of its own, empty and prepared with [`COLLECTIONS`].

mod aggregating;
mod concurrency;
mod copying;
mod explaining;
mod finding;
mod guards;
mod indexes;
pub(crate) mod support;
mod unbounded;
mod units;

use std::any::Any;
use std::sync::Arc;

use inventory_service::store::collections::up;
use inventory_service::store::{CollectionSpec, Copying, Equals, IndexKey, IndexSpec, Literal, SCOPES};

/// A fresh store and whatever has to live as long as it.
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Copying>,
    /// Dropped after the store: a directory, a server.
    pub(crate) keep: Box<dyn Any + Send>,
    /// Cases that this store cannot keep, each with the reason; or the module of such cases.
    pub(crate) differences: &'static [(&'static str, &'static str)],
}

/// Documents with every kind of index.
pub(crate) const THINGS: &str = "contract.things";
/// What things are of: a second collection with keys.
pub(crate) const KINDS: &str = "contract.kinds";
/// Documents with no index but the one on `_id`.
pub(crate) const PLAIN: &str = "contract.plain";

/// Documents with indexes over some of them.
pub(crate) const ACTIVE: &str = "contract.active";

const ARE_ACTIVE: &[Equals] = &[Equals { path: "active", value: Literal::Bool(true) }];
const HAVE_SLOT: &[Equals] =
    &[Equals { path: "active", value: Literal::Bool(true) }, Equals { path: "slot", value: Literal::Int(7) }];

const HAVE_LABEL: &[Equals] = &[Equals { path: "label", value: Literal::Present }];

/// What a store is prepared with before a case.
pub(crate) const COLLECTIONS: &[CollectionSpec] = &[
    CollectionSpec {
        name: THINGS,
        indexes: &[
            IndexSpec { name: "public_id", keys: &[up("public_id")], unique: true, partial: &[] },
            IndexSpec { name: "name", keys: &[up("name")], unique: true, partial: &[] },
            IndexSpec { name: "kind", keys: &[up("kind"), up("public_id")], unique: false, partial: &[] },
            IndexSpec {
                name: "size",
                keys: &[IndexKey { path: "size", descending: true }],
                unique: false,
                partial: &[],
            },
            IndexSpec { name: "tags", keys: &[up("tags")], unique: false, partial: &[] },
            IndexSpec { name: "fields", keys: &[up("fields.name"), up("fields.value")], unique: false, partial: &[] },
        ],
    },
    CollectionSpec {
        name: KINDS,
        indexes: &[IndexSpec { name: "public_id", keys: &[up("public_id")], unique: true, partial: &[] }],
    },
    CollectionSpec { name: PLAIN, indexes: &[] },
    CollectionSpec {
        name: ACTIVE,
        indexes: &[
            IndexSpec::plain("active", &[up("size"), up("public_id")]).only(ARE_ACTIVE),
            IndexSpec::unique("slot", &[up("slot")]).only(HAVE_SLOT),
            IndexSpec::unique("label", &[up("label")]).only(HAVE_LABEL),
        ],
    },
    CollectionSpec { name: SCOPES, indexes: &[] },
];

/// Lists the cases once and makes of them the macro that turns each into a test of an adapter.
macro_rules! cases {
    ($d:tt $($module:ident { $($case:ident)* })*) => {
        $(pub(crate) mod $module {
            $(pub(crate) use super::super::$module::$case;)*
        })*

        /// Makes a test of each case; the argument is the full path of an async function that gives `Option<Fixture>`, `None` to skip.
        macro_rules! store_contract {
            ($d fresh:path) => {
                $(mod $module {
                    $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() {
                        let Some(fixture) = $d fresh().await else {
                            eprintln!("{} skipped: there is no such store here", stringify!($case));
                            return;
                        };
                        if let Some((case, reason)) = fixture.differences.iter().find(|(case, _)| [stringify!($case), stringify!($module)].contains(case)) {
                            eprintln!("{case} skipped: {reason}");
                            return;
                        }
                        fixture.store.prepare($crate::contract::COLLECTIONS).await.expect("a new store can be prepared");
                        let store = std::sync::Arc::clone(&fixture.store);
                        $crate::contract::all::$module::$case(store).await;
                        drop(fixture.store);
                        drop(fixture.keep);
                    })*
                })*
            };
        }
    };
}

#[macro_use]
pub(crate) mod all {
    //! Every case by name; what is not in this list is not run.
    cases! { $
        finding {
            a_collection_that_was_never_written_to_is_empty
            documents_come_back_byte_for_byte
            documents_come_in_insertion_order_without_a_sort
            an_index_does_not_change_the_insertion_order
            pages_by_a_key_pass_over_what_was_removed
            a_sort_orders_mixed_types_as_mongodb_does
            a_sort_goes_backwards_too
            equal_documents_keep_insertion_order_when_sorted
            a_sort_takes_the_extreme_of_an_array
            several_sort_keys_count_one_after_the_other
            a_list_with_more_values_than_an_index_takes_is_answered_in_order
            skip_and_limit_apply_after_sorting
            a_limit_of_zero_gives_all
            a_projection_selects_members
            a_page_tells_the_number_of_all_matches
            a_page_beyond_the_end_is_empty_and_has_a_total
            pieces_are_the_page_in_its_order
            pieces_come_from_one_point_in_time
            an_answer_without_documents_has_no_piece
            count_agrees_with_find
            a_short_time_budget_ends_in_an_answer_or_a_timeout
        }
        guards {
            a_question_does_not_fail_on_what_its_guard_leaves_out
            a_failure_of_a_guarded_question_tells_nothing_of_what_is_hidden
            the_plan_of_a_guarded_question_shows_nothing_of_its_guard
            a_guarded_question_is_sorted_and_paged_as_any
            a_guarded_question_is_projected_as_any
        }
        aggregating {
            a_pipeline_groups_and_sorts
            what_stands_at_the_front_is_one_query
            a_pipeline_is_evaluated_on_nothing_that_is_hidden
            other_collections_show_what_is_not_hidden
            a_collection_beyond_reach_is_not_read
            a_failure_on_a_document_is_an_error_of_the_pipeline
        }
        unbounded {
            an_unbounded_filter_finds_what_it_finds_anywhere
            an_unbounded_filter_is_evaluated_on_nothing_that_is_hidden
            an_unbounded_projection_is_computed_as_any
            unbounded_stages_run_as_any
            unbounded_stages_see_nothing_that_is_hidden
            what_takes_without_end_ends_with_its_time
        }
        explaining {
            explain_names_the_index_and_its_bounds
            explain_tells_a_key_from_a_range
            explain_tells_a_scan_and_a_sort_in_memory
            explain_tells_the_branches_of_a_union
            explain_knows_the_number_of_all_documents
            explain_names_the_index_that_would_help
            a_partial_index_serves_questions_for_its_documents
            a_unique_partial_index_refuses_equal_keys_among_its_documents
            a_unique_index_over_documents_that_have_a_member_takes_any_number_without_it
        }
        indexes {
            equal_numbers_of_other_types_are_found
            null_finds_missing_members
            an_element_of_an_array_is_found
            a_whole_array_is_found
            two_conditions_may_be_met_by_two_elements
            elem_match_wants_one_element_for_both
            an_entry_is_found_by_name_and_value
            indexed_paths_answer_as_others_do
            texts_longer_than_a_key_are_told_apart
            a_replaced_document_is_found_by_its_new_values_only
        }
        units {
            an_inserted_document_is_found
            a_taken_key_is_refused_and_named
            a_taken_primary_key_is_refused_and_named
            two_documents_without_a_unique_key_are_refused
            a_key_is_free_again_after_a_delete
            a_replaced_document_is_another_one
            replacing_what_changed_is_stale
            deleting_what_changed_is_stale
            replacing_into_a_taken_key_is_refused
            a_unit_happens_as_a_whole
            later_changes_see_earlier_ones
            changes_tell_how_many_documents_they_touched
            delete_many_removes_what_matches
            update_many_changes_what_matches
            update_many_that_breaks_a_key_changes_nothing
            exists_must_hold
            none_must_hold
            the_condition_that_failed_is_named
            a_scope_moves_on_with_each_unit
            a_refused_unit_does_not_move_the_scope
            the_revision_moves_with_each_change
            preparing_again_keeps_everything
            numbered_documents_have_consecutive_numbers_after_the_floor
            a_refused_unit_stores_no_numbered_document
        }
        copying {
            a_dump_shows_one_moment_in_the_order_of_an_index
            what_is_appended_is_found_by_its_keys
            a_cleared_collection_begins_anew
            counters_travel_as_documents
        }
        concurrency {
            reserved_ids_are_consecutive
            a_stored_id_is_not_reserved_again
            ids_of_32_tasks_are_distinct
            inserts_of_32_tasks_are_all_stored
            one_of_many_gets_a_unique_name
            one_of_many_replaces_a_document
            one_of_many_moves_a_scope
            an_object_never_outlives_its_kind
            whoever_met_a_number_meets_no_smaller_one_later
            a_page_is_of_one_point_in_time
            a_frozen_store_answers_from_one_point_in_time
        }
    }
}
