//! What every back end must do, as plain functions that panic where it does not.
//!
//! A back end's tests file calls [`conformance_tests!`](crate::conformance_tests) with an expression that
//! gives a [`Suite`]; every behaviour becomes a test of its own.
//!
//! Invariants:
//! - Each case opens stores of its own and depends on no other case.
//! - No case looks at a clock to decide; waiting has generous ends that only a hang reaches.

mod concurrent;
mod conditions;
mod cursors;
mod fixture;
mod history;
mod lifecycle;
mod limits;
mod operations;
mod requests;
mod sharing;
mod spaces;
mod stages;
mod transactions;
mod views;
mod watches;

use std::sync::Arc;

use crate::seam::Kv;

pub use requests::outcomes_are_remembered;

/// Opens the store again that was opened before, after it was closed and dropped.
pub type Reopen = Arc<dyn Fn() -> Arc<dyn Kv> + Send + Sync>;

/// A new, empty store.
pub struct Opened {
    /// The store.
    pub kv: Arc<dyn Kv>,
    /// How it is opened again; `None` where nothing survives the process.
    pub reopen: Option<Reopen>,
}

/// A back end under test.
#[derive(Clone, Copy)]
pub struct Suite {
    /// Opens a new, empty store.
    pub open: fn() -> Opened,
}

/// One behaviour.
pub type Case = fn(&Suite);

/// Runs every case.
pub fn all(suite: &Suite) {
    for (name, case) in CASES {
        eprintln!("conformance: {name}");
        case(suite);
    }
}

/// Runs one case.
///
/// # Panics
/// When there is no case of this name, or when the back end fails it.
pub fn run(suite: &Suite, name: &str) {
    let case = CASES.iter().find(|(known, _)| *known == name);
    let (_, case) = case.unwrap_or_else(|| panic!("no case is named {name}"));
    case(suite);
}

macro_rules! cases {
    ($d:tt $($module:ident: $($name:ident),+;)+) => {
        /// Every case by name.
        pub const CASES: &[(&str, Case)] = &[$($((stringify!($name), $module::$name as Case)),+),+];

        /// Makes a test of every conformance case for the back end that the expression, a
        /// [`Suite`](crate::conformance::Suite), describes. After it, `case => function` runs a function instead of a
        /// case, where the back end promises less in a way that it documents.
        #[macro_export]
        macro_rules! conformance_tests {
            ($d suite:expr, $d case:ident => $d instead:expr) => {
                $($(
                    #[test]
                    fn $name() {
                        match stringify!($name) {
                            stringify!($d case) => $d instead(&$d suite),
                            name => $crate::conformance::run(&$d suite, name),
                        }
                    }
                )+)+
            };
            ($d suite:expr) => {
                $($(
                    #[test]
                    fn $name() {
                        $crate::conformance::run(&$d suite, stringify!($name));
                    }
                )+)+
            };
        }
    };
}

cases! { $
    conditions:
        absent_holds_only_where_no_key_is,
        present_holds_only_where_a_key_is,
        version_is_holds_only_for_the_last_change,
        range_empty_looks_only_inside_the_range,
        range_unchanged_notices_every_kind_of_change,
        range_unchanged_holds_beside_changes_elsewhere,
        range_unchanged_notices_a_dropped_space,
        conditions_see_the_state_before_the_batch,
        the_first_condition_that_fails_is_named,
        conditions_are_decided_in_absent_spaces_too,
        conditions_see_commits_that_are_not_durable_yet;
    operations:
        put_sets_and_replaces_values_of_every_size,
        write_at_creates_extends_and_overwrites,
        many_small_overwrites_of_a_large_value,
        append_adds_at_the_end,
        truncate_cuts_and_extends_with_zeros,
        delete_removes_and_ignores_absent_keys,
        delete_range_removes_exactly_the_range,
        rename_moves_and_replaces,
        rename_prefix_moves_every_key,
        counters_add_and_refuse_overflow,
        each_operation_sees_those_before_it,
        a_failing_operation_takes_back_the_whole_batch,
        keys_are_any_bytes_in_byte_order,
        operations_on_an_absent_space_are_refused,
        versions_grow_and_name_the_commit,
        a_batch_of_nothing_is_a_commit;
    sharing:
        clone_range_copies_between_keys_and_spaces,
        clone_range_within_one_key,
        clone_range_refuses_what_is_not_there,
        clones_are_independent_of_their_source,
        concatenate_keeps_or_deletes_its_sources,
        concatenate_joins_odd_sizes_and_holes,
        concatenations_are_values_like_any_other,
        concatenate_refuses_what_cannot_be_joined;
    spaces:
        spaces_are_apart,
        spaces_are_created_and_dropped_once,
        a_space_made_again_is_empty,
        clone_space_makes_an_independent_copy,
        snapshot_space_is_read_only,
        a_view_lists_its_spaces;
    views:
        a_view_shows_one_version_for_ever,
        a_view_keeps_what_is_overwritten_many_times,
        a_view_that_is_kept_is_the_same_view,
        reads_are_short_only_at_the_end,
        reads_of_absent_keys_are_not_found,
        a_get_gives_the_newest_value_whole,
        holes_read_as_zeros,
        a_read_that_may_not_wait_reads_or_says_that_it_would,
        a_lookup_tells_what_a_view_tells_or_nothing,
        an_acknowledged_commit_is_seen_by_the_next_view;
    cursors:
        cursors_walk_both_ways_inside_the_range,
        cursors_seek_to_either_side,
        cursors_give_small_values_with_the_entry,
        cursors_keep_their_version,
        cursors_over_nothing_end_at_once,
        cursors_walk_thousands_of_keys_after_changes;
    stages:
        a_stage_becomes_a_value_of_any_size,
        a_stage_may_be_written_at_or_appended,
        stages_refuse_what_is_too_long,
        a_stage_may_be_shorter_than_hinted,
        a_token_survives_a_refusal_and_not_a_commit,
        a_token_of_another_store_is_invalid,
        dropped_stages_give_their_space_back,
        stages_of_many_values_at_once;
    requests:
        a_repeated_commit_gets_its_first_outcome,
        a_repeated_refusal_gets_its_first_outcome,
        a_repeat_with_a_taken_stage_gets_its_first_outcome,
        wrong_batches_are_not_outcomes,
        the_last_outcomes_are_remembered,
        outcomes_survive_a_reopen;
    watches:
        a_watch_tells_changes_in_order,
        a_watch_tells_only_its_range,
        a_watch_goes_on_from_an_old_version,
        a_watch_tells_of_every_kind_of_change,
        a_slow_watch_loses_and_says_so,
        a_watch_waits_for_the_next_commit,
        a_watch_stops_with_its_store;
    limits:
        the_profile_is_what_the_seam_asks_for,
        a_batch_as_large_as_allowed_is_taken,
        too_large_a_batch_is_invalid,
        too_long_a_key_is_invalid,
        reserved_spaces_are_invalid,
        too_long_a_value_is_invalid;
    lifecycle:
        usage_adds_up,
        deleted_data_gives_its_space_back,
        every_durability_is_acknowledged_and_seen,
        what_was_committed_is_there_after_a_reopen,
        sync_keeps_what_was_not_synced,
        versions_grow_over_a_reopen,
        a_closed_store_stops;
    concurrent:
        one_of_many_writers_wins_an_absent_key,
        counters_of_many_threads_add_up,
        many_threads_write_many_keys,
        views_never_show_half_a_batch,
        batches_of_one_thread_keep_their_order,
        tickets_call_back,
        version_conditions_serialize_increments;
    transactions:
        transactions_read_what_they_will_have_written,
        transactions_of_many_threads_lose_nothing,
        transactions_number_their_entries_without_gaps,
        transactions_repeated_take_effect_once;
    history:
        random_histories_match_the_model,
        random_histories_of_large_values_match_the_model,
        random_histories_with_reopens_match_the_model;
}
